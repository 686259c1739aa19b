//! Pauses that grow with every failure, and differ so that the failed do not come back together.

use std::time::Duration;

use cannery_runtime::Rng;

/// Pauses that double.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    /// The longest pause after the first failure.
    pub first: Duration,
    /// The longest pause at all.
    pub most: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            first: Duration::from_secs(1),
            most: Duration::from_secs(5 * 60),
        }
    }
}

impl Backoff {
    /// The pause after a failure that `earlier` others preceded: between half of the doubled pause and all of it.
    #[must_use]
    pub fn pause(&self, earlier: u32, rng: &Rng) -> Duration {
        let factor = 1_u32.checked_shl(earlier).unwrap_or(u32::MAX);
        let longest = self.first.saturating_mul(factor).min(self.most);
        longest / 2 + rng.jitter(longest / 2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_limit_and_never_vanish() {
        let (backoff, rng) = (Backoff::default(), Rng::seeded(1));
        for (earlier, longest) in [(0, 1), (1, 2), (4, 16), (9, 300), (31, 300), (255, 300)] {
            let longest = Duration::from_secs(longest);
            for _ in 0..50 {
                let pause = backoff.pause(earlier, &rng);
                assert!(
                    pause >= longest / 2 && pause <= longest,
                    "{earlier}: {pause:?}"
                );
            }
        }
    }
}
