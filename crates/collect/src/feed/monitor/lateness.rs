//! How late polls began: of all feeds together, because a machine that is too busy is late with all of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper ends of the buckets in milliseconds; the last bucket has none. Close together around 50 ms, which is what a machine
/// with enough room keeps below.
const ENDS_MS: [u64; 18] = [
    1, 2, 3, 5, 7, 10, 15, 20, 30, 40, 50, 75, 100, 250, 500, 1_000, 5_000, 60_000,
];

/// Counts of polls by how late they began.
#[derive(Debug, Default)]
pub(super) struct Counts {
    buckets: [AtomicU64; ENDS_MS.len() + 1],
    total_us: AtomicU64,
}

impl Counts {
    pub(super) fn count(&self, late: Duration) {
        let is_within = |end: &u64| late <= Duration::from_millis(*end);
        let bucket = ENDS_MS.iter().position(is_within);
        self.buckets[bucket.unwrap_or(ENDS_MS.len())].fetch_add(1, Ordering::Relaxed);
        let us = u64::try_from(late.as_micros()).unwrap_or(u64::MAX);
        self.total_us.fetch_add(us, Ordering::Relaxed);
    }

    pub(super) fn snapshot(&self) -> Lateness {
        let ends = ENDS_MS.iter().map(|end| Some(Duration::from_millis(*end)));
        let counts = self.buckets.iter();
        let counts = counts.map(|count| count.load(Ordering::Relaxed));
        Lateness {
            buckets: ends.chain([None]).zip(counts).collect(),
            total: Duration::from_micros(self.total_us.load(Ordering::Relaxed)),
        }
    }
}

/// How long after their time polls began, since the process started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lateness {
    /// How many were later than the end of the bucket before and at most as late as the end of this one; the last has no end.
    pub buckets: Vec<(Option<Duration>, u64)>,
    /// All of it together.
    pub total: Duration,
}

impl Lateness {
    /// How many polls began.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.buckets.iter().map(|(_, count)| count).sum()
    }

    /// How late at most that share of all polls was, as the end of its bucket: never less than it really was. Nothing before the
    /// first poll, and when it lies in the bucket without an end.
    #[must_use]
    pub fn quantile(&self, share: f64) -> Option<Duration> {
        let wanted = self.count() as f64 * share;
        let mut passed = 0;
        for (end, count) in &self.buckets {
            passed += count;
            if *count > 0 && passed as f64 >= wanted {
                return *end;
            }
        }
        None
    }

    /// What was counted since `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        let pairs = self.buckets.iter().zip(&before.buckets);
        Self {
            buckets: pairs
                .map(|((end, now), (_, then))| (*end, now.saturating_sub(*then)))
                .collect(),
            total: self.total.saturating_sub(before.total),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_is_never_less_than_it_was() {
        let ms = Duration::from_millis;
        let counts = Counts::default();
        assert_eq!(counts.snapshot().quantile(0.99), None);
        for late in [ms(0), ms(1), ms(4), ms(50)] {
            counts.count(late);
        }
        let before = counts.snapshot();
        assert_eq!(before.count(), 4);
        assert_eq!(before.total, ms(55));
        for (share, expected) in [(0.0, 1), (0.5, 1), (0.75, 5), (0.99, 50), (1.0, 50)] {
            assert_eq!(before.quantile(share), Some(ms(expected)), "{share}");
        }
        counts.count(Duration::from_secs(3_600));
        assert_eq!(counts.snapshot().quantile(1.0), None);
        let since = counts.snapshot().since(&before);
        assert_eq!(
            (since.count(), since.total),
            (1, Duration::from_secs(3_600))
        );
    }
}
