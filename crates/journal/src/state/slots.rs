//! Where entries lie in memory: in pages, so that a million of them never move and none is allocated alone.

use crate::entry::{Meta, Standing};
use crate::key::Key;

/// The place of an entry in memory.
pub(super) type SlotId = u32;

/// An entry in memory.
#[derive(Debug)]
pub(super) struct Slot<D> {
    pub(super) seq: u64,
    pub(super) key: Key,
    pub(super) meta: Meta,
    pub(super) standing: Standing,
    pub(super) data: D,
    /// The entry of the same key that waits until this one is processed.
    pub(super) behind: Link,
}

/// Another entry, or none: smaller than an option of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Link(SlotId);

impl Link {
    /// As many entries do not fit into memory.
    pub(super) const NONE: Self = Self(SlotId::MAX);

    pub(super) fn get(self) -> Option<SlotId> {
        (self != Self::NONE).then_some(self.0)
    }

    pub(super) fn set(&mut self, id: Option<SlotId>) {
        self.0 = id.unwrap_or(Self::NONE.0);
    }

    pub(super) fn take(&mut self) -> Option<SlotId> {
        std::mem::replace(self, Self::NONE).get()
    }
}

const PAGE_SLOTS: usize = 1_024;

#[derive(Debug)]
pub(super) struct Slots<D> {
    pages: Vec<Vec<Option<Slot<D>>>>,
    free: Vec<SlotId>,
    len: usize,
}

impl<D> Slots<D> {
    pub(super) fn new() -> Self {
        Self {
            pages: Vec::new(),
            free: Vec::new(),
            len: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    pub(super) fn get(&self, id: SlotId) -> &Slot<D> {
        let (page, place) = split(id);
        self.pages[page][place]
            .as_ref()
            .expect("an index points to an entry")
    }

    /// The entry at a place, if there is one.
    pub(super) fn try_get(&self, id: SlotId) -> Option<&Slot<D>> {
        let (page, place) = split(id);
        self.pages.get(page)?.get(place)?.as_ref()
    }

    pub(super) fn get_mut(&mut self, id: SlotId) -> &mut Slot<D> {
        let (page, place) = split(id);
        self.pages[page][place]
            .as_mut()
            .expect("an index points to an entry")
    }

    pub(super) fn insert(&mut self, slot: Slot<D>) -> SlotId {
        self.len += 1;
        if let Some(id) = self.free.pop() {
            let (page, place) = split(id);
            self.pages[page][place] = Some(slot);
            return id;
        }
        if self
            .pages
            .last()
            .is_none_or(|page| page.len() == PAGE_SLOTS)
        {
            self.pages.push(Vec::with_capacity(PAGE_SLOTS));
        }
        let page = self.pages.len() - 1;
        self.pages[page].push(Some(slot));
        SlotId::try_from(page * PAGE_SLOTS + self.pages[page].len() - 1)
            .expect("four thousand million entries do not fit into memory")
    }

    pub(super) fn remove(&mut self, id: SlotId) -> Slot<D> {
        let (page, place) = split(id);
        let slot = self.pages[page][place]
            .take()
            .expect("an index points to an entry");
        self.len -= 1;
        if self.len == 0 {
            // The memory of a great backlog is given back when it is gone.
            self.pages.clear();
            self.free = Vec::new();
        } else {
            self.free.push(id);
        }
        slot
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (SlotId, &Slot<D>)> {
        self.pages.iter().enumerate().flat_map(|(page, slots)| {
            slots.iter().enumerate().filter_map(move |(place, slot)| {
                let id = SlotId::try_from(page * PAGE_SLOTS + place).ok()?;
                Some((id, slot.as_ref()?))
            })
        })
    }
}

fn split(id: SlotId) -> (usize, usize) {
    let id = id as usize;
    (id / PAGE_SLOTS, id % PAGE_SLOTS)
}
