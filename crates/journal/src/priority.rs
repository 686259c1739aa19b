//! What is done first.

use serde::{Deserialize, Serialize};

/// A priority; the smallest is done first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Priority(pub u8);

impl Priority {
    /// Before everything else.
    pub const NOW: Self = Self(0);
    /// Somebody said so.
    pub const IMPORTANT: Self = Self(10);
    /// Work that has just arisen.
    pub const NEW: Self = Self(20);
    /// Somebody asked for much of it to be done again.
    pub const RESET: Self = Self(50);
    /// The usual updates.
    pub const UPDATES: Self = Self(180);
    /// From here on: only while nothing below is due.
    pub const SLOW: Self = Self(200);
    /// To look again, once in a while.
    pub const REVIEW: Self = Self(230);
    /// After everything else.
    pub const TIME_ALLOWS: Self = Self(255);

    /// Whether it waits until nothing below [`Priority::SLOW`] is due.
    #[must_use]
    pub fn is_slow(self) -> bool {
        self >= Self::SLOW
    }
}

impl Default for Priority {
    fn default() -> Self {
        Self::NEW
    }
}
