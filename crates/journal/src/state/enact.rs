//! Changes entries and keeps the indexes true. Decides nothing: what is asked is done, by `apply` and by a replay alike.

use super::slots::{Slot, SlotId};
use super::{Handle, State, Whole};
use crate::date::Date;
use crate::entry::{Meta, Standing};
use crate::key::Key;
use crate::op::Counts;
use crate::rules;

impl<D: Handle> State<D> {
    /// A new entry.
    pub(super) fn enter(&mut self, whole: Whole, data: D) -> SlotId {
        self.next_seq = self.next_seq.max(whole.seq + 1);
        let id = self.slots.insert(Slot {
            seq: whole.seq,
            key: whole.key,
            meta: whole.meta,
            standing: whole.standing,
            data,
        });
        self.attach(id);
        id
    }

    /// An entry gets other data and with it all else anew; the old data is given back.
    pub(super) fn renew(&mut self, id: SlotId, meta: Meta, standing: Standing, data: D) -> D {
        self.detach(id);
        let slot = self.slots.get_mut(id);
        slot.meta = meta;
        slot.standing = standing;
        let old = std::mem::replace(&mut slot.data, data);
        self.attach(id);
        old
    }

    /// An entry stands elsewhere or is known differently; its data stays.
    pub(super) fn change(&mut self, id: SlotId, meta: Meta, standing: Standing) {
        self.detach(id);
        let slot = self.slots.get_mut(id);
        slot.meta = meta;
        slot.standing = standing;
        self.attach(id);
    }

    /// The holder of a lease was heard of.
    pub(super) fn beat(&mut self, id: SlotId, start: Date) {
        let declared = self.declared(self.slot(id).meta.version);
        let next = rules::deadline(start, declared);
        let Standing::Processing(lease) = &self.slot(id).standing else {
            return;
        };
        let last = rules::deadline(lease.start, declared);
        self.deadlines.remove(&(last, id));
        self.deadlines.insert((next, id));
        if let Standing::Processing(lease) = &mut self.slots.get_mut(id).standing {
            lease.start = start;
        }
    }

    /// An entry leaves; its data is given back.
    pub(super) fn leave(&mut self, id: SlotId) -> D {
        self.detach(id);
        self.slots.remove(id).data
    }

    /// The entries whose data is where `there` says, in no order.
    pub fn find(&self, there: impl Fn(&D) -> bool) -> Vec<u32> {
        self.slots
            .iter()
            .filter(|(_, slot)| there(&slot.data))
            .map(|(id, _)| id)
            .collect()
    }

    /// All of an entry but its data.
    #[must_use]
    pub fn whole(&self, id: u32) -> Whole {
        let slot = self.slot(id);
        Whole {
            seq: slot.seq,
            key: slot.key.clone(),
            meta: slot.meta,
            standing: slot.standing.clone(),
        }
    }

    /// The key of an entry.
    #[must_use]
    pub fn key(&self, id: u32) -> &Key {
        &self.slot(id).key
    }

    /// Where the data of an entry is.
    #[must_use]
    pub fn data(&self, id: u32) -> &D {
        &self.slot(id).data
    }

    /// Where the data of an entry is, if there still is one of this number.
    #[must_use]
    pub fn home(&self, id: u32) -> Option<&D> {
        self.slots.try_get(id).map(|slot| &slot.data)
    }

    /// The data of an entry is elsewhere now; gives back where it was.
    pub fn relocate(&mut self, id: u32, data: D) -> D {
        std::mem::replace(&mut self.slots.get_mut(id).data, data)
    }

    pub(super) fn count(&mut self, more: &Counts) {
        let more = more.values();
        for ((_, total), more) in self.counts.fields_mut().into_iter().zip(more) {
            *total += more;
        }
    }

    /// Puts an entry into the indexes of where it stands.
    fn attach(&mut self, id: SlotId) {
        let slot = self.slots.get(id);
        let (seq, meta, key) = (slot.seq, slot.meta, slot.key.clone());
        match &slot.standing {
            Standing::Waiting => {
                self.index_key(Side::Waiting, &key, seq, id);
                if let Some(date) = meta.expiration.date() {
                    self.expiries.insert((date, id));
                }
                if self.has_predecessor(&key) {
                    self.blocked.insert(seq, id);
                } else {
                    self.make_ready(id);
                }
            }
            Standing::Processing(lease) => {
                let token = lease.token;
                let deadline = rules::deadline(lease.start, self.declared(meta.version));
                self.processing.insert(seq, id);
                self.deadlines.insert((deadline, id));
                self.leases.insert((token.incarnation, token.counter), id);
                self.index_key(Side::Processing, &key, seq, id);
                self.block_successor(&key);
            }
            Standing::Dead(_) => {
                self.dead.insert(seq, id);
                self.index_key(Side::Dead, &key, seq, id);
            }
        }
    }

    /// Takes an entry out of the indexes of where it stands.
    fn detach(&mut self, id: SlotId) {
        let slot = self.slots.get(id);
        let (seq, meta, key) = (slot.seq, slot.meta, slot.key.clone());
        match &slot.standing {
            Standing::Waiting => {
                self.waiting_keys.remove(&key, seq, id);
                if let Some(date) = meta.expiration.date() {
                    self.expiries.remove(&(date, id));
                }
                if self.blocked.remove(&seq).is_none() {
                    self.unready(id);
                }
            }
            Standing::Processing(lease) => {
                let token = lease.token;
                let deadline = rules::deadline(lease.start, self.declared(meta.version));
                self.processing.remove(&seq);
                self.deadlines.remove(&(deadline, id));
                self.leases.remove(&(token.incarnation, token.counter));
                self.processing_keys.remove(&key, seq, id);
                self.free_successor(&key);
            }
            Standing::Dead(_) => {
                self.dead.remove(&seq);
                self.dead_keys.remove(&key, seq, id);
            }
        }
    }

    fn index_key(&mut self, side: Side, key: &Key, seq: u64, id: SlotId) {
        let slots = &self.slots;
        let index = match side {
            Side::Waiting => &mut self.waiting_keys,
            Side::Processing => &mut self.processing_keys,
            Side::Dead => &mut self.dead_keys,
        };
        index.insert(key, seq, id, |id| &slots.get(id).key);
    }

    fn make_ready(&mut self, id: SlotId) {
        let slot = self.slots.get(id);
        self.ready
            .entry(slot.meta.priority)
            .or_default()
            .insert((slot.meta.process, slot.seq), id);
    }

    fn unready(&mut self, id: SlotId) {
        let slot = self.slots.get(id);
        let priority = slot.meta.priority;
        if let Some(list) = self.ready.get_mut(&priority) {
            list.remove(&(slot.meta.process, slot.seq));
            if list.is_empty() {
                self.ready.remove(&priority);
            }
        }
    }

    /// Whether an entry of this key must end before the next is handed out.
    fn has_predecessor(&self, key: &Key) -> bool {
        self.processing_keys.is_one_a_key()
            && self
                .processing_keys
                .first(key, |id| &self.slot(id).key)
                .is_some()
    }

    fn block_successor(&mut self, key: &Key) {
        if !self.processing_keys.is_one_a_key() {
            return;
        }
        if let Some(id) = self.waiting_of(key) {
            self.unready(id);
            self.blocked.insert(self.slot(id).seq, id);
        }
    }

    fn free_successor(&mut self, key: &Key) {
        if !self.processing_keys.is_one_a_key() {
            return;
        }
        if let Some(id) = self.waiting_of(key) {
            let seq = self.slot(id).seq;
            self.blocked.remove(&seq);
            self.make_ready(id);
        }
    }
}

#[derive(Clone, Copy)]
enum Side {
    Waiting,
    Processing,
    Dead,
}
