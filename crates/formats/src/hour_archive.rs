//! Archives of an hour: reading what anybody may have put there, writing, and uniting. Nothing but `Read` and `Write`.
//!
//! | file | what it holds |
//! |---|---|
//! | `reader.rs` | the members one after the other, checked against the manifest |
//! | `survey.rs` | what is in an archive, read once from end to end |
//! | `writer.rs` | an archive of exactly one set, always the same bytes |
//! | `merge.rs` | several archives become one |
//! | `tar_reader.rs`, `header.rs`, `pax.rs` | the little of tar that we accept |
//! | `encoder.rs`, `decoder.rs` | the codecs, with their limits |
//! | `fault.rs` | why an archive is not usable |
//!
//! The headers are read and written here because the entries of the `tar` crate borrow their archive, so that no reader
//! could hold both, and because it takes more than we want to: links, sparse files, sizes of unbounded extensions.

mod decoder;
mod encoder;
mod fault;
mod gzip_blocks;
pub(crate) mod header;
mod merge;
mod pax;
mod reader;
mod survey;
mod tar_reader;
mod writer;

#[cfg(test)]
mod tests;

pub use encoder::Compression;
pub use fault::ArchiveFault;
pub use merge::{Input, ReadWriteSeek, merge};
pub use reader::{ArchiveEntry, ArchiveReader};
pub use survey::{Survey, survey};
pub use writer::ArchiveWriter;

/// Where Hoard says what is in its archives. It is not needed and not trusted.
pub const HOARD_MANIFEST_NAME: &str = ".hoard_manifest.json";

/// What a reader of an untrusted archive accepts at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The length of one member.
    pub entry_bytes_max: u64,
    /// How many headers there are, with those of folders and of long names.
    pub entries_max: u64,
    /// The length of everything, decompressed.
    pub total_bytes_max: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            entry_bytes_max: 1 << 30,
            entries_max: 1_000_000,
            total_bytes_max: 64 << 30,
        }
    }
}

/// Where an archive comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Origin {
    /// Its first member is our manifest.
    Ours,
    /// Hoard made it, or somebody else: it has Hoard's manifest or none.
    Foreign,
}
