//! The clock on the wall, which people and other machines set.

use std::time::Duration;

use cannery_runtime::Clock;
use jiff::{SignedDuration, Timestamp};

/// A clock that was set back by more was wrong before: what was planned by it is planned again.
const SET_BACK_MIN: SignedDuration = SignedDuration::from_mins(1);

/// Sees when the clock on the wall goes back.
pub(super) struct Watch {
    now: Timestamp,
    elapsed: Duration,
}

impl Watch {
    pub(super) fn new(clock: &Clock) -> Self {
        Self {
            now: clock.now(),
            elapsed: clock.elapsed(),
        }
    }

    /// Whether it went back since the last look.
    pub(super) fn was_set_back(&mut self, clock: &Clock) -> bool {
        let before = std::mem::replace(self, Self::new(clock));
        let passed = self.elapsed.saturating_sub(before.elapsed);
        let passed = SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX);
        self.now.duration_since(before.now) < passed.saturating_sub(SET_BACK_MIN)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use cannery_runtime::clock::{ClockSource, Sleep};

    use super::*;

    /// A clock on the wall that somebody sets.
    #[derive(Debug)]
    struct Wall(Mutex<(Timestamp, Duration)>);

    impl ClockSource for Wall {
        fn now(&self) -> Timestamp {
            self.0.lock().unwrap().0
        }

        fn elapsed(&self) -> Duration {
            self.0.lock().unwrap().1
        }

        fn sleep_until(&self, _deadline: Duration) -> Sleep {
            Box::pin(std::future::pending())
        }
    }

    #[test]
    fn only_a_clock_that_is_set_back_is_noticed() {
        let wall = Arc::new(Wall(Mutex::new((Timestamp::UNIX_EPOCH, Duration::ZERO))));
        let clock = Clock::from_source(Arc::clone(&wall) as _);
        let mut watch = Watch::new(&clock);
        for (seconds, elapsed, expected) in [
            (60, 60, false),
            // By a little, as clocks are all the time.
            (110, 120, false),
            // The machine slept.
            (9_000, 180, false),
            (200, 240, true),
            (260, 300, false),
        ] {
            let now = Timestamp::from_second(seconds).unwrap();
            *wall.0.lock().unwrap() = (now, Duration::from_secs(elapsed));
            assert_eq!(watch.was_set_back(&clock), expected, "{seconds}");
        }
    }
}
