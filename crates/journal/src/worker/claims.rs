//! When to claim again: at a wake-up, at the date that the last claim named, and now and then in any case.

use std::time::Duration;

use crate::date::Date;

/// The longest time without a claim while there are free places. Engines wake their listeners; this is for the wake-up that
/// was lost with a connection.
const POLL_EVERY: Duration = Duration::from_secs(10);
/// The first and the longest pause when a claim brought nothing although its date is reached by our clock: the engine's is
/// behind, or somebody else was faster.
const PAUSES: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// The time of the next claim.
#[derive(Debug)]
pub(super) struct Claims {
    at: Duration,
    pause: Duration,
}

impl Claims {
    /// The first claim is due at once.
    pub(super) fn new() -> Self {
        Self {
            at: Duration::ZERO,
            pause: PAUSES.0,
        }
    }

    /// When to claim.
    pub(super) fn at(&self) -> Duration {
        self.at
    }

    /// Something may be due.
    pub(super) fn wake(&mut self) {
        self.at = Duration::ZERO;
    }

    /// A claim is sent; a wake-up from here on makes another one due.
    pub(super) fn sent(&mut self, now: Duration) {
        self.at = now.saturating_add(POLL_EVERY);
    }

    /// A claim of `asked` entries brought `got`, and `next_wake`; the time is `now` and `date`.
    pub(super) fn answered(
        &mut self,
        asked: usize,
        got: usize,
        next_wake: Option<Date>,
        now: Duration,
        date: Date,
    ) {
        if got == asked {
            self.wake();
        }
        if got > 0 {
            self.pause = PAUSES.0;
        }
        let Some(next_wake) = next_wake else {
            return;
        };
        let mut delay = next_wake.since(date);
        if got == 0 && delay < self.pause {
            delay = self.pause;
            self.pause = (self.pause * 2).min(PAUSES.1);
        }
        self.at = self.at.min(now.saturating_add(delay));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn answered(claims: &mut Claims, asked: usize, got: usize, next_wake: Option<i64>) -> Duration {
        claims.sent(SECOND);
        let (next_wake, date) = (next_wake.map(Date::from_millis), Date::from_millis(5_000));
        claims.answered(asked, got, next_wake, SECOND, date);
        claims.at()
    }

    #[test]
    fn a_claim_comes_back_when_there_may_be_more() {
        let mut claims = Claims::new();
        assert_eq!(claims.at(), Duration::ZERO);
        assert_eq!(answered(&mut claims, 3, 3, None), Duration::ZERO);
        assert_eq!(answered(&mut claims, 3, 2, None), SECOND + POLL_EVERY);
        assert_eq!(answered(&mut claims, 3, 2, Some(4_000)), SECOND);
        assert_eq!(
            answered(&mut claims, 3, 2, Some(5_700)),
            SECOND + Duration::from_millis(700)
        );
        assert_eq!(
            answered(&mut claims, 3, 2, Some(90_000)),
            SECOND + POLL_EVERY
        );
    }

    #[test]
    fn a_wake_up_during_a_claim_is_not_forgotten() {
        let mut claims = Claims::new();
        claims.sent(SECOND);
        claims.wake();
        claims.answered(3, 0, None, SECOND, Date::from_millis(0));
        assert_eq!(claims.at(), Duration::ZERO);
    }

    #[test]
    fn a_clock_that_is_ahead_does_not_make_a_hot_loop() {
        let mut claims = Claims::new();
        let pauses: Vec<u128> = (0..9)
            .map(|_| (answered(&mut claims, 3, 0, Some(4_000)) - SECOND).as_millis())
            .collect();
        assert_eq!(pauses, [10, 20, 40, 80, 160, 320, 640, 1_000, 1_000]);
        answered(&mut claims, 3, 1, None);
        assert_eq!(
            answered(&mut claims, 3, 0, Some(4_000)),
            SECOND + Duration::from_millis(10)
        );
    }
}
