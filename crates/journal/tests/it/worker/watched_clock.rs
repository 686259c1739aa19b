//! A clock that counts the sleeps that end at once: a loop that waits in this way does not wait.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use cannery_runtime::Clock;
use cannery_runtime::clock::{ClockSource, Sleep};
use jiff::Timestamp;

/// After so many a sleep never ends, so that a test of a loop that does not wait ends all the same.
const SLEEPLESS_MAX: usize = 1_000;

#[derive(Clone, Debug)]
pub(crate) struct WatchedClock(Arc<Source>);

#[derive(Debug)]
struct Source {
    inner: Clock,
    sleepless: AtomicUsize,
}

impl WatchedClock {
    pub(crate) fn new(inner: Clock) -> Self {
        let sleepless = AtomicUsize::new(0);
        Self(Arc::new(Source { inner, sleepless }))
    }

    pub(crate) fn clock(&self) -> Clock {
        Clock::from_source(Arc::clone(&self.0) as Arc<dyn ClockSource>)
    }

    /// How many sleeps ended at once.
    pub(crate) fn sleepless(&self) -> usize {
        self.0.sleepless.load(Ordering::SeqCst)
    }
}

impl ClockSource for Source {
    fn now(&self) -> Timestamp {
        self.inner.now()
    }

    fn elapsed(&self) -> Duration {
        self.inner.elapsed()
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        let pause = deadline.saturating_sub(self.elapsed());
        if pause.is_zero() && self.sleepless.fetch_add(1, Ordering::SeqCst) >= SLEEPLESS_MAX {
            return Box::pin(std::future::pending());
        }
        let inner = self.inner.clone();
        Box::pin(async move { inner.sleep(pause).await })
    }
}
