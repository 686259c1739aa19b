//! Odd outcomes, odd settings and a journal that is gone: each costs what it must, and no more.

use std::future::pending;
use std::time::Duration;

use cannery_journal::worker::{Outcome, Worker};
use cannery_journal::{Date, ErrorKind, Op, Query};
use cannery_runtime::Rng;

use super::watched_clock::WatchedClock;
use super::{Bench, LEASE, keys};

#[tokio::test]
async fn a_date_past_the_last_is_the_last() {
    let bench = Bench::patient();
    bench.add(keys(3)).await;
    let worker = bench.start(bench.worker().concurrency(3), |work| async move {
        match work.entry.key.as_str() {
            "key 0" => Outcome::Retry {
                reason: "not in this life".into(),
                after: Some(Duration::MAX),
            },
            "key 1" => Outcome::Release {
                at: Some(Date::from_millis(i64::MAX)),
            },
            _ => Outcome::Done,
        }
    });
    bench.settle().await;
    let entries = bench.engine.list(Query::all()).await.entries;
    let dates: Vec<Date> = entries.iter().map(|entry| entry.meta.process).collect();
    assert_eq!(dates, [Date::LAST, Date::LAST]);
    assert!(!worker.is_finished());
    let summary = bench.finish(worker).await;
    assert_eq!((summary.failed, summary.released), (1, 1));
    assert_eq!((summary.done, summary.error), (1, None));
}

#[tokio::test]
async fn a_report_that_is_refused_costs_its_entry_only() {
    let bench = Bench::patient();
    bench.engine.refuse("odd");
    bench.add(keys(5)).await;
    let worker = bench.start(bench.worker().concurrency(2), |work| async move {
        let odd = work.entry.key.as_str() == "key 0" && work.entry.meta.timeouts == 0;
        if odd {
            let reason = "odd".into();
            return Outcome::Retry {
                reason,
                after: None,
            };
        }
        Outcome::Done
    });
    bench.settle().await;
    let stats = bench.stats().await;
    assert_eq!((stats.counts.done, stats.processing()), (4, 1));
    bench.drain().await;
    let counts = bench.stats().await.counts;
    assert_eq!((counts.done, counts.timeouts), (5, 1));
    let summary = bench.finish(worker).await;
    assert_eq!((summary.done, summary.lost), (5, 1));
    assert_eq!((summary.failed, summary.error), (0, None));
}

#[tokio::test]
async fn a_worker_that_has_given_up_sleeps_until_its_handlers_end() {
    let bench = Bench::patient();
    bench.add(keys(2)).await;
    let watched = WatchedClock::new(bench.time.clock());
    let worker = Worker::new(
        bench.journal.clone(),
        "tester",
        watched.clock(),
        Rng::seeded(2),
    );
    let clock = bench.time.clock();
    let worker = bench.start(worker.concurrency(2), move |work| {
        let clock = clock.clone();
        async move {
            if work.entry.key.as_str() == "key 0" {
                return pending().await;
            }
            // Its report cannot be sent any more.
            clock.sleep(LEASE / 8).await;
            Outcome::Done
        }
    });
    bench.settle().await;
    bench.journal.close().await;
    bench.time.advance(LEASE).await;
    assert!(!worker.is_finished(), "a handler has its grace");
    assert!(watched.sleepless() < 10, "{}", watched.sleepless());
    let summary = bench.finish(worker).await;
    assert_eq!(summary.lost, 2);
    assert_eq!(summary.error.unwrap().kind, ErrorKind::Closed);
}

#[tokio::test]
async fn heartbeats_that_are_to_come_too_late_come_in_time() {
    let bench = Bench::patient();
    bench.add(keys(1)).await;
    let clock = bench.time.clock();
    let worker = bench.worker().heartbeat_every(LEASE * 5);
    let worker = bench.start(worker, move |_| {
        let clock = clock.clone();
        async move {
            clock.sleep(LEASE * 10).await;
            Outcome::Done
        }
    });
    bench.time.advance(LEASE * 10).await;
    let counts = bench.stats().await.counts;
    assert_eq!((counts.done, counts.timeouts, counts.claims), (1, 0, 1));
    assert_eq!(bench.finish(worker).await.done, 1);
}

#[tokio::test]
async fn a_thousand_reasons_are_reported_a_few_at_a_time() {
    const ENTRIES: usize = 1_000;
    let bench = Bench::patient();
    bench.add(keys(ENTRIES)).await;
    let clock = bench.time.clock();
    let worker = bench.start(bench.worker().concurrency(ENTRIES), move |work| {
        let clock = clock.clone();
        async move {
            clock.sleep(Duration::from_secs(1)).await;
            Outcome::Dead {
                reason: format!("because of {}", work.entry.key),
            }
        }
    });
    bench.settle().await;
    bench.engine.hold_answers(true);
    bench.time.advance(Duration::from_secs(1)).await;
    let reports = || bench.engine.asked(|op| matches!(op, Op::Fail { .. }));
    assert_eq!(reports(), 32);
    bench.engine.hold_answers(false);
    bench.time.advance(Duration::from_secs(1)).await;
    assert_eq!(reports(), ENTRIES);
    assert_eq!(bench.stats().await.dead, 1_000);
    assert_eq!(bench.finish(worker).await.dead, 1_000);
}

#[tokio::test]
async fn a_long_reason_is_cut_by_the_journal() {
    let bench = Bench::patient();
    bench.add(keys(1)).await;
    let worker = bench.start(bench.worker(), |_| async {
        Outcome::Dead {
            reason: format!("x{}", "é".repeat(Op::TEXT_BYTES_MAX)),
        }
    });
    bench.settle().await;
    let entry = bench.engine.list(Query::all()).await.entries.remove(0);
    let reason = entry.death.unwrap().reason;
    assert_eq!(reason.len(), Op::TEXT_BYTES_MAX - 1);
    assert_eq!(bench.finish(worker).await.dead, 1);
}
