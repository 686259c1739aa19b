//! Whether a store is worth asking: once it failed, one trial at a time, after pauses that grow.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_runtime::{Clock, Rng};

const PAUSE_FIRST: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// What is known of one store. Each piece of work asks first, and says afterwards how it went.
#[derive(Debug)]
pub struct Breaker {
    clock: Clock,
    rng: Rng,
    trouble: Mutex<Option<Trouble>>,
}

/// The store failed, and has not done anything well since.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    /// How long the next trial waits if this one fails.
    pause: Duration,
    /// When the next trial may begin, by the monotonic clock.
    until: Duration,
    /// Whether one is under way.
    is_tried: bool,
}

/// Leave to ask the store. Dropped without a word, it says nothing of the store.
#[derive(Debug)]
pub struct Pass<'a> {
    breaker: &'a Breaker,
    is_trial: bool,
}

impl Breaker {
    /// One of a store of which nothing bad is known.
    #[must_use]
    pub fn new(clock: Clock, rng: Rng) -> Self {
        Self {
            clock,
            rng,
            trouble: Mutex::default(),
        }
    }

    /// Leave to ask the store.
    ///
    /// # Errors
    /// How long to wait before asking again: it failed not long ago, or is being tried.
    pub fn ask(&self) -> Result<Pass<'_>, Duration> {
        let mut trouble = self.lock();
        let is_trial = trouble.is_some();
        if let Some(trouble) = &mut *trouble {
            let left = trouble.until.saturating_sub(self.clock.elapsed());
            if trouble.is_tried || !left.is_zero() {
                return Err(left.max(PAUSE_FIRST));
            }
            trouble.is_tried = true;
        }
        Ok(Pass {
            breaker: self,
            is_trial,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Trouble>> {
        self.trouble.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fail(&self, is_trial: bool) {
        let mut trouble = self.lock();
        let pause = match &*trouble {
            // Begun before the store was known to fail: that says nothing new.
            Some(_) if !is_trial => return,
            Some(trouble) => trouble.pause,
            None => PAUSE_FIRST,
        };
        let wait = pause / 2 + self.rng.jitter(pause / 2);
        *trouble = Some(Trouble {
            pause: (pause * 2).min(PAUSE_MAX),
            until: self.clock.elapsed() + wait,
            is_tried: false,
        });
    }
}

impl Pass<'_> {
    /// The store did what it was asked for, or said why not.
    pub fn succeeded(self) {
        *self.breaker.lock() = None;
    }

    /// The store failed.
    pub fn failed(self) {
        self.breaker.fail(self.is_trial);
    }
}

impl Drop for Pass<'_> {
    fn drop(&mut self) {
        if self.is_trial
            && let Some(trouble) = &mut *self.breaker.lock()
        {
            trouble.is_tried = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cannery_runtime::clock::SimulatedClock;

    /// The time passes with every sleep.
    fn breaker() -> (Breaker, Clock) {
        let clock = SimulatedClock::impatient(jiff::Timestamp::UNIX_EPOCH).clock();
        (Breaker::new(clock.clone(), Rng::seeded(1)), clock)
    }

    #[tokio::test]
    async fn a_store_that_fails_is_tried_by_one_at_a_time_after_growing_pauses() {
        let (breaker, clock) = breaker();
        let both = (breaker.ask().unwrap(), breaker.ask().unwrap());
        both.0.failed();
        both.1.failed();
        let mut waited = Vec::new();
        for _ in 0..10 {
            let begun = clock.elapsed();
            let trial = loop {
                match breaker.ask() {
                    Ok(trial) => break trial,
                    Err(pause) => clock.sleep(pause).await,
                }
            };
            assert!(breaker.ask().is_err(), "one at a time");
            waited.push(clock.since(begun));
            trial.failed();
        }
        assert!(waited[0] <= PAUSE_FIRST * 2, "{waited:?}");
        assert!(waited[9] >= PAUSE_MAX / 2, "{waited:?}");
        assert!(waited.iter().all(|wait| *wait <= PAUSE_MAX + PAUSE_FIRST));
    }

    #[tokio::test]
    async fn one_success_opens_it_for_all_and_a_trial_that_says_nothing_is_not_missed() {
        let (breaker, clock) = breaker();
        breaker.ask().unwrap().failed();
        clock.sleep(PAUSE_FIRST).await;
        drop(breaker.ask().unwrap());
        breaker.ask().unwrap().succeeded();
        let all: Vec<_> = (0..5).map(|_| breaker.ask().unwrap()).collect();
        drop(all);
        breaker.ask().unwrap().failed();
        assert!(breaker.ask().is_err());
    }
}
