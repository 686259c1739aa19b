//! Frames one after the other become a file.

use std::io::{self, Write};

use super::FrameCodec;
use super::seek_table::SeekTable;
use crate::checksum::{Summer, Sums};

/// Where a frame lies in its file, and its text in the text of all frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FrameSpan {
    /// Where it begins in the file.
    pub file_off: u64,
    /// How long it is there.
    pub file_size: u64,
    /// Where its text begins in that of the file.
    pub text_off: u64,
    /// How long its text is.
    pub text_size: u64,
}

/// Writes frames in order, and sums up what it writes.
pub struct FrameFile<W: Write> {
    out: W,
    sums: Summer,
    text_off: u64,
    /// For zstd.
    seek_table: Option<SeekTable>,
}

impl<W: Write> FrameFile<W> {
    /// A file of no frames.
    pub fn new(out: W, codec: FrameCodec) -> Self {
        let seek_table = match codec {
            FrameCodec::Lz4 => None,
            FrameCodec::Zstd => Some(SeekTable::default()),
        };
        Self {
            out,
            sums: Summer::default(),
            text_off: 0,
            seek_table,
        }
    }

    /// Writes the next frame, made by [`super::FrameEncoder::encode`] of a text of `text_size` bytes.
    ///
    /// # Errors
    /// Those of the output; `InvalidInput` when the frame is larger than a seek table can say. The file is useless then.
    pub fn push(&mut self, frame: &[u8], text_size: u64) -> io::Result<FrameSpan> {
        let span = FrameSpan {
            file_off: self.sums.size(),
            file_size: frame.len() as u64,
            text_off: self.text_off,
            text_size,
        };
        if let Some(table) = &mut self.seek_table {
            table.push(span.file_size, text_size).map_err(|_| {
                let what = "a frame of more than 4 GiB cannot be written with zstd";
                io::Error::new(io::ErrorKind::InvalidInput, what)
            })?;
        }
        self.write(frame)?;
        self.text_off += text_size;
        Ok(span)
    }

    /// Writes what ends the file, and hands back the output, flushed, and the sums of everything.
    ///
    /// # Errors
    /// Those of the output.
    pub fn finish(mut self) -> io::Result<(W, Sums)> {
        if let Some(table) = self.seek_table.take() {
            self.write(&table.to_frame())?;
        }
        self.out.flush()?;
        Ok((self.out, self.sums.finish()))
    }

    /// How long the text of all frames is so far.
    #[must_use]
    pub fn text_size(&self) -> u64 {
        self.text_off
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.out.write_all(bytes)?;
        self.sums.update(bytes);
        Ok(())
    }
}
