//! A lower bound of the rows that are alive, so that a search need not walk over all that died before it.

use std::collections::VecDeque;
use std::time::Duration;

/// No transaction of ours lives longer: statements, and pauses between them, are limited to less.
const SETTLE: Duration = Duration::from_secs(120);
/// A commit that waits for its standbys can take any time, so now and then everything is searched.
const FORGET: Duration = Duration::from_secs(3_600);

/// Bounds with the time at which they were seen.
#[derive(Debug, Default)]
pub(super) struct Trail {
    seen: VecDeque<(Duration, i64)>,
    settled: i64,
    since: Duration,
}

impl Trail {
    /// No row below `bound` can be seen. One may still appear, of a transaction under way; so a bound counts once it is
    /// old and nothing has appeared below it.
    pub(super) fn note(&mut self, elapsed: Duration, bound: i64) {
        for (_, earlier) in &mut self.seen {
            *earlier = bound.min(*earlier);
        }
        self.settled = self.settled.min(bound);
        while let Some((seen, earlier)) = self.seen.front().copied() {
            if elapsed.saturating_sub(seen) < SETTLE {
                break;
            }
            self.settled = self.settled.max(earlier);
            self.seen.pop_front();
        }
        self.seen.push_back((elapsed, bound));
        if elapsed.saturating_sub(self.since) > FORGET {
            self.since = elapsed;
            self.settled = 0;
            self.seen.clear();
        }
    }

    /// Where to begin a search.
    pub(super) fn settled(&self) -> i64 {
        self.settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_bound_counts_when_it_is_old_enough() {
        let mut trail = Trail::default();
        trail.note(at(0), 5);
        trail.note(at(100), 9);
        assert_eq!(trail.settled(), 0);
        trail.note(at(130), 12);
        assert_eq!(trail.settled(), 5);
    }

    #[test]
    fn what_appears_below_a_bound_lowers_it() {
        let mut trail = Trail::default();
        trail.note(at(0), 9);
        trail.note(at(60), 4);
        trail.note(at(130), 4);
        assert_eq!(trail.settled(), 4);
        trail.note(at(140), 2);
        assert_eq!(trail.settled(), 2);
        trail.note(at(4_000), 50);
        assert_eq!(trail.settled(), 0);
    }
}
