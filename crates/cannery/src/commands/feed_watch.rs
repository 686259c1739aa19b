//! The feeds of a running process: opened when there are any, run until the end, changed by a reload.

mod coverage;
mod page;

use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_collect::feed::monitor::Totals;
use cannery_collect::feed::{FeedMetrics, Left, Monitor};
use cannery_pipeline::gaps::CoverageReader;
use cannery_runtime::Tasks;
use cannery_serve::{Card, Check, Markup, Readiness, Section};
use futures::future::BoxFuture;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::lake_watch::LakeWatch;
use crate::config::feed::FeedConfig;
use crate::failure::{ExitCode, Failure};
use crate::feeds::{self, FeedTools, Opened};
use coverage::CoverageWatch;

const CHECK: &str = "feeds";
const RETRY: Duration = Duration::from_secs(10);
const LOOK_AT_LAKE: Duration = Duration::from_millis(200);

/// All feeds of a process.
pub(super) struct FeedWatch {
    tools: FeedTools,
    monitor: Monitor,
    configs: watch::Sender<Vec<FeedConfig>>,
    phase: Mutex<Phase>,
    readiness: Readiness,
    limit: watch::Sender<Duration>,
    coverage: CoverageWatch,
    lakes: Arc<LakeWatch>,
    flushed: Mutex<Flushed>,
}

/// How far it is.
#[derive(Clone, Debug)]
enum Phase {
    /// There is nothing to do, or not yet.
    Idle,
    Running,
    Ended(Left),
    Failed(String),
}

/// What was packed and uploaded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Flushed {
    /// Hours that became archives.
    pub(super) packed: u64,
    /// Archives that were uploaded, once for each object storage.
    pub(super) uploaded: u64,
}

impl Flushed {
    fn so_far(monitor: &Monitor) -> Self {
        let totals = monitor.totals();
        let sum = |of: fn(&Totals) -> u64| totals.values().map(of).sum();
        Self {
            packed: sum(|totals| totals.archives.ok),
            uploaded: sum(|totals| totals.uploads.ok),
        }
    }

    fn since(self, before: Self) -> Self {
        Self {
            packed: self.packed.saturating_sub(before.packed),
            uploaded: self.uploaded.saturating_sub(before.uploaded),
        }
    }
}

impl FeedWatch {
    pub(super) fn new(
        tools: FeedTools,
        feeds: Vec<FeedConfig>,
        lakes: &Arc<LakeWatch>,
        flush_timeout: Duration,
    ) -> Result<Self, Failure> {
        let lake = tools.mirrors.first().clone();
        Ok(Self {
            monitor: tools.monitor()?,
            coverage: CoverageWatch::new(lake, tools.clock.clone()),
            tools,
            configs: watch::Sender::new(feeds),
            phase: Mutex::new(Phase::Idle),
            readiness: lakes.readiness().clone(),
            lakes: Arc::clone(lakes),
            flushed: Mutex::default(),
            limit: watch::Sender::new(flush_timeout),
        })
    }

    /// Adds the metrics of the feeds to what `/metrics` shows.
    pub(super) fn register(&self, registry: &mut Registry) {
        FeedMetrics::new(self.monitor.clone(), self.tools.clock.clone()).register(registry);
    }

    /// What is collected now.
    pub(super) fn configs(&self) -> Vec<FeedConfig> {
        self.configs.borrow().clone()
    }

    /// The configuration was read again.
    pub(super) fn reload(&self, feeds: Vec<FeedConfig>, flush_timeout: Duration) {
        self.limit.send_replace(flush_timeout);
        self.configs.send_if_modified(|current| {
            let changed = *current != feeds;
            *current = feeds;
            changed
        });
    }

    /// How long a stop may take.
    pub(super) fn flush_timeout(&self) -> Duration {
        *self.limit.borrow()
    }

    /// Whether there is no feed, and never was one.
    pub(super) fn is_idle(&self) -> bool {
        matches!(&*lock(&self.phase), Phase::Idle) && self.configs.borrow().is_empty()
    }

    /// Opens the feeds if there are any, and starts to collect them. What a person has to mend is a failure.
    pub(super) async fn start(self: &Arc<Self>, tasks: &Tasks) -> Result<(), Failure> {
        let opened = match self.is_needed().map_err(|error| unreadable(&error))? {
            true => Some(self.open().await?),
            false => None,
        };
        if opened.is_some() {
            self.set(Phase::Running);
        }
        let (this, stop) = (Arc::clone(self), tasks.stopping());
        tasks.spawn(CHECK, async move { this.run(opened, stop).await });
        let (this, stop) = (Arc::clone(self), tasks.stopping());
        tasks.spawn(
            "feed coverage",
            async move { this.read_coverage(stop).await },
        );
        Ok(())
    }

    /// For the pages: reads archives while somebody looks.
    async fn read_coverage(&self, stop: CancellationToken) {
        let tools = &self.tools;
        match feeds::scratch(&tools.workspace, &tools.rng) {
            Ok(scratch) => {
                let reader = CoverageReader::new(scratch);
                self.coverage.run(&reader, &stop).await;
            }
            Err(error) => {
                tracing::warn!(%error, "the pages cannot show what other replicas collected");
            }
        }
    }

    async fn open(&self) -> Result<Opened, Failure> {
        let (monitor, cleared) = (self.monitor.clone(), self.lakes.cleared());
        self.tools.open(monitor, cleared).await
    }

    /// After a stop nobody else looks for the mirrors that were not reached yet, and what is there is still to be shipped to them.
    async fn look_for_lakes(&self, stop: &CancellationToken) {
        stop.cancelled().await;
        while self.lakes.identity().is_none() {
            if let Err(failure) = self.lakes.establish().await
                && failure.kind != "unavailable"
                && self.lakes.cleared().borrow().is_empty()
            {
                tracing::error!(reason = failure.message, "the lake cannot be used");
                self.give_up();
            }
            self.tools.clock.sleep(LOOK_AT_LAKE).await;
        }
        std::future::pending::<()>().await;
    }

    /// Whether there is anything to collect or to ship.
    fn is_needed(&self) -> io::Result<bool> {
        Ok(!self.configs.borrow().is_empty() || self.tools.has_leftovers()?)
    }

    async fn run(&self, opened: Option<Opened>, stop: CancellationToken) {
        let mut configs = self.configs.subscribe();
        let opened = match opened {
            Some(opened) => Some(opened),
            None => self.open_when_needed(&mut configs, &stop).await,
        };
        let Some(opened) = opened else { return };
        self.set(Phase::Running);
        self.readiness.set(CHECK, Check::Ready);
        opened.set(&self.configs());
        let following = async {
            while configs.changed().await.is_ok() {
                opened.set(&self.configs());
            }
        };
        let left = tokio::select! {
            left = opened.run(stop.clone(), self.limit.subscribe()) => left,
            () = following => Left::default(),
            () = self.look_for_lakes(&stop) => Left::default(),
        };
        opened.close().await;
        self.set(Phase::Ended(left));
    }

    /// A process that began without feeds waits for a configuration that has some.
    async fn open_when_needed(
        &self,
        configs: &mut watch::Receiver<Vec<FeedConfig>>,
        stop: &CancellationToken,
    ) -> Option<Opened> {
        loop {
            if !self.configs().is_empty() {
                match self.open().await {
                    Ok(opened) => return Some(opened),
                    Err(failure) => {
                        let (error, next) = (&failure.message, &failure.next);
                        tracing::error!(%error, %next, "cannot collect feeds; trying on");
                        let reason = Check::NotReady(failure.message.clone());
                        self.readiness.set(CHECK, reason);
                        self.set(Phase::Failed(failure.message));
                    }
                }
            }
            tokio::select! {
                () = stop.cancelled() => return None,
                changed = configs.changed() => changed.ok()?,
                () = self.tools.clock.sleep(RETRY) => {}
            }
        }
    }

    /// Ships what is there, and ends.
    pub(super) async fn flush(&self) -> Result<(), Failure> {
        let left = self.tools.has_leftovers();
        if !left.map_err(|error| unreadable(&error))? {
            let strays = self.tools.strays().map_err(|error| unreadable(&error))?;
            self.set(Phase::Ended(strays));
            return Ok(());
        }
        let opened = self.open().await?;
        let before = Flushed::so_far(&self.monitor);
        // They are not asked, but packed as they say.
        opened.set(&self.configs());
        // The watch of the lakes goes on meanwhile.
        let left = opened.flush(self.flush_timeout()).await;
        opened.close().await;
        *lock(&self.flushed) = Flushed::so_far(&self.monitor).since(before);
        self.set(Phase::Ended(left));
        Ok(())
    }

    /// What [`FeedWatch::flush`] did.
    pub(super) fn flushed(&self) -> Flushed {
        *lock(&self.flushed)
    }

    /// What lies among the bodies and is not ours, once the feeds have ended.
    pub(super) fn odd(&self) -> Vec<PathBuf> {
        self.left().odd
    }

    /// What the disk damaged, once the feeds have ended.
    pub(super) fn damaged(&self) -> Vec<PathBuf> {
        self.left().damaged
    }

    fn left(&self) -> Left {
        match &*lock(&self.phase) {
            Phase::Ended(left) => left.clone(),
            Phase::Idle | Phase::Running | Phase::Failed(_) => Left::default(),
        }
    }

    /// The process ends because it cannot work: nothing is waited for. What was downloaded is on the disk.
    pub(super) fn give_up(&self) {
        self.limit.send_replace(Duration::ZERO);
    }

    /// What became of the feeds once they have ended.
    pub(super) fn outcome(&self) -> Result<(), Failure> {
        match &*lock(&self.phase) {
            Phase::Idle | Phase::Running => Ok(()),
            Phase::Ended(left) if left.is_nothing() => Ok(()),
            Phase::Ended(left) => {
                let message = format!("not shipped: {left}");
                let next = "they are safe in the workspace and the next start ships them; raise `flush_timeout` to wait longer";
                Err(Failure::new(ExitCode::Partial, "unshipped", message, next))
            }
            Phase::Failed(reason) => {
                let next = "see the log; what is there is taken up at the next start";
                Err(Failure::new(ExitCode::Error, "feeds", reason.clone(), next))
            }
        }
    }

    fn set(&self, phase: Phase) {
        *lock(&self.phase) = phase;
    }
}

impl Section for FeedWatch {
    fn slug(&self) -> &str {
        page::SLUG
    }

    fn title(&self) -> &str {
        "Feeds"
    }

    fn cards(&self) -> BoxFuture<'_, Vec<Card>> {
        Box::pin(async { self.all_cards() })
    }

    fn page(&self) -> Option<BoxFuture<'_, Markup>> {
        Some(Box::pin(async { self.whole_page() }))
    }

    fn subpage<'a>(&'a self, name: &'a str) -> Option<BoxFuture<'a, Markup>> {
        let page = self.feed_page(name)?;
        Some(Box::pin(async { page }))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn unreadable(error: &io::Error) -> Failure {
    let message = format!("cannot look at the folders of feeds: {error}");
    let next = "make the workspace readable, or choose another with `--workspace`";
    Failure::new(ExitCode::Error, "feeds", message, next)
}
