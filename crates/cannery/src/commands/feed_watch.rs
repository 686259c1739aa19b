//! The feeds of a running process: opened when there are any, run until the end, changed by a reload.

mod coverage;
mod page;

use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

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
    /// Whether the lake is known to be the right one.
    cleared: watch::Sender<bool>,
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
            cleared: watch::Sender::new(false),
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

    /// Opens the feeds if there are any, and starts to collect them. What a person has to mend is a failure.
    pub(super) async fn start(self: &Arc<Self>, tasks: &Tasks) -> Result<(), Failure> {
        let opened = match self.is_needed().map_err(|error| unreadable(&error))? {
            true => Some(self.open().await?),
            false => None,
        };
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
        match feeds::scratch(&tools.workspace, &tools.clock, &tools.rng) {
            Ok(scratch) => {
                let reader = CoverageReader::new(scratch);
                self.coverage.run(&reader, &stop).await;
            }
            Err(failure) => {
                tracing::warn!(error = %failure.message, "the pages cannot show what other replicas collected");
            }
        }
    }

    async fn open(&self) -> Result<Opened, Failure> {
        let (monitor, cleared) = (self.monitor.clone(), self.cleared.subscribe());
        self.tools.open(monitor, cleared).await
    }

    /// Says so once the lake was reached and is the one that this workspace belongs to.
    async fn clear(&self) {
        while self.lakes.identity().is_none() {
            self.tools.clock.sleep(LOOK_AT_LAKE).await;
        }
        self.cleared.send_replace(true);
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
            left = opened.run(stop, self.limit.subscribe()) => left,
            () = following => Left::default(),
            () = self.clear() => Left::default(),
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
            return Ok(());
        }
        let opened = self.open().await?;
        // They are not asked, but packed as they say.
        opened.set(&self.configs());
        let left = tokio::select! {
            left = opened.flush(self.flush_timeout()) => left,
            () = self.clear() => Left::default(),
        };
        opened.close().await;
        self.set(Phase::Ended(left));
        Ok(())
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
