//! Entries of one key: who is processed, who waits behind it, who is dead.

use super::keys::{Named, Side};
use super::slots::SlotId;
use super::{Handle, State};
use crate::entry::Standing;
use crate::key::Key;

/// The live entries of a key that has at most one of each.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Pair {
    pub(super) waiting: Option<SlotId>,
    pub(super) processing: Option<SlotId>,
}

impl<D: Handle> State<D> {
    /// The live entries of a key; none where it may have any number.
    pub(super) fn pair(&self, key: &Key) -> Pair {
        match self.keys.head(key, |id| &self.slot(id).key) {
            None => Pair::default(),
            Some(head) => {
                let slot = self.slot(head);
                match side(&slot.standing) {
                    Side::Processing => Pair {
                        waiting: slot.behind.get(),
                        processing: Some(head),
                    },
                    Side::Waiting | Side::Dead => Pair {
                        waiting: Some(head),
                        processing: None,
                    },
                }
            }
        }
    }

    /// The waiting entry of a key, where the same key waiting twice is one entry.
    pub(super) fn waiting_of(&self, key: &Key) -> Option<SlotId> {
        self.pair(key).waiting
    }

    /// The entries of a key on one side, the oldest first, at most so many.
    pub(super) fn all_of(&self, side: Side, key: &Key, most: usize) -> Vec<SlotId> {
        let one = match side {
            _ if !self.keys.is_one_a_key() => None,
            Side::Waiting => self.pair(key).waiting,
            Side::Processing => self.pair(key).processing,
            Side::Dead => None,
        };
        match one {
            Some(one) => vec![one],
            None => self.keys.crowd(side, key, most, |id| &self.slot(id).key),
        }
    }

    /// An entry was on one side of its key, or nowhere, and is on the side of where it stands now. Says whether it must
    /// wait for another.
    pub(super) fn join(&mut self, id: SlotId, before: Option<Side>) -> bool {
        let now = side(&self.slot(id).standing);
        if before == Some(now) {
            return now == Side::Waiting && self.waits_behind(id);
        }
        let stays_live = |side| matches!(side, Side::Waiting | Side::Processing);
        if self.keys.is_one_a_key() && stays_live(now) && before.is_some_and(stays_live) {
            // It is the head: who waits behind another is not handed out, and who comes back found nobody waiting.
            return false;
        }
        if let Some(before) = before {
            self.part(id, before);
        }
        let slots = &self.slots;
        let slot = slots.get(id);
        let key_of = |id| &slots.get(id).key;
        if now == Side::Dead || !self.keys.is_one_a_key() {
            self.keys.enter(now, named(slot, id));
            return false;
        }
        match self.keys.head(&slot.key, key_of) {
            None => {
                self.keys.put_head(&slot.key, id, key_of);
                false
            }
            Some(head) if now == Side::Waiting => {
                self.slots.get_mut(head).behind.set(Some(id));
                true
            }
            Some(waiting) => {
                self.keys.change_head(&slot.key, waiting, Some(id));
                self.slots.get_mut(id).behind.set(Some(waiting));
                self.block(waiting);
                false
            }
        }
    }

    /// An entry was on this side of its key, and is not any more. Who waited behind it is ready.
    pub(super) fn part(&mut self, id: SlotId, before: Side) {
        let behind = self.slots.get_mut(id).behind.take();
        let slot = self.slots.get(id);
        if before == Side::Dead || !self.keys.is_one_a_key() {
            self.keys.leave(before, named(slot, id));
            return;
        }
        if self.keys.change_head(&slot.key, id, behind) {
            if let Some(behind) = behind {
                self.unblock(behind);
            }
        } else if let Some(head) = self.keys.head(&slot.key, |id| &self.slots.get(id).key) {
            self.slots.get_mut(head).behind.set(None);
        }
    }

    fn waits_behind(&self, id: SlotId) -> bool {
        let head = self.pair(&self.slot(id).key).processing;
        head.is_some_and(|head| head != id)
    }
}

fn named<D>(slot: &super::Slot<D>, id: SlotId) -> Named<'_> {
    Named {
        key: &slot.key,
        seq: slot.seq,
        id,
    }
}

pub(super) fn side(standing: &Standing) -> Side {
    match standing {
        Standing::Waiting => Side::Waiting,
        Standing::Processing(_) => Side::Processing,
        Standing::Dead(_) => Side::Dead,
    }
}
