//! What the threads of a finder have in common.

use std::ops::ControlFlow;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_runtime::Clock;
use cannery_runtime::disk::Disk;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::census::Census;
use super::folder::Layout;
use super::inbox::Inbox;
use super::watch_table::WatchTable;
use super::{Errand, FinderParts, Manner, Sighting};

/// How many new folders wait to be looked into; when there are more, everything is scanned.
const ERRANDS_MAX: usize = 4_096;

/// How long ago something changed, as far as it matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Age {
    /// So little that somebody may be at it.
    Young,
    /// Long enough.
    Old,
    /// So far ahead that the clock has been wrong, then or now.
    Unknown,
}

#[derive(Debug)]
pub(super) struct Shared {
    pub(super) layout: Layout,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) clock: Clock,
    pub(super) stop: CancellationToken,
    /// Folders that appeared.
    pub(super) errands: Inbox<Errand>,
    /// Scans of everything.
    pub(super) sweeps: Inbox<Manner>,
    scan_interval: Duration,
    min_file_age: SignedDuration,
    sightings: mpsc::Sender<Vec<Sighting>>,
    /// How many sightings go together.
    pub(super) batch: usize,
    watches: Mutex<WatchTable>,
    pub(super) census: Arc<Census>,
    /// An empty folder could not be removed; said once.
    pub(super) cannot_remove: AtomicBool,
}

impl Shared {
    pub(super) fn new(
        parts: FinderParts,
        layout: Layout,
        watches: WatchTable,
        (sightings, batch): (mpsc::Sender<Vec<Sighting>>, usize),
    ) -> Self {
        Self {
            layout,
            disk: parts.disk,
            clock: parts.clock,
            stop: CancellationToken::new(),
            errands: Inbox::new(ERRANDS_MAX),
            sweeps: Inbox::new(Manner::COUNT),
            scan_interval: parts.scan_interval,
            min_file_age: SignedDuration::try_from(parts.min_file_age)
                .unwrap_or(SignedDuration::MAX),
            sightings,
            batch,
            watches: Mutex::new(watches),
            census: parts.census,
            cannot_remove: AtomicBool::new(false),
        }
    }

    /// Tells the consumer, waiting for it. Ends when there is none any more.
    pub(super) async fn tell(&self, sightings: Vec<Sighting>) -> ControlFlow<()> {
        for sighting in &sightings {
            if let Sighting::File(found) = sighting {
                self.census.seen(found.datatype);
            }
        }
        self.census.telling(sightings.len());
        match self.sightings.send(sightings).await {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// The same from a thread; ends also when the finder is stopped.
    pub(super) fn tell_blocking(&self, sightings: Vec<Sighting>) -> ControlFlow<()> {
        futures::executor::block_on(async {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => ControlFlow::Break(()),
                told = self.tell(sightings) => told,
            }
        })
    }

    /// A folder appeared: it is looked into soon.
    pub(super) fn look_into(&self, errand: Errand) {
        if !self.errands.add(errand) {
            self.sweeps.add(Manner::Everything);
        }
    }

    /// Events were lost.
    pub(super) fn overflowed(&self) {
        self.census.overflowed();
        self.sweeps.add(Manner::Everything);
    }

    /// When the next scan is due, by [`Clock::elapsed`].
    pub(super) fn next_scan(&self) -> Duration {
        self.clock.elapsed().saturating_add(self.scan_interval)
    }

    pub(super) fn age(&self, modified: Timestamp) -> Age {
        let age = self.clock.now().duration_since(modified);
        if age >= self.min_file_age {
            Age::Old
        } else if age >= -self.min_file_age {
            Age::Young
        } else {
            Age::Unknown
        }
    }

    pub(super) fn watches(&self) -> MutexGuard<'_, WatchTable> {
        self.watches.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
