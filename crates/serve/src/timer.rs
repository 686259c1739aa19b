//! hyper's time-outs on the product's clock, so that a test does not wait for them.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use cannery_runtime::Clock;
use cannery_runtime::clock::TimedOut;
use hyper::rt::{Sleep, Timer};

/// Ends with an error after the time; that is all it does.
pub(crate) type Alarm = Pin<Box<dyn Future<Output = Result<(), TimedOut>> + Send>>;

/// An alarm for what a client may be slow at, which takes real time even where a test drives the clock of the process.
pub(crate) fn alarm(clock: &Clock, after: Duration) -> Alarm {
    let clock = clock.clone();
    Box::pin(async move { clock.timeout(after, std::future::pending()).await })
}

pub(crate) struct ClockTimer {
    clock: Clock,
    origin: Instant,
}

impl ClockTimer {
    pub(crate) fn new(clock: Clock) -> Self {
        #[allow(
            clippy::disallowed_methods,
            reason = "hyper counts in instants, which only the machine can make"
        )]
        let origin = Instant::now();
        Self { clock, origin }
    }
}

impl Timer for ClockTimer {
    fn sleep(&self, duration: Duration) -> Pin<Box<dyn Sleep>> {
        Box::pin(ClockSleep(Mutex::new(alarm(&self.clock, duration))))
    }

    fn sleep_until(&self, deadline: Instant) -> Pin<Box<dyn Sleep>> {
        self.sleep(deadline.saturating_duration_since(self.now()))
    }

    fn now(&self) -> Instant {
        self.origin + self.clock.elapsed()
    }
}

/// The lock is never taken: it makes the alarm `Sync`, which hyper asks for.
struct ClockSleep(Mutex<Alarm>);

impl Sleep for ClockSleep {}

impl Future for ClockSleep {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let alarm = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        alarm.as_mut().poll(context).map(drop)
    }
}
