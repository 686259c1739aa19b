//! Telling of executions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cannery_runtime::{Rng, Tasks};
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::forget::KEEP;
use super::queue::{Item, KeptEnd, WAITING_MAX, cleaned};
use super::write::{Shared, Writer};
use super::{Begin, End};
use crate::state::State;

/// How a recorder behaves.
#[derive(Clone, Debug)]
pub struct RecorderOptions {
    /// The name of this node.
    pub worker: String,
    /// What began longer ago is forgotten; nothing keeps everything.
    pub keep: Option<Duration>,
}

impl RecorderOptions {
    /// For a node, with the default of what is kept.
    #[must_use]
    pub fn of(worker: impl Into<String>) -> Self {
        Self {
            worker: worker.into(),
            keep: Some(KEEP),
        }
    }
}

/// Tells the history of the executions of one process. Nothing waits for the database: what is told goes to a bounded queue,
/// and a task writes it in batches, as long as it takes. What finds the queue full is dropped, counted and logged.
///
/// Dropped without [`Recorder::close`], it still tries to write what waits, and nobody waits for that.
#[derive(Debug)]
pub struct Recorder {
    shared: Arc<Shared>,
    next: AtomicU64,
    asks: mpsc::Sender<oneshot::Sender<bool>>,
    tasks: Tasks,
    _stop: DropGuard,
}

/// An execution that was told to have begun.
#[derive(Debug)]
pub struct Ticket {
    number: u64,
    begin: Arc<Begin>,
    begun: bool,
}

impl Recorder {
    /// Starts telling. It must be called in an async runtime.
    #[must_use]
    pub fn start(state: &State, options: &RecorderOptions, rng: &Rng) -> Self {
        let stop = CancellationToken::new();
        let tasks = Tasks::new(state.clock.clone(), stop.clone());
        let shared = Arc::new(Shared::new(rng.id(), cleaned(&options.worker)));
        let (asks, asked) = mpsc::channel(1);
        let writer = Writer::new(state.clone(), Arc::clone(&shared), options.keep);
        tasks.spawn("history", writer.run(asked, stop.clone()));
        Self {
            shared,
            next: AtomicU64::new(0),
            asks,
            tasks,
            _stop: stop.drop_guard(),
        }
    }

    /// An execution has begun. Never waits.
    #[must_use]
    pub fn begin(&self, begin: Begin) -> Ticket {
        let mut ticket = self.ticket(begin);
        let mut queue = self.shared.queue();
        ticket.begun = queue.begin(ticket.number, &ticket.begin);
        drop(queue);
        self.shared.wake();
        ticket
    }

    /// An execution has ended. Never waits.
    pub fn end(&self, ticket: Ticket, end: &End) {
        let item = Item {
            begin: ticket.begin,
            end: Some(KeptEnd::of(end)),
        };
        let mut queue = self.shared.queue();
        let kept = queue.end(ticket.number, item, ticket.begun);
        let dropped = queue.dropped();
        drop(queue);
        // Once is enough until it works again: the writer says how many there were.
        if !kept && self.shared.is_first_drop() {
            tracing::warn!(
                dropped,
                waiting = WAITING_MAX,
                "the history of executions has holes: its database takes too long"
            );
        }
        self.shared.wake();
    }

    /// An execution has ended of whose beginning nothing was told.
    pub fn record(&self, begin: Begin, end: &End) {
        self.end(self.ticket(begin), end);
    }

    /// How many executions were dropped.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.queue().dropped()
    }

    /// How many executions wait to be written.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.shared.queue().len()
    }

    /// Tries at once to write what was told so far; says whether it is written.
    pub async fn flush(&self) -> bool {
        let (ask, answer) = oneshot::channel();
        if self.asks.send(ask).await.is_err() {
            return false;
        }
        answer.await.unwrap_or(false)
    }

    /// Writes what waits, says that this worker has ended, and waits for that for a bounded time. Says whether everything was
    /// written. May be called twice.
    pub async fn close(&self, limit: Duration) -> bool {
        let stopped = self.tasks.stop(limit).await;
        let waiting = self.waiting();
        if waiting > 0 {
            tracing::warn!(
                executions = waiting,
                "the end of the history was not written: its database did not answer in time"
            );
        }
        stopped.unfinished.is_empty() && waiting == 0
    }

    fn ticket(&self, begin: Begin) -> Ticket {
        let clean = |text: Option<String>| text.map(|text| cleaned(&text));
        let begin = Begin {
            stage: cleaned(&begin.stage),
            key: cleaned(&begin.key),
            bucket: clean(begin.bucket),
            kind: clean(begin.kind),
            slice: clean(begin.slice),
            ..begin
        };
        Ticket {
            number: self.next.fetch_add(1, Ordering::Relaxed),
            begin: Arc::new(begin),
            begun: false,
        }
    }
}
