//! gzip whose blocks are compressed at the same time, on all cores. They are cut at fixed places and each knows what stands
//! before it, so the same content is the same bytes on any machine, and hardly more of them than in one go.
//!
//! Our own, because no crate that does it promises the same bytes whatever the number of threads.

use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::mpsc::{Receiver, sync_channel};

use flate2::{Compress, Compression, FlushCompress, Status};

const BLOCK_BYTES: usize = 256 * 1024;

/// How far back deflate looks.
const WINDOW_BYTES: usize = 32 * 1024;

/// Magic, deflate, no flags, no time, no hint, and nobody says on what system it was made.
const HEADER: [u8; 10] = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255];

/// One gzip member of all that is written to it.
pub(super) struct GzipBlocks<W: Write> {
    out: W,
    level: u32,
    checksum: crc32fast::Hasher,
    length: u32,
    block: Block,
    /// Blocks on their way, in order.
    pending: VecDeque<Receiver<io::Result<Vec<u8>>>>,
    pending_max: usize,
}

/// What is compressed next: the window before it, then itself.
struct Block {
    bytes: Vec<u8>,
    window: usize,
}

impl<W: Write> GzipBlocks<W> {
    pub(super) fn new(mut out: W, level: u32) -> io::Result<Self> {
        out.write_all(&HEADER)?;
        Ok(Self {
            out,
            level,
            checksum: crc32fast::Hasher::new(),
            length: 0,
            block: Block::after(&[]),
            pending: VecDeque::new(),
            pending_max: 2 * rayon::current_num_threads(),
        })
    }

    pub(super) fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        self.checksum.update(bytes);
        // The length stands in the trailer modulo 2^32.
        self.length = self.length.wrapping_add(low_bits(bytes.len()));
        while !bytes.is_empty() {
            if self.block.room() == 0 {
                self.start_block()?;
            }
            let (now, later) = bytes.split_at(self.block.room().min(bytes.len()));
            self.block.bytes.extend_from_slice(now);
            bytes = later;
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        while self.settle_one()? {}
        let last = self.block.compress(self.level, FlushCompress::Finish)?;
        self.out.write_all(&last)?;
        self.out
            .write_all(&self.checksum.finalize().to_le_bytes())?;
        self.out.write_all(&self.length.to_le_bytes())?;
        Ok(self.out)
    }

    /// Hands the full block to another thread.
    fn start_block(&mut self) -> io::Result<()> {
        while self.pending.len() >= self.pending_max {
            self.settle_one()?;
        }
        let next = Block::after(&self.block.bytes);
        let full = std::mem::replace(&mut self.block, next);
        let (sender, receiver) = sync_channel(1);
        let level = self.level;
        rayon::spawn(move || {
            // Nobody hears it when the archive was given up.
            drop(sender.send(full.compress(level, FlushCompress::Sync)));
        });
        self.pending.push_back(receiver);
        Ok(())
    }

    /// Writes the oldest block on its way; whether there was one.
    fn settle_one(&mut self) -> io::Result<bool> {
        let Some(receiver) = self.pending.pop_front() else {
            return Ok(false);
        };
        let block = receiver.recv().map_err(io::Error::other)??;
        self.out.write_all(&block)?;
        Ok(true)
    }
}

impl Block {
    /// An empty one behind `bytes`.
    fn after(bytes: &[u8]) -> Self {
        let window = &bytes[bytes.len().saturating_sub(WINDOW_BYTES)..];
        let mut bytes = Vec::new();
        if !window.is_empty() {
            bytes.reserve_exact(WINDOW_BYTES + BLOCK_BYTES);
            bytes.extend_from_slice(window);
        }
        let window = bytes.len();
        Self { bytes, window }
    }

    fn room(&self) -> usize {
        self.window + BLOCK_BYTES - self.bytes.len()
    }

    fn compress(&self, level: u32, flush: FlushCompress) -> io::Result<Vec<u8>> {
        let (window, text) = self.bytes.split_at(self.window);
        let mut deflate = Compress::new(Compression::new(level), false);
        if !window.is_empty() {
            deflate.set_dictionary(window).map_err(io::Error::other)?;
        }
        let mut out = Vec::with_capacity(text.len() / 4 + 1_024);
        let mut rest = text;
        loop {
            let before = deflate.total_in();
            let status = deflate.compress_vec(rest, &mut out, flush);
            let status = status.map_err(io::Error::other)?;
            let taken = usize::try_from(deflate.total_in() - before).map_err(io::Error::other)?;
            rest = &rest[taken..];
            // Room that is left says that nothing is held back.
            let is_flushed = rest.is_empty() && out.len() < out.capacity();
            if status == Status::StreamEnd || (is_flushed && flush == FlushCompress::Sync) {
                return Ok(out);
            }
            out.reserve(text.len() / 4 + 1_024);
        }
    }
}

fn low_bits(length: usize) -> u32 {
    u32::try_from(length as u64 & u64::from(u32::MAX)).expect("32 bits are left")
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use proptest::prelude::*;

    use super::*;

    fn gzip(pieces: &[&[u8]], level: u32) -> Vec<u8> {
        let mut gzip = GzipBlocks::new(Vec::new(), level).unwrap();
        for piece in pieces {
            gzip.write_all(piece).unwrap();
        }
        gzip.finish().unwrap()
    }

    fn gunzip(bytes: &[u8]) -> Vec<u8> {
        let mut text = Vec::new();
        let mut decoder = flate2::bufread::GzDecoder::new(bytes);
        decoder.read_to_end(&mut text).unwrap();
        assert!(decoder.into_inner().is_empty(), "one member is all");
        text
    }

    /// Text with much that repeats, at distances up to the window and beyond.
    fn text(length: usize) -> Vec<u8> {
        let words = (0_u64..).map(|n| n.wrapping_mul(6_364_136_223_846_793_005) >> 51);
        let lines = words.flat_map(|word| format!("stop {word} is late\n").into_bytes());
        lines.take(length).collect()
    }

    #[test]
    fn every_length_about_a_block_comes_back() {
        for length in [
            0,
            1,
            BLOCK_BYTES - 1,
            BLOCK_BYTES,
            BLOCK_BYTES + 1,
            40 * BLOCK_BYTES + 7,
        ] {
            let text = text(length);
            assert_eq!(gunzip(&gzip(&[&text], 6)), text, "{length} bytes");
        }
    }

    #[test]
    fn blocks_cost_hardly_anything() {
        let text = text(4 << 20);
        let mut whole = flate2::write::GzEncoder::new(Vec::new(), Compression::new(6));
        whole.write_all(&text).unwrap();
        let whole = whole.finish().unwrap().len();
        let blocks = gzip(&[&text], 6).len();
        assert!(blocks * 100 < whole * 102, "{blocks} against {whole}");
    }

    #[test]
    fn what_cannot_be_written_is_an_error() {
        struct Full;
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                match bytes == HEADER {
                    true => Ok(bytes.len()),
                    false => Err(io::ErrorKind::StorageFull.into()),
                }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut gzip = GzipBlocks::new(Full, 6).unwrap();
        let written = gzip.write_all(&text(40 * BLOCK_BYTES));
        let error = written
            .and_then(|()| gzip.finish().map(|_| ()))
            .unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]
        #[test]
        fn the_bytes_follow_from_the_content(length in 0_usize..1_500_000, cut in 0_usize..1_500_000, level in 1_u32..=9, noise: bool) {
            let mut text = text(length);
            if noise {
                let mut chance = 1_u64;
                for byte in &mut text {
                    chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    *byte = (chance >> 56) as u8;
                }
            }
            let (left, right) = text.split_at(cut.min(length));
            let bytes = gzip(&[left, right], level);
            prop_assert_eq!(&bytes, &gzip(&[&text], level));
            prop_assert_eq!(gunzip(&bytes), text);
        }
    }
}
