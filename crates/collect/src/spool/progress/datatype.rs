//! What is remembered of one datatype.

use std::collections::{BTreeMap, VecDeque};

use cannery_formats::spool::{Datatype, SpoolDate};
use jiff::Timestamp;

use super::super::bundle::OpenBundle;
use super::super::fault;
use super::super::find::Standing;
use super::super::outbox::Sealed;
use super::snapshot::{DatatypeSnapshot, OpenSnapshot, SealedSnapshot, ShipSnapshot};

/// How many of the last ships are remembered.
const SHIPS: usize = 20;

#[derive(Debug)]
pub(super) struct OneDatatype {
    name: Datatype,
    pub(super) counts: Counts,
    last_ship: Option<Timestamp>,
    /// The newest first.
    ships: VecDeque<ShipSnapshot>,
    pub(super) open: BTreeMap<SpoolDate, OpenSnapshot>,
    /// Sealed bundles without a receipt, by id.
    pub(super) unshipped: BTreeMap<String, SealedSnapshot>,
}

#[derive(Debug)]
pub(super) struct Counts {
    pub(super) taken: u64,
    pub(super) bundled: u64,
    pub(super) bad: BTreeMap<&'static str, u64>,
    pub(super) sealed: u64,
    pub(super) shipped: u64,
    pub(super) shipped_bytes: u64,
    shipped_raw_bytes: u64,
    pub(super) removed: u64,
    pub(super) given_up: u64,
}

impl OneDatatype {
    pub(super) fn new(name: &Datatype) -> Self {
        Self {
            name: name.clone(),
            counts: Counts {
                taken: 0,
                bundled: 0,
                // A reason that never came is a zero and not a gap.
                bad: fault::WORDS.iter().map(|word| (*word, 0)).collect(),
                sealed: 0,
                shipped: 0,
                shipped_bytes: 0,
                shipped_raw_bytes: 0,
                removed: 0,
                given_up: 0,
            },
            last_ship: None,
            ships: VecDeque::new(),
            open: BTreeMap::new(),
            unshipped: BTreeMap::new(),
        }
    }

    pub(super) fn is_named(&self, name: &Datatype) -> bool {
        self.name == *name
    }

    pub(super) fn grew(&mut self, bundle: &OpenBundle) {
        let open = self
            .open
            .entry(bundle.date())
            .or_insert_with(|| OpenSnapshot {
                bundle: bundle.id().to_owned(),
                date: bundle.date().dashed(),
                files: 0,
                bytes: 0,
                opened: bundle.opened(),
            });
        open.files = bundle.files();
        open.bytes = bundle.bytes();
    }

    pub(super) fn keep(&mut self, sealed: &Sealed) {
        let snapshot = SealedSnapshot {
            bundle: sealed.id.clone(),
            date: sealed.name.date.dashed(),
            files: sealed.files.len() as u64,
            bytes: sealed.data.bytes + sealed.index.bytes,
            raw_bytes: raw_bytes(sealed),
            opened: sealed.name.opened.timestamp(),
        };
        self.unshipped.insert(sealed.id.clone(), snapshot);
    }

    pub(super) fn shipped(&mut self, sealed: &Sealed, now: Timestamp) {
        let (bytes, raw_bytes) = (sealed.data.bytes + sealed.index.bytes, raw_bytes(sealed));
        self.unshipped.remove(&sealed.id);
        self.counts.shipped += 1;
        self.counts.shipped_bytes += bytes;
        self.counts.shipped_raw_bytes += raw_bytes;
        self.last_ship = self.last_ship.max(Some(now));
        self.ships.truncate(SHIPS - 1);
        self.ships.push_front(ShipSnapshot {
            bundle: sealed.id.clone(),
            date: sealed.name.date.dashed(),
            files: sealed.files.len() as u64,
            bytes,
            raw_bytes,
            shipped: now,
        });
    }

    pub(super) fn snapshot(&self, files_seen: u64, standing: Standing) -> DatatypeSnapshot {
        let counts = &self.counts;
        DatatypeSnapshot {
            datatype: self.name.as_str().to_owned(),
            files_seen,
            files_taken: counts.taken,
            files_bundled: counts.bundled,
            files_bad: counts.bad.clone(),
            files_removed: counts.removed,
            files_waiting: standing.files,
            bytes_waiting: standing.bytes,
            oldest_waiting: standing.oldest,
            bundles_sealed: counts.sealed,
            bundles_shipped: counts.shipped,
            bundles_given_up: counts.given_up,
            bytes_shipped: counts.shipped_bytes,
            raw_bytes_shipped: counts.shipped_raw_bytes,
            last_ship: self.last_ship,
            ships: self.ships.iter().cloned().collect(),
            open: self.open.values().cloned().collect(),
            unshipped: self.unshipped.values().cloned().collect(),
        }
    }
}

fn raw_bytes(sealed: &Sealed) -> u64 {
    sealed.files.iter().map(|file| file.size).sum()
}
