//! What a finder counts. It outlives the finder, so that who asks need not know whether one runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::Timestamp;

use super::walk::Manner;

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

/// What lies below the folder of a datatype.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Standing {
    /// Files in date folders.
    pub(crate) files: u64,
    /// Their bytes, and those of files that lie elsewhere below the datatype.
    pub(crate) bytes: u64,
    /// When the one changed that has lain there longest; of files in date folders.
    pub(crate) oldest: Option<Timestamp>,
}

/// Counted by the threads of a finder, read by anybody.
#[derive(Debug)]
pub(crate) struct Census {
    datatypes: Vec<Datatype>,
    /// Shared with the table of watches, which alone knows.
    watches: Arc<AtomicU64>,
    scans: AtomicU64,
    overflows: AtomicU64,
    failures: AtomicU64,
    last_scan_finished: Mutex<Option<Timestamp>>,
    /// Scans that were begun; each has its number from here.
    begun: AtomicU64,
    /// The number of the last scan that told every file and is over.
    told_all: AtomicU64,
    /// Sightings that were told, and those that somebody has dealt with.
    told: AtomicU64,
    handled: AtomicU64,
}

#[derive(Debug, Default)]
struct Datatype {
    seen: AtomicU64,
    lying: Mutex<Lying>,
}

#[derive(Debug, Default)]
struct Lying {
    /// As the last scan found it, with what was heard of and what went since.
    now: Standing,
    /// As the running scan has found it so far.
    listed: Standing,
    /// Bytes that the last scan found, without what went since.
    scanned_bytes: u64,
}

impl Standing {
    fn add(&mut self, bytes: u64, modified: Timestamp) {
        self.files += 1;
        self.bytes += bytes;
        self.oldest = Some(self.oldest.map_or(modified, |oldest| oldest.min(modified)));
    }

    fn subtract(&mut self, files: u64, bytes: u64) {
        self.files = self.files.saturating_sub(files);
        self.bytes = self.bytes.saturating_sub(bytes);
        if self.files == 0 {
            self.oldest = None;
        }
    }
}

impl Census {
    /// Nothing was counted yet, of so many datatypes.
    pub(crate) fn new(datatypes: usize) -> Self {
        Self {
            datatypes: (0..datatypes).map(|_| Datatype::default()).collect(),
            watches: Arc::default(),
            scans: AtomicU64::new(0),
            overflows: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            last_scan_finished: Mutex::default(),
            begun: AtomicU64::new(0),
            told_all: AtomicU64::new(0),
            told: AtomicU64::new(0),
            handled: AtomicU64::new(0),
        }
    }

    /// What was counted so far.
    pub(crate) fn counters(&self) -> Counters {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counters {
            scans: read(&self.scans),
            overflows: read(&self.overflows),
            failures: read(&self.failures),
            watches: read(&self.watches),
            files_seen: self.datatypes.iter().map(|one| read(&one.seen)).collect(),
            last_scan_finished: *lock(&self.last_scan_finished),
        }
    }

    /// What lies there of a datatype. Exact at the end of a scan during which nothing came or went. Between scans what
    /// came by events is added, more than once if it was told so; what went is subtracted; and the oldest stays the oldest
    /// as long as anything is there. The first scan counts up as it goes.
    pub(crate) fn standing(&self, datatype: usize) -> Standing {
        let Some(datatype) = self.datatypes.get(datatype) else {
            return Standing::default();
        };
        let Lying { now, listed, .. } = &*lock(&datatype.lying);
        Standing {
            files: now.files.max(listed.files),
            bytes: now.bytes.max(listed.bytes),
            oldest: [now.oldest, listed.oldest].into_iter().flatten().min(),
        }
    }

    /// The bytes below all datatypes that the last scan found, without what went since. What events told is not in it: a
    /// file that is written again and again would seem to fill the disk.
    pub(crate) fn scanned_bytes(&self) -> u64 {
        let datatypes = self.datatypes.iter();
        datatypes.map(|one| lock(&one.lying).scanned_bytes).sum()
    }

    /// Files went from a datatype's date folders.
    pub(crate) fn gone(&self, datatype: usize, files: u64, bytes: u64) {
        if let Some(datatype) = self.datatypes.get(datatype) {
            let mut lying = lock(&datatype.lying);
            lying.now.subtract(files, bytes);
            lying.listed.subtract(files, bytes);
            lying.scanned_bytes = lying.scanned_bytes.saturating_sub(bytes);
        }
    }

    /// A file was met by other means than a scan.
    pub(in crate::spool) fn heard_of(&self, datatype: usize, bytes: u64, modified: Timestamp) {
        lock(&self.datatypes[datatype].lying)
            .now
            .add(bytes, modified);
    }

    /// A scan came by a file.
    pub(super) fn listed(&self, datatype: usize, bytes: u64, modified: Timestamp) {
        let mut lying = lock(&self.datatypes[datatype].lying);
        lying.listed.add(bytes, modified);
    }

    /// A scan came by something that takes room where it does not belong.
    pub(super) fn listed_odd(&self, datatype: usize, bytes: u64) {
        lock(&self.datatypes[datatype].lying).listed.bytes += bytes;
    }

    pub(super) fn watches(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.watches)
    }

    /// A scan begins; its number.
    pub(super) fn begin_scan(&self) -> u64 {
        for datatype in &self.datatypes {
            lock(&datatype.lying).listed = Standing::default();
        }
        self.begun.fetch_add(1, Ordering::AcqRel) + 1
    }

    /// A scan of everything came to its end.
    pub(super) fn end_scan(&self, number: u64, manner: Manner, now: Timestamp) {
        for datatype in &self.datatypes {
            let mut lying = lock(&datatype.lying);
            lying.now = std::mem::take(&mut lying.listed);
            lying.scanned_bytes = lying.now.bytes;
        }
        *lock(&self.last_scan_finished) = Some(now);
        self.scans.fetch_add(1, Ordering::Relaxed);
        if manner == Manner::Everything {
            self.told_all.store(number, Ordering::Release);
        }
    }

    /// As if a scan had found what is known already.
    #[cfg(test)]
    pub(in crate::spool) fn scan_again(&self) {
        let number = self.begin_scan();
        for datatype in &self.datatypes {
            let mut lying = lock(&datatype.lying);
            lying.listed = lying.now;
        }
        self.end_scan(number, Manner::Overdue, Timestamp::UNIX_EPOCH);
    }

    pub(super) fn overflowed(&self) {
        self.overflows.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn failed(&self, count: u64) {
        self.failures.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn seen(&self, datatype: usize) {
        self.datatypes[datatype]
            .seen
            .fetch_add(1, Ordering::Relaxed);
    }

    /// So much is about to be told.
    pub(super) fn telling(&self, sightings: usize) {
        self.told.fetch_add(sightings as u64, Ordering::AcqRel);
    }

    /// The consumer has done with something that was told.
    pub(crate) fn handled(&self) {
        self.handled.fetch_add(1, Ordering::AcqRel);
    }

    /// How much was told, or is about to be.
    pub(crate) fn told(&self) -> u64 {
        self.told.load(Ordering::Acquire)
    }

    /// Whether the consumer has done with so much of what was told, in the order in which it reached him.
    pub(crate) fn has_handled(&self, told: u64) -> bool {
        self.handled.load(Ordering::Acquire) >= told
    }

    /// How many scans were begun.
    pub(crate) fn scans_begun(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// Whether anything could not be watched or read since the start.
    pub(crate) fn has_failed(&self) -> bool {
        self.failures.load(Ordering::Relaxed) > 0
    }

    /// Whether a scan is over that was begun after so many others, and told every file.
    pub(crate) fn has_told_all_since(&self, begun: u64) -> bool {
        self.told_all.load(Ordering::Acquire) > begun
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn standing(files: u64, bytes: u64, oldest: Option<i64>) -> Standing {
        Standing {
            files,
            bytes,
            oldest: oldest.map(at),
        }
    }

    #[test]
    fn a_scan_puts_right_what_was_heard_in_between() {
        let census = Census::new(2);
        let scan = census.begin_scan();
        census.listed(1, 10, at(50));
        assert_eq!(
            census.standing(1),
            standing(1, 10, Some(50)),
            "it counts up"
        );
        census.listed(1, 20, at(40));
        census.listed_odd(1, 5);
        census.end_scan(scan, Manner::Everything, at(100));
        assert_eq!(census.standing(1), standing(2, 35, Some(40)));
        // Told twice.
        census.heard_of(1, 7, at(110));
        census.heard_of(1, 7, at(110));
        assert_eq!(census.standing(1), standing(4, 49, Some(40)));
        assert_eq!(census.scanned_bytes(), 35);
        let scan = census.begin_scan();
        for (bytes, modified) in [(10, 50), (20, 40), (7, 110)] {
            census.listed(1, bytes, at(modified));
        }
        census.end_scan(scan, Manner::Overdue, at(200));
        assert_eq!(census.standing(1), standing(3, 37, Some(40)));
        census.gone(1, 2, 30);
        assert_eq!(census.standing(1), standing(1, 7, Some(40)));
        assert_eq!(census.scanned_bytes(), 7);
        census.gone(1, 1, 7);
        assert_eq!(census.standing(1), standing(0, 0, None));
        assert_eq!(census.standing(0), Standing::default());
        assert_eq!(census.counters().scans, 2);
    }

    #[test]
    fn what_went_during_a_scan_is_not_there_after_it() {
        let census = Census::new(1);
        let scan = census.begin_scan();
        for _ in 0..5 {
            census.listed(0, 10, at(1));
        }
        census.gone(0, 4, 40);
        census.end_scan(scan, Manner::Everything, at(2));
        assert_eq!(census.standing(0), standing(1, 10, Some(1)));
    }

    #[test]
    fn a_scan_that_began_before_does_not_count_as_one_since() {
        let census = Census::new(1);
        let early = census.begin_scan();
        let since = census.scans_begun();
        census.end_scan(early, Manner::Everything, at(1));
        assert!(!census.has_told_all_since(since));
        let overdue = census.begin_scan();
        census.end_scan(overdue, Manner::Overdue, at(2));
        assert!(!census.has_told_all_since(since), "it told only a part");
        let late = census.begin_scan();
        census.end_scan(late, Manner::Everything, at(3));
        assert!(census.has_told_all_since(since));
        census.telling(1);
        assert!(!census.has_handled(census.told()));
        census.handled();
        assert!(census.has_handled(census.told()));
    }
}
