//! What canning and sealing share: which reports cans name, where reports are read from, and how cans are written.
//!
//! | file | what it holds |
//! |---|---|
//! | `indexes.rs` | what the indexes of a bucket name, and whether the bucket is open |
//! | `source.rs` | inputs become a plan: every report with its size, and where it is read from |
//! | `supply.rs` | objects are fetched before they are needed |
//! | `reading.rs` | reports are read one after the other |
//! | `press.rs` | reports become a can in a scratch file, compressed on all cores |
//! | `put.rs` | a can goes to the lake, or one of the same reports is there already |
//!
//! The text of a report is in memory or in a frame, never in a file. What is compressed waits in scratch files.

mod indexes;
mod press;
mod put;
mod reading;
mod source;
mod supply;

pub(crate) use indexes::{
    BucketState, Indexes, Named, Names, closing, decision, hash_of, version_of,
};
pub(crate) use press::{Shape, press};
pub(crate) use put::{put_can, text_bytes};
pub(crate) use reading::{Reading, work};
pub(crate) use source::{Listed, Plan, Source, prepare, reports_of, size_of_report};

use cannery_formats::Key;
use cannery_formats::can::CAN_FRAME_BYTES;
use cannery_formats::large_object::LARGE_BYTES_MIN;
use serde::Serialize;

/// An input that could not be used. It is left where it is, and found again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refused {
    /// Where it lies.
    pub key: Key,
    /// What is wrong with it.
    pub why: String,
}

/// So many objects are asked about or fetched at once.
pub(crate) const AT_ONCE: usize = 16;

/// What the decoder of a can needs: a block of each side.
const DECODER_BYTES: u64 = 9 << 20;

/// So many cans and hours are being decoded at once; one more is read again from its begin when its turn comes.
const OPEN_MAX: usize = 24;

/// What writing cans takes at most, beside the names of reports: objects read ahead, an object that is put, frames, and
/// decoders.
pub(crate) fn memory_bytes() -> u64 {
    // Of a can that is finished, and of the next.
    let frames = 2 * press::depth() as u64 + 2;
    let frames = frames * 2 * (CAN_FRAME_BYTES as u64 + (64 << 10));
    supply::AHEAD_BYTES + LARGE_BYTES_MIN + frames + OPEN_MAX as u64 * DECODER_BYTES
}
