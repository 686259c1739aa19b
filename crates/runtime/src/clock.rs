//! Time: the real clock, a simulated one for tests, and one read from a file for driving the real binary.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

mod real;
#[cfg(feature = "sim")]
mod scripted;
mod simulated;

#[cfg(feature = "sim")]
pub use scripted::ScriptedClock;
pub use simulated::SimulatedClock;

/// The boxed future of [`ClockSource::sleep_until`].
pub type Sleep = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What a kind of clock must be able to do.
pub trait ClockSource: fmt::Debug + Send + Sync + 'static {
    /// Wall-clock time. May jump; never use it to measure.
    fn now(&self) -> Timestamp;

    /// Time since an arbitrary origin. Never goes back.
    fn elapsed(&self) -> Duration;

    /// Completes once [`ClockSource::elapsed`] has reached `deadline`.
    fn sleep_until(&self, deadline: Duration) -> Sleep;

    /// The sleep behind [`Clock::timeout`], which guards work that may hang.
    fn alarm(&self, after: Duration) -> Sleep {
        self.sleep_until(self.elapsed().saturating_add(after))
    }
}

/// A handle to the time; cheap to clone and passed to whatever needs it.
#[derive(Clone, Debug)]
pub struct Clock(Arc<dyn ClockSource>);

/// The future did not finish in the time given to [`Clock::timeout`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no answer within {0:?}")]
pub struct TimedOut(pub Duration);

impl Clock {
    /// The machine's own clock.
    #[must_use]
    pub fn real() -> Self {
        Self(Arc::new(real::RealClock::new()))
    }

    /// A clock of another kind.
    #[must_use]
    pub fn from_source(source: Arc<dyn ClockSource>) -> Self {
        Self(source)
    }

    /// Wall-clock time, for stamping records and naming objects.
    #[must_use]
    pub fn now(&self) -> Timestamp {
        self.0.now()
    }

    /// Monotonic time since an arbitrary origin, for measuring.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.0.elapsed()
    }

    /// How long ago `then`, an earlier value of [`Clock::elapsed`], was.
    #[must_use]
    pub fn since(&self, then: Duration) -> Duration {
        self.elapsed().saturating_sub(then)
    }

    /// Waits for `pause`.
    pub async fn sleep(&self, pause: Duration) {
        let deadline = self.elapsed().saturating_add(pause);
        self.0.sleep_until(deadline).await;
    }

    /// Runs `work` for at most `limit`; the work is dropped when the time is over.
    ///
    /// # Errors
    /// [`TimedOut`] when `work` was not done in time.
    pub async fn timeout<F: Future>(
        &self,
        limit: Duration,
        work: F,
    ) -> Result<F::Output, TimedOut> {
        tokio::select! {
            biased;
            done = work => Ok(done),
            () = self.0.alarm(limit) => Err(TimedOut(limit)),
        }
    }
}

/// `base` moved by `offset`, held at the ends of what a timestamp can express.
fn shift(base: Timestamp, offset: Duration) -> Timestamp {
    SignedDuration::try_from(offset)
        .ok()
        .and_then(|offset| base.checked_add(offset).ok())
        .unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_simulated_week_takes_no_time() {
        let simulated = SimulatedClock::starting_at("2026-01-01T00:00:00Z".parse().unwrap());
        let clock = simulated.clock();
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move {
                for _ in 0..7 {
                    clock.sleep(Duration::from_secs(86_400)).await;
                }
                clock.now()
            }
        });
        simulated.advance(Duration::from_secs(7 * 86_400)).await;
        assert_eq!(sleeper.await.unwrap().to_string(), "2026-01-08T00:00:00Z");
    }

    #[tokio::test]
    async fn a_sleeper_is_not_woken_early() {
        let simulated = SimulatedClock::starting_at(Timestamp::UNIX_EPOCH);
        let clock = simulated.clock();
        let sleeper = tokio::spawn(async move { clock.sleep(Duration::from_secs(10)).await });
        simulated.advance(Duration::from_millis(9_999)).await;
        assert!(!sleeper.is_finished());
        simulated.advance(Duration::from_millis(1)).await;
        sleeper.await.unwrap();
    }

    #[tokio::test]
    async fn timeout_drops_work_that_hangs() {
        let simulated = SimulatedClock::starting_at(Timestamp::UNIX_EPOCH);
        let clock = simulated.clock();
        let waiting = tokio::spawn(async move {
            clock
                .timeout(Duration::from_secs(5), std::future::pending::<()>())
                .await
        });
        simulated.advance(Duration::from_secs(5)).await;
        assert_eq!(
            waiting.await.unwrap(),
            Err(TimedOut(Duration::from_secs(5)))
        );
    }

    #[tokio::test]
    async fn an_impatient_clock_jumps_over_every_sleep() {
        let simulated = SimulatedClock::impatient(Timestamp::UNIX_EPOCH);
        let clock = simulated.clock();
        clock.sleep(Duration::from_secs(3_600)).await;
        assert_eq!(clock.now().as_second(), 3_600);
    }
}
