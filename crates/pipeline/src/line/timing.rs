//! When work is due, by the few settings that a person chooses; and what they are when nobody chooses.

use std::time::Duration;

/// How long reports are gathered, and tables by date wait for the next change, by default.
pub const DEBOUNCE: Duration = Duration::from_secs(2 * 60);
/// How long adds of the same key may put off the first one, by default.
pub const MAX_DELAY: Duration = Duration::from_secs(5 * 60);
/// How long after its day a bucket is sealed, and what was replaced is kept, by default.
pub const GRACE: Duration = Duration::from_secs(24 * 3_600);

/// The longest pause between two looks for reports, and the shortest.
const LOOK_EVERY: Duration = Duration::from_secs(60);
const LOOK_EVERY_MIN: Duration = Duration::from_secs(1);

/// When the work that follows is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Reports are canned so long after the first of them was found, unless there are very many: a can should not be small.
    pub gather: Duration,
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
            sweep_grace: grace,
            debounce,
        }
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
        self.gather.clamp(LOOK_EVERY_MIN, LOOK_EVERY)
    }
}

impl Default for Timing {
    fn default() -> Self {
        Self::new(DEBOUNCE, GRACE)
    }
}
