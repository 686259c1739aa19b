//! Compression whose result depends on the content alone.

use std::io::{self, Write};

use liblzma::write::XzEncoder;

use super::gzip_blocks::GzipBlocks;
use crate::feed::Codec;

/// Codecs are handed pieces of this size, however the content came: some make other bytes of other pieces.
const PIECE_BYTES: usize = 64 * 1024;

/// How an archive is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Compression {
    /// With what.
    pub codec: Codec,
    /// How hard; none is the default of the codec: gzip 5 (as small as the `gzip` tool's 6), zstd 3, xz 6, bzip2 9.
    pub level: Option<u32>,
}

impl Compression {
    /// A codec at its default level.
    #[must_use]
    pub fn of(codec: Codec) -> Self {
        Self { codec, level: None }
    }

    /// Whether the codec has such a level.
    ///
    /// # Errors
    /// A text for whoever wrote the configuration.
    pub fn check(&self) -> Result<(), String> {
        let (least, most) = match self.codec {
            Codec::Gzip | Codec::Bzip2 => (1, 9),
            Codec::Zstd => (1, 19),
            Codec::Xz => (0, 9),
        };
        match self.level {
            Some(level) if level < least || level > most => Err(format!(
                "level {level} is none of {}; use {least} to {most}",
                self.codec
            )),
            Some(_) | None => Ok(()),
        }
    }

    fn level_or_default(&self) -> u32 {
        self.level.unwrap_or(match self.codec {
            Codec::Gzip => 5,
            Codec::Zstd => 3,
            Codec::Xz => 6,
            Codec::Bzip2 => 9,
        })
    }
}

enum Stream<W: Write> {
    Gzip(GzipBlocks<W>),
    Zstd(zstd::Encoder<'static, W>),
    Xz(XzEncoder<W>),
    Bzip2(bzip2::write::BzEncoder<W>),
}

impl<W: Write> Stream<W> {
    fn new(out: W, compression: &Compression) -> io::Result<Self> {
        let level = compression.level_or_default();
        Ok(match compression.codec {
            Codec::Gzip => Self::Gzip(GzipBlocks::new(out, level)?),
            Codec::Zstd => {
                let level = i32::try_from(level).map_err(io::Error::other)?;
                let mut encoder = zstd::Encoder::new(out, level)?;
                encoder.include_checksum(true)?;
                Self::Zstd(encoder)
            }
            Codec::Xz => {
                let check = liblzma::stream::Check::Crc64;
                let stream = liblzma::stream::Stream::new_easy_encoder(level, check)?;
                Self::Xz(XzEncoder::new_stream(out, stream))
            }
            Codec::Bzip2 => Self::Bzip2(bzip2::write::BzEncoder::new(
                out,
                bzip2::Compression::new(level),
            )),
        })
    }

    fn write_all(&mut self, piece: &[u8]) -> io::Result<()> {
        match self {
            Self::Gzip(encoder) => encoder.write_all(piece),
            Self::Zstd(encoder) => encoder.write_all(piece),
            Self::Xz(encoder) => encoder.write_all(piece),
            Self::Bzip2(encoder) => encoder.write_all(piece),
        }
    }

    fn finish(self) -> io::Result<W> {
        match self {
            Self::Gzip(encoder) => encoder.finish(),
            Self::Zstd(encoder) => encoder.finish(),
            Self::Xz(encoder) => encoder.finish(),
            Self::Bzip2(encoder) => encoder.finish(),
        }
    }
}

/// Compresses what is written to it.
pub(super) struct Encoder<W: Write> {
    stream: Stream<W>,
    piece: Vec<u8>,
}

impl<W: Write> Encoder<W> {
    pub(super) fn new(out: W, compression: &Compression) -> io::Result<Self> {
        compression
            .check()
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(Self {
            stream: Stream::new(out, compression)?,
            piece: Vec::with_capacity(PIECE_BYTES),
        })
    }

    pub(super) fn write_all(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let room = PIECE_BYTES - self.piece.len();
            let (now, later) = bytes.split_at(room.min(bytes.len()));
            self.piece.extend_from_slice(now);
            bytes = later;
            if self.piece.len() == PIECE_BYTES {
                self.stream.write_all(&self.piece)?;
                self.piece.clear();
            }
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> io::Result<W> {
        self.stream.write_all(&self.piece)?;
        let mut out = self.stream.finish()?;
        out.flush()?;
        Ok(out)
    }
}
