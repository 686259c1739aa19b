//! The hours that are still being written to, which must not be packed yet.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cannery_formats::feed::{FeedId, Hour};
use cannery_runtime::Clock;
use jiff::Timestamp;

/// Of each feed the hours that it writes to: at the end of one, lines about it are still to be written when the next poll begins.
#[derive(Debug, Default)]
pub(super) struct Busy(Mutex<BTreeSet<(FeedId, Hour)>>);

impl Busy {
    /// A poll begins now: its hour is busy from the moment its time is fixed.
    pub(super) fn begin(&self, feed: &FeedId, clock: &Clock) -> (Timestamp, Hour) {
        let mut busy = self.lock();
        let time = clock.now();
        let hour = Hour::of(time);
        busy.insert((feed.clone(), hour));
        (time, hour)
    }

    /// A poll that has begun goes on.
    pub(super) fn hold(&self, feed: &FeedId, hour: Hour) {
        self.lock().insert((feed.clone(), hour));
    }

    /// Everything of its hours is written.
    pub(super) fn end(&self, feed: &FeedId) {
        self.lock().retain(|(of, _)| of != feed);
    }

    /// Whether somebody writes to this hour.
    pub(super) fn is(&self, feed: &FeedId, hour: Hour) -> bool {
        self.lock().contains(&(feed.clone(), hour))
    }

    fn lock(&self) -> MutexGuard<'_, BTreeSet<(FeedId, Hour)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use cannery_runtime::clock::SimulatedClock;

    use super::*;

    #[tokio::test]
    async fn an_hour_is_busy_until_its_lines_are_written() {
        let simulated = SimulatedClock::starting_at("2026-11-15T18:59:59Z".parse().unwrap());
        let (clock, busy) = (simulated.clock(), Busy::default());
        let [one, other] = ["a", "b"].map(|id| FeedId::new(id).unwrap());
        let (_, before) = busy.begin(&one, &clock);
        busy.begin(&other, &clock);
        simulated.advance(Duration::from_secs(1)).await;
        let (_, after) = busy.begin(&one, &clock);
        assert_ne!(before, after);
        assert_eq!([before, after].map(|hour| busy.is(&one, hour)), [true; 2]);
        busy.end(&one);
        assert_eq!([before, after].map(|hour| busy.is(&one, hour)), [false; 2]);
        assert!(busy.is(&other, before), "of another feed");
    }
}
