//! The machine's own clock.
#![allow(clippy::disallowed_methods, reason = "this is the door itself")]

use std::time::{Duration, Instant};

use jiff::Timestamp;

use super::{ClockSource, Sleep};

#[derive(Debug)]
pub(super) struct RealClock {
    origin: Instant,
}

impl RealClock {
    pub(super) fn new() -> Self {
        Self {
            origin: Instant::now(),
        }
    }
}

impl ClockSource for RealClock {
    fn now(&self) -> Timestamp {
        Timestamp::now()
    }

    fn elapsed(&self) -> Duration {
        self.origin.elapsed()
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        Box::pin(tokio::time::sleep(deadline.saturating_sub(self.elapsed())))
    }
}
