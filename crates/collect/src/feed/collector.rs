//! All feeds of a process: asked, packed by the hour, shipped; and emptied at the end.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use cannery_journal::Journal;
use cannery_lake::Mirrors;
use cannery_runtime::{Clock, Rng};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::busy::Busy;
use super::depot::Depot;
use super::docks::{Cleared, Docks};
use super::fetch::Fetcher;
use super::monitor::Monitor;
use super::pollers::Pollers;
use super::settings::FeedSettings;
use super::shared::{Habits, Shared};
use super::ship::Uploads;
use super::works::{Left, Works};
use super::writer::Writer;

/// What feeds are collected with.
pub struct FeedsParts {
    /// Where they lie on the local disk.
    pub depot: Depot,
    /// The time.
    pub clock: Clock,
    /// Chance.
    pub rng: Rng,
    /// Where archives go.
    pub mirrors: Mirrors,
    /// For each of the mirrors, in their order, a list of archives to be shipped, of this process alone. Losing one loses nothing.
    pub journals: Vec<Journal>,
    /// How they are downloaded.
    pub fetcher: Fetcher,
    /// What is remembered for people.
    pub monitor: Monitor,
    /// Who wants to know of uploads.
    pub uploads: Arc<dyn Uploads>,
    /// The name of this node in coverage.
    pub replica: String,
    /// Which mirrors are known to be the right ones: nothing is shipped to another. All, where nobody says it.
    pub cleared: Option<watch::Receiver<Cleared>>,
}

/// The feeds of a process.
pub struct Feeds {
    works: Arc<Works>,
    settings: watch::Sender<Vec<FeedSettings>>,
}

impl Feeds {
    /// Puts the parts together. Nothing is asked yet.
    ///
    /// # Errors
    /// When the threads that write cannot be started, or a mirror has no list.
    pub fn open(parts: FeedsParts) -> io::Result<Self> {
        if parts.journals.len() != parts.mirrors.iter().count() {
            return Err(io::Error::other("there is not one list for each mirror"));
        }
        let writer = Writer::start(parts.depot.disk(), &parts.depot.downloads())?;
        let shared = Shared {
            clock: parts.clock,
            rng: parts.rng,
            depot: parts.depot,
            writer,
            fetcher: parts.fetcher,
            busy: Busy::default(),
            monitor: parts.monitor,
            replica: parts.replica,
            habits: Habits::default(),
        };
        let shared = Arc::new(shared);
        let docks = Docks::new(
            Arc::clone(&shared),
            parts.mirrors,
            parts.journals,
            parts.uploads,
            parts.cleared,
        );
        Ok(Self {
            works: Arc::new(Works::new(shared, docks)),
            settings: watch::Sender::new(Vec::new()),
        })
    }

    /// The feeds from now on. Those that stay as they are go on without missing a poll.
    pub fn set(&self, feeds: Vec<FeedSettings>) {
        self.works.shared().habits.set(&feeds);
        self.settings.send_replace(feeds);
    }

    /// What is remembered for people.
    #[must_use]
    pub fn monitor(&self) -> &Monitor {
        &self.works.shared().monitor
    }

    /// Collects until `stop`; then waits for the polls that are under way, and packs and ships everything, also of the hour that has begun,
    /// all of it for at most what `limit` says by then. Polls have half of that time: what is there already is to be shipped, too.
    pub async fn run(&self, stop: CancellationToken, mut limit: watch::Receiver<Duration>) -> Left {
        let ending = CancellationToken::new();
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&self.works).pack_hours(ending.clone()));
        tasks.spawn(Arc::clone(self.works.docks()).ship_listed(ending.clone()));
        tasks.spawn(Arc::clone(&self.works).save_monitor(ending.clone()));
        let stopped = self.poll_all(&stop, &mut limit).await;
        ending.cancel();
        while let Some(ended) = tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a part of collecting feeds ended early");
            }
        }
        let spent = self.works.shared().clock.since(stopped);
        let left = limit.borrow().saturating_sub(spent);
        self.flush(left).await
    }

    /// Packs and ships what is there, also of an hour that is not over, for at most `limit`. Nothing else may run.
    pub async fn flush(&self, limit: Duration) -> Left {
        let clock = &self.works.shared().clock;
        if clock.timeout(limit, self.works.flush()).await.is_err() {
            tracing::warn!("the time for shipping what feeds left is over");
        }
        self.works.save_all().await;
        self.works.left().await
    }

    /// Runs the pollers as the settings say, until `stop`; says when that was, by the monotonic clock.
    async fn poll_all(
        &self,
        stop: &CancellationToken,
        limit: &mut watch::Receiver<Duration>,
    ) -> Duration {
        let mut settings = self.settings.subscribe();
        settings.mark_changed();
        let mut pollers = Pollers::new(Arc::clone(self.works.shared()));
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Ok(()) = settings.changed() => {
                    let feeds = settings.borrow_and_update().clone();
                    pollers.become_these(feeds).await;
                }
            }
        }
        let clock = &self.works.shared().clock;
        let stopped = clock.elapsed();
        pollers.stop(half_of(limit, clock, stopped)).await;
        stopped
    }
}

/// Ends when half of the limit, as it is by then, has passed since `begun`.
async fn half_of(limit: &mut watch::Receiver<Duration>, clock: &Clock, begun: Duration) {
    loop {
        let half = *limit.borrow_and_update() / 2;
        tokio::select! {
            () = clock.sleep(half.saturating_sub(clock.since(begun))) => return,
            Ok(()) = limit.changed() => {}
        }
    }
}
