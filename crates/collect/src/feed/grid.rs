//! When a feed is asked: at a fixed distance, by the clock that never goes back, so that nothing drifts.

use std::time::Duration;

/// The times of one feed's polls.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grid {
    first: Duration,
    period: Duration,
    next: u64,
}

impl Grid {
    /// Times that begin at `first`.
    pub(super) fn new(first: Duration, period: Duration) -> Self {
        Self {
            first,
            period: period.max(Duration::from_millis(1)),
            next: 0,
        }
    }

    /// When the next poll is due.
    pub(super) fn due(&self) -> Duration {
        self.time_of(self.next)
    }

    /// The poll that was due is over. Those whose time passed meanwhile are not made up for: says how many.
    pub(super) fn advance(&mut self, now: Duration) -> u64 {
        self.next += 1;
        // One that is late by less than half a distance is still nearer to its own time than to the next.
        let late = now.saturating_sub(self.due() + self.period / 2);
        let missed = late.as_nanos().div_ceil(self.period.as_nanos());
        let missed = u64::try_from(missed).unwrap_or(u64::MAX);
        self.next = self.next.saturating_add(missed);
        missed
    }

    fn time_of(&self, number: u64) -> Duration {
        let nanos = self.period.as_nanos().saturating_mul(u128::from(number));
        let offset = Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
        self.first.saturating_add(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn quick_answers_keep_the_distance() {
        let mut grid = Grid::new(ms(7), ms(100));
        for number in 0..1_000 {
            assert_eq!(grid.due(), ms(7 + 100 * number));
            assert_eq!(grid.advance(grid.due() + ms(3)), 0);
        }
    }

    #[test]
    fn slow_answers_miss_times_and_come_back_to_the_grid() {
        let mut grid = Grid::new(ms(0), ms(100));
        assert_eq!(grid.advance(ms(140)), 0);
        assert_eq!(grid.due(), ms(100), "late, but still the one of 100");
        assert_eq!(grid.advance(ms(451)), 3);
        assert_eq!(grid.due(), ms(500));
        assert_eq!(grid.advance(ms(1_000_000)), 9_994);
        assert_eq!(grid.due(), ms(1_000_000));
    }
}
