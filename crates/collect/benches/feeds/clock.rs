//! The machine's clock, but for the hours, which are short.

use std::sync::Arc;
use std::time::Duration;

use cannery_formats::feed::Hour;
use cannery_runtime::Clock;
use cannery_runtime::clock::{ClockSource, Sleep};
use jiff::{SignedDuration, Timestamp};

#[derive(Debug)]
struct ShortHours {
    real: Clock,
    begun: Duration,
    /// When the first hour began, had it been a whole one.
    first: Timestamp,
    hour: Duration,
}

/// A clock that runs as the real one does, and on which an hour ends every so often: of each hour there is only the end.
pub(crate) fn hours_of(hour: Duration) -> Clock {
    let real = Clock::real();
    let first = Hour::of(real.now()).begin();
    let begun = real.elapsed();
    Clock::from_source(Arc::new(ShortHours {
        real,
        begun,
        first,
        hour,
    }))
}

impl ClockSource for ShortHours {
    fn now(&self) -> Timestamp {
        let passed = self.real.since(self.begun).as_nanos();
        let number = i64::try_from(passed / self.hour.as_nanos()).unwrap();
        let within = i64::try_from(passed % self.hour.as_nanos()).unwrap();
        let left = self.hour.as_nanos() - u128::try_from(within).unwrap();
        let end = self.first + SignedDuration::from_hours(number + 1);
        end - SignedDuration::from_nanos(i64::try_from(left).unwrap())
    }

    fn elapsed(&self) -> Duration {
        self.real.elapsed()
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        let real = self.real.clone();
        Box::pin(async move { real.sleep(deadline.saturating_sub(real.elapsed())).await })
    }
}
