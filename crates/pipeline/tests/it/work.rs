//! From the lake to the journal, from the journal to the lake.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cannery_formats::Key;
use cannery_formats::feed::{Codec, FeedId, Hour};
use cannery_journal::worker::{Summary, Worker};
use cannery_journal::{Date, Declaration, Journal, Memory, Priority, Query};
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_pipeline::Scope;
use cannery_pipeline::scan::{self, Scanner};
use cannery_pipeline::work_list::{self, Cycle, Hand, HourKey, Listener};
use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::{Clock, Rng};
use jiff::Timestamp;
use tokio_util::sync::CancellationToken;

use crate::kit::{Bucket, Way, feed, hour, lake, primary, set, store, upload};

#[derive(Default)]
struct Heard {
    cycles: Mutex<Vec<Cycle>>,
    stop_after: usize,
    stop: CancellationToken,
}

impl Listener for Heard {
    fn cycle(&self, cycle: &Cycle) {
        let mut cycles = self.cycles.lock().unwrap();
        cycles.push(cycle.clone());
        if cycles.len() >= self.stop_after {
            self.stop.cancel();
        }
    }
}

fn clock() -> Clock {
    SimulatedClock::impatient("2026-11-15T20:00:00Z".parse().unwrap()).clock()
}

fn journal(clock: &Clock) -> Journal {
    let memory = Memory::new(Declaration::default(), clock.clone(), Rng::seeded(1));
    Journal::new("pipeline", Arc::new(memory))
}

fn key() -> HourKey {
    HourKey {
        store: "main".into(),
        feed: feed(),
        hour: hour(),
    }
}

async fn keys(journal: &Journal) -> Vec<String> {
    let page = journal.list(Query::all()).await.unwrap();
    page.entries
        .iter()
        .map(|entry| entry.key.to_string())
        .collect()
}

/// Runs a worker until it was heard of `cycles` visits.
async fn work(
    bucket: &Bucket,
    faulty: cannery_pipeline::Store,
    journal: &Journal,
    clock: &Clock,
    cycles: usize,
) -> (Summary, Vec<Cycle>) {
    let heard = Arc::new(Heard {
        stop_after: cycles,
        ..Heard::default()
    });
    let rng = Rng::seeded(2);
    let listener: Arc<dyn Listener> = heard.clone();
    let hand = Hand::new(
        bucket.consolidator(),
        [faulty],
        listener,
        clock.clone(),
        rng.clone(),
    );
    let worker = Worker::new(journal.clone(), "test", clock.clone(), rng);
    let summary = worker.run(hand, heard.stop.clone()).await;
    let cycles = heard.cycles.lock().unwrap().clone();
    (summary, cycles)
}

#[tokio::test]
async fn an_hour_on_the_list_is_consolidated_and_forgotten() {
    let bucket = Bucket::new(Way::Swapped);
    for words in ["a", "b"] {
        bucket.upload(&upload(words, Codec::Gzip)).await;
    }
    let clock = clock();
    let journal = journal(&clock);
    for _ in 0..3 {
        work_list::add(&journal, &[key()], Priority::NEW, None)
            .await
            .unwrap();
    }
    assert_eq!(keys(&journal).await, ["consolidate/main/f/20261115T18Z"]);
    let (summary, cycles) = work(&bucket, bucket.honest.clone(), &journal, &clock, 1).await;
    assert_eq!(summary.done, 1);
    bucket.assert_one(&set("a b"), "worked").await;
    assert_eq!(cycles.len(), 1);
    assert_eq!(cycles[0].error, None);
    assert!(cycles[0].steps.len() > 3);
    assert!(keys(&journal).await.is_empty());
}

#[tokio::test]
async fn what_fails_is_tried_again_without_blame_until_it_succeeds() {
    let bucket = Bucket::new(Way::Hashed);
    for words in ["a", "b"] {
        bucket.upload(&upload(words, Codec::Gzip)).await;
    }
    let faults = Faults::none();
    faults.next(Request::List, Fault::ErrorBefore, 200);
    let faulty = FaultStore::new(bucket.raw.clone(), faults, Clock::real());
    let faulty = store(lake("main", Arc::new(faulty), Way::Hashed), Way::Hashed);
    let clock = clock();
    let journal = journal(&clock);
    work_list::add(&journal, &[key()], Priority::NEW, None)
        .await
        .unwrap();
    let mut failures = 0;
    loop {
        let (summary, cycles) = work(&bucket, faulty.clone(), &journal, &clock, 1).await;
        assert_eq!((summary.dead, summary.failed), (0, 0));
        if summary.done == 1 {
            break;
        }
        let error = cycles[0].error.as_ref().unwrap();
        assert!(error.starts_with("cannot list"), "{error}");
        failures += 1;
    }
    assert!(failures > 1, "{failures}");
    bucket.assert_one(&set("a b"), "in the end").await;
}

#[tokio::test]
async fn an_hour_of_a_store_that_is_not_configured_goes_to_the_dead_list() {
    let bucket = Bucket::new(Way::Hashed);
    let clock = clock();
    let journal = journal(&clock);
    let gone = HourKey {
        store: "gone".into(),
        ..key()
    };
    work_list::add(&journal, &[gone, key()], Priority::NEW, None)
        .await
        .unwrap();
    let (summary, _) = work(&bucket, bucket.honest.clone(), &journal, &clock, 1).await;
    assert_eq!((summary.done, summary.dead), (1, 1));
}

/// Puts two archives of an hour of any feed; what is in them does not matter to a scan.
async fn litter(bucket: &Bucket, feed: &str, hour: &str, count: usize) {
    let (feed, hour) = (FeedId::new(feed).unwrap(), hour.parse::<Hour>().unwrap());
    for number in 0..count {
        let name = format!("{feed}_{hour}_abcdefghij2{}.tar.gz", number + 2);
        let key = Key::new(format!("{}/{name}", Key::feed_hour(&feed, hour))).unwrap();
        bucket.put(&key, b"x").await;
    }
}

#[tokio::test]
async fn a_scan_finds_what_needs_work_and_nothing_else() {
    let bucket = Bucket::new(Way::Hashed);
    litter(&bucket, "f", "20251115T18Z", 2).await;
    litter(&bucket, "f", "20261115T18Z", 2).await;
    litter(&bucket, "f", "20261115T19Z", 1).await;
    litter(&bucket, "g", "20261114T00Z", 3).await;
    bucket
        .put(&Key::new("autoload/v1/x/data.jsonl.gz").unwrap(), b"x")
        .await;
    bucket.put(&Key::new("h/readme.txt").unwrap(), b"x").await;
    let mut heard = Vec::new();
    let mut listed = |objects| heard.push(objects);
    let found = scan::whole_lake(&bucket.honest, &mut listed).await.unwrap();
    assert_eq!(
        heard,
        (1..=10).collect::<Vec<u64>>(),
        "it says how far it is"
    );
    let feeds: Vec<_> = found.feeds.iter().map(FeedId::as_str).collect();
    assert_eq!(feeds, ["f", "g"]);
    assert_eq!(found.hours, 4);
    let hours: Vec<_> = found
        .unmerged
        .iter()
        .map(|(_, hour)| hour.to_string())
        .collect();
    assert_eq!(hours, ["20251115T18Z", "20261115T18Z", "20261114T00Z"]);
    let feeds: BTreeSet<_> = [feed()].into();
    let begin = "20261113T20Z".parse().unwrap();
    let now = "2026-11-15T20:00:00Z".parse().unwrap();
    let found = scan::since(&bucket.honest, &feeds, begin, now)
        .await
        .unwrap();
    assert_eq!(found.unmerged, [(feed(), hour())]);
    let scope = Scope {
        from: Some("20261114T00Z".parse().unwrap()),
        to: Some("20261115T18Z".parse().unwrap()),
        ..Scope::default()
    };
    let found = scan::within(&bucket.honest, &scope).await.unwrap();
    assert_eq!((found.hours, found.unmerged.len()), (1, 1));
}

#[tokio::test]
async fn a_listing_error_is_an_error_of_the_scan() {
    let bucket = Bucket::new(Way::Hashed);
    litter(&bucket, "f", "20261115T18Z", 2).await;
    let faults = Faults::none();
    faults.next(Request::List, Fault::ListEndsAfter(1), u32::MAX);
    let faulty = FaultStore::new(bucket.raw.clone(), faults, Clock::real());
    let faulty = store(lake("main", Arc::new(faulty), Way::Hashed), Way::Hashed);
    assert!(scan::whole_lake(&faulty, &mut |_| {}).await.is_err());
}

#[tokio::test]
async fn a_scanner_adds_late_hours_at_once_and_new_ones_within_minutes() {
    let bucket = Bucket::new(Way::Hashed);
    litter(&bucket, "f", "20251115T18Z", 2).await;
    let simulated = SimulatedClock::starting_at("2026-11-15T20:00:00Z".parse().unwrap());
    let clock = simulated.clock();
    let journal = journal(&clock);
    let stores = vec![bucket.honest.clone()];
    let scanner = Scanner::new(stores, journal.clone(), clock, Rng::seeded(3));
    scanner.set_feeds([FeedId::new("new").unwrap()]);
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { scanner.run(stop).await }
    });
    simulated.advance(Duration::from_secs(31)).await;
    assert_eq!(keys(&journal).await, ["consolidate/main/f/20251115T18Z"]);
    litter(&bucket, "new", "20261115T19Z", 2).await;
    litter(&bucket, "f", "20251115T20Z", 2).await;
    simulated.advance(Duration::from_secs(13 * 60)).await;
    let mut now = keys(&journal).await;
    now.sort();
    let (old, new) = (
        "consolidate/main/f/20251115T18Z",
        "consolidate/main/new/20261115T19Z",
    );
    assert_eq!(
        now,
        [old, new],
        "an old hour waits for the scan of everything"
    );
    simulated.advance(Duration::from_secs(86_400)).await;
    assert_eq!(keys(&journal).await.len(), 3);
    stop.cancel();
    run.await.unwrap();
}

#[tokio::test]
async fn an_hour_that_a_wrong_clock_put_off_is_due_after_a_scan_of_everything() {
    let bucket = Bucket::new(Way::Hashed);
    litter(&bucket, "f", "20261115T18Z", 2).await;
    let simulated = SimulatedClock::starting_at("2026-11-15T20:00:00Z".parse().unwrap());
    let clock = simulated.clock();
    let journal = journal(&clock);
    let ahead: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
    let (hours, due) = ([key()], Some(Date::from(ahead)));
    let add = work_list::add(&journal, &hours, Priority::NEW, due);
    add.await.unwrap();
    let stores = vec![bucket.honest.clone()];
    let scanner = Scanner::new(stores, journal.clone(), clock.clone(), Rng::seeded(3));
    let stop = CancellationToken::new();
    let run = tokio::spawn({
        let stop = stop.clone();
        async move { scanner.run(stop).await }
    });
    simulated.advance(Duration::from_secs(31)).await;
    let listed = journal.list(Query::all()).await.unwrap().entries;
    assert_eq!(listed.len(), 1);
    assert!(listed[0].meta.process <= Date::from(clock.now()));
    stop.cancel();
    run.await.unwrap();
}

#[tokio::test]
async fn what_a_swapped_store_has_merged_needs_no_work() {
    let bucket = Bucket::new(Way::Swapped);
    bucket.upload(&upload("a", Codec::Gzip)).await;
    let found = scan::whole_lake(&bucket.honest, &mut |_| {}).await.unwrap();
    assert_eq!(found.unmerged.len(), 1);
    bucket.consolidate().await;
    assert_eq!(bucket.look().await.keys(), [&primary()]);
    let found = scan::whole_lake(&bucket.honest, &mut |_| {}).await.unwrap();
    assert_eq!((found.unmerged.len(), found.hours), (0, 1));
}

#[tokio::test]
async fn a_damaged_archive_is_not_read_at_every_scan() {
    let bucket = Bucket::new(Way::Hashed);
    bucket.upload(&upload("a", Codec::Gzip)).await;
    let damaged = crate::kit::secondary(&set("b"), Codec::Gzip);
    bucket.put(&damaged, b"not an archive").await;
    let clock = clock();
    let journal = journal(&clock);
    let heard = Arc::new(Heard {
        stop_after: 2,
        ..Heard::default()
    });
    let rng = Rng::seeded(2);
    let listener: Arc<dyn Listener> = heard.clone();
    let stores = [bucket.honest.clone()];
    let consolidator = bucket.consolidator();
    let hand = Hand::new(consolidator, stores, listener, clock.clone(), rng.clone());
    for _ in 0..5 {
        work_list::add(&journal, &[key()], Priority::NEW, None)
            .await
            .unwrap();
        let stop = CancellationToken::new();
        let worker = Worker::new(journal.clone(), "test", clock.clone(), rng.clone());
        let run = worker.run(hand.clone(), stop.clone());
        let emptied = async {
            while !keys(&journal).await.is_empty() {
                tokio::task::yield_now().await;
            }
            stop.cancel();
        };
        let (summary, ()) = tokio::join!(run, emptied);
        assert_eq!(summary.done, 1);
    }
    assert_eq!(heard.cycles.lock().unwrap().len(), 1, "one look is enough");
    bucket.upload(&upload("c", Codec::Gzip)).await;
    work_list::add(&journal, &[key()], Priority::NEW, None)
        .await
        .unwrap();
    let worker = Worker::new(journal.clone(), "test", clock.clone(), rng);
    worker.run(hand, heard.stop.clone()).await;
    assert_eq!(bucket.look().await.whole(), set("a c"));
}
