//! The machine's clock, but for the hour.

use std::sync::Arc;
use std::time::Duration;

use cannery_formats::feed::Hour;
use cannery_runtime::Clock;
use cannery_runtime::clock::{ClockSource, Sleep};
use jiff::{SignedDuration, Timestamp};

#[derive(Debug)]
struct Shifted {
    real: Clock,
    by: SignedDuration,
}

/// A clock that runs as the real one does, and on which an hour ends after this time.
pub(crate) fn hour_ends_after(time: Duration) -> Clock {
    let real = Clock::real();
    let now = real.now();
    let wanted = Hour::of(now).end() - SignedDuration::try_from(time).unwrap();
    let by = wanted.duration_since(now);
    Clock::from_source(Arc::new(Shifted { real, by }))
}

impl ClockSource for Shifted {
    fn now(&self) -> Timestamp {
        self.real.now() + self.by
    }

    fn elapsed(&self) -> Duration {
        self.real.elapsed()
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        let real = self.real.clone();
        Box::pin(async move { real.sleep(deadline.saturating_sub(real.elapsed())).await })
    }
}
