//! Archives: sanitised measurements in frames of which each can be read alone, with an index that says where each
//! measurement lies. Nothing but `Read` and `Write`.
//!
//! | file | what it holds |
//! |---|---|
//! | `record.rs` | the lines of an index |
//! | `text.rs` | reports become a text, cut into frames where a measurement ends |
//! | `file.rs` | frames become a file with its indexes |
//! | `index.rs` | an index is read, also one of the original's |
//! | `joined.rs` | the index of a bucket, and the part of one file in it |
//! | `reader.rs` | an archive is read from end to end along its index |
//! | `place.rs` | where one measurement lies |
//! | `generation.rs` | which rules made an archive |
//! | `edition.rs` | which rules are newer, and which are in force |
//!
//! An archive is written in three steps, of which the middle one may run on several threads: [`ArchiveText`] makes
//! [`TextFrame`]s, [`crate::frames::FrameEncoder::encode`] compresses each, [`ArchiveFile`] writes them in order.

mod edition;
mod file;
mod generation;
mod index;
mod joined;
mod origin;
mod place;
mod reader;
mod record;
mod text;

#[cfg(test)]
mod tests;

pub use edition::{Current, Edition, Rank};
pub use file::{ArchiveFile, FinishedArchive};
pub use generation::{Generation, InvalidGeneration};
pub use index::{Entry, IndexReader};
pub use joined::part_of_index;
pub use place::Place;
pub use reader::{ArchiveItem, ArchiveReader};
pub use record::{BadBlob, Datum, Origin, Record, Report, Rules};
pub use text::{ArchiveText, TextEnd, TextFrame};

/// How much text closes a frame, unless somebody measured what suits the lake better.
pub const FRAME_BYTES: usize = 256 << 10;
