//! Looking without touching.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::keys::Side;
use super::slots::SlotId;
use super::{Handle, State};
use crate::date::Date;
use crate::declaration::Declaration;
use crate::entry::{Cursor, Entry, Page, Query, Standing, Status};
use crate::key::Key;
use crate::op::{Depth, Op, Stats};
use crate::priority::Priority;

/// How many entries one page may look at: a rare prefix must not hold up everybody else.
const EXAMINED_MAX: usize = 10_000;

impl<D: Handle> State<D> {
    /// The entries of a key: processing, waiting, dead; as many as fit into an answer.
    pub(super) fn get(&self, key: &Key) -> Vec<Entry<D>> {
        let mut bytes = 0;
        [Side::Processing, Side::Waiting, Side::Dead]
            .into_iter()
            .flat_map(|side| self.all_of(side, key, Op::COUNT_MAX))
            .take_while(|id| {
                let first = bytes == 0;
                bytes += self.slot(*id).data.data_len();
                first || bytes <= Op::BYTES_MAX
            })
            .map(|id| self.entry(id))
            .collect()
    }

    /// The dead entries of a key, the oldest first.
    pub(super) fn dead_of(&self, key: &Key) -> Vec<SlotId> {
        self.all_of(Side::Dead, key, Op::KEY_ENTRIES_MAX)
    }

    /// How many entries of a key an operation on it concerns.
    #[must_use]
    pub fn count_of(&self, key: &Key) -> usize {
        [Side::Processing, Side::Waiting, Side::Dead]
            .into_iter()
            .map(|side| self.all_of(side, key, Op::KEY_ENTRIES_MAX).len())
            .sum()
    }

    pub(super) fn list(&self, query: &Query) -> Page<D> {
        let limit = query.limit.clamp(1, Query::LIMIT_MAX) as usize;
        let mut page = Page {
            entries: Vec::new(),
            next: None,
        };
        let mut bytes = 0;
        let places = query
            .stages()
            .into_iter()
            .flat_map(|stage| self.stage(stage, query));
        for (examined, (cursor, id)) in places.enumerate() {
            if page.entries.len() == limit || examined == EXAMINED_MAX || bytes > Op::BYTES_MAX {
                return page;
            }
            let slot = self.slot(id);
            page.next = Some(cursor);
            if query.wants(&slot.key, slot.meta.priority) {
                bytes += slot.data.data_len();
                page.entries.push(self.entry(id));
            }
        }
        page.next = None;
        page
    }

    /// The entries of one status, after the cursor.
    fn stage<'a>(
        &'a self,
        status: Status,
        query: &Query,
    ) -> Box<dyn Iterator<Item = (Cursor, SlotId)> + 'a> {
        let after = query.after.filter(|after| after.status == status);
        let by_seq = match status {
            Status::Waiting => return self.stage_waiting(after, query.priority),
            Status::Processing => &self.processing,
            Status::Blocked => &self.blocked,
            Status::Dead => &self.dead,
        };
        let from = after.map_or(Bound::Unbounded, |after| Bound::Excluded(after.seq));
        Box::new(
            by_seq
                .range((from, Bound::Unbounded))
                .map(move |(seq, id)| {
                    let cursor = Cursor {
                        status,
                        priority: Priority(0),
                        process: Date::default(),
                        seq: *seq,
                    };
                    (cursor, *id)
                }),
        )
    }

    fn stage_waiting(
        &self,
        after: Option<Cursor>,
        only: Option<Priority>,
    ) -> Box<dyn Iterator<Item = (Cursor, SlotId)> + '_> {
        let first = after.map_or(Priority(0), |after| after.priority);
        let lanes = self
            .ready
            .range(first..)
            .filter(move |(priority, _)| only.is_none_or(|only| only == **priority));
        Box::new(lanes.flat_map(move |(priority, lane)| {
            let place = after
                .filter(|after| after.priority == *priority)
                .map(|after| (after.process, after.seq));
            lane.after(place).map(move |((process, seq), id)| {
                let cursor = Cursor {
                    status: Status::Waiting,
                    priority: *priority,
                    process,
                    seq,
                };
                (cursor, id)
            })
        }))
    }

    /// Numbers.
    #[must_use]
    pub fn stats(&mut self, now: Date) -> Stats {
        let mut depths: BTreeMap<Priority, Depth> = BTreeMap::new();
        for (priority, lane) in &mut self.ready {
            let depth = depth_of(&mut depths, *priority);
            depth.waiting = lane.len() as u64;
            depth.due = lane.count_due(now);
        }
        for id in self.blocked.values() {
            depth_of(&mut depths, self.slot(*id).meta.priority).blocked += 1;
        }
        for id in self.processing.values() {
            depth_of(&mut depths, self.slot(*id).meta.priority).processing += 1;
        }
        Stats {
            depths: depths.into_values().collect(),
            dead: self.dead.len() as u64,
            oldest_due: self.next_due().filter(|date| *date <= now),
            next_due: self.next_after(now),
            oldest_lease: self.oldest_lease(),
            counts: self.counts,
            version: self.declaration().0,
        }
    }

    /// The next process date that is not yet reached.
    #[must_use]
    pub fn next_after(&self, now: Date) -> Option<Date> {
        let lanes = self.ready.values();
        lanes.filter_map(|lane| lane.first_after(now)).min()
    }

    fn oldest_lease(&self) -> Option<Date> {
        self.processing
            .values()
            .filter_map(|id| match &self.slot(*id).standing {
                Standing::Processing(lease) => Some(lease.start),
                Standing::Waiting | Standing::Dead(_) => None,
            })
            .min()
    }

    pub(super) fn put_declaration(&mut self, version: u32, declaration: Declaration) {
        if self.is_empty() {
            // No entry was written with an older one.
            self.declarations.clear();
            self.keys.reset(declaration.merge);
        }
        self.declarations.insert(version, declaration);
    }
}

fn depth_of(depths: &mut BTreeMap<Priority, Depth>, priority: Priority) -> &mut Depth {
    depths.entry(priority).or_insert(Depth {
        priority,
        waiting: 0,
        due: 0,
        blocked: 0,
        processing: 0,
    })
}
