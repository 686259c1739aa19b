//! What all replicas together collected, read from the archives in the lake while somebody looks at a feed.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_formats::feed::{FeedId, Hour};
use cannery_lake::Lake;
use cannery_pipeline::gaps::{CoverageReader, HourCoverage};
use cannery_pipeline::{Error, HourFolder};
use cannery_runtime::Clock;
use cannery_serve::Tally;
use jiff::{SignedDuration, Timestamp};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// How far back; each hour is an archive to read.
const BACK: SignedDuration = SignedDuration::from_hours(48);
/// What was read is good for this long.
const FRESH: Duration = Duration::from_secs(60);
/// Feeds that nobody looked at for this long are forgotten.
const FORGET: Duration = Duration::from_secs(3_600);

/// The coverage of the feeds that somebody looks at.
#[derive(Debug)]
pub(super) struct CoverageWatch {
    lake: Lake,
    clock: Clock,
    feeds: Mutex<BTreeMap<FeedId, Looked>>,
    wanted: Notify,
}

/// What is known of a feed.
#[derive(Clone, Debug, Default)]
pub(super) struct Covered {
    /// The hours that have archives.
    pub(super) hours: BTreeMap<Hour, Tally>,
    /// When they were last read.
    pub(super) read: Option<Timestamp>,
    /// Why they could not be.
    pub(super) error: Option<String>,
}

#[derive(Debug)]
struct Looked {
    covered: Covered,
    /// The folders that hours were read from. As long as every object is as long and as old as it was, so is what they say;
    /// names alone do not tell, for a primary that was replaced keeps its own.
    folders: BTreeMap<Hour, HourFolder>,
    asked: Duration,
    tried: Option<Duration>,
}

impl CoverageWatch {
    pub(super) fn new(lake: Lake, clock: Clock) -> Self {
        Self {
            lake,
            clock,
            feeds: Mutex::default(),
            wanted: Notify::new(),
        }
    }

    /// Somebody looks at a feed: it is read soon.
    pub(super) fn want(&self, feed: &FeedId) {
        let now = self.clock.elapsed();
        let mut feeds = self.lock();
        let looked = feeds.entry(feed.clone()).or_insert_with(|| Looked {
            covered: Covered::default(),
            folders: BTreeMap::new(),
            asked: now,
            tried: None,
        });
        looked.asked = now;
        drop(feeds);
        self.wanted.notify_one();
    }

    /// What is known by now.
    pub(super) fn of(&self, feed: &FeedId) -> Covered {
        let feeds = self.lock();
        let looked = feeds.get(feed);
        looked
            .map(|looked| looked.covered.clone())
            .unwrap_or_default()
    }

    /// Reads what is wanted, one feed after the other, until `stop`.
    pub(super) async fn run(&self, reader: &CoverageReader, stop: &CancellationToken) {
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.wanted.notified() => {}
            }
            while let Some(feed) = self.next() {
                tokio::select! {
                    () = stop.cancelled() => return,
                    () = self.read(reader, &feed) => {}
                }
            }
        }
    }

    /// A feed that somebody looks at and that was not read just now.
    fn next(&self) -> Option<FeedId> {
        let now = self.clock.elapsed();
        let mut feeds = self.lock();
        feeds.retain(|_, looked| now.saturating_sub(looked.asked) < FORGET);
        let is_stale = |looked: &Looked| {
            let tried = looked.tried;
            tried.is_none_or(|tried| now.saturating_sub(tried) >= FRESH)
        };
        let (feed, looked) = feeds.iter_mut().find(|(_, looked)| is_stale(looked))?;
        looked.tried = Some(now);
        Some(feed.clone())
    }

    async fn read(&self, reader: &CoverageReader, feed: &FeedId) {
        let now = self.clock.now();
        let mut hour = Some(Hour::of(now));
        let oldest = Hour::of(now.checked_sub(BACK).unwrap_or(now));
        let mut error = None;
        // The newest first: that is what people look at.
        while let Some(at) = hour.filter(|hour| *hour >= oldest && error.is_none()) {
            error = self.read_hour(reader, feed, at).await.err();
            let before = at.begin().checked_sub(Hour::LENGTH);
            hour = before.ok().map(Hour::of);
        }
        let mut feeds = self.lock();
        if let Some(looked) = feeds.get_mut(feed) {
            looked.covered.error = error.as_ref().map(ToString::to_string);
            if error.is_none() {
                looked.covered.read = Some(self.clock.now());
            }
        }
    }

    async fn read_hour(
        &self,
        reader: &CoverageReader,
        feed: &FeedId,
        hour: Hour,
    ) -> Result<(), Error> {
        let folder = HourFolder::list(&self.lake, feed, hour).await?;
        let known = self
            .lock()
            .get(feed)
            .is_some_and(|looked| looked.folders.get(&hour) == Some(&folder));
        if known {
            return Ok(());
        }
        let now = self.clock.now();
        let tally = match folder.archives().is_empty() {
            true => None,
            false => {
                let read = reader.hour(&self.lake, feed, hour, &folder, now).await?;
                Some(tally(&read))
            }
        };
        if let Some(looked) = self.lock().get_mut(feed) {
            // Until the hour is over, polls become due that the same archives say nothing of.
            if hour.end() <= now {
                looked.folders.insert(hour, folder);
            }
            match tally {
                Some(tally) => looked.covered.hours.insert(hour, tally),
                None => looked.covered.hours.remove(&hour),
            };
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<FeedId, Looked>> {
        self.feeds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn tally(hour: &HourCoverage) -> Tally {
    Tally {
        stored: hour.stored,
        unchanged: hour.unchanged,
        failed: hour.failed,
        not_collected: hour.not_collected,
    }
}

#[cfg(test)]
mod tests;
