//! A clock that moves only when a test says so.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::oneshot;

use super::{Clock, ClockSource, Sleep, shift};

/// Enough turns of the scheduler for woken tasks to reach their next sleep.
const TURNS_PER_WAKE: usize = 64;

/// The hand on a simulated clock.
#[derive(Clone, Debug)]
pub struct SimulatedClock(Arc<Source>);

struct Source {
    start: Timestamp,
    impatient: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    elapsed: Duration,
    sleepers: BTreeMap<(Duration, u64), oneshot::Sender<()>>,
    next_sleeper: u64,
}

impl SimulatedClock {
    /// A clock that stands still until [`SimulatedClock::advance`].
    #[must_use]
    pub fn starting_at(start: Timestamp) -> Self {
        Self::build(start, false)
    }

    /// A clock on which every sleep ends at once, moving the time: for tests of retries over real servers. Only
    /// [`Clock::timeout`] waits for real, because what it guards takes real time.
    #[must_use]
    pub fn impatient(start: Timestamp) -> Self {
        Self::build(start, true)
    }

    fn build(start: Timestamp, impatient: bool) -> Self {
        Self(Arc::new(Source {
            start,
            impatient,
            state: Mutex::default(),
        }))
    }

    /// The clock to pass to the code under test.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock::from_source(Arc::clone(&self.0) as Arc<dyn ClockSource>)
    }

    /// How many wait for a later time now: a loop that is not among them is at work.
    #[must_use]
    pub fn sleepers(&self) -> usize {
        let state = self.0.lock();
        let sleepers = state.sleepers.values();
        sleepers.filter(|sleeper| !sleeper.is_closed()).count()
    }

    /// When the first of those that wait is woken, by the clock's elapsed time: a test that moves the time no further than
    /// there, and waits until nobody is at work, has work that takes no time.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Duration> {
        let state = self.0.lock();
        let mut sleepers = state.sleepers.iter();
        let first = sleepers.find(|(_, sleeper)| !sleeper.is_closed());
        first.map(|((deadline, _), _)| *deadline)
    }

    /// Moves the time by `by`, waking sleepers one deadline at a time and letting them run in between.
    pub async fn advance(&self, by: Duration) {
        settle().await;
        let target = self.0.lock().elapsed.saturating_add(by);
        while let Some(sleeper) = self.0.next_due(target) {
            // A sleeper that was dropped in the meantime does not need to hear of it.
            sleeper.send(()).ok();
            settle().await;
        }
        self.0.lock().elapsed = target;
        settle().await;
    }
}

async fn settle() {
    for _ in 0..TURNS_PER_WAKE {
        tokio::task::yield_now().await;
    }
}

impl Source {
    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_due(&self, target: Duration) -> Option<oneshot::Sender<()>> {
        let mut state = self.lock();
        let due = state
            .sleepers
            .first_key_value()
            .map(|(due, _)| *due)
            .filter(|(at, _)| *at <= target)?;
        state.elapsed = state.elapsed.max(due.0);
        state.sleepers.remove(&due)
    }
}

impl ClockSource for Source {
    fn now(&self) -> Timestamp {
        shift(self.start, self.elapsed())
    }

    fn elapsed(&self) -> Duration {
        self.lock().elapsed
    }

    fn sleep_until(&self, deadline: Duration) -> Sleep {
        let mut state = self.lock();
        if deadline <= state.elapsed {
            return Box::pin(std::future::ready(()));
        }
        if self.impatient {
            state.elapsed = deadline;
            return Box::pin(tokio::task::yield_now());
        }
        let (wake, woken) = oneshot::channel();
        let id = state.next_sleeper;
        state.next_sleeper += 1;
        state.sleepers.insert((deadline, id), wake);
        Box::pin(async move {
            // The sender lives in the clock; if the clock is gone, time stands still for good.
            if woken.await.is_err() {
                std::future::pending::<()>().await;
            }
        })
    }

    fn alarm(&self, after: Duration) -> Sleep {
        if self.impatient {
            #[allow(
                clippy::disallowed_methods,
                reason = "what an alarm guards takes real time"
            )]
            return Box::pin(tokio::time::sleep(after));
        }
        self.sleep_until(self.elapsed().saturating_add(after))
    }
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SimulatedClock")
            .field("now", &self.now())
            .finish_non_exhaustive()
    }
}
