//! Cuts a stream of LZ4 frames at their ends, by their own lengths and without decoding them.

use std::io::{self, BufReader, Read};

use super::source::Source;
use crate::hour_archive::ArchiveFault;

const MAGIC: u32 = 0x184D_2204;

/// The last four bits are anybody's.
const SKIPPABLE_MAGIC: u32 = 0x184D_2A50;

/// The high bit of the size of a block says that it is not compressed.
const UNCOMPRESSED: u32 = 1 << 31;

/// The version that the first two bits of the flags name.
const VERSION: u8 = 0b01;

/// No block is larger, whatever a frame says; a decoder takes this much memory for one.
const BLOCK_BYTES_MAX: u32 = 4 << 20;

const CHUNK_BYTES: usize = 64 * 1024;

/// Hands out the bytes of one frame as if nothing followed. Between frames it hands out nothing.
pub(super) struct Lz4Cut<R: Read> {
    input: BufReader<Source<R>>,
    /// What was read of the frame and not handed out yet.
    head: Vec<u8>,
    /// What is to be handed out of a block.
    block_left: u64,
    is_within_frame: bool,
    has_block_checksums: bool,
    has_content_checksum: bool,
}

/// What the header of a frame says.
pub(super) struct Lz4Head {
    pub(super) content_size: Option<u64>,
}

impl<R: Read> Lz4Cut<R> {
    pub(super) fn new(input: R) -> Self {
        Self {
            input: BufReader::with_capacity(CHUNK_BYTES, Source(input)),
            head: Vec::new(),
            block_left: 0,
            is_within_frame: false,
            has_block_checksums: false,
            has_content_checksum: false,
        }
    }

    pub(super) fn into_input(self) -> R {
        self.input.into_inner().0
    }

    /// Goes to the next frame, passing over skippable ones. None at the end of the input. The frame before must have been
    /// read to its end.
    pub(super) fn next_frame(&mut self) -> io::Result<Option<Lz4Head>> {
        if self.is_within_frame || !self.head.is_empty() {
            return Err(damaged("an LZ4 frame goes on behind its end"));
        }
        loop {
            let Some(magic) = self.magic()? else {
                return Ok(None);
            };
            match magic {
                MAGIC => return self.frame().map(Some),
                skippable if skippable & !0xF == SKIPPABLE_MAGIC => self.pass_skippable()?,
                _ => {
                    return Err(damaged(
                        "something that is no LZ4 frame stands in a file of them",
                    ));
                }
            }
        }
    }

    fn magic(&mut self) -> io::Result<Option<u32>> {
        let mut magic = [0; 4];
        let mut filled = 0;
        while filled < magic.len() {
            match self.input.read(&mut magic[filled..])? {
                0 if filled == 0 => return Ok(None),
                0 => return Err(damaged("it ends within the beginning of an LZ4 frame")),
                count => filled += count,
            }
        }
        Ok(Some(u32::from_le_bytes(magic)))
    }

    fn pass_skippable(&mut self) -> io::Result<()> {
        let size = u64::from(u32::from_le_bytes(self.exactly()?));
        let passed = io::copy(&mut self.input.by_ref().take(size), &mut io::sink())?;
        match passed == size {
            true => Ok(()),
            false => Err(damaged("it ends within a skippable frame")),
        }
    }

    fn frame(&mut self) -> io::Result<Lz4Head> {
        let [flags, descriptor] = self.exactly()?;
        if flags >> 6 != VERSION {
            return Err(damaged("an LZ4 frame is of another version of the format"));
        }
        if flags & 1 != 0 {
            return Err(damaged("an LZ4 frame needs a dictionary, which nobody has"));
        }
        self.has_block_checksums = flags & 0b1_0000 != 0;
        self.has_content_checksum = flags & 0b100 != 0;
        self.head.extend_from_slice(&MAGIC.to_le_bytes());
        self.head.extend_from_slice(&[flags, descriptor]);
        let mut content_size = None;
        if flags & 0b1000 != 0 {
            let size: [u8; 8] = self.exactly()?;
            self.head.extend_from_slice(&size);
            content_size = Some(u64::from_le_bytes(size));
        }
        let checksum: [u8; 1] = self.exactly()?;
        self.head.extend_from_slice(&checksum);
        self.is_within_frame = true;
        Ok(Lz4Head { content_size })
    }

    /// Reads what stands between two blocks, so that something can be handed out.
    fn next_block(&mut self) -> io::Result<()> {
        let word: [u8; 4] = self.exactly()?;
        self.head.extend_from_slice(&word);
        let size = u32::from_le_bytes(word) & !UNCOMPRESSED;
        if u32::from_le_bytes(word) == 0 {
            if self.has_content_checksum {
                let checksum: [u8; 4] = self.exactly()?;
                self.head.extend_from_slice(&checksum);
            }
            self.is_within_frame = false;
            return Ok(());
        }
        if size > BLOCK_BYTES_MAX {
            return Err(damaged("an LZ4 frame has a block of more than 4 MiB"));
        }
        self.block_left = u64::from(size) + if self.has_block_checksums { 4 } else { 0 };
        Ok(())
    }

    fn exactly<const N: usize>(&mut self) -> io::Result<[u8; N]> {
        let mut bytes = [0; N];
        self.input
            .read_exact(&mut bytes)
            .map_err(|error| match error.kind() {
                io::ErrorKind::UnexpectedEof if error.get_ref().is_none() => ends_early(),
                _ => error,
            })?;
        Ok(bytes)
    }
}

impl<R: Read> Read for Lz4Cut<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if buffer.is_empty() {
            return Ok(0);
        }
        if self.head.is_empty() && self.block_left == 0 && self.is_within_frame {
            self.next_block()?;
        }
        if !self.head.is_empty() {
            let count = self.head.len().min(buffer.len());
            buffer[..count].copy_from_slice(&self.head[..count]);
            self.head.drain(..count);
            return Ok(count);
        }
        if self.block_left == 0 {
            return Ok(0);
        }
        let room = usize::try_from(self.block_left).map_or(buffer.len(), |l| l.min(buffer.len()));
        match self.input.read(&mut buffer[..room])? {
            0 => Err(ends_early()),
            count => {
                self.block_left -= count as u64;
                Ok(count)
            }
        }
    }
}

fn ends_early() -> io::Error {
    damaged("its last LZ4 frame ends too early")
}

fn damaged(what: &str) -> io::Error {
    ArchiveFault::Damaged(what.into()).into()
}
