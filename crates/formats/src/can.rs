//! Cans: the raw reports of one arrival date and kind, about 64 MiB of them in a compressed tar, with their checksums in an
//! index. Nothing but `Read` and `Write`.
//!
//! | file | what it holds |
//! |---|---|
//! | `text_name.rs` | the name of a report within a can |
//! | `file_name.rs` | the names of cans and of everything derived from them |
//! | `slices.rs` | which reports go into which can |
//! | `tar.rs` | the little of GNU tar that is written |
//! | `text.rs` | reports become a text, cut into frames |
//! | `reader.rs` | a can is read and verified against its record |
//! | `expired.rs` | what is left of a can that was removed on purpose |
//! | `record.rs`, `index.rs` | what the index says of a can |
//!
//! A can is written in three steps, of which the middle one may run on several threads: [`CanText`] makes the texts of
//! frames, [`crate::frames::FrameEncoder::encode`] compresses each, [`crate::frames::FrameFile`] writes them in order.

mod expired;
mod file_name;
mod index;
mod reader;
mod record;
mod slices;
pub(crate) mod tar;
mod text;
mod text_name;

#[cfg(test)]
mod tests;

pub use expired::{BadPiece, Expired, expired_object, marked_at};
pub(crate) use file_name::INDEX_END;
pub use file_name::{BucketFile, CannedObject, FileName, InvalidFileName, OpenIndexName};
pub use index::{CannedIndex, CannedIndexReader, CannedLine, Input, read_canned_index};
pub use reader::{CanEntry, CanReader};
pub use record::{Canned, CannedFile, CannedText};
pub use slices::{Slice, slices};
pub use text::{CAN_FRAME_BYTES, CanText, CanTexts};
pub use text_name::TextName;

/// The text of a can, unless a single report is larger.
pub const CAN_BYTES: u64 = 64 << 20;
