//! Where the data of an entry lies in the log.

use crate::state::Handle;

/// The home of an entry: its data are `len` bytes at `offset` of a segment, its checksum before them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Home {
    pub(super) segment: u32,
    pub(super) offset: u32,
    pub(super) len: u32,
}

impl Handle for Home {
    fn data_len(&self) -> usize {
        self.len as usize
    }
}
