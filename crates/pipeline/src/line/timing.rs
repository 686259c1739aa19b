//! When work is due, by the few settings that a person chooses; and what they are when nobody chooses.

use std::time::Duration;

/// How long reports are gathered, and tables by date wait for the next change, by default.
pub const DEBOUNCE: Duration = Duration::from_secs(2 * 60);
/// How long reports are gathered while a bucket has few cans, by default where a listing costs nothing.
pub const DEBOUNCE_MIN: Duration = Duration::from_secs(1);
/// How long adds of the same key may put off the first one, by default.
pub const MAX_DELAY: Duration = Duration::from_secs(5 * 60);
/// How long after its day a bucket is sealed, and what was replaced is kept, by default.
pub const GRACE: Duration = Duration::from_secs(24 * 3_600);

/// So much longer reports are gathered for every can of their kind that the bucket has: somebody who tries it out reads every
/// report within seconds, and a stream that never ends makes hardly more cans in a day than it does with the longest wait.
const GATHER_STEP: Duration = Duration::from_millis(250);

/// The longest pause between two looks for reports, and the shortest.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const LOOK_EVERY_MIN: Duration = Duration::from_secs(1);

/// When the work that follows is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Reports are canned so long after the first of them was found, unless there are very many: a can should not be small.
    pub gather: Duration,
    /// The same while the bucket has few cans of their kind; see [`Timing::gather_after`].
    pub gather_min: Duration,
    /// What was replaced is removed so long after the catalog points elsewhere.
    pub sweep_grace: Duration,
    /// Tables by date are computed so long after the last file that touched the date; see [`super::declaration`] for the
    /// limit.
    pub debounce: Duration,
}

impl Timing {
    /// By the settings of the same names.
    #[must_use]
    pub const fn new(debounce: Duration, grace: Duration) -> Self {
        Self {
            gather: debounce,
            gather_min: debounce,
            sweep_grace: grace,
            debounce,
        }
    }

    /// The same, but reports are gathered for this time only while their bucket has few cans.
    #[must_use]
    pub const fn gathering_from(self, gather_min: Duration) -> Self {
        Self { gather_min, ..self }
    }

    /// How long reports are gathered when their bucket has so many open cans of their kind: the more it has, the longer.
    #[must_use]
    pub fn gather_after(&self, cans: u32) -> Duration {
        let grown = GATHER_STEP.saturating_mul(cans);
        grown.max(self.gather_min).min(self.gather)
    }

    /// Whether the time for which reports are gathered depends on how many cans there are.
    pub(super) fn is_growing(&self) -> bool {
        self.gather_min < self.gather
    }

    /// The same, but nothing waits for more of its kind.
    #[must_use]
    pub const fn at_once(self) -> Self {
        Self {
            gather: Duration::ZERO,
            debounce: Duration::ZERO,
            ..self
        }
    }

    /// How often to look for reports: it makes no sense to gather for a shorter time than that.
    #[must_use]
    pub fn look_every(&self) -> Duration {
        self.gather_after(0).clamp(LOOK_EVERY_MIN, LOOK_EVERY)
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self::new(DEBOUNCE, GRACE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_gathered_for_longer_the_more_cans_there_are() {
        let timing = Timing::default().gathering_from(DEBOUNCE_MIN);
        let waits: Vec<Duration> = (0..1_000).map(|cans| timing.gather_after(cans)).collect();
        assert_eq!((waits[0], waits[4]), (DEBOUNCE_MIN, DEBOUNCE_MIN));
        assert_eq!(waits[40], Duration::from_secs(10));
        assert_eq!(waits[999], DEBOUNCE);
        assert!(waits.is_sorted());
        // A day of a stream that never ends, with a report every moment.
        let cans_of_a_day = |timing: &Timing| {
            let (mut cans, mut time) = (0, Duration::ZERO);
            while time < Duration::from_secs(86_400) {
                time += timing.gather_after(cans);
                cans += 1;
            }
            cans
        };
        assert_eq!(cans_of_a_day(&Timing::default()), 720);
        assert!((720..1_000).contains(&cans_of_a_day(&timing)));
    }

    #[test]
    fn what_is_set_is_kept_to() {
        let minute = Duration::from_secs(60);
        for (timing, wait, look) in [
            (Timing::new(minute, GRACE), minute, minute),
            (Timing::new(DEBOUNCE, GRACE), DEBOUNCE, LOOK_EVERY),
            (
                Timing::new(Duration::ZERO, GRACE),
                Duration::ZERO,
                LOOK_EVERY_MIN,
            ),
        ] {
            assert_eq!(
                (timing.gather_after(0), timing.gather_after(9_999)),
                (wait, wait)
            );
            assert_eq!(timing.look_every(), look);
            assert!(!timing.is_growing());
        }
        let quick = Timing::default().gathering_from(DEBOUNCE_MIN);
        assert_eq!(quick.look_every(), LOOK_EVERY_MIN);
        assert_eq!(quick.at_once().gather_after(9_999), Duration::ZERO);
    }
}
