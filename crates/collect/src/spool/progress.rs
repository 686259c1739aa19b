//! How much has passed through a spool, and what is in it now: for metrics, for the page of the spool, and for who waits.
//!
//! | look here | for |
//! |---|---|
//! | `snapshot.rs` | what is told: plain data |
//! | `datatype.rs` | what is remembered of one datatype |

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cannery_formats::spool::{Datatype, SpoolDate};
use jiff::Timestamp;

use super::bundle::OpenBundle;
use super::find::Census;
use super::outbox::Sealed;
use super::remove::Removed;
use super::settings::SpoolSettings;
use crate::quarantine::Quarantine;

mod datatype;
mod snapshot;
#[cfg(test)]
pub(super) mod tests;

pub use snapshot::{DatatypeSnapshot, OpenSnapshot, SealedSnapshot, ShipSnapshot, SpoolSnapshot};

use datatype::OneDatatype;

/// What a spool does and holds. Counts begin with the process.
///
/// Memory is bounded: what is remembered are counts, the last ships, and the bundles of which there are only so many.
#[derive(Debug)]
pub struct Progress {
    experiment: String,
    spool_bytes_max: Option<u64>,
    census: Arc<Census>,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// The configured ones in their order, then those of bundles that an earlier configuration left.
    datatypes: Vec<OneDatatype>,
    quarantine: Quarantined,
    spool_bytes: u64,
    full: bool,
    /// Files that were in a bundle and are to be found again.
    let_go: u64,
}

/// The state of the quarantine.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Quarantined {
    pub(super) bytes: u64,
    pub(super) evictions: u64,
}

impl Quarantined {
    pub(super) fn of(quarantine: &Quarantine) -> Self {
        Self {
            bytes: quarantine.bytes(),
            evictions: quarantine.evictions(),
        }
    }
}

/// What was counted at one moment, of all datatypes together.
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
    pub(super) fn new(settings: &SpoolSettings) -> Self {
        let names = settings.datatypes.iter().map(|datatype| &datatype.name);
        let datatypes: Vec<_> = names.map(OneDatatype::new).collect();
        Self {
            experiment: settings.experiment.as_str().to_owned(),
            spool_bytes_max: settings.spool_bytes_max,
            census: Arc::new(Census::new(datatypes.len())),
            state: Mutex::new(State {
                datatypes,
                ..State::default()
            }),
        }
    }

    /// The experiment whose files they are.
    #[must_use]
    pub fn experiment(&self) -> &str {
        &self.experiment
    }

    /// What was counted so far.
    #[must_use]
    pub fn passed(&self) -> Passed {
        let mut passed = Passed::default();
        for datatype in &self.lock().datatypes {
            let counts = &datatype.counts;
            passed.taken += counts.taken;
            passed.bad += counts.bad.values().sum::<u64>();
            passed.sealed += counts.sealed;
            passed.shipped += counts.shipped;
            passed.shipped_bytes += counts.shipped_bytes;
            passed.removed += counts.removed;
            passed.given_up += counts.given_up;
        }
        passed
    }

    /// Everything there is to tell at the moment. Cheap: asks neither the disk nor the lake.
    #[must_use]
    pub fn snapshot(&self) -> SpoolSnapshot {
        let counters = self.census.counters();
        let state = self.lock();
        let datatypes = state.datatypes.iter().enumerate().map(|(index, datatype)| {
            let seen = counters.files_seen.get(index).copied().unwrap_or(0);
            datatype.snapshot(seen, self.census.standing(index))
        });
        SpoolSnapshot {
            experiment: self.experiment.clone(),
            datatypes: datatypes.collect(),
            scans: counters.scans,
            scan_failures: counters.failures,
            last_scan: counters.last_scan_finished,
            watches: counters.watches,
            watch_overflows: counters.overflows,
            quarantine_bytes: state.quarantine.bytes,
            quarantine_evictions: state.quarantine.evictions,
            spool_bytes: state.spool_bytes,
            spool_bytes_max: self.spool_bytes_max,
            full: state.full,
        }
    }

    pub(super) fn census(&self) -> &Arc<Census> {
        &self.census
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn of(&self, datatype: usize, note: impl FnOnce(&mut OneDatatype)) {
        if let Some(one) = self.lock().datatypes.get_mut(datatype) {
            note(one);
        }
    }

    /// By name: an earlier configuration may have had others.
    fn named(&self, name: &Datatype, note: impl FnOnce(&mut OneDatatype)) -> usize {
        let datatypes = &mut self.lock().datatypes;
        let known = datatypes.iter().position(|one| one.is_named(name));
        let index = known.unwrap_or_else(|| {
            datatypes.push(OneDatatype::new(name));
            datatypes.len() - 1
        });
        note(&mut datatypes[index]);
        index
    }

    /// A file was read and found good.
    pub(super) fn took(&self, datatype: usize) {
        self.of(datatype, |one| one.counts.taken += 1);
    }

    /// Something cannot be collected, for a reason in a word. What stays where it is, is met again by each scan.
    pub(super) fn met_bad(&self, datatype: usize, word: &'static str) {
        self.of(datatype, |one| {
            *one.counts.bad.entry(word).or_default() += 1;
        });
    }

    /// A bundle was begun, or a file was added to it.
    pub(super) fn grew(&self, datatype: usize, bundle: &OpenBundle) {
        self.of(datatype, |one| one.grew(bundle));
    }

    /// A bundle was sealed.
    pub(super) fn sealed(&self, sealed: &Sealed) {
        self.named(&sealed.name.datatype, |one| {
            one.open.remove(&sealed.name.date);
            one.counts.sealed += 1;
            one.counts.bundled += sealed.files.len() as u64;
            one.keep(sealed);
        });
    }

    /// A sealed bundle of an earlier run was found, and has no receipt as far as is known.
    pub(super) fn took_up(&self, sealed: &Sealed) {
        self.named(&sealed.name.datatype, |one| one.keep(sealed));
    }

    /// Every mirror has a bundle, since now.
    pub(super) fn shipped(&self, sealed: &Sealed, now: Timestamp) {
        self.named(&sealed.name.datatype, |one| one.shipped(sealed, now));
    }

    /// The files of a bundle are gone, and so is the bundle: it has its receipt, from this run or an earlier one.
    pub(super) fn finished(&self, sealed: &Sealed, removed: &Removed) {
        let index = self.named(&sealed.name.datatype, |one| {
            one.unshipped.remove(&sealed.id);
            one.counts.removed += removed.files;
        });
        let bytes = sealed.files.iter().map(|file| file.size).sum();
        self.census.gone(index, removed.files, bytes);
        self.lock().let_go += removed.back.len() as u64;
    }

    /// A file went because the lake had it already.
    pub(super) fn removed_known(&self, datatype: usize, bytes: u64) {
        self.of(datatype, |one| one.counts.removed += 1);
        self.census.gone(datatype, 1, bytes);
    }

    /// A bundle was given up, and its files were let go.
    pub(super) fn gave_up(&self, datatype: usize, date: SpoolDate, files: u64) {
        let mut state = self.lock();
        state.let_go += files;
        if let Some(one) = state.datatypes.get_mut(datatype) {
            one.counts.given_up += 1;
            one.open.remove(&date);
        }
    }

    /// How many files were in a bundle and are to be found again: it was given up, or they are not what was read.
    pub(super) fn let_go(&self) -> u64 {
        self.lock().let_go
    }

    /// How the quarantine is now.
    pub(super) fn quarantined(&self, quarantined: Quarantined) {
        self.lock().quarantine = quarantined;
    }

    /// How much room the spool takes, its quarantine included, and whether that is too much.
    pub(super) fn weighed(&self, spool_bytes: u64, full: bool) {
        let mut state = self.lock();
        state.spool_bytes = spool_bytes;
        state.full = full;
    }
}
