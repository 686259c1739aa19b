//! The leases that this process gave out: when the first of them runs out is known without asking.

use std::collections::{BTreeSet, HashMap};

#[derive(Debug, Default)]
pub(super) struct Leases {
    by_counter: HashMap<i64, i64>,
    by_deadline: BTreeSet<(i64, i64)>,
    /// The first deadline of all the others, as of the last look at them.
    others: Option<i64>,
}

impl Leases {
    /// A lease was given out, or heard of.
    pub(super) fn hold(&mut self, counter: i64, deadline: i64) {
        self.end(counter);
        self.by_counter.insert(counter, deadline);
        self.by_deadline.insert((deadline, counter));
    }

    /// A lease of this process is over; one of another process is none of ours.
    pub(super) fn end(&mut self, counter: i64) {
        if let Some(deadline) = self.by_counter.remove(&counter) {
            self.by_deadline.remove(&(deadline, counter));
        }
    }

    /// What a look at all leases found of the others.
    pub(super) fn set_others(&mut self, deadline: Option<i64>) {
        self.others = deadline;
    }

    /// The first deadline; the lease holds until the end of that millisecond.
    pub(super) fn first_deadline(&self) -> Option<i64> {
        let own = self.by_deadline.first().map(|(deadline, _)| *deadline);
        [own, self.others].into_iter().flatten().min()
    }

    /// Leases that ran out before a date and were swept, by whomever.
    pub(super) fn forget_before(&mut self, now: i64) {
        while let Some((deadline, counter)) = self.by_deadline.first().copied() {
            if deadline >= now {
                break;
            }
            self.end(counter);
        }
        self.others = self.others.filter(|deadline| *deadline >= now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_deadline_is_that_of_whoever_is_left() {
        let mut leases = Leases::default();
        leases.hold(1, 10);
        leases.hold(2, 20);
        leases.hold(1, 30);
        leases.set_others(Some(25));
        assert_eq!(leases.first_deadline(), Some(20));
        leases.end(2);
        leases.end(7);
        assert_eq!(leases.first_deadline(), Some(25));
        leases.forget_before(26);
        assert_eq!(leases.first_deadline(), Some(30));
    }
}
