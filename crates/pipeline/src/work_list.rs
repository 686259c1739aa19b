//! Which hours are to be consolidated, as entries of a journal, and who does it.
//!
//! A key that waits already is merged with the new one, so that a burst of uploads is one visit to the hour.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cannery_formats::feed::{FeedId, Hour};
use cannery_journal::worker::{Handler, Outcome, Work};
use cannery_journal::{Data, Date, Journal, Key, NewEntry, Op, Priority};
use cannery_lake::Breaker;
use cannery_runtime::{Clock, Rng};
use jiff::Timestamp;
use serde::Serialize;

use crate::consolidate::{Consolidator, Step};
use crate::error::Error;
use crate::hour_folder::HourFolder;
use crate::store::Store;

mod settled;

use settled::Settled;

const STAGE: &str = "consolidate";
const PAUSE_FIRST: Duration = Duration::from_secs(5);
const PAUSE_MAX: Duration = Duration::from_secs(15 * 60);

/// The key of an hour that is to be consolidated: `consolidate/<store>/<feed>/<hour>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HourKey {
    /// The id of the object storage.
    pub store: String,
    /// Which feed.
    pub feed: FeedId,
    /// Which hour.
    pub hour: Hour,
}

/// The text is no key of an hour.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a key of the form `consolidate/<store>/<feed>/<hour>`")]
pub struct InvalidHourKey;

impl fmt::Display for HourKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{STAGE}/{}/{}/{}", self.store, self.feed, self.hour)
    }
}

impl FromStr for HourKey {
    type Err = InvalidHourKey;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        // From the right: neither an hour nor a feed holds a `/`.
        let mut parts = text.rsplitn(3, '/');
        let [Some(hour), Some(feed), Some(rest)] = [(); 3].map(|()| parts.next()) else {
            return Err(InvalidHourKey);
        };
        let store = rest
            .strip_prefix(STAGE)
            .and_then(|rest| rest.strip_prefix('/'))
            .filter(|store| !store.is_empty());
        Ok(Self {
            store: store.ok_or(InvalidHourKey)?.to_owned(),
            feed: FeedId::new(feed).map_err(|_| InvalidHourKey)?,
            hour: hour.parse().map_err(|_| InvalidHourKey)?,
        })
    }
}

/// Adds hours to the journal, due at `due` or at once. Adding one that waits already changes little.
///
/// # Errors
/// As the journal says; some of them may have been added.
pub async fn add(
    journal: &Journal,
    hours: &[HourKey],
    priority: Priority,
    due: Option<Date>,
) -> Result<(), Error> {
    for some in hours.chunks(Op::COUNT_MAX) {
        let entries = some.iter().map(|hour| NewEntry {
            priority: Some(priority),
            process_date: due,
            ..NewEntry::new(hour.to_string(), Data::null())
        });
        journal.add(entries.collect()).await?;
    }
    Ok(())
}

/// Adds hours to be visited at once, whatever was planned: perhaps by a clock that was wrong.
///
/// # Errors
/// As the journal says; some of them may have been added.
pub async fn add_anew(
    journal: &Journal,
    hours: &[HourKey],
    priority: Priority,
) -> Result<(), Error> {
    for hour in hours {
        journal.cancel(Key::new(hour.to_string())?).await?;
    }
    add(journal, hours, priority, None).await
}

/// One visit to an hour, for logs and pages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Cycle {
    /// When it ended.
    pub time: Timestamp,
    /// How long it took, in milliseconds.
    pub took_ms: u64,
    /// The id of the object storage.
    pub store: String,
    /// Which feed.
    pub feed: FeedId,
    /// Which hour.
    pub hour: Hour,
    /// What was done, also before an error.
    pub steps: Vec<Step>,
    /// Why it is not done yet; it is tried again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Hears of every visit to an hour.
pub trait Listener: Send + Sync {
    /// One has ended. Called from a task: it must not block.
    fn cycle(&self, cycle: &Cycle);
}

/// Consolidates what a [`cannery_journal::worker::Worker`] hands it. Clones are the same.
#[derive(Clone)]
pub struct Hand(Arc<Inner>);

struct Inner {
    consolidator: Consolidator,
    stores: BTreeMap<String, (Store, Breaker)>,
    listener: Arc<dyn Listener>,
    clock: Clock,
    rng: Rng,
    settled: Settled,
}

impl Hand {
    /// One for these stores.
    #[must_use]
    pub fn new(
        consolidator: Consolidator,
        stores: impl IntoIterator<Item = Store>,
        listener: Arc<dyn Listener>,
        clock: Clock,
        rng: Rng,
    ) -> Self {
        let stores = stores.into_iter().map(|store| {
            let breaker = Breaker::new(clock.clone(), rng.clone());
            (store.id().to_owned(), (store, breaker))
        });
        Self(Arc::new(Inner {
            consolidator,
            stores: stores.collect(),
            listener,
            clock,
            rng,
            settled: Settled::default(),
        }))
    }

    /// Whether the store with this id is one of them.
    #[must_use]
    pub fn has_store(&self, id: &str) -> bool {
        self.0.stores.contains_key(id)
    }

    /// Does what is to be done in an hour, unless it looks as it did when nothing could be done.
    async fn attend(&self, hour: &HourKey, store: &Store) -> Result<(), Error> {
        let listed = HourFolder::list(&store.lake, &hour.feed, hour.hour).await;
        // What is wrong with the store is found again by the visit, and told.
        let Ok(folder) = listed else {
            return self.visit(hour, store).await.map(drop);
        };
        let (settled, now) = (&self.0.settled, self.0.clock.elapsed());
        if settled.is(hour, &folder, now) {
            return Ok(());
        }
        if !self.visit(hour, store).await? {
            settled.note(hour, folder, now);
        }
        Ok(())
    }

    /// Consolidates an hour and tells of it; whether anything was changed.
    async fn visit(&self, hour: &HourKey, store: &Store) -> Result<bool, Error> {
        let inner = &self.0;
        let begun = inner.clock.elapsed();
        let mut steps = Vec::new();
        let run = inner
            .consolidator
            .run(store, &hour.feed, hour.hour, &mut steps);
        let outcome = run.await;
        let is_change = steps.iter().any(Step::is_change);
        inner.listener.cycle(&Cycle {
            time: inner.clock.now(),
            took_ms: u64::try_from(inner.clock.since(begun).as_millis()).unwrap_or(u64::MAX),
            store: hour.store.clone(),
            feed: hour.feed.clone(),
            hour: hour.hour,
            steps,
            error: outcome.as_ref().err().map(ToString::to_string),
        });
        outcome.map(|()| is_change)
    }

    /// As long again as it has been tried already.
    fn pause(&self, work: &Work) -> Duration {
        let age = Date::from(self.0.clock.now()).since(work.entry.meta.arrived);
        let ceiling = age.clamp(PAUSE_FIRST, PAUSE_MAX);
        ceiling / 2 + self.0.rng.jitter(ceiling / 2)
    }
}

#[async_trait]
impl Handler for Hand {
    async fn handle(&self, work: Work) -> Outcome {
        let key = work.entry.key.as_str();
        let dead = |reason: String| Outcome::Dead { reason };
        let hour = match key.parse::<HourKey>() {
            Ok(hour) => hour,
            Err(error) => return dead(error.to_string()),
        };
        let Some((store, breaker)) = self.0.stores.get(&hour.store) else {
            let store = &hour.store;
            return dead(format!("object storage `{store}` is not configured here"));
        };
        let later = |pause| Outcome::Release {
            at: Some(Date::from(self.0.clock.now()).plus(pause)),
        };
        // A store that does not answer must not keep the others waiting.
        let pass = match breaker.ask() {
            Ok(pass) => pass,
            Err(pause) => return later(pause + self.0.rng.jitter(pause / 2)),
        };
        let visited = tokio::select! {
            visited = self.attend(&hour, store) => visited,
            // Somebody else does it now; both at once would be safe, but in vain.
            () = work.lost.cancelled() => return Outcome::Release { at: None },
        };
        let Err(error) = visited else {
            pass.succeeded();
            return Outcome::Done;
        };
        match &error {
            Error::Lake(error) if error.kind.is_of_the_store() => pass.failed(),
            _ => drop(pass),
        }
        let pause = self.pause(&work);
        tracing::warn!(key, %error, ?pause, "not consolidated yet; trying on");
        // For ever and without blame: the archives stay until it is done.
        later(pause)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_read_as_they_are_written() {
        for text in [
            "consolidate/main/f/20261115T18Z",
            "consolidate/a/b/f.1/20261115T18Z",
        ] {
            assert_eq!(text.parse::<HourKey>().unwrap().to_string(), text);
        }
        for text in [
            "",
            "consolidate/f/20261115T18Z",
            "consolidate//f/20261115T18Z",
            "consolidate/main/f/20261115T18",
            "consolidate/main/.f/20261115T18Z",
            "can/main/f/20261115T18Z",
            "consolidated/main/f/20261115T18Z",
        ] {
            assert_eq!(text.parse::<HourKey>(), Err(InvalidHourKey), "{text}");
        }
    }
}
