//! A text becomes a frame.

use std::io::{self, Write};

use lz4::liblz4::BlockChecksum;
use lz4::{BlockMode, BlockSize, ContentChecksum};
use zstd::zstd_safe::CParameter;

use super::FrameCodec;

/// There is no such level of compression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{codec} has no level {level}; use one from 1 to {max}")]
pub struct InvalidLevel {
    codec: FrameCodec,
    level: i32,
    max: i32,
}

/// Makes frames. The same text makes the same frame, on any thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameEncoder {
    codec: FrameCodec,
    level: i32,
}

impl FrameEncoder {
    /// An encoder of this level: 1 to 12 for LZ4, 1 to 22 for zstd.
    ///
    /// # Errors
    /// [`InvalidLevel`] for any other.
    pub fn new(codec: FrameCodec, level: i32) -> Result<Self, InvalidLevel> {
        let max = match codec {
            FrameCodec::Lz4 => 12,
            FrameCodec::Zstd => 22,
        };
        match (1..=max).contains(&level) {
            true => Ok(Self { codec, level }),
            false => Err(InvalidLevel { codec, level, max }),
        }
    }

    /// What it compresses with.
    #[must_use]
    pub fn codec(&self) -> FrameCodec {
        self.codec
    }

    /// One frame with the size and the checksum of its content.
    ///
    /// # Errors
    /// When the codec has no memory.
    pub fn encode(&self, text: &[u8]) -> io::Result<Vec<u8>> {
        match self.codec {
            FrameCodec::Lz4 => self.encode_lz4(text),
            FrameCodec::Zstd => self.encode_zstd(text),
        }
    }

    fn encode_lz4(&self, text: &[u8]) -> io::Result<Vec<u8>> {
        // JSON becomes about a fifth of its size.
        let out = Vec::with_capacity(text.len() / 4 + 64);
        let mut encoder = lz4::EncoderBuilder::new()
            .level(self.level.unsigned_abs())
            .block_size(block_size(text.len()))
            .block_mode(BlockMode::Independent)
            .block_checksum(BlockChecksum::NoBlockChecksum)
            .checksum(ContentChecksum::ChecksumEnabled)
            .content_size(text.len() as u64)
            // Everything comes at once, so nothing has to be copied and kept until a block is full.
            .auto_flush(true)
            .build(out)?;
        encoder.write_all(text)?;
        let (frame, result) = encoder.finish();
        result.map(|()| frame)
    }

    fn encode_zstd(&self, text: &[u8]) -> io::Result<Vec<u8>> {
        let mut compressor = zstd::bulk::Compressor::new(self.level)?;
        compressor.set_parameter(CParameter::ChecksumFlag(true))?;
        compressor.set_parameter(CParameter::ContentSizeFlag(true))?;
        compressor.compress(text)
    }
}

/// The smallest block that holds everything, as a block is what a decoder needs memory for.
fn block_size(bytes: usize) -> BlockSize {
    [BlockSize::Max64KB, BlockSize::Max256KB, BlockSize::Max1MB]
        .into_iter()
        .find(|size| bytes <= size.get_size())
        .unwrap_or(BlockSize::Max4MB)
}
