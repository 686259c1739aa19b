//! How much has passed through a spool.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts since the start; for metrics, and for who waits.
#[derive(Debug, Default)]
pub struct Progress {
    taken: AtomicU64,
    bad: AtomicU64,
    sealed: AtomicU64,
    shipped: AtomicU64,
    shipped_bytes: AtomicU64,
    removed: AtomicU64,
    given_up: AtomicU64,
}

/// What was counted at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Passed {
    /// Files that were read and found good.
    pub taken: u64,
    /// Files that cannot be collected.
    pub bad: u64,
    /// Bundles that were sealed.
    pub sealed: u64,
    /// Bundles that every mirror has.
    pub shipped: u64,
    /// Their bytes, compressed.
    pub shipped_bytes: u64,
    /// Files that were removed because the lake has them.
    pub removed: u64,
    /// Bundles that the disk refused.
    pub given_up: u64,
}

impl Progress {
    /// What was counted so far.
    #[must_use]
    pub fn passed(&self) -> Passed {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Passed {
            taken: count(&self.taken),
            bad: count(&self.bad),
            sealed: count(&self.sealed),
            shipped: count(&self.shipped),
            shipped_bytes: count(&self.shipped_bytes),
            removed: count(&self.removed),
            given_up: count(&self.given_up),
        }
    }

    pub(super) fn took(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn met_bad(&self) {
        self.bad.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn sealed(&self) {
        self.sealed.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn shipped(&self, bytes: u64) {
        self.shipped.fetch_add(1, Ordering::Relaxed);
        self.shipped_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn removed(&self, files: u64) {
        self.removed.fetch_add(files, Ordering::Relaxed);
    }

    pub(super) fn gave_up(&self) {
        self.given_up.fetch_add(1, Ordering::Relaxed);
    }
}
