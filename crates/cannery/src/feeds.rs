//! From the configuration to feeds that can run: folders locked, lists opened, consolidation beside the collecting.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cannery_collect::feed::monitor::{Task, TaskKind};
use cannery_collect::feed::{Cleared, Depot, Feeds, FeedsParts, Fetcher, Left, Monitor, Uploads};
use cannery_formats::feed::{FeedId, Hour};
use cannery_journal::worker::{Handler, Outcome, Work, Worker};
use cannery_journal::{Date, ErrorKind as JournalErrorKind, Journal, Priority};
use cannery_lake::Mirrors;
use cannery_pipeline::consolidate::Consolidator;
use cannery_pipeline::scan::Scanner;
use cannery_pipeline::work_list::{self, Cycle, Hand, HourKey, Listener};
use cannery_pipeline::{Algorithm, Scratch, Store};
use cannery_runtime::disk::Disk;
use cannery_runtime::folder_lock::{FolderLock, FolderLockError};
use cannery_runtime::{Clock, Rng};
use futures::future::join_all;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::commands::Context;
use crate::config::Config;
use crate::config::feed::FeedConfig;
use crate::config::raw::Reconciliation;
use crate::failure::{ExitCode, Failure};
use crate::lakes;
use crate::local_list::LocalList;

/// Each feed has one download at a time; more feeds than this would wait for each other.
const DOWNLOADS_MAX: usize = 10_000;

/// Other replicas upload the same hour at the same time: one visit for all of them.
const GATHER_FIRST: Duration = Duration::from_secs(2);
const GATHER_SPREAD: Duration = Duration::from_secs(5);

const HOURS_AT_ONCE: usize = 2;

/// So long the hours of a store wait that is not known to be the right one.
const UNCLEAR_PAUSE: Duration = Duration::from_secs(10);

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

/// The stores that hours go to, with their algorithms.
pub(crate) fn stores(config: &Config, mirrors: &Mirrors) -> Vec<Store> {
    let lakes = mirrors.iter().zip(&config.object_storage);
    let apart = &config.pipeline.storage;
    let lakes = lakes.filter(|(lake, _)| !apart.is_apart(lake.id()));
    let stores = lakes.map(|(lake, storage)| {
        let algorithm = match storage.reconciliation_algorithm {
            Reconciliation::Hashed => Algorithm::Hashed,
            Reconciliation::Primary => Algorithm::Primary,
        };
        Store::new(lake.clone(), algorithm)
    });
    stores.collect()
}

/// Where consolidation and retrieval put what they work on.
pub(crate) fn scratch(workspace: &Path, rng: &Rng) -> Result<Scratch, cannery_pipeline::Error> {
    Scratch::open(&folder(workspace).join("scratch"), rng.clone())
}

fn folder(workspace: &Path) -> PathBuf {
    workspace.join("feeds")
}

/// Feeds that can run.
pub(crate) struct Opened {
    feeds: Feeds,
    shipping: Vec<Journal>,
    hours: Journal,
    /// One for each store: one that does not answer holds up no other.
    scanners: Vec<(String, Scanner)>,
    hand: Hand,
    clock: Clock,
    rng: Rng,
    cleared: watch::Receiver<Cleared>,
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
            mirrors: lakes::collecting(config, mirrors),
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
        Ok(!depot.waiting()?.is_empty() || !depot.unpacked()?.hours.is_empty())
    }

    /// What lies here that nobody ships: what was set aside, and what is nobody's.
    pub(crate) fn strays(&self) -> io::Result<Left> {
        let depot = self.depot();
        Ok(Left {
            odd: depot.unpacked()?.odd,
            damaged: depot.damaged()?,
            ..Left::default()
        })
    }

    /// What is remembered for people.
    pub(crate) fn monitor(&self) -> Result<Monitor, Failure> {
        let keep = Duration::from_secs(u64::from(self.monitoring_hours) * 3_600);
        let disk = Arc::clone(&self.disk);
        Monitor::open(disk, &self.logs(), self.clock.clone(), keep)
            .map_err(|error| unusable(&error))
    }

    /// Opens everything. No feed is asked yet, and nothing goes to a store before it is `cleared`.
    pub(crate) async fn open(
        &self,
        monitor: Monitor,
        cleared: watch::Receiver<Cleared>,
    ) -> Result<Opened, Failure> {
        let folder = folder(&self.workspace);
        let lock = FolderLock::acquire(&*self.disk, &folder, self.command, &self.clock);
        let lock = lock.map_err(|error| not_ours(&error))?;
        let mut shipping = Vec::new();
        for lake in self.mirrors.iter() {
            let name = format!("shipping-{}", lake.id());
            shipping.push(self.journal(&folder, &name).await?);
        }
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
            journals: shipping.clone(),
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
        let consolidator = Consolidator::new(scratch(&self.workspace, &self.rng)?);
        let hand = Hand::new(
            consolidator,
            self.stores.clone(),
            Arc::new(Diary(monitor)),
            self.clock.clone(),
            self.rng.clone(),
        );
        let (clock, rng) = (self.clock.clone(), self.rng.clone());
        let scanners = self.stores.iter().map(|store| {
            let id = store.id().to_owned();
            let (stores, hours) = (vec![store.clone()], hours.clone());
            (id, Scanner::new(stores, hours, clock.clone(), rng.clone()))
        });
        let scanners = scanners.collect();
        Ok(Opened {
            feeds: feeds.map_err(|error| unusable(&error))?,
            shipping,
            hours,
            scanners,
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
        for (_, scanner) in &self.scanners {
            scanner.set_feeds(feeds.iter().map(|feed| feed.id.clone()));
        }
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
        let gate = Gate {
            hand: self.hand.clone(),
            cleared: self.cleared.clone(),
            clock: self.clock.clone(),
        };
        let merging = async {
            let scanning = self.scanners.iter().map(|(id, scanner)| {
                let (mut cleared, stop) = (self.cleared.clone(), stop.clone());
                async move {
                    tokio::select! {
                        () = stop.cancelled() => return,
                        _ = cleared.wait_for(|cleared| cleared.contains(id)) => {}
                    }
                    scanner.run(stop).await;
                }
            });
            let consolidating = worker.run(gate, stop.clone());
            let (summary, _) = tokio::join!(consolidating, join_all(scanning));
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
        for list in &self.shipping {
            list.close().await;
        }
        self.hours.close().await;
    }
}

/// Lets hours be consolidated in stores that are known to be the right ones.
struct Gate {
    hand: Hand,
    cleared: watch::Receiver<Cleared>,
    clock: Clock,
}

#[async_trait]
impl Handler for Gate {
    async fn handle(&self, work: Work) -> Outcome {
        let hour = work.entry.key.as_str().parse::<HourKey>();
        let is_cleared = |hour: HourKey| self.cleared.borrow().contains(&hour.store);
        let is_of_a_store = |hour: &HourKey| self.hand.has_store(&hour.store);
        // What is no hour of ours, the hand says.
        if hour.ok().filter(is_of_a_store).is_none_or(is_cleared) {
            return self.hand.handle(work).await;
        }
        let at = Date::from(self.clock.now()).plus(UNCLEAR_PAUSE);
        Outcome::Release { at: Some(at) }
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
            cannery_pipeline::Error::Catalog(error) => Self::from(error),
            cannery_pipeline::Error::Scratch { .. } => Self::new(
                ExitCode::Error,
                "scratch",
                text,
                "make room in the workspace, or choose another with `--workspace`",
            ),
            cannery_pipeline::Error::TooManyHours { .. } => Self::new(
                ExitCode::Usage,
                "range",
                text,
                "run it for one part of the range after the other, or with `--archived-only`",
            ),
            cannery_pipeline::Error::WithoutCan { .. } => Self::new(
                ExitCode::Error,
                "without_can",
                text,
                "give its kind a shorter `autoclaved` below `pipeline.keep`, or leave it",
            ),
            cannery_pipeline::Error::NoIndex { .. } => Self::new(
                ExitCode::Error,
                "no_index",
                text,
                "run `cannery check`; if its can is kept no longer, run `cannery rebuild`",
            ),
            cannery_pipeline::Error::Disagreed { .. } => Self::new(
                ExitCode::Error,
                "disagreed",
                text,
                "nothing was changed; see `cannery lake probe`",
            ),
            cannery_pipeline::Error::Unusable { .. } => Self::new(
                ExitCode::Error,
                "unusable",
                text,
                "mend that object, then run the command again",
            ),
            cannery_pipeline::Error::Outdated { next, .. } => {
                let what = text.trim_end_matches(next).trim_end_matches("; ");
                Self::new(ExitCode::Usage, "rules_outdated", what, next)
            }
            cannery_pipeline::Error::StillWritten { .. } => Self::new(
                ExitCode::Error,
                "still_written",
                text,
                "run it again once nobody writes it any more; `pipeline.reports_settle` says how long it must be unchanged",
            ),
            cannery_pipeline::Error::NotAsLoaded { .. } => Self::new(
                ExitCode::Error,
                "corrupt",
                text,
                "run `cannery check`, put a sound copy in its place, or run `cannery rebuild`",
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
