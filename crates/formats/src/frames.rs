//! Compressed files made of independent frames, each of which can be read alone. Nothing but `Read` and `Write`.
//!
//! | file | what it holds |
//! |---|---|
//! | `encoder.rs` | a text becomes a frame: a pure function, so that frames can be made on several threads |
//! | `file.rs` | frames one after the other become a file |
//! | `reader.rs` | the text of all frames of a file, whoever wrote it |
//! | `one.rs` | the text of one frame |
//! | `lz4_cut.rs` | where an LZ4 frame ends |
//! | `seek_table.rs` | what ends a file of zstd frames |
//!
//! The layout of LZ4 frames is read here because usual decoders stop at the end of the first frame without a word, and
//! know no limit.

mod encoder;
mod file;
mod lz4_cut;
mod one;
mod reader;
mod seek_table;
mod source;

#[cfg(test)]
mod tests;

pub use encoder::{FrameEncoder, InvalidLevel};
pub use file::{FrameFile, FrameSpan};
pub use one::decode_frame;
pub use reader::FrameReader;

use std::fmt;

/// What frames are compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FrameCodec {
    /// LZ4 frames.
    Lz4,
    /// Zstandard frames in the seekable format.
    Zstd,
}

impl FrameCodec {
    /// How the names of such files end, without the dot.
    #[must_use]
    pub fn extension(self) -> &'static str {
        match self {
            Self::Lz4 => "lz4",
            Self::Zstd => "zst",
        }
    }

    /// The codec of a file of this name, if its end says one, and what stands before it and its dot.
    #[must_use]
    pub fn of_file_name(name: &str) -> Option<(&str, Self)> {
        let (stem, extension) = name.rsplit_once('.')?;
        match extension {
            "lz4" => Some((stem, Self::Lz4)),
            "zst" => Some((stem, Self::Zstd)),
            _ => None,
        }
    }
}

impl fmt::Display for FrameCodec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        })
    }
}
