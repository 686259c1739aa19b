//! The feeds that are being asked: started, ended and replaced as the settings say.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::feed::FeedId;
use futures::FutureExt as _;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::poll::Poller;
use super::settings::FeedSettings;
use super::shared::Shared;

/// How long a poller that ended by a mistake of ours waits before it begins anew.
const REVIVAL_PAUSE: Duration = Duration::from_secs(5);

pub(super) struct Pollers {
    shared: Arc<Shared>,
    running: BTreeMap<FeedId, Running>,
    tasks: JoinSet<FeedId>,
}

struct Running {
    feed: FeedSettings,
    /// No further poll begins.
    stop: CancellationToken,
    /// The poll that is under way is not waited for.
    abandon: CancellationToken,
}

impl Pollers {
    pub(super) fn new(shared: Arc<Shared>) -> Self {
        Self {
            shared,
            running: BTreeMap::new(),
            tasks: JoinSet::new(),
        }
    }

    /// Asks these feeds from now on. One that stays as it is does not notice.
    pub(super) async fn become_these(&mut self, feeds: Vec<FeedSettings>) {
        let feeds = feeds.into_iter().map(|feed| (feed.id.clone(), feed));
        let wanted: BTreeMap<FeedId, FeedSettings> = feeds.collect();
        let mut ending = Vec::new();
        for (id, running) in &self.running {
            if wanted.get(id) != Some(&running.feed) {
                // It is asked again at once, as it is wanted now.
                running.stop.cancel();
                running.abandon.cancel();
                ending.push(id.clone());
            }
        }
        // Two pollers of one feed would write to the same lines.
        while ending.iter().any(|id| self.running.contains_key(id)) {
            self.reap().await;
        }
        for (id, feed) in wanted {
            if !self.running.contains_key(&id) {
                self.start(feed);
            }
        }
    }

    fn start(&mut self, feed: FeedSettings) {
        let id = feed.id.clone();
        let (stop, abandon) = (CancellationToken::new(), CancellationToken::new());
        self.running.insert(
            id.clone(),
            Running {
                feed: feed.clone(),
                stop: stop.clone(),
                abandon: abandon.clone(),
            },
        );
        let shared = Arc::clone(&self.shared);
        self.tasks.spawn(async move {
            while !stop.is_cancelled() {
                let poller = Poller::new(feed.clone(), Arc::clone(&shared));
                let polling = AssertUnwindSafe(poller.run(stop.clone(), abandon.clone()));
                if polling.catch_unwind().await.is_err() {
                    tracing::error!(feed = %id, "asking a feed ended by a mistake in the program; it begins anew");
                    shared.busy.end(&id);
                    tokio::select! {
                        () = shared.clock.sleep(REVIVAL_PAUSE) => {}
                        () = stop.cancelled() => {}
                    }
                }
            }
            id
        });
    }

    async fn reap(&mut self) {
        if let Some(Ok(id)) = self.tasks.join_next().await {
            self.running.remove(&id);
        }
    }

    /// Ends all of them; what they learnt is written. The polls that are under way are waited for until `patience` ends.
    pub(super) async fn stop(&mut self, patience: impl Future<Output = ()>) {
        for running in self.running.values() {
            running.stop.cancel();
        }
        tokio::select! {
            biased;
            () = self.all_ended() => {}
            () = patience => {}
        }
        for running in self.running.values() {
            running.abandon.cancel();
        }
        self.all_ended().await;
        self.running.clear();
    }

    async fn all_ended(&mut self) {
        while self.tasks.join_next().await.is_some() {}
    }
}
