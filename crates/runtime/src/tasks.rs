//! Background tasks with names, an owner that waits for them, and a limit on the waiting.

use std::collections::BTreeMap;
use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::Clock;

/// How long an aborted task is waited for.
const ABORT_LIMIT: Duration = Duration::from_secs(2);

/// The owner of a set of tasks. Every task of the product belongs to one and is waited for.
#[derive(Clone, Debug)]
pub struct Tasks {
    clock: Clock,
    stop: CancellationToken,
    tracker: TaskTracker,
    running: Arc<Mutex<Running>>,
}

#[derive(Debug, Default)]
struct Running {
    next: u64,
    tasks: BTreeMap<u64, (String, Option<AbortHandle>)>,
    panicked: Vec<String>,
}

/// How [`Tasks::stop`] ended.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Stopped {
    /// Tasks that did not end in time and were aborted.
    pub unfinished: Vec<String>,
    /// Tasks that ended in a panic, at any time.
    pub panicked: Vec<String>,
}

impl Tasks {
    /// No tasks yet. Cancelling `stop` asks every task to end.
    #[must_use]
    pub fn new(clock: Clock, stop: CancellationToken) -> Self {
        Self {
            clock,
            stop,
            tracker: TaskTracker::new(),
            running: Arc::default(),
        }
    }

    /// What a task watches to learn that it should end.
    #[must_use]
    pub fn stopping(&self) -> CancellationToken {
        self.stop.clone()
    }

    /// Starts `work` under `name`. A panic in it is logged and remembered; it does not take the process down.
    pub fn spawn(&self, name: impl Into<String>, work: impl Future<Output = ()> + Send + 'static) {
        let name = name.into();
        let id = {
            let mut running = self.lock();
            running.next += 1;
            let id = running.next;
            running.tasks.insert(id, (name.clone(), None));
            id
        };
        let owner = self.clone();
        let handle = self.tracker.spawn(async move {
            let panicked = AssertUnwindSafe(work).catch_unwind().await.is_err();
            let mut running = owner.lock();
            running.tasks.remove(&id);
            if panicked {
                tracing::error!(task = name, "task panicked; the rest goes on");
                running.panicked.push(name);
            }
        });
        if let Some((_, abort)) = self.lock().tasks.get_mut(&id) {
            *abort = Some(handle.abort_handle());
        }
    }

    /// The names of the tasks that run now, oldest first.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        self.lock()
            .tasks
            .values()
            .map(|(name, _)| name.clone())
            .collect()
    }

    /// Asks all tasks to end and waits at most `limit`; then aborts what is left and names it.
    pub async fn stop(&self, limit: Duration) -> Stopped {
        self.stop.cancel();
        self.tracker.close();
        let in_time = self.clock.timeout(limit, self.tracker.wait()).await.is_ok();
        let unfinished = if in_time {
            Vec::new()
        } else {
            self.abort_all()
        };
        if !unfinished.is_empty() {
            // An aborted task ends at its next await; one that never awaits is left behind, named.
            self.clock
                .timeout(ABORT_LIMIT, self.tracker.wait())
                .await
                .ok();
        }
        Stopped {
            unfinished,
            panicked: self.lock().panicked.clone(),
        }
    }

    /// Aborts what runs and names it.
    fn abort_all(&self) -> Vec<String> {
        let running = self.lock();
        for abort in running
            .tasks
            .values()
            .filter_map(|(_, abort)| abort.as_ref())
        {
            abort.abort();
        }
        running
            .tasks
            .values()
            .map(|(name, _)| name.clone())
            .collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Running> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tasks() -> Tasks {
        Tasks::new(Clock::real(), CancellationToken::new())
    }

    #[tokio::test]
    async fn stop_waits_for_tasks_that_listen() {
        let tasks = tasks();
        let stop = tasks.stopping();
        tasks.spawn("listener", async move { stop.cancelled().await });
        assert_eq!(tasks.names(), ["listener"]);
        assert_eq!(
            tasks.stop(Duration::from_secs(30)).await,
            Stopped::default()
        );
    }

    #[tokio::test]
    async fn stop_names_and_aborts_what_hangs() {
        let tasks = tasks();
        tasks.spawn("stuck", std::future::pending());
        let stopped = tasks.stop(Duration::from_millis(10)).await;
        assert_eq!(stopped.unfinished, ["stuck"]);
    }

    #[tokio::test]
    async fn a_panic_is_reported_and_contained() {
        let tasks = tasks();
        tasks.spawn("clumsy", async { panic!("on purpose") });
        let stopped = tasks.stop(Duration::from_secs(30)).await;
        assert_eq!(
            stopped,
            Stopped {
                unfinished: vec![],
                panicked: vec!["clumsy".into()]
            }
        );
    }
}
