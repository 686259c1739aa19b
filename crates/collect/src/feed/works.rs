//! What is done behind the polls: hours are packed, their archives handed to the docks, and what people want to know is kept.

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::feed::{ArchiveName, FeedId, Hour};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::depot::Unpacked;
use super::docks::Docks;
use super::monitor::{Task, TaskKind};
use super::pack::{Packed, pack};
use super::shared::Shared;
use crate::blocking::blocking;

/// How often hours are looked for that could not be packed when they ended.
const PACK_EVERY: Duration = Duration::from_secs(60);
/// And how soon when somebody still wrote to one, or it could not be packed.
const PACK_SOON: Duration = Duration::from_secs(1);
const SAVE_EVERY: Duration = Duration::from_secs(60);
const TOTALS_EVERY: Duration = Duration::from_secs(2);

/// What is not in the lake when a flush ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Archives that not every mirror has.
    pub archives: Vec<ArchiveName>,
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
        f.write_str(&all.join(", "))
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
                let (bodies, bytes) = (packed.bodies, packed.archive_bytes);
                tracing::info!(archive = %packed.name, bodies, bytes, "packed an hour");
                self.remember_packed(feed, hour, Ok(&packed));
                self.docks.list(&packed.name).await;
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
        let depot = self.shared.depot.clone();
        match blocking(move || depot.waiting()).await {
            Ok(waiting) => {
                for name in waiting {
                    self.docks.list(&name).await;
                }
            }
            Err(error) => {
                tracing::error!(%error, "cannot see which archives wait for being shipped; the next start looks again");
            }
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
        while !matches!(self.pack(Which::All, &never).await, Ok(true)) {
            self.shared.clock.sleep(PACK_SOON).await;
        }
    }

    pub(super) async fn left(&self) -> Left {
        let depot = self.shared.depot.clone();
        let found =
            blocking(move || Ok((depot.waiting()?, depot.unpacked()?, depot.damaged()?))).await;
        match found {
            Ok((archives, Unpacked { hours, odd }, damaged)) => Left {
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

#[derive(Clone, Copy, PartialEq, Eq)]
enum Which {
    /// Hours that are over.
    Over,
    /// All of them.
    All,
}
