//! What ends a file of zstd frames: the lengths of all of them, in a frame that decoders pass over.
//!
//! The format is that of `zstd_seekable_compression_format.md`, without checksums: the frames have their own.

const SKIPPABLE_MAGIC: u32 = 0x184D_2A5E;
const FOOTER_MAGIC: u32 = 0x8F92_EAB1;

/// Number of frames, descriptor and magic.
const FOOTER_BYTES: usize = 9;

/// The lengths of the frames of a file, in order.
#[derive(Debug, Default)]
pub(super) struct SeekTable {
    entries: Vec<u8>,
    frames: u32,
}

/// A frame or their number does not fit into the table.
#[derive(Debug)]
pub(super) struct DoesNotFit;

impl SeekTable {
    pub(super) fn push(&mut self, file_size: u64, text_size: u64) -> Result<(), DoesNotFit> {
        let small = |size: u64| u32::try_from(size).map_err(|_| DoesNotFit);
        let (file_size, text_size) = (small(file_size)?, small(text_size)?);
        // What readers of the format accept; the lengths of the table itself fit then.
        self.frames = (self.frames < 1 << 27)
            .then_some(self.frames + 1)
            .ok_or(DoesNotFit)?;
        self.entries.extend_from_slice(&file_size.to_le_bytes());
        self.entries.extend_from_slice(&text_size.to_le_bytes());
        Ok(())
    }

    pub(super) fn to_frame(&self) -> Vec<u8> {
        let size = self.entries.len() + FOOTER_BYTES;
        let size =
            u32::try_from(size).expect("2^27 entries of 8 bytes and a footer are below 4 GiB");
        let mut frame = Vec::with_capacity(self.entries.len() + FOOTER_BYTES + 8);
        frame.extend_from_slice(&SKIPPABLE_MAGIC.to_le_bytes());
        frame.extend_from_slice(&size.to_le_bytes());
        frame.extend_from_slice(&self.entries);
        frame.extend_from_slice(&self.frames.to_le_bytes());
        frame.push(0);
        frame.extend_from_slice(&FOOTER_MAGIC.to_le_bytes());
        frame
    }
}
