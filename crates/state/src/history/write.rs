//! The task that writes what was told, and leaves signs of life.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_database::{Error, ErrorKind, Value};
use jiff::SignedDuration;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use super::queue::{Item, Queue};
use super::{HEARTBEAT, Outcome};
use crate::state::State;

/// So many rows are written by one statement.
const BATCH: usize = 128;
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// How often what is old is looked for.
const FORGET_EVERY: Duration = Duration::from_secs(6 * 3600);

const COLUMNS: [&str; 16] = [
    "session",
    "number",
    "stage",
    "key",
    "bucket",
    "kind",
    "slice",
    "attempt",
    "worker",
    "started_ms",
    "ended_ms",
    "bytes_in",
    "bytes_out",
    "result",
    "reason",
    "report",
];

/// What the recorder and the task share.
#[derive(Debug)]
pub(super) struct Shared {
    session: String,
    worker: String,
    queue: Mutex<Queue>,
    news: Notify,
    /// It was said that something is dropped, since the database last answered.
    drop_said: AtomicBool,
}

impl Shared {
    pub(super) fn new(session: String, worker: String) -> Self {
        Self {
            session,
            worker,
            queue: Mutex::default(),
            news: Notify::new(),
            drop_said: AtomicBool::new(false),
        }
    }

    pub(super) fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wake(&self) {
        self.news.notify_one();
    }

    pub(super) fn is_first_drop(&self) -> bool {
        !self.drop_said.swap(true, Ordering::Relaxed)
    }
}

pub(super) struct Writer {
    state: State,
    shared: Arc<Shared>,
    keep: Option<Duration>,
    started_ms: i64,
    next_beat: Duration,
    next_forget: Duration,
    /// How often it went wrong in a row.
    failures: u32,
}

impl Writer {
    pub(super) fn new(state: State, shared: Arc<Shared>, keep: Option<Duration>) -> Self {
        let now = state.clock.elapsed();
        Self {
            started_ms: state.clock.now().as_millisecond(),
            state,
            shared,
            keep,
            next_beat: now,
            next_forget: now,
            failures: 0,
        }
    }

    pub(super) async fn run(
        mut self,
        mut asked: mpsc::Receiver<oneshot::Sender<bool>>,
        stop: CancellationToken,
    ) {
        loop {
            let ask = tokio::select! {
                biased;
                () = stop.cancelled() => break,
                ask = asked.recv() => match ask {
                    Some(ask) => Some(ask),
                    None => break,
                },
                () = self.wait() => None,
            };
            // A database that hangs must not keep the process from ending.
            let written = tokio::select! {
                written = self.round() => written,
                () = stop.cancelled() => false,
            };
            if let Some(ask) = ask {
                // Nobody may be waiting any more.
                ask.send(written).unwrap_or_default();
            }
        }
        self.next_beat = self.state.clock.elapsed();
        if self.round().await
            && let Err(error) = self.leave().await
        {
            tracing::debug!(%error, "cannot say that this worker has ended");
        }
    }

    /// Until there is something to do.
    async fn wait(&self) {
        let clock = &self.state.clock;
        if self.failures > 0 {
            let pause = PAUSE_FIRST.saturating_mul(1 << (self.failures - 1).min(5));
            return clock.sleep(pause.min(PAUSE_MAX)).await;
        }
        let until = self.next_beat.min(self.next_forget);
        tokio::select! {
            () = self.shared.news.notified() => {}
            () = clock.sleep(until.saturating_sub(clock.elapsed())) => {}
        }
    }

    /// Does what is to be done; says whether it went well.
    async fn round(&mut self) -> bool {
        match self.work().await {
            Ok(()) => {
                self.recovered();
                true
            }
            Err(error) => {
                self.failures += 1;
                if self.failures == 1 {
                    tracing::warn!(%error, "cannot write the history of executions; trying on");
                }
                false
            }
        }
    }

    fn recovered(&mut self) {
        let had_dropped = self.shared.drop_said.swap(false, Ordering::Relaxed);
        if self.failures > 0 || had_dropped {
            let dropped = self.shared.queue().dropped();
            tracing::info!(dropped, "the history of executions is written again");
        }
        self.failures = 0;
    }

    async fn work(&mut self) -> Result<(), Error> {
        let clock = self.state.clock.clone();
        if clock.elapsed() >= self.next_beat {
            self.beat().await?;
            self.next_beat = clock.elapsed() + HEARTBEAT;
        }
        self.write_all().await?;
        if clock.elapsed() >= self.next_forget {
            self.forget().await?;
            self.next_forget = clock.elapsed() + FORGET_EVERY;
        }
        Ok(())
    }

    async fn write_all(&self) -> Result<(), Error> {
        loop {
            let batch = Batch::take(&self.shared);
            if batch.items.is_empty() {
                return Ok(());
            }
            match self.write(&batch.items).await {
                Ok(()) => batch.written(),
                Err(error) if is_hopeless(&error) => self.write_singly(batch).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// One of them cannot be written, whatever happens; the others can.
    async fn write_singly(&self, batch: Batch<'_>) -> Result<(), Error> {
        let mut bad = HashSet::new();
        for one in &batch.items {
            match self.write(std::slice::from_ref(one)).await {
                Ok(()) => {}
                Err(error) if is_hopeless(&error) => {
                    let key = one.1.begin.key.as_str();
                    tracing::error!(%error, key, "an execution is not in the history");
                    bad.insert(one.0);
                }
                Err(error) => return Err(error),
            }
        }
        self.shared.queue().count_dropped(bad.len());
        batch.written();
        Ok(())
    }

    /// Done twice, it is the same as once; an end is never undone.
    async fn write(&self, items: &[(u64, Item)]) -> Result<(), Error> {
        let mut params = Vec::with_capacity(items.len() * COLUMNS.len());
        for (number, item) in items {
            params.extend(self.row(*number, item));
        }
        let sql = insert(items.len());
        let mut session = self.state.database.writer().await?;
        session.execute(&sql, params).await.map(drop)
    }

    fn row(&self, number: u64, item: &Item) -> [Value; COLUMNS.len()] {
        let (begin, end) = (&item.begin, item.end.as_ref());
        let text = |text: &Option<String>| Value::from(text.clone());
        let outcome = end.map_or(Outcome::Running, |end| end.outcome);
        let report = end.and_then(|end| end.report.clone());
        [
            self.shared.session.as_str().into(),
            stored(number),
            begin.stage.as_str().into(),
            begin.key.as_str().into(),
            text(&begin.bucket),
            text(&begin.kind),
            text(&begin.slice),
            i64::from(begin.attempt).into(),
            self.shared.worker.as_str().into(),
            begin.started.as_millisecond().into(),
            end.map(|end| end.ended_ms).into(),
            stored(end.map_or(0, |end| end.bytes_in)),
            stored(end.map_or(0, |end| end.bytes_out)),
            outcome.name().into(),
            text(&end.and_then(|end| end.reason.clone())),
            report.map_or(Value::Null, Value::Json),
        ]
    }

    async fn beat(&self) -> Result<(), Error> {
        let sql = "insert into session (id, worker, started_ms, heard_ms) values ($1, $2, $3, $4) \
                   on conflict (id) do update set heard_ms = excluded.heard_ms, ended_ms = null";
        let params = vec![
            self.shared.session.as_str().into(),
            self.shared.worker.as_str().into(),
            self.started_ms.into(),
            self.now_ms(),
        ];
        let mut session = self.state.database.writer().await?;
        session.execute(sql, params).await.map(drop)
    }

    async fn leave(&self) -> Result<(), Error> {
        let sql = "update session set ended_ms = $2 where id = $1";
        let params = vec![self.shared.session.as_str().into(), self.now_ms()];
        let mut session = self.state.database.writer().await?;
        session.execute(sql, params).await.map(drop)
    }

    async fn forget(&self) -> Result<(), Error> {
        let keep = self
            .keep
            .and_then(|keep| SignedDuration::try_from(keep).ok());
        let now = self.state.clock.now();
        let Some(before) = keep.and_then(|keep| now.checked_sub(keep).ok()) else {
            return Ok(());
        };
        let forgotten = self.state.forget(before).await?;
        if forgotten > 0 {
            tracing::info!(executions = forgotten, %before, "forgot old executions");
        }
        Ok(())
    }

    fn now_ms(&self) -> Value {
        self.state.clock.now().as_millisecond().into()
    }
}

/// Items that are being written. Dropped, also in the middle of it, they wait again.
struct Batch<'a> {
    shared: &'a Shared,
    items: Vec<(u64, Item)>,
}

impl<'a> Batch<'a> {
    fn take(shared: &'a Shared) -> Self {
        let items = shared.queue().take(BATCH);
        Self { shared, items }
    }

    fn written(mut self) {
        self.items.clear();
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        let items = std::mem::take(&mut self.items);
        self.shared.queue().put_back(items);
    }
}

/// It would fail the same way again.
fn is_hopeless(error: &Error) -> bool {
    matches!(error.kind, ErrorKind::Invalid | ErrorKind::Corrupt)
}

fn stored(number: u64) -> Value {
    Value::Int(i64::try_from(number).unwrap_or(i64::MAX))
}

fn insert(rows: usize) -> String {
    let width = COLUMNS.len();
    let rows: Vec<String> = (0..rows)
        .map(|row| {
            let cells: Vec<String> = (1..=width)
                .map(|cell| format!("${}", row * width + cell))
                .collect();
            format!("({})", cells.join(", "))
        })
        .collect();
    format!(
        "insert into execution ({}) values {} on conflict (session, number) do update set \
         ended_ms = excluded.ended_ms, bytes_in = excluded.bytes_in, bytes_out = excluded.bytes_out, \
         result = excluded.result, reason = excluded.reason, report = excluded.report \
         where execution.result = 'running'",
        COLUMNS.join(", "),
        rows.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use cannery_runtime::Clock;
    use jiff::Timestamp;

    use super::*;
    use crate::history::queue::KeptEnd;
    use crate::history::{Begin, End, Filter};

    /// A write that was given up may still arrive, on a connection of its own, after the one that followed it.
    #[tokio::test]
    async fn a_begin_that_arrives_late_does_not_undo_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("state.sqlite");
        let state = State::open(path.to_str().unwrap(), Clock::real()).await;
        let state = state.unwrap();
        let shared = Arc::new(Shared::new("session".to_owned(), "node-1".to_owned()));
        let writer = Writer::new(state.clone(), shared, None);
        let begin = Arc::new(Begin {
            stage: "seal".to_owned(),
            key: "seal/2026-11-15/-/-".to_owned(),
            bucket: None,
            kind: None,
            slice: None,
            attempt: 1,
            started: Timestamp::UNIX_EPOCH,
        });
        let end = KeptEnd::of(&End {
            ended: Timestamp::UNIX_EPOCH,
            bytes_in: 7,
            bytes_out: 0,
            outcome: Outcome::Done,
            reason: None,
            report: serde_json::Value::Null,
        });
        let begun = Item { begin, end: None };
        let ended = Item {
            end: Some(end),
            ..begun.clone()
        };
        for item in [&ended, &begun, &ended] {
            writer.write(&[(0, item.clone())]).await.unwrap();
            let page = state.executions(&Filter::default(), None, 9).await;
            let all = page.unwrap().items;
            assert_eq!(all.len(), 1);
            assert_eq!((all[0].result, all[0].bytes_in), (Outcome::Done, 7));
        }
    }
}
