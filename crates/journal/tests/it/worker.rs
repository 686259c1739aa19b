//! The claim loop: nothing lost, nothing done twice, nobody left holding a lease.

use std::collections::HashMap;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cannery_journal::worker::{Handler, Outcome, Summary, Work, Worker};
use cannery_journal::{
    Data, Date, Declaration, ErrorKind, Journal, Key, Memory, NewEntry, Op, Query, Stats,
};
use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::{Clock, Rng};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::subject::simulated;

mod decorator;
mod odd;
mod watched_clock;

use decorator::Decorator;

const LEASE: Duration = Duration::from_secs(10);

/// A handler from a closure.
pub(crate) struct Doing<F>(pub(crate) F);

#[async_trait]
impl<F, R> Handler for Doing<F>
where
    F: Fn(Work) -> R + Send + Sync + 'static,
    R: Future<Output = Outcome> + Send,
{
    async fn handle(&self, work: Work) -> Outcome {
        (self.0)(work).await
    }
}

/// A journal in simulated time, behind an engine that can be made to fail and that remembers what it was asked.
struct Bench {
    time: SimulatedClock,
    engine: Arc<Decorator>,
    journal: Journal,
    stop: CancellationToken,
}

impl Bench {
    fn new(declaration: Declaration) -> Self {
        let time = simulated();
        let memory = Memory::new(declaration, time.clock(), Rng::seeded(1));
        let engine = Arc::new(Decorator::new(Arc::new(memory)));
        let journal = Journal::new("work", engine.clone());
        Self {
            time,
            engine,
            journal,
            stop: CancellationToken::new(),
        }
    }

    fn patient() -> Self {
        Self::new(Declaration {
            lease: LEASE,
            timeouts_max: 254,
            ..Declaration::default()
        })
    }

    fn worker(&self) -> Worker {
        let (journal, clock) = (self.journal.clone(), self.time.clock());
        Worker::new(journal, "tester", clock, Rng::seeded(2))
    }

    fn start<F, R>(&self, worker: Worker, doing: F) -> JoinHandle<Summary>
    where
        F: Fn(Work) -> R + Send + Sync + 'static,
        R: Future<Output = Outcome> + Send + 'static,
    {
        tokio::spawn(worker.run(Doing(doing), self.stop.clone()))
    }

    async fn add(&self, keys: impl IntoIterator<Item = String>) {
        let entries = keys.into_iter().map(|key| NewEntry::new(key, Data::null()));
        for part in entries.collect::<Vec<_>>().chunks(Op::COUNT_MAX) {
            self.journal.add(part.to_vec()).await.unwrap();
        }
    }

    async fn stats(&self) -> Stats {
        self.engine.look().await
    }

    /// Lets time pass until nothing waits or is processed any more.
    async fn drain(&self) {
        for _ in 0..100_000 {
            let stats = self.stats().await;
            if stats.waiting() + stats.processing() == 0 {
                return;
            }
            self.time.advance(Duration::from_millis(500)).await;
        }
        panic!("the journal does not drain: {:?}", self.stats().await);
    }

    /// Lets everything happen that needs no time.
    async fn settle(&self) {
        self.time.advance(Duration::ZERO).await;
    }

    async fn finish(&self, worker: JoinHandle<Summary>) -> Summary {
        self.stop.cancel();
        self.time.advance(Duration::from_secs(60)).await;
        assert!(worker.is_finished(), "the worker did not stop in time");
        worker.await.unwrap()
    }
}

fn keys(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("key {number}"))
}

/// Any outcome, after any time; at last it is done. Says whether it is.
async fn at_random(rng: &Rng, clock: &Clock) -> Outcome {
    clock.sleep(Duration::from_millis(rng.below(3) * 100)).await;
    match rng.below(10) {
        0 => Outcome::Retry {
            reason: "not today".into(),
            after: None,
        },
        1 => Outcome::Retry {
            reason: "not now".into(),
            after: Some(Duration::from_millis(250)),
        },
        2 => Outcome::Release { at: None },
        3 => Outcome::Release {
            at: Some(Date::from(clock.now()).plus(Duration::from_secs(3))),
        },
        4 => panic!("by chance"),
        _ => Outcome::Done,
    }
}

#[tokio::test]
async fn every_entry_is_done_once_and_the_places_are_never_exceeded() {
    const ENTRIES: usize = 2_000;
    let bench = Bench::patient();
    let (rng, clock) = (Rng::seeded(3), bench.time.clock());
    let running = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let (done, mut all_done) = mpsc::unbounded_channel();
    let worker = bench.start(bench.worker().concurrency(16).batch(5), {
        let most = Arc::clone(&most);
        move |work| {
            let (rng, clock, done) = (rng.clone(), clock.clone(), done.clone());
            let place = Place::take(&running, &most);
            async move {
                let outcome = at_random(&rng, &clock).await;
                if outcome == Outcome::Done {
                    done.send(work.entry.key.as_str().to_owned()).unwrap();
                }
                drop(place);
                outcome
            }
        }
    });
    bench.add(keys(ENTRIES)).await;
    bench.drain().await;
    let summary = bench.finish(worker).await;
    let counts = bench.stats().await.counts;
    assert_eq!(most.load(Ordering::SeqCst), 16);
    assert_eq!((summary.done, summary.lost, summary.dead), (2_000, 0, 0));
    assert_eq!(
        (summary.failed, summary.released),
        (counts.failures, counts.releases)
    );
    assert!(counts.failures > 300 && counts.releases > 300, "{counts:?}");
    assert_eq!((counts.done, counts.timeouts, counts.live()), (2_000, 0, 0));
    assert_eq!(summary.error, None);
    let mut times = HashMap::<String, usize>::new();
    while let Ok(key) = all_done.try_recv() {
        *times.entry(key).or_default() += 1;
    }
    assert!(times.len() == ENTRIES && times.values().all(|times| *times == 1));
}

/// One of the handlers that run at once; counted also when its handler panics.
struct Place(Arc<AtomicUsize>);

impl Place {
    fn take(running: &Arc<AtomicUsize>, most: &AtomicUsize) -> Self {
        let now = running.fetch_add(1, Ordering::SeqCst) + 1;
        most.fetch_max(now, Ordering::SeqCst);
        Self(Arc::clone(running))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

#[tokio::test]
async fn a_journal_that_fails_now_and_then_loses_nothing_and_ends_nothing_twice() {
    for every in [2, 3, 5, 7] {
        let bench = Bench::patient();
        bench.add(keys(150)).await;
        bench.engine.fail_every(every);
        let (rng, clock) = (Rng::seeded(every), bench.time.clock());
        let worker = bench.start(bench.worker().concurrency(8), move |_| {
            let (rng, clock) = (rng.clone(), clock.clone());
            async move { at_random(&rng, &clock).await }
        });
        bench.drain().await;
        let summary = bench.finish(worker).await;
        let counts = bench.stats().await.counts;
        assert_eq!(
            (counts.done, counts.live()),
            (150, 0),
            "every {every}: {counts:?}"
        );
        let acknowledged = bench.engine.acknowledged_done();
        assert_eq!(summary.done, acknowledged.len() as u64, "every {every}");
        assert_eq!(bench.engine.acknowledged_twice(), 0, "every {every}");
        // The failures after the effect were noticed, and counted as what they are: unknown ends.
        assert!(
            summary.lost > 0 && summary.done < 150,
            "every {every}: {summary:?}"
        );
        assert_eq!(summary.error, None);
    }
}

#[tokio::test]
async fn done_is_repeated_until_it_is_acknowledged() {
    let bench = Bench::patient();
    bench.add(keys(1)).await;
    let (ended, mut end) = mpsc::unbounded_channel();
    let worker = bench.start(bench.worker(), {
        let engine = Arc::clone(&bench.engine);
        move |_| {
            engine.set_down(true);
            ended.send(()).unwrap();
            async { Outcome::Done }
        }
    });
    end.recv().await.unwrap();
    bench.time.advance(LEASE / 2).await;
    assert_eq!(bench.stats().await.counts.done, 0);
    assert!(
        bench
            .engine
            .asked(|op| matches!(op, Op::DoneAndClaim { .. }))
            > 3
    );
    bench.engine.set_down(false);
    bench.time.advance(LEASE / 2).await;
    let counts = bench.stats().await.counts;
    assert_eq!((counts.done, counts.timeouts), (1, 0));
    assert_eq!(bench.finish(worker).await.done, 1);
}

#[tokio::test]
async fn heartbeats_keep_long_work_alive_in_one_request() {
    let bench = Bench::patient();
    bench.add(keys(3)).await;
    let clock = bench.time.clock();
    let worker = bench.start(bench.worker().concurrency(3), move |_| {
        let clock = clock.clone();
        async move {
            clock.sleep(LEASE * 100).await;
            Outcome::Done
        }
    });
    bench.time.advance(LEASE * 100).await;
    let counts = bench.stats().await.counts;
    assert_eq!((counts.done, counts.timeouts, counts.claims), (3, 0, 3));
    let beats = bench
        .engine
        .asked(|op| matches!(op, Op::Heartbeat(tokens) if tokens.len() == 3));
    assert!((390..=400).contains(&beats), "{beats}");
    assert_eq!(
        bench.engine.asked(|op| matches!(op, Op::Heartbeat(_))),
        beats
    );
    assert_eq!(bench.finish(worker).await.done, 3);
}

/// A worker whose only handler waits to lose its lease, and then pretends that it did its work.
fn waiting_for_loss(bench: &Bench) -> (JoinHandle<Summary>, mpsc::UnboundedReceiver<u8>) {
    let (lost, losses) = mpsc::unbounded_channel();
    let worker = bench.start(bench.worker(), move |work| {
        let lost = lost.clone();
        async move {
            if work.entry.meta.timeouts == 0 {
                work.lost.cancelled().await;
            }
            lost.send(work.entry.meta.timeouts).unwrap();
            Outcome::Done
        }
    });
    (worker, losses)
}

#[tokio::test]
async fn a_lost_lease_is_told_and_its_outcome_is_dropped() {
    let bench = Bench::patient();
    bench.add(keys(1)).await;
    let (worker, mut losses) = waiting_for_loss(&bench);
    bench.settle().await;
    bench
        .journal
        .cancel(Key::new("key 0").unwrap())
        .await
        .unwrap();
    bench
        .time
        .advance(LEASE / 4 - Duration::from_millis(1))
        .await;
    assert!(losses.try_recv().is_err());
    bench.time.advance(Duration::from_millis(1)).await;
    assert_eq!(losses.try_recv(), Ok(0));
    let summary = bench.finish(worker).await;
    assert_eq!((summary.lost, summary.done), (1, 0));
    let ends = bench
        .engine
        .asked(|op| matches!(op, Op::Done(_) | Op::DoneAndClaim { .. } | Op::Fail { .. }));
    assert_eq!(ends, 0);
}

#[tokio::test]
async fn who_cannot_reach_the_journal_for_a_whole_lease_takes_it_for_lost() {
    let bench = Bench::patient();
    bench.add(keys(1)).await;
    let (worker, mut losses) = waiting_for_loss(&bench);
    bench.settle().await;
    bench.engine.set_down(true);
    bench.time.advance(LEASE).await;
    assert!(losses.try_recv().is_err());
    bench.time.advance(Duration::from_millis(1)).await;
    assert_eq!(losses.try_recv(), Ok(0));
    bench.engine.set_down(false);
    bench.drain().await;
    assert_eq!(losses.try_recv(), Ok(1));
    let summary = bench.finish(worker).await;
    assert_eq!((summary.lost, summary.done), (1, 1));
}

#[tokio::test]
async fn a_panic_is_a_failed_attempt_with_its_message() {
    let bench = Bench::new(Declaration {
        timeouts_max: 1,
        ..Declaration::default()
    });
    bench.add(keys(1)).await;
    let began = Date::from(bench.time.clock().now());
    let worker = bench.start(bench.worker(), |work| async move {
        assert_eq!(work.entry.key.as_str(), "something else");
        Outcome::Done
    });
    bench.settle().await;
    let entry = bench.engine.list(Query::all()).await.entries.remove(0);
    let wait = entry.meta.process.since(began);
    assert!((500..=1_000).contains(&wait.as_millis()), "{wait:?}");
    bench.time.advance(Duration::from_secs(1)).await;
    let entry = bench.engine.list(Query::all()).await.entries.remove(0);
    let reason = entry.death.unwrap().reason;
    assert!(
        reason.starts_with("the handler panicked: ") && reason.contains("something else"),
        "{reason}"
    );
    let summary = bench.finish(worker).await;
    assert_eq!((summary.failed, summary.dead), (1, 1));
}

#[tokio::test]
async fn a_hopeless_entry_goes_to_the_dead_list_at_once() {
    let bench = Bench::patient();
    bench.add(keys(1)).await;
    let worker = bench.start(bench.worker(), |_| async {
        Outcome::Dead {
            reason: "no such thing".into(),
        }
    });
    bench.settle().await;
    assert_eq!(bench.stats().await.dead, 1);
    assert_eq!(bench.finish(worker).await.dead, 1);
}

#[tokio::test]
async fn a_stop_lets_handlers_finish_and_gives_back_the_rest() {
    let bench = Bench::patient();
    bench.add(keys(10)).await;
    let grace = Duration::from_secs(7);
    let worker = bench.start(
        bench.worker().concurrency(4).grace(grace),
        |work| async move {
            work.stop.cancelled().await;
            if ["key 0", "key 1"].contains(&work.entry.key.as_str()) {
                return Outcome::Done;
            }
            std::future::pending().await
        },
    );
    bench.settle().await;
    assert_eq!(bench.stats().await.processing(), 4);
    bench.stop.cancel();
    bench.time.advance(grace - Duration::from_millis(1)).await;
    let stats = bench.stats().await;
    assert_eq!((stats.counts.done, stats.processing()), (2, 2));
    assert!(!worker.is_finished());
    bench.time.advance(Duration::from_millis(1)).await;
    let summary = worker.await.unwrap();
    assert_eq!((summary.done, summary.released, summary.lost), (2, 2, 0));
    let stats = bench.stats().await;
    assert_eq!(
        (stats.processing(), stats.waiting(), stats.due()),
        (0, 8, 8)
    );
    assert_eq!((stats.counts.claims, stats.counts.timeouts), (4, 0));
}

#[tokio::test]
async fn what_a_claim_brings_after_the_stop_is_given_back() {
    let bench = Bench::patient();
    bench.add(keys(3)).await;
    bench.engine.hold_answers(true);
    let worker = bench.start(bench.worker().concurrency(3), |_| async { Outcome::Done });
    bench.settle().await;
    assert_eq!(bench.stats().await.processing(), 3);
    bench.stop.cancel();
    bench.settle().await;
    assert!(!worker.is_finished());
    bench.engine.hold_answers(false);
    let summary = bench.finish(worker).await;
    assert_eq!((summary.done, summary.released), (0, 3));
    let stats = bench.stats().await;
    assert_eq!((stats.processing(), stats.due()), (0, 3));
}

#[tokio::test]
async fn a_stop_does_not_wait_for_a_journal_that_never_answers() {
    let bench = Bench::patient();
    bench.add(keys(2)).await;
    let worker = bench.start(bench.worker().concurrency(2), |work| async move {
        work.stop.cancelled().await;
        Outcome::Done
    });
    bench.settle().await;
    bench.engine.set_down(true);
    let summary = bench.finish(worker).await;
    assert_eq!((summary.done, summary.lost), (0, 2));
    assert_eq!(summary.error.unwrap().kind, ErrorKind::Unavailable);
}

#[tokio::test]
async fn a_closed_journal_ends_the_worker_and_its_handlers() {
    let bench = Bench::patient();
    bench.add(keys(1)).await;
    let (worker, mut losses) = waiting_for_loss(&bench);
    bench.settle().await;
    bench.journal.close().await;
    bench.time.advance(LEASE / 4).await;
    assert_eq!(losses.try_recv(), Ok(0));
    assert!(worker.is_finished());
    let summary = worker.await.unwrap();
    assert_eq!(summary.lost, 1);
    assert_eq!(summary.error.unwrap().kind, ErrorKind::Closed);
}

#[tokio::test]
async fn a_worker_that_the_journal_refuses_ends() {
    let bench = Bench::patient();
    let name = "x".repeat(Op::TEXT_BYTES_MAX + 1);
    let clock = bench.time.clock();
    let worker = Worker::new(bench.journal.clone(), name, clock, Rng::seeded(1));
    let worker = bench.start(worker, |_| async { Outcome::Done });
    bench.settle().await;
    assert!(worker.is_finished());
    assert_eq!(
        worker.await.unwrap().error.unwrap().kind,
        ErrorKind::Invalid
    );
}

#[tokio::test]
async fn work_begins_when_it_is_due_and_waiting_costs_nothing() {
    let bench = Bench::patient();
    let (began, mut beginnings) = mpsc::unbounded_channel();
    let clock = bench.time.clock();
    let worker = bench.start(bench.worker(), move |work| {
        let key = work.entry.key.as_str().to_owned();
        began.send((key, Date::from(clock.now()))).unwrap();
        async { Outcome::Done }
    });
    bench.time.advance(Duration::from_secs(60)).await;
    let claims = |op: &Op| matches!(op, Op::Claim { .. } | Op::DoneAndClaim { .. });
    assert!(bench.engine.asked(claims) <= 7);

    let now = Date::from(bench.time.clock().now());
    let due = now.plus(Duration::from_millis(3_210));
    let later = NewEntry {
        process_date: Some(due),
        ..NewEntry::new("later", Data::null())
    };
    bench.journal.add(vec![later]).await.unwrap();
    bench.add(["at once".to_owned()]).await;
    bench.settle().await;
    assert_eq!(beginnings.try_recv(), Ok(("at once".to_owned(), now)));
    assert_eq!(bench.stats().await.counts.done, 1);
    bench.time.advance(Duration::from_secs(4)).await;
    assert_eq!(beginnings.try_recv(), Ok(("later".to_owned(), due)));
    assert_eq!(bench.finish(worker).await.done, 2);
}

#[tokio::test]
async fn a_finished_entry_does_not_wait_for_the_others() {
    let bench = Bench::patient();
    bench.add(keys(4)).await;
    let worker = bench.start(bench.worker().concurrency(4), |work| async move {
        if work.entry.key.as_str() != "key 2" {
            work.stop.cancelled().await;
        }
        Outcome::Done
    });
    bench.settle().await;
    let stats = bench.stats().await;
    assert_eq!((stats.counts.done, stats.processing()), (1, 3));
    assert_eq!(bench.finish(worker).await.done, 4);
}

/// A handler that never comes to an `await` may still be at work: nobody else gets its entry before the time-out.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_handler_that_cannot_be_aborted_is_left_behind_with_its_lease() {
    let bench = Bench::patient();
    bench.add(keys(1)).await;
    let (began, mut beginning) = mpsc::unbounded_channel();
    let (free, freed) = std::sync::mpsc::channel::<()>();
    let freed = Arc::new(std::sync::Mutex::new(freed));
    let worker = bench.start(bench.worker(), move |_| {
        let (began, freed) = (began.clone(), Arc::clone(&freed));
        async move {
            began.send(()).unwrap();
            freed.lock().unwrap().recv().ok();
            Outcome::Done
        }
    });
    beginning.recv().await.unwrap();
    bench.stop.cancel();
    while !worker.is_finished() {
        bench.time.advance(Duration::from_secs(1)).await;
    }
    let summary = worker.await.unwrap();
    assert_eq!((summary.lost, summary.released), (1, 0));
    let releases = bench.engine.asked(|op| matches!(op, Op::Release { .. }));
    assert_eq!(releases, 0);
    drop(free);
}
