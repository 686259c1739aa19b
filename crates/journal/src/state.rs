//! The journal in memory: every entry, and the indexes by which the rules find them.
//!
//! [`State::apply`] decides and is deterministic: the same operations at the same dates give the same answers and the same
//! effects. What it decides it hands to a [`Ledger`] first, as effects; a [`Replay`] takes them
//! back after a restart without deciding anything.
#![deny(clippy::wildcard_enum_match_arm)]

use std::collections::{BTreeMap, BTreeSet};

use hashbrown::HashMap;

use crate::date::Date;
use crate::declaration::Declaration;
use crate::entry::{Entry, Standing, Status};
use crate::error::Error;
use crate::op::Counts;
use crate::priority::Priority;
use crate::rules;

mod apply;
mod claim;
mod effect;
mod enact;
mod inspect;
mod keys;
mod kin;
mod lane;
mod replay;
mod returns;
mod slots;

pub use effect::{Cause, Effect, Handle, Ledger, Whole};
pub use replay::Replay;

use keys::Keys;
use lane::Lane;
use slots::{Slot, SlotId, Slots};

/// A journal in memory. Its data is elsewhere: an entry has a handle `D` to it.
#[derive(Debug)]
pub struct State<D> {
    slots: Slots<D>,
    /// What can be handed out, by priority.
    ready: BTreeMap<Priority, Lane>,
    /// What waits for the processing entry of its key, by arrival.
    blocked: BTreeMap<u64, SlotId>,
    processing: BTreeMap<u64, SlotId>,
    dead: BTreeMap<u64, SlotId>,
    /// When waiting entries expire, of those that do.
    expiries: BTreeSet<(Date, SlotId)>,
    /// When leases run out.
    deadlines: BTreeSet<(Date, SlotId)>,
    /// By incarnation and counter of the token.
    leases: HashMap<(u64, u64), SlotId>,
    keys: Keys,
    /// By version; the last is in force.
    declarations: BTreeMap<u32, Declaration>,
    counts: Counts,
    next_seq: u64,
}

impl<D: Handle> State<D> {
    /// An empty journal.
    #[must_use]
    pub fn new(declaration: Declaration) -> Self {
        Self {
            slots: Slots::new(),
            ready: BTreeMap::new(),
            blocked: BTreeMap::new(),
            processing: BTreeMap::new(),
            dead: BTreeMap::new(),
            expiries: BTreeSet::new(),
            deadlines: BTreeSet::new(),
            leases: HashMap::new(),
            keys: Keys::new(declaration.merge),
            declarations: BTreeMap::from([(1, declaration)]),
            counts: Counts::default(),
            next_seq: 1,
        }
    }

    /// The declaration in force, with its version.
    #[must_use]
    pub fn declaration(&self) -> (u32, &Declaration) {
        let (version, declaration) = self
            .declarations
            .last_key_value()
            .expect("a journal has a declaration");
        (*version, declaration)
    }

    /// All versions of the declaration.
    #[must_use]
    pub fn declarations(&self) -> &BTreeMap<u32, Declaration> {
        &self.declarations
    }

    /// What happened so far.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The number that the next entry gets.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// How many entries there are, waiting, processing or dead.
    #[must_use]
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether nothing waits, is processed or is dead.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.slots.len() == 0
    }

    /// The declaration that an entry was written with.
    fn declared(&self, version: u32) -> &Declaration {
        self.declarations
            .get(&version)
            .unwrap_or_else(|| self.declaration().1)
    }

    fn slot(&self, id: SlotId) -> &Slot<D> {
        self.slots.get(id)
    }

    fn is_blocked(&self, id: SlotId) -> bool {
        self.blocked.contains_key(&self.slot(id).seq)
    }

    /// When anything is to be done without being asked: a lease runs out, or an entry expires.
    #[must_use]
    pub fn next_sweep(&self) -> Option<Date> {
        let lease = self.deadlines.first().map(|(deadline, _)| *deadline);
        let expiry = self.expiries.first().map(|(date, _)| *date);
        let earliest = [lease, expiry].into_iter().flatten().min()?;
        Some(Date::from_millis(earliest.as_millis().saturating_add(1)))
    }

    /// The earliest process date of what can be handed out, which may be past.
    #[must_use]
    pub fn next_due(&self) -> Option<Date> {
        self.ready.values().filter_map(Lane::first).min()
    }

    /// When to claim again at the latest: an entry becomes due, or a lease runs out and its entry may come back.
    #[must_use]
    pub fn next_wake(&self) -> Option<Date> {
        let lease = self
            .deadlines
            .first()
            .map(|(deadline, _)| Date::from_millis(deadline.as_millis().saturating_add(1)));
        [self.next_due(), lease].into_iter().flatten().min()
    }

    /// An entry as it is shown.
    fn entry(&self, id: SlotId) -> Entry<D> {
        let slot = self.slot(id);
        let (status, lease, death) = match &slot.standing {
            Standing::Waiting if self.is_blocked(id) => (Status::Blocked, None, None),
            Standing::Waiting => (Status::Waiting, None, None),
            Standing::Processing(lease) => (Status::Processing, Some(lease.as_ref().clone()), None),
            Standing::Dead(death) => (Status::Dead, None, Some(death.as_ref().clone())),
        };
        let deadline = lease
            .as_ref()
            .map(|lease| rules::deadline(lease.start, self.declared(slot.meta.version)));
        Entry {
            seq: slot.seq,
            key: slot.key.clone(),
            meta: slot.meta,
            status,
            lease,
            deadline,
            death,
            data: slot.data.clone(),
        }
    }

    /// A declaration that must not change while there are entries.
    fn check_change(&self, new: &Declaration) -> Result<(), Error> {
        if new.merge != self.declaration().1.merge && !self.is_empty() {
            return Err(Error::invalid(
                "`merge` cannot change while the journal holds entries; let it drain first",
            ));
        }
        if self.declarations.len() >= VERSIONS_MAX && !self.is_empty() {
            return Err(Error::invalid(format!(
                "entries of {VERSIONS_MAX} versions of the declaration may still be there; let the journal drain first"
            )));
        }
        Ok(())
    }
}

/// How many versions of the declaration are kept while entries of them may be there.
const VERSIONS_MAX: usize = 100;

#[cfg(test)]
mod tests;
