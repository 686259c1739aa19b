//! A clock that only a hand moves and on which nobody wakes: the same history makes the same effects every time.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Duration;

use cannery_runtime::Clock;
use cannery_runtime::clock::{ClockSource, Sleep};
use jiff::{SignedDuration, Timestamp};

#[derive(Clone, Debug)]
pub(crate) struct HandClock(Arc<Source>);

#[derive(Debug)]
struct Source {
    start: Timestamp,
    elapsed_millis: AtomicU64,
    set_back_millis: AtomicI64,
}

impl HandClock {
    pub(crate) fn starting_at(start: Timestamp) -> Self {
        let elapsed_millis = AtomicU64::new(0);
        Self(Arc::new(Source {
            start,
            elapsed_millis,
            set_back_millis: AtomicI64::new(0),
        }))
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock::from_source(Arc::clone(&self.0) as Arc<dyn ClockSource>)
    }

    pub(crate) fn jump(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap();
        self.0.elapsed_millis.fetch_add(by, Ordering::SeqCst);
    }

    /// The date goes back; what has elapsed does not.
    pub(crate) fn jump_back(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap();
        self.0.set_back_millis.fetch_add(by, Ordering::SeqCst);
    }
}

impl ClockSource for Source {
    fn now(&self) -> Timestamp {
        let back = self.set_back_millis.load(Ordering::SeqCst);
        self.start + SignedDuration::try_from(self.elapsed()).unwrap()
            - SignedDuration::from_millis(back)
    }

    fn elapsed(&self) -> Duration {
        Duration::from_millis(self.elapsed_millis.load(Ordering::SeqCst))
    }

    fn sleep_until(&self, _deadline: Duration) -> Sleep {
        Box::pin(std::future::pending())
    }
}
