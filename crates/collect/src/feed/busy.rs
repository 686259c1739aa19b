//! The hours that are still being written to, which must not be packed yet.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use cannery_formats::feed::{FeedId, Hour};
use cannery_runtime::Clock;
use jiff::Timestamp;

/// Of each feed the hour that it writes to.
#[derive(Debug, Default)]
pub(super) struct Busy(Mutex<BTreeMap<FeedId, Hour>>);

impl Busy {
    /// A poll begins now: its hour is busy from the moment its time is fixed.
    pub(super) fn begin(&self, feed: &FeedId, clock: &Clock) -> (Timestamp, Hour) {
        let mut busy = self.lock();
        let time = clock.now();
        let hour = Hour::of(time);
        busy.insert(feed.clone(), hour);
        (time, hour)
    }

    /// A poll that has begun goes on.
    pub(super) fn hold(&self, feed: &FeedId, hour: Hour) {
        self.lock().insert(feed.clone(), hour);
    }

    /// Everything of its hour is written.
    pub(super) fn end(&self, feed: &FeedId) {
        self.lock().remove(feed);
    }

    /// Whether somebody writes to this hour.
    pub(super) fn is(&self, feed: &FeedId, hour: Hour) -> bool {
        self.lock().get(feed) == Some(&hour)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<FeedId, Hour>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
