//! What a spool tells of itself: plain data, at one moment.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Serialize;

/// A spool at one moment. Counts are since the process began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SpoolSnapshot {
    /// The experiment whose files they are.
    pub experiment: String,
    /// Its datatypes, as they are configured; behind them any of which an earlier configuration left bundles.
    pub datatypes: Vec<DatatypeSnapshot>,
    /// Scans of everything that were finished.
    pub scans: u64,
    /// Folders that a scan could not watch or read, each time it tried.
    pub scan_failures: u64,
    /// When the last scan of everything ended; none before the first.
    pub last_scan: Option<Timestamp>,
    /// Folders that are watched.
    pub watches: u64,
    /// How often the system lost events; a scan made up for each.
    pub watch_overflows: u64,
    /// What the quarantine holds, that of all experiments with the same home.
    pub quarantine_bytes: u64,
    /// Files that were removed from the quarantine because it, or the spool, was too full.
    pub quarantine_evictions: u64,
    /// What lies below the configured datatypes and in the quarantine, at the last scan.
    pub spool_bytes: u64,
    /// How much that may be; none when nobody minds.
    pub spool_bytes_max: Option<u64>,
    /// It is more than it may be: whoever runs the node must make room.
    pub full: bool,
}

/// One datatype of a spool at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DatatypeSnapshot {
    /// Its name.
    pub datatype: String,
    /// Files that events and scans told, as often as each was told.
    pub files_seen: u64,
    /// Files that were read and found good; again if their bundle was given up.
    pub files_taken: u64,
    /// Files in bundles that were sealed.
    pub files_bundled: u64,
    /// Files that cannot be collected, by the reason in a word. One that stays where it is counts once for each scan.
    pub files_bad: BTreeMap<&'static str, u64>,
    /// Files that were removed because the lake has them.
    pub files_removed: u64,
    /// Files in the date folders, bundled or not. Exact after a scan during which nothing came or went; between scans
    /// what was heard of is added, perhaps twice, and what went is subtracted.
    pub files_waiting: u64,
    /// Their bytes, and those of files that lie elsewhere below the datatype; as exact.
    pub bytes_waiting: u64,
    /// When the one changed that has waited longest; it stays the oldest until the next scan, as long as anything waits.
    pub oldest_waiting: Option<Timestamp>,
    /// Bundles that were sealed.
    pub bundles_sealed: u64,
    /// Bundles that every mirror has got.
    pub bundles_shipped: u64,
    /// Bundles that the disk refused; their files are bundled again.
    pub bundles_given_up: u64,
    /// Bytes of the objects that were shipped, to be counted once whatever the number of mirrors.
    pub bytes_shipped: u64,
    /// Bytes of the files in them.
    pub raw_bytes_shipped: u64,
    /// When a bundle was last shipped.
    pub last_ship: Option<Timestamp>,
    /// The last ships, the newest first.
    pub ships: Vec<ShipSnapshot>,
    /// Bundles to which files are added, by date.
    pub open: Vec<OpenSnapshot>,
    /// Sealed bundles that not every mirror has, the oldest first.
    pub unshipped: Vec<SealedSnapshot>,
}

/// A bundle that is open.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct OpenSnapshot {
    /// Its id.
    pub bundle: String,
    /// The date of its files: `2026-11-15`.
    pub date: String,
    /// How many files are in it.
    pub files: u64,
    /// Bytes of its rows, before they are compressed.
    pub bytes: u64,
    /// When it was opened.
    pub opened: Timestamp,
}

/// A bundle that is sealed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct SealedSnapshot {
    /// Its id.
    pub bundle: String,
    /// The date of its files.
    pub date: String,
    /// How many files are in it.
    pub files: u64,
    /// Bytes of its two objects.
    pub bytes: u64,
    /// Bytes of its files.
    pub raw_bytes: u64,
    /// When it was opened.
    pub opened: Timestamp,
}

/// A bundle that was shipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ShipSnapshot {
    /// Its id.
    pub bundle: String,
    /// The date of its files.
    pub date: String,
    /// How many files are in it.
    pub files: u64,
    /// Bytes of its two objects.
    pub bytes: u64,
    /// Bytes of its files.
    pub raw_bytes: u64,
    /// When every mirror had it.
    pub shipped: Timestamp,
}
