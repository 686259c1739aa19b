//! What the threads of a finder have in common.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_runtime::Clock;
use cannery_runtime::disk::Disk;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use super::folder::Layout;
use super::inbox::Inbox;
use super::watch_table::WatchTable;
use super::{Errand, FinderParts, Manner, Sighting};

/// How many new folders wait to be looked into; when there are more, everything is scanned.
const ERRANDS_MAX: usize = 4_096;

/// What happened since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counters {
    /// Scans of everything that were finished.
    pub(crate) scans: u64,
    /// How often events were lost, each time followed by a scan.
    pub(crate) overflows: u64,
    /// Folders that could not be watched, listed or asked, each time it was tried; such a folder is tried again by each scan.
    pub(crate) failures: u64,
    /// Folders watched at the moment.
    pub(crate) watches: u64,
    /// Files told, as often as each was told, by datatype.
    pub(crate) files_seen: Vec<u64>,
    /// When the last scan of everything ended.
    pub(crate) last_scan_finished: Option<Timestamp>,
}

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
    sightings: mpsc::Sender<Sighting>,
    watches: Mutex<WatchTable>,
    files_seen: Vec<AtomicU64>,
    scans: AtomicU64,
    overflows: AtomicU64,
    failures: AtomicU64,
    last_scan_finished: Mutex<Option<Timestamp>>,
}

impl Shared {
    pub(super) fn new(
        parts: FinderParts,
        layout: Layout,
        watches: WatchTable,
        sightings: mpsc::Sender<Sighting>,
    ) -> Self {
        Self {
            files_seen: layout.datatypes.iter().map(|_| AtomicU64::new(0)).collect(),
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
            watches: Mutex::new(watches),
            scans: AtomicU64::new(0),
            overflows: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            last_scan_finished: Mutex::default(),
        }
    }

    /// Tells the consumer, waiting for it. Ends when there is none any more.
    pub(super) async fn tell(&self, sighting: Sighting) -> ControlFlow<()> {
        if let Sighting::File(found) = &sighting {
            self.files_seen[found.datatype].fetch_add(1, Ordering::Relaxed);
        }
        match self.sightings.send(sighting).await {
            Ok(()) => ControlFlow::Continue(()),
            Err(_) => ControlFlow::Break(()),
        }
    }

    /// The same from a thread; ends also when the finder is stopped.
    pub(super) fn tell_blocking(&self, sighting: Sighting) -> ControlFlow<()> {
        futures::executor::block_on(async {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => ControlFlow::Break(()),
                told = self.tell(sighting) => told,
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
        self.overflows.fetch_add(1, Ordering::Relaxed);
        self.sweeps.add(Manner::Everything);
    }

    /// Some folders could not be looked into.
    pub(super) fn failed(&self, count: u64) {
        self.failures.fetch_add(count, Ordering::Relaxed);
    }

    /// A scan of everything came to its end.
    pub(super) fn finished_scan(&self) {
        *lock(&self.last_scan_finished) = Some(self.clock.now());
        self.scans.fetch_add(1, Ordering::Relaxed);
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
        lock(&self.watches)
    }

    pub(super) fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            scans: read(&self.scans),
            overflows: read(&self.overflows),
            failures: read(&self.failures),
            watches: self.watches().len() as u64,
            files_seen: self.files_seen.iter().map(read).collect(),
            last_scan_finished: *lock(&self.last_scan_finished),
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
