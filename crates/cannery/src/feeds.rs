//! From the configuration to feeds that can run: folders locked, lists opened, consolidation beside the collecting.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cannery_collect::feed::monitor::{Task, TaskKind};
use cannery_collect::feed::{Depot, Feeds, FeedsParts, Fetcher, Left, Monitor, Uploads};
use cannery_formats::feed::{FeedId, Hour};
use cannery_journal::worker::Worker;
use cannery_journal::{Date, ErrorKind as JournalErrorKind, Journal, Priority};
use cannery_lake::Mirrors;
use cannery_pipeline::consolidate::Consolidator;
use cannery_pipeline::scan::Scanner;
use cannery_pipeline::work_list::{self, Cycle, Hand, HourKey, Listener};
use cannery_pipeline::{Algorithm, Scratch, Store};
use cannery_runtime::disk::Disk;
use cannery_runtime::folder_lock::{FolderLock, FolderLockError};
use cannery_runtime::{Clock, Rng};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::commands::Context;
use crate::config::Config;
use crate::config::feed::FeedConfig;
use crate::config::raw::Reconciliation;
use crate::failure::{ExitCode, Failure};
use crate::local_list::LocalList;

/// Each feed has one download at a time; more feeds than this would wait for each other.
const DOWNLOADS_MAX: usize = 10_000;

/// Other replicas upload the same hour at the same time: one visit for all of them.
const GATHER_FIRST: Duration = Duration::from_secs(2);
const GATHER_SPREAD: Duration = Duration::from_secs(5);

const HOURS_AT_ONCE: usize = 2;

/// What feeds are made with.
#[derive(Clone)]
pub(crate) struct FeedTools {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) stores: Vec<Store>,
    pub(crate) mirrors: Mirrors,
    pub(crate) workspace: PathBuf,
    pub(crate) node: String,
    pub(crate) monitoring_hours: u32,
    /// What the process calls itself to others that find the feeds locked.
    pub(crate) command: &'static str,
}

/// The stores with their algorithms.
pub(crate) fn stores(config: &Config, mirrors: &Mirrors) -> Vec<Store> {
    let lakes = mirrors.iter().zip(&config.object_storage);
    let stores = lakes.map(|(lake, storage)| Store {
        lake: lake.clone(),
        algorithm: match storage.reconciliation_algorithm {
            Reconciliation::Hashed => Algorithm::Hashed,
            Reconciliation::Primary => Algorithm::Primary,
        },
    });
    stores.collect()
}

/// Where consolidation and retrieval put what they work on.
pub(crate) fn scratch(workspace: &Path, clock: &Clock, rng: &Rng) -> Result<Scratch, Failure> {
    Scratch::open(&folder(workspace).join("scratch"), clock, rng.clone()).map_err(Failure::from)
}

fn folder(workspace: &Path) -> PathBuf {
    workspace.join("feeds")
}

/// Feeds that can run.
pub(crate) struct Opened {
    feeds: Feeds,
    shipping: Journal,
    hours: Journal,
    scanner: Scanner,
    hand: Hand,
    clock: Clock,
    rng: Rng,
    cleared: watch::Receiver<bool>,
    /// Nobody else collects into the same folders meanwhile.
    _lock: FolderLock,
}

impl FeedTools {
    /// Those of a process that calls itself `command`.
    pub(crate) fn new(
        config: &Config,
        mirrors: &Mirrors,
        context: &Context,
        command: &'static str,
    ) -> Self {
        Self {
            disk: context.disk(),
            clock: context.clock.clone(),
            rng: context.rng.clone(),
            stores: stores(config, mirrors),
            mirrors: mirrors.clone(),
            workspace: config.workspace.clone(),
            node: config.node.clone(),
            monitoring_hours: config.monitoring_hours,
            command,
        }
    }

    /// Whether a process before has kept what people want to know.
    pub(crate) fn has_logs(&self) -> bool {
        self.disk.metadata(&self.logs()).is_ok()
    }

    fn logs(&self) -> PathBuf {
        self.workspace.join("logs")
    }

    /// What lies on the disk.
    pub(crate) fn depot(&self) -> Depot {
        Depot::new(Arc::clone(&self.disk), &self.workspace)
    }

    /// Whether a process before left something to ship.
    pub(crate) fn has_leftovers(&self) -> io::Result<bool> {
        let depot = self.depot();
        Ok(!depot.waiting()?.is_empty() || !depot.hours()?.is_empty())
    }

    /// What is remembered for people.
    pub(crate) fn monitor(&self) -> Result<Monitor, Failure> {
        let keep = Duration::from_secs(u64::from(self.monitoring_hours) * 3_600);
        let disk = Arc::clone(&self.disk);
        Monitor::open(disk, &self.logs(), self.clock.clone(), keep)
            .map_err(|error| unusable(&error))
    }

    /// Opens everything. No feed is asked yet, and nothing goes to the lake before it is `cleared`.
    pub(crate) async fn open(
        &self,
        monitor: Monitor,
        cleared: watch::Receiver<bool>,
    ) -> Result<Opened, Failure> {
        let folder = folder(&self.workspace);
        let lock = FolderLock::acquire(&*self.disk, &folder, self.command, &self.clock);
        let lock = lock.map_err(|error| not_ours(&error))?;
        let shipping = self.journal(&folder, "shipping").await?;
        let hours = self.journal(&folder, "consolidating").await?;
        let fetcher = Fetcher::new(self.clock.clone(), DOWNLOADS_MAX).map_err(|error| {
            let message = format!("cannot download feeds: {error}");
            let next = "install the package ca-certificates";
            Failure::new(ExitCode::Error, "tls", message, next)
        })?;
        let feeds = Feeds::open(FeedsParts {
            depot: self.depot(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            mirrors: self.mirrors.clone(),
            journal: shipping.clone(),
            fetcher,
            monitor: monitor.clone(),
            uploads: Arc::new(Notice {
                hours: hours.clone(),
                clock: self.clock.clone(),
                rng: self.rng.clone(),
            }),
            replica: self.node.clone(),
            cleared: Some(cleared.clone()),
        });
        let consolidator = Consolidator::new(scratch(&self.workspace, &self.clock, &self.rng)?);
        let hand = Hand::new(
            consolidator,
            self.stores.clone(),
            Arc::new(Diary(monitor)),
            self.clock.clone(),
            self.rng.clone(),
        );
        let (clock, rng) = (self.clock.clone(), self.rng.clone());
        let scanner = Scanner::new(
            self.stores.clone(),
            hours.clone(),
            clock.clone(),
            rng.clone(),
        );
        Ok(Opened {
            feeds: feeds.map_err(|error| unusable(&error))?,
            shipping,
            hours,
            scanner,
            hand,
            clock,
            rng,
            cleared,
            _lock: lock,
        })
    }

    async fn journal(&self, folder: &Path, name: &str) -> Result<Journal, Failure> {
        let list = LocalList {
            disk: Arc::clone(&self.disk),
            dir: folder.join(name),
            owner: self.command,
            clock: self.clock.clone(),
            rng: self.rng.clone(),
        };
        let opened = list.open(&format!("feeds, {name}")).await;
        opened.map_err(|error| match error.kind {
            JournalErrorKind::Locked => in_use(&error.message),
            _ => {
                Failure::from(error.while_doing(format!("cannot open the list `{name}` of feeds")))
            }
        })
    }
}

impl Opened {
    /// The feeds from now on.
    pub(crate) fn set(&self, feeds: &[FeedConfig]) {
        self.scanner
            .set_feeds(feeds.iter().map(|feed| feed.id.clone()));
        self.feeds
            .set(feeds.iter().map(FeedConfig::settings).collect());
    }

    /// Collects and consolidates until `stop`, then ships everything, for at most what `limit` says by then.
    pub(crate) async fn run(
        &self,
        stop: CancellationToken,
        limit: watch::Receiver<Duration>,
    ) -> Left {
        let worker = Worker::new(
            self.hours.clone(),
            "consolidate",
            self.clock.clone(),
            self.rng.clone(),
        );
        let worker = worker.concurrency(HOURS_AT_ONCE).grace(Duration::ZERO);
        let merging = async {
            let mut cleared = self.cleared.clone();
            tokio::select! {
                () = stop.cancelled() => return,
                _ = cleared.wait_for(|cleared| *cleared) => {}
            }
            let consolidating = worker.run(self.hand.clone(), stop.clone());
            let (summary, ()) = tokio::join!(consolidating, self.scanner.run(stop.clone()));
            if let Some(error) = summary.error {
                tracing::error!(%error, "consolidating ended early; the next start goes on");
            }
        };
        let (left, ()) = tokio::join!(self.feeds.run(stop.clone(), limit), merging);
        left
    }

    /// Ships what is there, also of an hour that is not over.
    pub(crate) async fn flush(&self, limit: Duration) -> Left {
        self.feeds.flush(limit).await
    }

    pub(crate) async fn close(&self) {
        self.shipping.close().await;
        self.hours.close().await;
    }
}

/// Puts an hour on the list when an archive of it was uploaded.
struct Notice {
    hours: Journal,
    clock: Clock,
    rng: Rng,
}

#[async_trait]
impl Uploads for Notice {
    async fn uploaded(&self, store: &str, feed: &FeedId, hour: Hour) {
        let key = HourKey {
            store: store.to_owned(),
            feed: feed.clone(),
            hour,
        };
        let due = Date::from(self.clock.now()).plus(GATHER_FIRST + self.rng.jitter(GATHER_SPREAD));
        let added = work_list::add(&self.hours, &[key], Priority::NEW, Some(due)).await;
        if let Err(error) = added {
            tracing::warn!(%feed, %hour, %error, "cannot plan to consolidate an hour; the next scan finds it");
        }
    }
}

/// Writes down what consolidation did, for the pages.
struct Diary(Monitor);

impl Listener for Diary {
    fn cycle(&self, cycle: &Cycle) {
        let steps = cycle.steps.iter().map(ToString::to_string);
        let task = Task {
            kind: TaskKind::Consolidate,
            at: cycle.time,
            hour: cycle.hour,
            store: Some(cycle.store.clone()),
            ok: cycle.error.is_none(),
            did: steps.chain(cycle.error.clone()).collect(),
        };
        self.0.task(&cycle.feed, task);
    }
}

fn unusable(error: &io::Error) -> Failure {
    let message = format!("cannot use the folders of feeds: {error}");
    let code = match error.kind() {
        io::ErrorKind::StorageFull => ExitCode::Full,
        _ => ExitCode::Error,
    };
    let next = "make the workspace writable, or choose another with `--workspace`";
    Failure::new(code, "feeds", message, next)
}

fn not_ours(error: &FolderLockError) -> Failure {
    match error {
        FolderLockError::Held { .. } => in_use(&error.to_string()),
        FolderLockError::Io { source, .. } => unusable(source),
    }
}

fn in_use(why: &str) -> Failure {
    let message = format!("the feeds of this workspace are being collected: {why}");
    let next = "stop that process, or choose another workspace with `--workspace`";
    Failure::new(ExitCode::Locked, "feeds_locked", message, next)
}

impl From<cannery_pipeline::Error> for Failure {
    fn from(error: cannery_pipeline::Error) -> Self {
        let text = error.to_string();
        match error {
            cannery_pipeline::Error::Lake(error) => Self::from(error),
            cannery_pipeline::Error::Journal(error) => Self::from(error),
            cannery_pipeline::Error::Scratch { .. } => Self::new(
                ExitCode::Error,
                "scratch",
                text,
                "make room in the workspace, or choose another with `--workspace`",
            ),
            _ => Self::new(
                ExitCode::Error,
                "pipeline",
                text,
                "run it again; `cannery audit` shows what is not as it should be",
            ),
        }
    }
}
