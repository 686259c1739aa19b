//! When a spool is drained: everything that lies there was taken or judged, and nothing waits for more than time.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use cannery_runtime::Clock;

use super::find::{Census, Finder};

const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Files that were met and left for later, counted since somebody last began to.
#[derive(Debug, Default)]
pub(super) struct Refused {
    not_yet: AtomicU64,
    for_a_moment: AtomicU64,
}

impl Refused {
    /// A scan of everything met a file that is written to, or that is wrong and young.
    pub(super) fn not_yet(&self) {
        self.not_yet.fetch_add(1, Ordering::AcqRel);
    }

    /// A file can be taken, or judged, in a moment.
    pub(super) fn for_a_moment(&self) {
        self.for_a_moment.fetch_add(1, Ordering::AcqRel);
    }

    fn forget(&self) {
        self.not_yet.store(0, Ordering::Release);
        self.for_a_moment.store(0, Ordering::Release);
    }
}

/// Waits for a spool to be drained.
pub(super) struct Drain {
    pub(super) census: Arc<Census>,
    pub(super) refused: Arc<Refused>,
    pub(super) finder: Arc<Mutex<Option<Finder>>>,
    pub(super) clock: Clock,
    /// How long a file is left alone that may be taken in a moment.
    pub(super) settle: Duration,
}

impl Drain {
    /// Waits until the first scan is over, and another one finds nothing that could be taken. Says how many files are left
    /// where they are, because they are written to or are wrong and young.
    pub(super) async fn wait(&self) -> u64 {
        self.scanned_since(0).await;
        loop {
            self.refused.forget();
            let begun = self.census.scans_begun();
            if let Some(finder) = &*self.finder.lock().unwrap_or_else(PoisonError::into_inner) {
                finder.scan_now();
            }
            self.scanned_since(begun).await;
            if self.refused.for_a_moment.load(Ordering::Acquire) == 0 {
                return self.refused.not_yet.load(Ordering::Acquire);
            }
            self.clock.sleep(self.settle).await;
        }
    }

    /// Waits for the end of a scan that began after so many others, and until all that it told was dealt with.
    async fn scanned_since(&self, begun: u64) {
        while !self.census.has_told_all_since(begun) {
            self.clock.sleep(LOOK_EVERY).await;
        }
        let told = self.census.told();
        while !self.census.has_handled(told) {
            self.clock.sleep(LOOK_EVERY).await;
        }
    }
}
