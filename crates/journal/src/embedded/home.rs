//! Where the data of an entry lies in the log.

use super::log::ENTRY_BYTES;
use crate::state::Handle;

/// The home of an entry: its data are `len` bytes at `offset` of a segment, its checksum before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Home {
    pub(super) segment: u32,
    pub(super) offset: u32,
    pub(super) len: u32,
    /// The length of its key, which is written again with it.
    pub(super) key_len: u16,
}

impl Home {
    /// How much it takes, about, to write the entry elsewhere.
    pub(super) fn weight(&self) -> u64 {
        ENTRY_BYTES as u64 + u64::from(self.len) + u64::from(self.key_len)
    }
}

impl Handle for Home {
    fn data_len(&self) -> usize {
        self.len as usize
    }
}
