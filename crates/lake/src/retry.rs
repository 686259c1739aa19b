//! Trying again: jittered backoff, a limit on each attempt, and a deadline for the whole.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cannery_runtime::{Clock, Rng};
use object_store::retry::{RetryContext, RetryFailure};

use crate::error::{ErrorKind, Failure};

/// How long and how often an operation is tried.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetryPolicy {
    /// The longest pause before the second attempt; it doubles from there.
    pub pause_first: Duration,
    /// The longest pause.
    pub pause_max: Duration,
    /// No attempt starts later than this after the first.
    pub deadline: Duration,
    /// An attempt without a body may take this long; a body adds a second for each `bytes_per_second`.
    pub attempt: Duration,
    /// The slowest connection that is still worth waiting for.
    pub bytes_per_second: u64,
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            pause_first: Duration::from_millis(100),
            pause_max: Duration::from_secs(10),
            deadline: Duration::from_secs(60),
            attempt: Duration::from_secs(30),
            bytes_per_second: 512 * 1024,
        }
    }
}

impl RetryPolicy {
    /// How long one attempt that moves `bytes` may take.
    pub(crate) fn attempt_limit(&self, bytes: u64) -> Duration {
        self.attempt + Duration::from_secs(bytes / self.bytes_per_second.max(1))
    }
}

/// The attempts of one operation.
#[derive(Debug)]
pub(crate) struct Attempts<'a> {
    policy: &'a RetryPolicy,
    clock: &'a Clock,
    rng: &'a Rng,
    start: Duration,
    failures: u32,
    failures_before: u32,
}

impl<'a> Attempts<'a> {
    pub(crate) fn new(policy: &'a RetryPolicy, clock: &'a Clock, rng: &'a Rng) -> Self {
        Self {
            policy,
            clock,
            rng,
            start: clock.elapsed(),
            failures: 0,
            failures_before: 0,
        }
    }

    /// Runs one attempt that moves `bytes` within its limit.
    pub(crate) async fn run<T, E: Into<Failure>>(
        &self,
        bytes: u64,
        attempt: impl Future<Output = Result<T, E>>,
    ) -> Result<T, Failure> {
        match self
            .clock
            .timeout(self.policy.attempt_limit(bytes), attempt)
            .await
        {
            Ok(outcome) => outcome.map_err(Into::into),
            Err(late) => Err(Failure::new(ErrorKind::Unavailable, late.to_string())),
        }
    }

    /// Waits before the next attempt, or gives up with the failure when there should be none.
    pub(crate) async fn pause(&mut self, failure: Failure) -> Result<(), Failure> {
        if !failure.is_transient() || self.clock.since(self.start) >= self.policy.deadline {
            return Err(failure);
        }
        tracing::debug!(
            failure = failure.detail,
            failures = self.failures + 1,
            "trying again"
        );
        self.clock
            .sleep(pause(self.policy, self.rng, self.failures))
            .await;
        self.failures += 1;
        Ok(())
    }

    /// Starts the deadline anew, after progress.
    pub(crate) fn restart(&mut self) {
        self.start = self.clock.elapsed();
        self.failures_before += std::mem::take(&mut self.failures);
    }

    /// All failures so far, also those before a new deadline.
    pub(crate) fn failures(&self) -> u32 {
        self.failures_before + self.failures
    }
}

fn pause(policy: &RetryPolicy, rng: &Rng, failures: u32) -> Duration {
    let ceiling = policy
        .pause_first
        .saturating_mul(2_u32.saturating_pow(failures))
        .min(policy.pause_max);
    // At least a tenth, so that a store in trouble is not asked again at once.
    ceiling / 10 + rng.jitter(ceiling - ceiling / 10)
}

/// The same policy for the parts of a multipart upload, which the client repeats by itself.
#[derive(Debug)]
pub(crate) struct PartRetry {
    pub(crate) policy: RetryPolicy,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
}

impl PartRetry {
    pub(crate) fn shared(self) -> Arc<dyn object_store::retry::RetryPolicy> {
        Arc::new(self)
    }
}

#[async_trait]
impl object_store::retry::RetryPolicy for PartRetry {
    async fn retry(&self, context: RetryContext) -> bool {
        let transient = match context.failure {
            RetryFailure::Status(status) => {
                status.is_server_error() || matches!(status.as_u16(), 200 | 408 | 425 | 429)
            }
            _ => true,
        };
        if !transient || context.elapsed >= self.policy.deadline {
            return false;
        }
        let failures = u32::try_from(context.attempt)
            .unwrap_or(u32::MAX)
            .saturating_sub(1);
        self.clock
            .sleep(pause(&self.policy, &self.rng, failures))
            .await;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cannery_runtime::clock::SimulatedClock;

    #[tokio::test]
    async fn gives_up_at_the_deadline_and_not_before() {
        let clock = SimulatedClock::impatient(jiff::Timestamp::UNIX_EPOCH).clock();
        let (policy, rng) = (RetryPolicy::default(), Rng::seeded(1));
        let mut attempts = Attempts::new(&policy, &clock, &rng);
        let down = Failure::new(ErrorKind::Unavailable, "down");
        while attempts.pause(down.clone()).await.is_ok() {}
        assert!(clock.elapsed() >= policy.deadline);
        assert!(clock.elapsed() <= policy.deadline + policy.pause_max);
        assert!(attempts.failures() > 8, "{}", attempts.failures());
    }

    #[tokio::test]
    async fn what_cannot_pass_is_not_tried_again() {
        let clock = SimulatedClock::impatient(jiff::Timestamp::UNIX_EPOCH).clock();
        let (policy, rng) = (RetryPolicy::default(), Rng::seeded(1));
        let denied = Failure::new(ErrorKind::Denied, "no");
        assert_eq!(
            Attempts::new(&policy, &clock, &rng)
                .pause(denied.clone())
                .await,
            Err(denied)
        );
    }

    #[test]
    fn pauses_grow_and_stay_below_the_longest() {
        let (policy, rng) = (RetryPolicy::default(), Rng::seeded(1));
        for failures in 0..40 {
            let pause = pause(&policy, &rng, failures);
            assert!(
                pause >= policy.pause_first / 10 && pause <= policy.pause_max,
                "{failures}: {pause:?}"
            );
        }
    }
}
