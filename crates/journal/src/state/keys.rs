//! Entries by key. Keys are compared whole; a hash only finds the candidates.

use std::collections::BTreeSet;
use std::hash::{BuildHasher as _, RandomState};

use hashbrown::HashTable;

use super::slots::SlotId;
use crate::key::Key;

/// Finds entries by key, where the key is kept once, in the entry itself.
#[derive(Debug)]
pub(super) struct KeyIndex {
    /// Seeded by chance: a stranger cannot choose keys that collide.
    hasher: RandomState,
    table: Table,
}

#[derive(Debug)]
enum Table {
    /// At most one entry a key.
    One(HashTable<SlotId>),
    /// Any number of entries a key: by hash and arrival, because a million equal keys must not be searched through.
    Many(BTreeSet<(u64, u64, SlotId)>),
}

impl KeyIndex {
    pub(super) fn new(one_a_key: bool) -> Self {
        let table = if one_a_key {
            Table::One(HashTable::new())
        } else {
            Table::Many(BTreeSet::new())
        };
        Self {
            hasher: RandomState::new(),
            table,
        }
    }

    pub(super) fn is_one_a_key(&self) -> bool {
        matches!(self.table, Table::One(_))
    }

    fn hash(&self, key: &Key) -> u64 {
        self.hasher.hash_one(key.as_str())
    }

    /// The oldest entry of a key.
    pub(super) fn first<'a>(
        &self,
        key: &Key,
        key_of: impl Fn(SlotId) -> &'a Key,
    ) -> Option<SlotId> {
        let hash = self.hash(key);
        match &self.table {
            Table::One(table) => table.find(hash, |id| key_of(*id) == key).copied(),
            Table::Many(set) => set
                .range((hash, 0, 0)..=(hash, u64::MAX, SlotId::MAX))
                .map(|(_, _, id)| *id)
                .find(|id| key_of(*id) == key),
        }
    }

    /// The entries of a key, the oldest first, at most so many.
    pub(super) fn all<'a>(
        &self,
        key: &Key,
        most: usize,
        key_of: impl Fn(SlotId) -> &'a Key,
    ) -> Vec<SlotId> {
        match &self.table {
            Table::One(_) => self.first(key, key_of).into_iter().collect(),
            Table::Many(set) => {
                let hash = self.hash(key);
                set.range((hash, 0, 0)..=(hash, u64::MAX, SlotId::MAX))
                    .map(|(_, _, id)| *id)
                    .filter(|id| key_of(*id) == key)
                    .take(most)
                    .collect()
            }
        }
    }

    /// Adds an entry. Where a key has one entry at most, the caller made sure that it has none.
    pub(super) fn insert<'a>(
        &mut self,
        key: &Key,
        seq: u64,
        id: SlotId,
        key_of: impl Fn(SlotId) -> &'a Key,
    ) {
        let hash = self.hash(key);
        match &mut self.table {
            Table::One(table) => {
                let hasher = &self.hasher;
                table.insert_unique(hash, id, |id| hasher.hash_one(key_of(*id).as_str()));
            }
            Table::Many(set) => {
                set.insert((hash, seq, id));
            }
        }
    }

    /// Takes an entry out.
    pub(super) fn remove(&mut self, key: &Key, seq: u64, id: SlotId) {
        let hash = self.hash(key);
        match &mut self.table {
            Table::One(table) => {
                if let Ok(found) = table.find_entry(hash, |other| *other == id) {
                    found.remove();
                }
                if table.is_empty() {
                    *table = HashTable::new();
                }
            }
            Table::Many(set) => {
                set.remove(&(hash, seq, id));
            }
        }
    }
}
