//! What is done behind the polls: hours are packed, archives shipped, and what people want to know is kept.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cannery_formats::feed::{ArchiveName, FeedId, Hour};
use cannery_journal::worker::{Handler, Outcome, Work, Worker};
use cannery_journal::{Data, Date, Journal, NewEntry};
use cannery_lake::Mirrors;
use futures::stream::{self, StreamExt as _};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::monitor::{Task, TaskKind};
use super::pack::{Packed, pack};
use super::shared::Shared;
use super::ship::{Ship, ShipError, Upload, Uploads, from_list_key, list_key};
use crate::blocking::blocking;
use crate::turns::Turns;

/// How often hours are looked for that could not be packed when they ended.
const PACK_EVERY: Duration = Duration::from_secs(60);
/// And how soon when somebody still wrote to one, or it could not be packed.
const PACK_SOON: Duration = Duration::from_secs(1);
const SAVE_EVERY: Duration = Duration::from_secs(60);
const SHIPS_AT_ONCE: usize = 4;
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(300);

/// What is not in the lake when a flush ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Archives that not every mirror has.
    pub archives: Vec<ArchiveName>,
    /// Hours that are not packed.
    pub hours: Vec<(FeedId, Hour)>,
    /// Why it is not known what is left.
    pub unknown: Option<String>,
}

impl Left {
    /// Whether everything is in the lake.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        self.archives.is_empty() && self.hours.is_empty() && self.unknown.is_none()
    }
}

impl fmt::Display for Left {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let archives = self.archives.iter().map(|name| format!("`{name}`"));
        let hours = self.hours.iter();
        let hours = hours.map(|(feed, hour)| format!("hour {hour} of feed `{feed}`"));
        let unknown = self.unknown.iter().cloned();
        let all: Vec<String> = archives.chain(hours).chain(unknown).collect();
        f.write_str(&all.join(", "))
    }
}

pub(super) struct Works {
    shared: Arc<Shared>,
    mirrors: Mirrors,
    journal: Journal,
    uploads: Arc<dyn Uploads>,
    turns: Turns,
    /// Whether the lake is known to be the right one.
    cleared: Option<watch::Receiver<bool>>,
}

impl Works {
    pub(super) fn new(
        shared: Arc<Shared>,
        mirrors: Mirrors,
        journal: Journal,
        uploads: Arc<dyn Uploads>,
        cleared: Option<watch::Receiver<bool>>,
    ) -> Self {
        Self {
            shared,
            mirrors,
            journal,
            uploads,
            turns: Turns::default(),
            cleared,
        }
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Packs every hour soon after it ended, and puts its archive on the list; until `ending`.
    pub(super) async fn pack_hours(self: Arc<Self>, ending: CancellationToken) {
        self.list_waiting().await;
        loop {
            let begun = Hour::of(self.shared.clock.now());
            let pause = match self.pack(Which::Over, &ending).await {
                // An hour ended meanwhile.
                Ok(true) if Hour::of(self.shared.clock.now()) != begun => Duration::ZERO,
                Ok(true) => self.until_next_hour().min(PACK_EVERY),
                Ok(false) => PACK_SOON,
                Err(error) => {
                    tracing::error!(%error, "cannot pack the hours of feeds; trying on");
                    PACK_EVERY
                }
            };
            tokio::select! {
                () = ending.cancelled() => return,
                () = self.shared.clock.sleep(pause) => {}
            }
        }
    }

    fn until_next_hour(&self) -> Duration {
        let now = self.shared.clock.now();
        let left = Hour::of(now).end().duration_since(now);
        Duration::try_from(left).unwrap_or_default() + Duration::from_millis(1)
    }

    /// Packs the hours that are there; says whether all of them could be.
    async fn pack(&self, which: Which, ending: &CancellationToken) -> io::Result<bool> {
        let depot = self.shared.depot.clone();
        let hours = blocking(move || depot.hours()).await?;
        let now = self.shared.clock.now();
        let mut all = true;
        for (feed, hour) in hours {
            if ending.is_cancelled() {
                break;
            }
            if which == Which::Over && hour.end() > now {
                continue;
            }
            if self.shared.busy.is(&feed, hour) {
                all = false;
                continue;
            }
            all &= self.pack_one(&feed, hour).await;
        }
        Ok(all)
    }

    async fn pack_one(&self, feed: &FeedId, hour: Hour) -> bool {
        let shared = Arc::clone(&self.shared);
        let habit = shared.habits.of(feed);
        let id = feed.clone();
        let packed =
            blocking(move || pack(&shared.depot, (&id, hour), &shared.replica, habit)).await;
        match packed {
            Ok(None) => true,
            Ok(Some(packed)) => {
                self.remember_packed(feed, hour, Ok(&packed));
                self.list(&packed.name).await;
                true
            }
            Err(error) => {
                tracing::error!(%feed, %hour, %error, "cannot pack an hour; trying on");
                self.remember_packed(feed, hour, Err(&error));
                false
            }
        }
    }

    fn remember_packed(&self, feed: &FeedId, hour: Hour, packed: Result<&Packed, &io::Error>) {
        let did = match packed {
            Ok(packed) => format!(
                "packed {} bodies into {} bytes: {}",
                packed.bodies, packed.archive_bytes, packed.name
            ),
            Err(error) => error.to_string(),
        };
        let task = Task {
            kind: TaskKind::Archive,
            at: self.shared.clock.now(),
            hour,
            store: None,
            ok: packed.is_ok(),
            did: vec![did],
        };
        self.shared.monitor.task(feed, task);
    }

    /// What a process before left, and what the list lost.
    async fn list_waiting(&self) {
        let depot = self.shared.depot.clone();
        match blocking(move || depot.waiting()).await {
            Ok(waiting) => {
                for name in waiting {
                    self.list(&name).await;
                }
            }
            Err(error) => {
                tracing::error!(%error, "cannot see which archives wait for being shipped; the next start looks again");
            }
        }
    }

    async fn list(&self, name: &ArchiveName) {
        self.shared.monitor.waits(name);
        let entry = NewEntry::new(list_key(name), Data::null());
        if let Err(error) = self.journal.add_one(entry).await {
            tracing::warn!(archive = %name, %error, "the journal does not take an archive; it is shipped at the end, or by the next start");
        }
    }

    /// Ships what the list says, until `ending`.
    pub(super) async fn ship_listed(self: Arc<Self>, ending: CancellationToken) {
        tokio::select! {
            () = ending.cancelled() => return,
            () = self.until_cleared() => {}
        }
        let (clock, rng) = (self.shared.clock.clone(), self.shared.rng.clone());
        let worker = Worker::new(self.journal.clone(), "feeds", clock, rng);
        let worker = worker.concurrency(SHIPS_AT_ONCE).grace(Duration::ZERO);
        let summary = worker.run(Hand(self), ending).await;
        if let Some(error) = summary.error {
            tracing::error!(%error, "shipping the archives of feeds ended early");
        }
    }

    /// What is shipped before the lake is known may go to somebody else's.
    async fn until_cleared(&self) {
        if let Some(cleared) = &self.cleared {
            let mut cleared = cleared.clone();
            if cleared.wait_for(|cleared| *cleared).await.is_err() {
                // Whoever would say it is gone.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Ships one archive; says why not.
    async fn ship(&self, name: &ArchiveName) -> Result<(), ShipError> {
        let told = |name: &ArchiveName, store: &str, uploaded: Result<Upload, &ShipError>| {
            self.remember_upload(name, store, uploaded);
        };
        let ship = Ship {
            depot: &self.shared.depot,
            mirrors: &self.mirrors,
            uploads: &*self.uploads,
            told: &told,
        };
        ship.ship(name).await?;
        self.shared.monitor.shipped(name);
        Ok(())
    }

    fn remember_upload(
        &self,
        name: &ArchiveName,
        store: &str,
        uploaded: Result<Upload, &ShipError>,
    ) {
        let did = match uploaded {
            Ok(Upload::Stored) => format!("stored {name}"),
            Ok(Upload::Unwanted) => format!("removed {name} again: the hour was deleted"),
            Err(error) => error.to_string(),
        };
        let task = Task {
            kind: TaskKind::Upload,
            at: self.shared.clock.now(),
            hour: name.hour,
            store: Some(store.to_owned()),
            ok: uploaded.is_ok(),
            did: vec![did],
        };
        self.shared.monitor.task(&name.feed, task);
    }

    /// Packs and ships everything, for as long as it takes.
    pub(super) async fn flush(&self) {
        let never = CancellationToken::new();
        loop {
            let packed = self.pack(Which::All, &never).await;
            self.until_cleared().await;
            let depot = self.shared.depot.clone();
            let waiting = blocking(move || depot.waiting()).await;
            let waiting = waiting.unwrap_or_default();
            let ships: Vec<_> = waiting.iter().map(|name| self.ship(name)).collect();
            let shipped: Vec<Result<(), ShipError>> = stream::iter(ships)
                .buffer_unordered(SHIPS_AT_ONCE)
                .collect()
                .await;
            for error in shipped.iter().filter_map(|shipped| shipped.as_ref().err()) {
                tracing::warn!(%error, "not shipped yet; trying on");
            }
            if matches!(packed, Ok(true)) && shipped.iter().all(Result::is_ok) {
                return;
            }
            self.shared.clock.sleep(PAUSE_FIRST).await;
        }
    }

    pub(super) async fn left(&self) -> Left {
        let depot = self.shared.depot.clone();
        let found = blocking(move || Ok((depot.waiting()?, depot.hours()?))).await;
        match found {
            Ok((archives, hours)) => Left {
                archives,
                hours,
                unknown: None,
            },
            Err(error) => Left {
                unknown: Some(format!("cannot see what is left: {error}")),
                ..Left::default()
            },
        }
    }

    /// Keeps what people want to know, until `ending`.
    pub(super) async fn save_monitor(self: Arc<Self>, ending: CancellationToken) {
        loop {
            tokio::select! {
                () = ending.cancelled() => return,
                () = self.shared.clock.sleep(SAVE_EVERY) => {}
            }
            let monitor = self.shared.monitor.clone();
            if let Err(error) = blocking(move || monitor.save()).await {
                tracing::warn!(%error, "cannot write the logs of feeds; the pages show them until the process ends");
            }
        }
    }

    pub(super) async fn save_all(&self) {
        let monitor = self.shared.monitor.clone();
        if let Err(error) = blocking(move || monitor.save_all()).await {
            tracing::warn!(%error, "cannot write the logs of feeds");
        }
    }

    fn pause(&self, work: &Work) -> Duration {
        let age = Date::from(self.shared.clock.now()).since(work.entry.meta.arrived);
        // As long again as it has been tried already.
        let ceiling = age.clamp(PAUSE_FIRST, PAUSE_MAX);
        ceiling / 2 + self.shared.rng.jitter(ceiling / 2)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// Hours that are over.
    Over,
    /// All of them.
    All,
}

/// Ships the archives of the list.
struct Hand(Arc<Works>);

#[async_trait]
impl Handler for Hand {
    async fn handle(&self, work: Work) -> Outcome {
        let works = &self.0;
        let Some(name) = from_list_key(work.entry.key.as_str()) else {
            let reason = "not the key of an archive".to_owned();
            return Outcome::Dead { reason };
        };
        let soon = |pause| Outcome::Release {
            at: Some(Date::from(works.shared.clock.now()).plus(pause)),
        };
        let Some(_turn) = works.turns.take(work.entry.key.as_str()) else {
            // The lease was lost and the work goes on: whoever does it will end it.
            return soon(PAUSE_FIRST);
        };
        let shipped = tokio::select! {
            shipped = works.ship(&name) => Some(shipped),
            () = work.stop.cancelled() => None,
        };
        match shipped {
            Some(Ok(())) => Outcome::Done,
            Some(Err(error)) => {
                let pause = works.pause(&work);
                tracing::warn!(%error, ?pause, "not shipped yet; trying on");
                soon(pause)
            }
            None => Outcome::Release { at: None },
        }
    }
}
