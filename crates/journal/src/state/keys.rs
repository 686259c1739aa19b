//! Entries by key. Keys are compared whole; a hash only finds the candidates.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;

use super::slots::SlotId;
use crate::key::Key;

/// Finds entries by key, where the key is kept once, in the entry itself.
#[derive(Debug)]
pub(super) struct Keys {
    /// Seeded by chance: a stranger cannot choose keys that collide.
    hasher: RandomState,
    live: Live,
    dead: Crowd,
}

/// Entries that wait or are processed.
#[derive(Debug)]
enum Live {
    /// A key has at most one of each: its head is the one that is processed, else the one that waits.
    Heads(HashTable<SlotId>),
    /// Any number.
    Crowds { waiting: Crowd, processing: Crowd },
}

/// By hash and arrival, because a million equal keys must not be searched through.
type Crowd = BTreeSet<(u64, u64, SlotId)>;

/// Where an entry is looked for by its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Waiting,
    Processing,
    Dead,
}

/// An entry with what finds it.
#[derive(Clone, Copy)]
pub(super) struct Named<'a> {
    pub(super) key: &'a Key,
    pub(super) seq: u64,
    pub(super) id: SlotId,
}

/// How many heads have room that is not given back when they are gone.
const ROOM_KEPT: usize = 1_024;

impl Keys {
    /// For at most one waiting and one processing entry a key, or for any number.
    pub(super) fn new(one_a_key: bool) -> Self {
        Self {
            hasher: RandomState::new(),
            live: Live::new(one_a_key),
            dead: Crowd::new(),
        }
    }

    /// The same for a journal without entries that was declared anew.
    pub(super) fn reset(&mut self, one_a_key: bool) {
        self.live = Live::new(one_a_key);
    }

    /// Whether a key has a head.
    pub(super) fn is_one_a_key(&self) -> bool {
        matches!(self.live, Live::Heads(_))
    }

    fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key.as_str())
    }

    /// The head of a key.
    pub(super) fn head<'a>(&self, key: &Key, key_of: impl Fn(SlotId) -> &'a Key) -> Option<SlotId> {
        match &self.live {
            Live::Heads(heads) => heads.find(self.hash(key), |id| key_of(*id) == key).copied(),
            Live::Crowds { .. } => None,
        }
    }

    /// Brings the heads of these keys near; changes nothing.
    pub(super) fn foresee<'a>(&self, named: impl Iterator<Item = (&'a Key, SlotId)>) {
        if let Live::Heads(heads) = &self.live {
            // All hashes first, so that the looks that follow do not wait for each other.
            let hashed: Vec<_> = named.map(|(key, id)| (self.hash(key), id)).collect();
            let found = hashed
                .iter()
                .filter(|(hash, id)| heads.find(*hash, |head| head == id).is_some());
            std::hint::black_box(found.count());
        }
    }

    /// The first head of a key.
    pub(super) fn put_head<'a>(
        &mut self,
        key: &Key,
        id: SlotId,
        key_of: impl Fn(SlotId) -> &'a Key,
    ) {
        let hash = self.hash(key);
        if let Live::Heads(heads) = &mut self.live {
            let hasher = &self.hasher;
            heads.insert_unique(hash, id, |id| hasher.hash_one(key_of(*id).as_str()));
        }
    }

    /// Another head of a key, or none; says whether `old` was it.
    pub(super) fn change_head(&mut self, key: &Key, old: SlotId, new: Option<SlotId>) -> bool {
        let hash = self.hash(key);
        let Live::Heads(heads) = &mut self.live else {
            return false;
        };
        let Ok(mut head) = heads.find_entry(hash, |id| *id == old) else {
            return false;
        };
        match new {
            Some(new) => *head.get_mut() = new,
            None => drop(head.remove()),
        }
        if heads.is_empty() && heads.capacity() > ROOM_KEPT {
            // The memory of a great backlog is given back when it is gone.
            *heads = HashTable::new();
        }
        true
    }

    /// The entries of a key on a side where it may have any number, the oldest first, at most so many.
    pub(super) fn crowd<'a>(
        &self,
        side: Side,
        key: &Key,
        most: usize,
        key_of: impl Fn(SlotId) -> &'a Key,
    ) -> Vec<SlotId> {
        let crowd = match (&self.live, side) {
            (_, Side::Dead) => &self.dead,
            (Live::Crowds { waiting, .. }, Side::Waiting) => waiting,
            (Live::Crowds { processing, .. }, Side::Processing) => processing,
            (Live::Heads(_), Side::Waiting | Side::Processing) => return Vec::new(),
        };
        let hash = self.hash(key);
        crowd
            .range((hash, 0, 0)..=(hash, u64::MAX, SlotId::MAX))
            .map(|(_, _, id)| *id)
            .filter(|id| key_of(*id) == key)
            .take(most)
            .collect()
    }

    /// Puts an entry among those of a side, where a key may have any number.
    pub(super) fn enter(&mut self, side: Side, named: Named<'_>) {
        let place = (self.hash(named.key), named.seq, named.id);
        if let Some(crowd) = self.crowd_mut(side) {
            crowd.insert(place);
        }
    }

    /// Takes an entry from those of a side, where a key may have any number.
    pub(super) fn leave(&mut self, side: Side, named: Named<'_>) {
        let place = (self.hash(named.key), named.seq, named.id);
        if let Some(crowd) = self.crowd_mut(side) {
            crowd.remove(&place);
        }
    }

    fn crowd_mut(&mut self, side: Side) -> Option<&mut Crowd> {
        match (&mut self.live, side) {
            (_, Side::Dead) => Some(&mut self.dead),
            (Live::Crowds { waiting, .. }, Side::Waiting) => Some(waiting),
            (Live::Crowds { processing, .. }, Side::Processing) => Some(processing),
            (Live::Heads(_), Side::Waiting | Side::Processing) => None,
        }
    }
}

impl Live {
    fn new(one_a_key: bool) -> Self {
        if one_a_key {
            Self::Heads(HashTable::new())
        } else {
            Self::Crowds {
                waiting: Crowd::new(),
                processing: Crowd::new(),
            }
        }
    }
}
