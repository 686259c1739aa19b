//! Changes entries and keeps the indexes true. Decides nothing: what is asked is done, by `apply` and by a replay alike.

use super::keys::Side;
use super::kin::side;
use super::slots::{Link, Slot, SlotId};
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
            behind: Link::NONE,
        });
        self.stand(id, None);
        id
    }

    /// An entry gets other data and with it all else anew; the old data is given back.
    pub(super) fn renew(&mut self, id: SlotId, meta: Meta, standing: Standing, data: D) -> D {
        self.change(id, meta, standing);
        self.relocate(id, data)
    }

    /// An entry stands elsewhere or is known differently; its data stays.
    pub(super) fn change(&mut self, id: SlotId, meta: Meta, standing: Standing) {
        let before = self.step_back(id);
        let slot = self.slots.get_mut(id);
        slot.meta = meta;
        slot.standing = standing;
        self.stand(id, Some(before));
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
        let before = self.step_back(id);
        self.part(id, before);
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

    /// An entry that is in no list is put into those of where it stands; it was on that side of its key before.
    fn stand(&mut self, id: SlotId, before: Option<Side>) {
        let waits_for_another = self.join(id, before);
        let slot = self.slots.get(id);
        let seq = slot.seq;
        match &slot.standing {
            Standing::Waiting => {
                if let Some(date) = slot.meta.expiration.date() {
                    self.expiries.insert((date, id));
                }
                if waits_for_another {
                    self.blocked.insert(seq, id);
                } else {
                    self.make_ready(id);
                }
            }
            Standing::Processing(lease) => {
                let token = lease.token;
                let deadline = rules::deadline(lease.start, self.declared(slot.meta.version));
                self.processing.insert(seq, id);
                self.deadlines.insert((deadline, id));
                self.leases.insert((token.incarnation, token.counter), id);
            }
            Standing::Dead(_) => {
                self.dead.insert(seq, id);
            }
        }
    }

    /// Takes an entry out of the lists of where it stands; says on which side of its key it still is.
    fn step_back(&mut self, id: SlotId) -> Side {
        let slot = self.slots.get(id);
        let seq = slot.seq;
        match &slot.standing {
            Standing::Waiting => {
                if let Some(date) = slot.meta.expiration.date() {
                    self.expiries.remove(&(date, id));
                }
                if self.blocked.remove(&seq).is_none() {
                    self.unready(id);
                }
            }
            Standing::Processing(lease) => {
                let token = lease.token;
                let deadline = rules::deadline(lease.start, self.declared(slot.meta.version));
                self.processing.remove(&seq);
                self.deadlines.remove(&(deadline, id));
                self.leases.remove(&(token.incarnation, token.counter));
            }
            Standing::Dead(_) => {
                self.dead.remove(&seq);
            }
        }
        side(&self.slots.get(id).standing)
    }

    /// It must wait for another entry of its key.
    pub(super) fn block(&mut self, id: SlotId) {
        self.unready(id);
        self.blocked.insert(self.slots.get(id).seq, id);
    }

    /// The other entry of its key is not processed any more.
    pub(super) fn unblock(&mut self, id: SlotId) {
        if self.blocked.remove(&self.slots.get(id).seq).is_some() {
            self.make_ready(id);
        }
    }

    fn make_ready(&mut self, id: SlotId) {
        let slot = self.slots.get(id);
        self.ready
            .entry(slot.meta.priority)
            .or_default()
            .insert(slot.meta.process, slot.seq, id);
    }

    fn unready(&mut self, id: SlotId) {
        let slot = self.slots.get(id);
        let priority = slot.meta.priority;
        if let Some(lane) = self.ready.get_mut(&priority) {
            lane.remove(slot.meta.process, slot.seq);
            if lane.is_empty() {
                self.ready.remove(&priority);
            }
        }
    }
}
