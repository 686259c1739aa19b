//! Where the next claim starts to look.
//!
//! Entries that were handed out stay in the index as dead versions for as long as any old transaction is open. A claim that
//! walked over them would become slower with every entry done. So each process remembers, for each priority, a mark:
//! nothing that can be handed out is known to lie before it.
//!
//! What makes an entry claimable lowers the mark: an add, an entry that comes back, a successor whose predecessor ended;
//! in this process at once, in others through NOTIFY. A search that was under way at that moment has not seen the entry,
//! and must not raise the mark over it: see [`Flight`]. What slips through nevertheless (a lost notification, a claim
//! whose process died) is found by the full search of the tidying task.

use std::collections::{BTreeMap, HashMap};

use crate::date::Date;

/// A place in the list of one priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Position {
    pub(super) process: i64,
    pub(super) seq: i64,
}

impl Position {
    pub(super) const FIRST: Self = Self {
        process: i64::MIN,
        seq: 0,
    };

    /// The first place of a date.
    pub(super) fn of(process: i64) -> Self {
        Self { process, seq: 0 }
    }
}

#[derive(Debug)]
struct Mark {
    at: Position,
    /// The earliest process date that is known to wait here.
    next: Option<i64>,
}

#[derive(Debug, Default)]
pub(super) struct Marks {
    by_priority: BTreeMap<i16, Mark>,
    /// What was lowered since each search under way began.
    flights: HashMap<u64, BTreeMap<i16, Position>>,
    next_flight: u64,
}

/// A search that has begun: the marks as they were.
#[derive(Clone, Debug, Default)]
pub(super) struct Flight {
    id: u64,
    pub(super) priorities: Vec<i16>,
    pub(super) dates: Vec<i64>,
    pub(super) seqs: Vec<i64>,
}

impl Marks {
    /// Something can be handed out at this place, or will be.
    pub(super) fn lower(&mut self, priority: i16, at: Position) {
        for lowered in self.flights.values_mut() {
            let floor = lowered.entry(priority).or_insert(at);
            *floor = at.min(*floor);
        }
        let mark = self
            .by_priority
            .entry(priority)
            .or_insert(Mark { at, next: None });
        mark.at = mark.at.min(at);
        mark.next = earlier(mark.next, Some(at.process));
    }

    /// Whether anything is known of a priority.
    pub(super) fn knows(&self, priority: i16) -> bool {
        self.by_priority.contains_key(&priority)
    }

    /// Nothing is known any more.
    pub(super) fn reset(&mut self) {
        let all: Vec<i16> = self.by_priority.keys().copied().collect();
        for lowered in self.flights.values_mut() {
            lowered.extend(all.iter().map(|priority| (*priority, Position::FIRST)));
        }
        for mark in self.by_priority.values_mut() {
            mark.at = Position::FIRST;
        }
    }

    /// Before the search is sent to the server.
    pub(super) fn begin(&mut self) -> Flight {
        let id = self.next_flight;
        self.next_flight += 1;
        self.flights.insert(id, BTreeMap::new());
        let mut flight = Flight {
            id,
            ..Flight::default()
        };
        for (priority, mark) in &self.by_priority {
            flight.priorities.push(*priority);
            flight.dates.push(mark.at.process);
            flight.seqs.push(mark.at.seq);
        }
        flight
    }

    /// The search has failed: what it had in hand may be there again.
    pub(super) fn fail(&mut self, flight: &Flight) {
        self.flights.remove(&flight.id);
        self.reset();
    }

    /// The search found that the first entries that can be handed out, now or later, are `first`; of a priority that is
    /// not named, none. Nothing is said about what arrives after `now`.
    pub(super) fn finish(&mut self, flight: &Flight, first: &BTreeMap<i16, Position>, now: Date) {
        let lowered = self.flights.remove(&flight.id).unwrap_or_default();
        let horizon = Position::of(now.as_millis().saturating_add(1));
        for priority in &flight.priorities {
            let Some(mark) = self.by_priority.get_mut(priority) else {
                continue;
            };
            let found = first.get(priority).copied();
            let since = lowered.get(priority).copied();
            let to = [Some(horizon), found, since].into_iter().flatten().min();
            mark.at = mark.at.max(to.unwrap_or(horizon));
            mark.next = earlier(
                found.map(|place| place.process),
                since.map(|place| place.process),
            );
        }
    }

    /// As [`Marks::finish`] for a search that looked everywhere: it knows all priorities, and finds what was missed.
    pub(super) fn rebuild(&mut self, flight: &Flight, first: &BTreeMap<i16, Position>, now: Date) {
        let lowered = self.flights.get(&flight.id).cloned().unwrap_or_default();
        self.finish(flight, first, now);
        self.by_priority
            .retain(|priority, _| first.contains_key(priority) || lowered.contains_key(priority));
        for (priority, place) in first {
            self.lower(*priority, *place);
        }
    }

    /// The earliest process date that is known to wait, which may be past.
    pub(super) fn next_due(&self) -> Option<i64> {
        self.by_priority.values().filter_map(|mark| mark.next).min()
    }

    /// Nothing at or before `now` is known to wait any more; a wake-up for it was given.
    pub(super) fn next_after(&self, now: i64) -> Option<i64> {
        self.by_priority
            .values()
            .filter_map(|mark| mark.next)
            .filter(|date| *date > now)
            .min()
    }
}

fn earlier(one: Option<i64>, other: Option<i64>) -> Option<i64> {
    [one, other].into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(process: i64, seq: i64) -> Position {
        Position { process, seq }
    }

    fn at(marks: &mut Marks) -> Vec<(i16, i64, i64)> {
        let flight = marks.begin();
        marks.flights.remove(&flight.id);
        (0..flight.priorities.len())
            .map(|i| (flight.priorities[i], flight.dates[i], flight.seqs[i]))
            .collect()
    }

    #[test]
    fn a_search_raises_the_mark_to_what_it_left_but_not_into_the_future() {
        let mut marks = Marks::default();
        marks.lower(20, place(10, 1));
        let flight = marks.begin();
        marks.finish(
            &flight,
            &BTreeMap::from([(20, place(10, 7))]),
            Date::from_millis(50),
        );
        assert_eq!(at(&mut marks), [(20, 10, 7)]);
        assert_eq!(marks.next_due(), Some(10));
        let flight = marks.begin();
        marks.finish(
            &flight,
            &BTreeMap::from([(20, place(900, 8))]),
            Date::from_millis(50),
        );
        assert_eq!(at(&mut marks), [(20, 51, 0)]);
        assert_eq!(marks.next_due(), Some(900));
    }

    #[test]
    fn what_arrives_during_a_search_stays_after_the_mark() {
        let mut marks = Marks::default();
        marks.lower(20, place(10, 1));
        let flight = marks.begin();
        marks.lower(20, place(30, 5));
        marks.finish(&flight, &BTreeMap::new(), Date::from_millis(50));
        assert_eq!(at(&mut marks), [(20, 30, 5)]);
        assert_eq!(marks.next_due(), Some(30));
    }

    #[test]
    fn a_slower_search_does_not_undo_a_faster_one_nor_hide_an_arrival() {
        let mut marks = Marks::default();
        marks.lower(20, place(10, 1));
        let (slow, fast) = (marks.begin(), marks.begin());
        marks.finish(&fast, &BTreeMap::new(), Date::from_millis(50));
        marks.lower(20, place(20, 2));
        marks.finish(
            &slow,
            &BTreeMap::from([(20, place(40, 1))]),
            Date::from_millis(50),
        );
        assert_eq!(at(&mut marks), [(20, 20, 2)]);
    }

    #[test]
    fn a_full_search_finds_what_was_missed_and_forgets_what_is_gone() {
        let mut marks = Marks::default();
        marks.lower(20, place(10, 1));
        marks.lower(30, place(10, 1));
        let flight = marks.begin();
        marks.lower(40, place(70, 1));
        marks.rebuild(
            &flight,
            &BTreeMap::from([(50, place(5, 1))]),
            Date::from_millis(50),
        );
        assert_eq!(at(&mut marks), [(40, 70, 1), (50, 5, 1)]);
    }

    #[test]
    fn a_failed_search_starts_again() {
        let mut marks = Marks::default();
        marks.lower(20, place(10, 1));
        let (one, other) = (marks.begin(), marks.begin());
        marks.fail(&one);
        marks.finish(&other, &BTreeMap::new(), Date::from_millis(50));
        assert_eq!(at(&mut marks), [(20, i64::MIN, 0)]);
    }
}
