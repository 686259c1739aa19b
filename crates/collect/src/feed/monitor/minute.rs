//! A minute of polls, small enough to keep days of them for a thousand feeds.

use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Which minute: those since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct MinuteNumber(i64);

impl MinuteNumber {
    /// The minute of a time.
    #[must_use]
    pub fn of(time: Timestamp) -> Self {
        Self(time.as_second().div_euclid(60))
    }

    /// When it begins.
    #[must_use]
    pub fn begin(self) -> Timestamp {
        Timestamp::from_second(self.0.saturating_mul(60)).unwrap_or(Timestamp::MIN)
    }

    pub(super) fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// What came of the polls of a minute. Counts stop at their highest value.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Minute {
    /// Polls that stored a body.
    #[serde(rename = "s", default, skip_serializing_if = "is_zero")]
    pub stored: u16,
    /// Polls that found the body of before.
    #[serde(rename = "u", default, skip_serializing_if = "is_zero")]
    pub unchanged: u16,
    /// Polls in vain.
    #[serde(rename = "f", default, skip_serializing_if = "is_zero")]
    pub failed: u16,
    /// Polls that were left out.
    #[serde(rename = "x", default, skip_serializing_if = "is_zero")]
    pub missed: u16,
    /// How long the successful ones took together.
    #[serde(rename = "t", default)]
    latency_ms: u32,
    /// And the longest of them.
    #[serde(rename = "m", default)]
    longest_ms: u32,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes it so")]
fn is_zero(count: &u16) -> bool {
    *count == 0
}

impl Minute {
    /// How many polls succeeded.
    #[must_use]
    pub fn succeeded(&self) -> u32 {
        u32::from(self.stored) + u32::from(self.unchanged)
    }

    /// How long a successful poll took on average, and at most.
    #[must_use]
    pub fn latency(&self) -> Option<(Duration, Duration)> {
        let mean = self.latency_ms.checked_div(self.succeeded())?;
        let [mean, longest] = [mean, self.longest_ms].map(|ms| Duration::from_millis(ms.into()));
        Some((mean, longest))
    }

    pub(super) fn stored(&mut self, latency: Duration) {
        self.stored = self.stored.saturating_add(1);
        self.took(latency);
    }

    pub(super) fn unchanged(&mut self, latency: Duration) {
        self.unchanged = self.unchanged.saturating_add(1);
        self.took(latency);
    }

    pub(super) fn failed(&mut self) {
        self.failed = self.failed.saturating_add(1);
    }

    pub(super) fn missed(&mut self, count: u64) {
        let count = u16::try_from(count).unwrap_or(u16::MAX);
        self.missed = self.missed.saturating_add(count);
    }

    fn took(&mut self, latency: Duration) {
        let ms = u32::try_from(latency.as_millis()).unwrap_or(u32::MAX);
        self.latency_ms = self.latency_ms.saturating_add(ms);
        self.longest_ms = self.longest_ms.max(ms);
    }

    /// Both together: a minute that two processes shared.
    pub(super) fn joined(self, other: Self) -> Self {
        Self {
            stored: self.stored.saturating_add(other.stored),
            unchanged: self.unchanged.saturating_add(other.unchanged),
            failed: self.failed.saturating_add(other.failed),
            missed: self.missed.saturating_add(other.missed),
            latency_ms: self.latency_ms.saturating_add(other.latency_ms),
            longest_ms: self.longest_ms.max(other.longest_ms),
        }
    }
}
