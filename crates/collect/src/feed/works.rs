//! What is done behind the polls: hours are packed, their archives handed to the docks, and what people want to know is kept.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::feed::{ArchiveName, FeedId, Hour};
use jiff::SignedDuration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::depot::Unpacked;
use super::docks::Docks;
use super::monitor::{Task, TaskKind};
use super::pack::{Packed, pack};
use super::shared::Shared;
use super::wall_clock::Watch;
use crate::blocking::blocking;

/// How often hours are looked for that could not be packed when they ended.
const PACK_EVERY: Duration = Duration::from_secs(60);
/// And how soon when somebody still wrote to one, or it could not be packed.
const PACK_SOON: Duration = Duration::from_secs(1);
/// Hours that begin later are of a wrong clock, and are packed as if they were over.
const AHEAD_MAX: SignedDuration = SignedDuration::from_hours(1);
const SAVE_EVERY: Duration = Duration::from_secs(60);
const TOTALS_EVERY: Duration = Duration::from_secs(2);

/// What is not in the lake when a flush ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Archives that not every mirror has.
    pub archives: Vec<ArchiveName>,
    /// The mirrors that do not have all of them, each with why, if it said something.
    pub stores: BTreeMap<String, Option<String>>,
    /// Hours that are not packed.
    pub hours: Vec<(FeedId, Hour)>,
    /// What lies in the folders of hours and is not ours: links, pipes, folders, files with impossible names. It stays where it is, and
    /// nothing waits for it.
    pub odd: Vec<PathBuf>,
    /// What the disk damaged and was set aside, by this process or one before. Nothing waits for it either.
    pub damaged: Vec<PathBuf>,
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
        f.write_str(&all.join(", "))?;
        for (store, why) in &self.stores {
            let why = why.as_deref().unwrap_or("it has not answered yet");
            write!(f, "; to `{store}`: {why}")?;
        }
        Ok(())
    }
}

pub(super) struct Works {
    shared: Arc<Shared>,
    docks: Arc<Docks>,
}

impl Works {
    pub(super) fn new(shared: Arc<Shared>, docks: Docks) -> Self {
        let docks = Arc::new(docks);
        Self { shared, docks }
    }

    pub(super) fn docks(&self) -> &Arc<Docks> {
        &self.docks
    }

    pub(super) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Packs every hour soon after it ended, and puts its archive on the list; until `ending`.
    pub(super) async fn pack_hours(self: Arc<Self>, ending: CancellationToken) {
        self.tidy().await;
        self.list_waiting().await;
        let clock = &self.shared.clock;
        let (mut watch, mut failures) = (Watch::new(clock), 0);
        loop {
            if watch.was_set_back(clock) {
                tracing::warn!("the clock was set back; everything that waits is shipped anew");
                self.list_waiting().await;
            }
            let begun = Hour::of(clock.now());
            let all = self.pack(Which::Over, &ending).await;
            let has_failed = matches!(all, Ok(Packing::Failed) | Err(_));
            failures = if has_failed { failures + 1 } else { 0 };
            let pause = match all {
                // An hour ended meanwhile.
                Ok(Packing::Done) if Hour::of(clock.now()) != begun => Duration::ZERO,
                Ok(Packing::Done) => self.until_next_hour().min(PACK_EVERY),
                Ok(Packing::Busy) => PACK_SOON,
                // Twice as long each time.
                Ok(Packing::Failed) => PACK_EVERY.min(PACK_SOON * (1 << (failures - 1).min(6))),
                Err(error) => {
                    tracing::error!(%error, "cannot pack the hours of feeds; trying on");
                    PACK_EVERY
                }
            };
            tokio::select! {
                () = ending.cancelled() => return,
                () = clock.sleep(pause) => {}
            }
        }
    }

    /// Removes what a process before did not finish.
    async fn tidy(&self) {
        let depot = self.shared.depot.clone();
        if let Err(error) = blocking(move || depot.tidy()).await {
            tracing::warn!(%error, "cannot remove archives that were never finished; the next start tries again");
        }
    }

    fn until_next_hour(&self) -> Duration {
        let now = self.shared.clock.now();
        let left = Hour::of(now).end().duration_since(now);
        Duration::try_from(left).unwrap_or_default() + Duration::from_millis(1)
    }

    /// Packs the hours that are there.
    async fn pack(&self, which: Which, ending: &CancellationToken) -> io::Result<Packing> {
        let depot = self.shared.depot.clone();
        let hours = blocking(move || depot.hours()).await?;
        let now = self.shared.clock.now();
        let is_over =
            |hour: Hour| hour.end() <= now || hour.begin().duration_since(now) > AHEAD_MAX;
        let mut all = Packing::Done;
        for (feed, hour) in hours {
            if ending.is_cancelled() {
                break;
            }
            if which == Which::Over && !is_over(hour) {
                continue;
            }
            all = all.max(match self.shared.busy.is(&feed, hour) {
                true => Packing::Busy,
                false => self.pack_one(&feed, hour).await,
            });
        }
        Ok(all)
    }

    async fn pack_one(&self, feed: &FeedId, hour: Hour) -> Packing {
        let shared = Arc::clone(&self.shared);
        let (id, habit) = (feed.clone(), shared.habits.of(feed));
        let packed = blocking(move || {
            // Where nobody knows, the disk itself will say.
            let room = shared.depot.room().ok();
            pack(&shared.depot, (&id, hour), &shared.replica, habit, room)
        });
        match packed.await {
            Ok(None) => Packing::Done,
            Ok(Some(packed)) => {
                let (bodies, bytes) = (packed.bodies, packed.archive_bytes);
                tracing::info!(archive = %packed.name, bodies, bytes, "packed an hour");
                self.remember_packed(feed, hour, Ok(&packed));
                self.docks.list(&packed.name).await;
                match packed.is_part {
                    true => Packing::Busy,
                    false => Packing::Done,
                }
            }
            Err(error) => {
                tracing::error!(%feed, %hour, %error, "cannot pack an hour; trying on");
                self.remember_packed(feed, hour, Err(&error));
                Packing::Failed
            }
        }
    }

    fn remember_packed(&self, feed: &FeedId, hour: Hour, packed: Result<&Packed, &io::Error>) {
        let did = match packed {
            Ok(packed) => format!(
                "packed {} {} into {} bytes: {}",
                packed.bodies,
                if packed.bodies == 1 { "body" } else { "bodies" },
                packed.archive_bytes,
                packed.name
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
        for name in self.docks.waiting().await.unwrap_or_default() {
            self.docks.list_anew(&name).await;
        }
    }

    /// Packs and ships everything, for as long as it takes.
    pub(super) async fn flush(&self) {
        let packed = watch::Sender::new(false);
        let ready = packed.subscribe();
        let packing = async {
            self.pack_all().await;
            packed.send_replace(true);
        };
        tokio::join!(packing, self.docks.flush(&ready));
    }

    async fn pack_all(&self) {
        let never = CancellationToken::new();
        while !matches!(self.pack(Which::All, &never).await, Ok(Packing::Done)) {
            self.shared.clock.sleep(PACK_SOON).await;
        }
    }

    pub(super) async fn left(&self) -> Left {
        let depot = self.shared.depot.clone();
        let found =
            blocking(move || Ok((depot.waiting()?, depot.unpacked()?, depot.damaged()?))).await;
        match found {
            Ok((archives, Unpacked { hours, odd }, damaged)) => Left {
                stores: self.docks.lacking(&archives).await.unwrap_or_default(),
                archives,
                hours,
                odd,
                damaged,
                unknown: None,
            },
            Err(error) => Left {
                unknown: Some(format!("cannot see what is left: {error}")),
                ..Left::default()
            },
        }
    }

    /// Keeps what people want to know, until `ending`: the totals soon after they changed, the rest every minute.
    pub(super) async fn save_monitor(self: Arc<Self>, ending: CancellationToken) {
        let clock = &self.shared.clock;
        let (mut saved, mut pause) = (clock.elapsed(), TOTALS_EVERY);
        loop {
            tokio::select! {
                () = ending.cancelled() => return,
                () = clock.sleep(pause) => {}
            }
            let begun = clock.elapsed();
            let is_all = clock.since(saved) >= SAVE_EVERY;
            let monitor = self.shared.monitor.clone();
            let saving = blocking(move || match is_all {
                true => monitor.save(),
                false => monitor.save_totals(),
            });
            if let Err(error) = saving.await {
                tracing::warn!(%error, "cannot write the logs of feeds; the pages show them until the process ends");
            }
            if is_all {
                saved = begun;
            }
            // Where there is much to write it is written less often.
            pause = (clock.since(begun) * 50).clamp(TOTALS_EVERY, SAVE_EVERY);
        }
    }

    pub(super) async fn save_all(&self) {
        let monitor = self.shared.monitor.clone();
        if let Err(error) = blocking(move || monitor.save_all()).await {
            tracing::warn!(%error, "cannot write the logs of feeds");
        }
    }
}

/// What came of packing; the worst of several hours counts.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Packing {
    /// Nothing is left.
    Done,
    /// Somebody writes to an hour, or there was room for a part of one only.
    Busy,
    /// An hour could not be packed.
    Failed,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// Hours that are over.
    Over,
    /// All of them.
    All,
}
