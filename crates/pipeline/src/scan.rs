//! Finding the hours that need work, from the lake alone: nobody depends on the one who uploaded being alive.
//!
//! The last two days are looked at every ten minutes, everything once a day. There is no window: an archive that arrives a
//! year late is merged.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use cannery_formats::feed::{FeedId, Hour};
use cannery_journal::{Journal, Priority};
use cannery_runtime::{Clock, Rng};
use futures::TryStreamExt as _;
use jiff::{SignedDuration, Timestamp};
use tokio_util::sync::CancellationToken;

use crate::error::Error;
use crate::scope::{Listed, Scope, days};
use crate::store::Store;
use crate::work_list::{self, HourKey};

mod tally;

use tally::{ByHour, OutOfOrder};
pub use tally::{Need, unmerged};

const RECENT: SignedDuration = SignedDuration::from_hours(48);
const RECENT_EVERY: Duration = Duration::from_secs(10 * 60);
const WHOLE_EVERY: Duration = Duration::from_secs(86_400);
const FIRST_WITHIN: Duration = Duration::from_secs(30);

/// What a scan found in one store.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Every feed that has an hour.
    pub feeds: BTreeSet<FeedId>,
    /// How many hours were looked at.
    pub hours: u64,
    /// The hours that need work, in order.
    pub unmerged: Vec<(FeedId, Hour)>,
}

/// Looks at every object of a lake. Memory holds what was found, not the listing, where the store lists in order. `listed`
/// hears how many objects were seen, after each.
///
/// # Errors
/// Any failure of the store: a part of a listing is never taken for the whole.
pub async fn whole_lake(store: &Store, listed: &mut Listed<'_>) -> Result<Found, Error> {
    let mut by_hour = ByHour::streaming(Need::of(store));
    let mut entries = store.lake.list(None);
    let mut count = 0;
    while let Some(entry) = entries.try_next().await? {
        count += 1;
        listed(count);
        if by_hour.take(entry) == Err(OutOfOrder) {
            drop(entries);
            return whole_lake_unordered(store, listed).await;
        }
    }
    Ok(by_hour.finish())
}

async fn whole_lake_unordered(store: &Store, listed: &mut Listed<'_>) -> Result<Found, Error> {
    let mut by_hour = ByHour::remembering(Need::of(store));
    let mut entries = store.lake.list(None);
    let mut count = 0;
    while let Some(entry) = entries.try_next().await? {
        count += 1;
        listed(count);
        by_hour.take(entry).ok();
    }
    Ok(by_hour.finish())
}

/// Looks at the hours of a scope.
///
/// # Errors
/// Any failure of the store.
pub async fn within(store: &Store, scope: &Scope) -> Result<Found, Error> {
    let need = Need::of(store);
    let mut found = Found::default();
    for ((feed, hour), folder) in scope.folders(&store.lake, &mut |_| {}).await? {
        found.hours += 1;
        found.feeds.insert(feed.clone());
        if need.is_there(&folder) {
            found.unmerged.push((feed, hour));
        }
    }
    Ok(found)
}

/// Looks at the days of `feeds` that the hours since `since` lie in, up to now and one hour more for clocks that differ.
///
/// # Errors
/// Any failure of the store.
pub async fn since(
    store: &Store,
    feeds: &BTreeSet<FeedId>,
    since: Hour,
    now: Timestamp,
) -> Result<Found, Error> {
    let mut by_hour = ByHour::remembering(Need::of(store));
    let last = Hour::of(now.checked_add(Hour::LENGTH).unwrap_or(now));
    for feed in feeds {
        for day in days(feed, since, last) {
            for entry in store.lake.list_all(Some(&day)).await? {
                by_hour.take(entry).ok();
            }
        }
    }
    let mut found = by_hour.finish();
    found.unmerged.retain(|(_, hour)| *hour >= since);
    Ok(found)
}

/// Scans stores again and again, and adds what needs work to a journal.
#[derive(Debug)]
pub struct Scanner {
    stores: Vec<Store>,
    journal: Journal,
    clock: Clock,
    rng: Rng,
    configured: Mutex<BTreeSet<FeedId>>,
}

/// What a scanner knows of its stores.
#[derive(Debug)]
struct Seen {
    /// The feeds of each store, by the last scan of everything.
    feeds: Vec<BTreeSet<FeedId>>,
    /// When everything was last scanned, by the monotonic clock.
    whole: Vec<Option<Duration>>,
}

impl Scanner {
    /// A scanner of these stores; what it finds goes to `journal`.
    #[must_use]
    pub fn new(stores: Vec<Store>, journal: Journal, clock: Clock, rng: Rng) -> Self {
        Self {
            stores,
            journal,
            clock,
            rng,
            configured: Mutex::default(),
        }
    }

    /// The feeds that are collected here; those that the lake itself shows are found without it.
    pub fn set_feeds(&self, feeds: impl IntoIterator<Item = FeedId>) {
        *self.lock() = feeds.into_iter().collect();
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeSet<FeedId>> {
        self.configured
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// Scans until `stop` is cancelled. What fails is logged and tried again the next time.
    pub async fn run(&self, stop: CancellationToken) {
        let mut seen = Seen {
            feeds: vec![BTreeSet::new(); self.stores.len()],
            whole: vec![None; self.stores.len()],
        };
        let mut pause = self.rng.jitter(FIRST_WITHIN);
        loop {
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.clock.sleep(pause) => {}
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = self.scan_all(&mut seen) => {}
            }
            // Replicas that were started together drift apart.
            pause = RECENT_EVERY * 3 / 4 + self.rng.jitter(RECENT_EVERY / 2);
        }
    }

    async fn scan_all(&self, seen: &mut Seen) {
        for (place, store) in self.stores.iter().enumerate() {
            if let Err(error) = self.scan_one(place, store, seen).await {
                let store = store.id();
                tracing::warn!(store, %error, "could not look for hours to consolidate; trying again later");
            }
        }
    }

    async fn scan_one(&self, place: usize, store: &Store, seen: &mut Seen) -> Result<(), Error> {
        store.know_way().await?;
        let is_due = |last: Duration| self.clock.since(last) >= WHOLE_EVERY;
        if seen.whole[place].is_none_or(is_due) {
            let begun = self.clock.elapsed();
            let found = whole_lake(store, &mut |_| {}).await?;
            let hours = keys(store, found.unmerged);
            work_list::add_anew(&self.journal, &hours, Priority::UPDATES).await?;
            seen.feeds[place] = found.feeds;
            seen.whole[place] = Some(begun);
            return Ok(());
        }
        let feeds = &seen.feeds[place] | &*self.lock();
        let now = self.clock.now();
        let begin = Hour::of(now.checked_sub(RECENT).unwrap_or(now));
        let found = since(store, &feeds, begin, now).await?;
        let hours = keys(store, found.unmerged);
        work_list::add(&self.journal, &hours, Priority::NEW, None).await
    }
}

fn keys(store: &Store, hours: Vec<(FeedId, Hour)>) -> Vec<HourKey> {
    let id = store.id();
    if !hours.is_empty() {
        tracing::info!(store = id, hours = hours.len(), "hours to consolidate");
    }
    let hours = hours.into_iter().map(|(feed, hour)| HourKey {
        store: id.to_owned(),
        feed,
        hour,
    });
    hours.collect()
}

#[cfg(test)]
mod tests;
