//! What can be handed out of one priority, in order, and how much of it is due.

use std::collections::BTreeMap;
use std::ops::Bound;

use super::slots::SlotId;
use crate::date::Date;

/// Entries by process date and arrival.
#[derive(Debug)]
pub(super) struct Lane {
    entries: BTreeMap<(Date, u64), SlotId>,
    /// How many have a process date up to `counted`: counting a great backlog whenever somebody looks would hold up everybody.
    due: u64,
    counted: Date,
}

impl Default for Lane {
    fn default() -> Self {
        Self {
            entries: BTreeMap::new(),
            due: 0,
            counted: Date::from_millis(i64::MIN),
        }
    }
}

impl Lane {
    pub(super) fn insert(&mut self, process: Date, seq: u64, id: SlotId) {
        if self.entries.insert((process, seq), id).is_none() && process <= self.counted {
            self.due += 1;
        }
    }

    pub(super) fn remove(&mut self, process: Date, seq: u64) {
        if self.entries.remove(&(process, seq)).is_some() && process <= self.counted {
            self.due -= 1;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// The first process date.
    pub(super) fn first(&self) -> Option<Date> {
        self.entries
            .first_key_value()
            .map(|((process, _), _)| *process)
    }

    /// The first process date after a date.
    pub(super) fn first_after(&self, date: Date) -> Option<Date> {
        let mut later = self.after(Some((date, u64::MAX)));
        later.next().map(|((process, _), _)| process)
    }

    /// What is due, in order.
    pub(super) fn due_at(&self, now: Date) -> impl Iterator<Item = SlotId> + '_ {
        self.entries.range(..=(now, u64::MAX)).map(|(_, id)| *id)
    }

    /// Everything behind a place, in order.
    pub(super) fn after(
        &self,
        place: Option<(Date, u64)>,
    ) -> impl Iterator<Item = ((Date, u64), SlotId)> + '_ {
        let from = place.map_or(Bound::Unbounded, Bound::Excluded);
        let entries = self.entries.range((from, Bound::Unbounded));
        entries.map(|(place, id)| (*place, *id))
    }

    /// How many are due: counts only what became so since it was last asked.
    pub(super) fn count_due(&mut self, now: Date) -> u64 {
        let between = |from: Date, to: Date| {
            let from = Bound::Excluded((from, u64::MAX));
            let range = (from, Bound::Included((to, u64::MAX)));
            self.entries.range(range).count() as u64
        };
        if now > self.counted {
            self.due += between(self.counted, now);
        } else if now < self.counted {
            self.due -= between(now, self.counted);
        }
        self.counted = now;
        self.due
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Date {
        Date::from_millis(millis)
    }

    #[test]
    fn what_is_due_is_counted_whatever_the_clock_and_the_entries_do() {
        let mut lane = Lane::default();
        let mut model: Vec<(Date, u64)> = Vec::new();
        let mut chance = 1_u64;
        for seq in 0..2_000 {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            let date = at(i64::try_from(chance >> 56).unwrap());
            if chance >> 33 & 3 == 0 && !model.is_empty() {
                let (process, seq) =
                    model.swap_remove(usize::try_from(chance >> 40).unwrap() % model.len());
                lane.remove(process, seq);
            } else {
                lane.insert(date, seq, 0);
                model.push((date, seq));
            }
            let now = at(i64::try_from(chance >> 48 & 0xff).unwrap());
            let due = model.iter().filter(|(process, _)| *process <= now).count();
            assert_eq!(lane.count_due(now), due as u64);
        }
        assert!(lane.len() > 100);
    }
}
