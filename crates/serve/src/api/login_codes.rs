//! Codes by which a browser logs in: each is good once, for ten minutes, and only its sum is kept, in memory alone.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cannery_formats::{Digest, UserName};
use cannery_runtime::{Clock, Rng};
use cannery_state::identity::Scopes;

const LIFETIME: Duration = Duration::from_secs(10 * 60);
/// The oldest gives way to one more.
const CODES_MAX: usize = 32;

/// Whom a code stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LoginGrant {
    pub(super) user: UserName,
    pub(super) scopes: Scopes,
}

struct LoginCode {
    sum: Digest,
    issued: Duration,
    grant: LoginGrant,
}

/// The codes that were issued and not used.
pub(super) struct LoginCodes {
    clock: Clock,
    rng: Rng,
    codes: Mutex<Vec<LoginCode>>,
}

impl LoginCodes {
    pub(super) fn new(clock: &Clock, rng: &Rng) -> Self {
        Self {
            clock: clock.clone(),
            rng: rng.clone(),
            codes: Mutex::default(),
        }
    }

    /// A new code: 128 random bits.
    pub(super) fn issue(&self, grant: LoginGrant) -> String {
        let code = self.rng.id();
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        if codes.len() == CODES_MAX {
            codes.remove(0);
        }
        codes.push(LoginCode {
            sum: Digest::of(code.as_bytes()),
            issued: self.clock.elapsed(),
            grant,
        });
        code
    }

    /// What a code is good for, which then is good for nothing.
    pub(super) fn take(&self, code: &str) -> Option<LoginGrant> {
        let sum = Digest::of(code.as_bytes());
        let mut codes = self.codes.lock().unwrap_or_else(PoisonError::into_inner);
        codes.retain(|code| self.clock.since(code.issued) < LIFETIME);
        let at = codes.iter().position(|code| code.sum == sum)?;
        Some(codes.remove(at).grant)
    }
}

#[cfg(test)]
mod tests {
    use cannery_runtime::clock::SimulatedClock;

    use super::*;

    fn grant() -> LoginGrant {
        LoginGrant {
            user: UserName::new("ann").unwrap(),
            scopes: "read".parse().unwrap(),
        }
    }

    #[tokio::test]
    async fn a_code_is_good_once_and_for_ten_minutes() {
        let simulated = SimulatedClock::starting_at(jiff::Timestamp::UNIX_EPOCH);
        let codes = LoginCodes::new(&simulated.clock(), &Rng::seeded(1));
        let (first, second) = (codes.issue(grant()), codes.issue(grant()));
        assert_eq!(codes.take("another"), None);
        simulated.advance(LIFETIME - Duration::from_millis(1)).await;
        assert_eq!(codes.take(&first), Some(grant()));
        assert_eq!(codes.take(&first), None);
        simulated.advance(Duration::from_millis(1)).await;
        assert_eq!(codes.take(&second), None);
        let oldest = codes.issue(grant());
        let others: Vec<String> = (0..CODES_MAX).map(|_| codes.issue(grant())).collect();
        assert_eq!(codes.take(&oldest), None);
        assert_eq!(codes.take(&others[0]), Some(grant()));
    }
}
