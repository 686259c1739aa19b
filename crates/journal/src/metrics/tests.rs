use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::{RealDisk, Rng};
use prometheus_client::encoding::text::encode;

use super::collector::{STANDARD, TOTALS};
use super::*;
use crate::embedded::{Embedded, Place};
use crate::{
    Counts, Data, Date, Declaration, Error, ErrorKind, Health, Journal, Memory, NewEntry, Op,
    Priority, Reply, Retry, Wakes,
};

struct Bench {
    simulated: SimulatedClock,
    metrics: JournalMetrics,
    registry: Registry,
}

impl Bench {
    fn new() -> Self {
        let simulated = SimulatedClock::starting_at("2026-11-15T18:24:03Z".parse().unwrap());
        let metrics = JournalMetrics::new(simulated.clock());
        let mut registry = Registry::default();
        metrics.register(&mut registry);
        Self {
            simulated,
            metrics,
            registry,
        }
    }

    fn memory(&self) -> Memory {
        let declaration = Declaration::default();
        Memory::new(declaration, self.simulated.clock(), Rng::seeded(1))
    }

    fn journal(&self, engine: Arc<Measured>) -> Journal {
        Journal::new("work", engine)
    }

    /// What `/metrics` would show, without the comments.
    fn lines(&self) -> Vec<String> {
        let mut text = String::new();
        encode(&mut text, &self.registry).unwrap();
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(ToOwned::to_owned).collect()
    }

    fn value(&self, series: &str) -> Option<String> {
        let lines = self.lines();
        let line = lines.iter().find_map(|line| line.strip_prefix(series));
        line.map(|value| value.trim().to_owned())
    }
}

fn entry(key: &str, priority: Priority) -> NewEntry {
    NewEntry {
        key: Some(key.to_owned()),
        priority: Some(priority),
        ..NewEntry::default()
    }
}

#[tokio::test]
async fn operations_are_counted_by_kind_and_result() {
    let bench = Bench::new();
    let measured = bench.metrics.measure("work", Arc::new(bench.memory()));
    let journal = bench.journal(measured);
    for key in ["a", "b"] {
        journal.add_one(entry(key, Priority::NEW)).await.unwrap();
    }
    journal.claim("me", 1).await.unwrap();
    journal.close().await;
    journal.claim("me", 1).await.unwrap_err();
    for (series, value) in [
        (
            r#"operations_total{journal="work",operation="add",result="ok"}"#,
            "2",
        ),
        (
            r#"operations_total{journal="work",operation="claim",result="ok"}"#,
            "1",
        ),
        (
            r#"operations_total{journal="work",operation="claim",result="closed"}"#,
            "1",
        ),
        (
            r#"operation_seconds_count{journal="work",operation="claim"}"#,
            "2",
        ),
    ] {
        let series = format!("cannery_journal_{series}");
        assert_eq!(bench.value(&series).as_deref(), Some(value), "{series}");
    }
}

#[tokio::test]
async fn numbers_of_the_engine_are_shown_with_ages_that_grow() {
    let bench = Bench::new();
    let measured = bench.metrics.measure("work", Arc::new(bench.memory()));
    let journal = bench.journal(Arc::clone(&measured));
    for (key, priority) in [
        ("a", Priority::NOW),
        ("b", Priority::SLOW),
        ("c", Priority(77)),
    ] {
        journal.add_one(entry(key, priority)).await.unwrap();
    }
    let claimed = journal.claim("me", 1).await.unwrap();
    let token = claimed.entries[0].lease.as_ref().unwrap().token;
    journal.add_one(entry("a", Priority::NOW)).await.unwrap();
    assert_eq!(
        bench.value(r#"cannery_journal_dead{journal="work"}"#),
        None,
        "not asked yet"
    );
    bench.metrics.refresh().await;
    bench.simulated.advance(Duration::from_secs(90)).await;
    for (series, value) in [
        (r#"waiting{journal="work",priority="200"}"#, "1"),
        (r#"waiting{journal="work",priority="77"}"#, "1"),
        (r#"waiting{journal="work",priority="180"}"#, "0"),
        (r#"due{journal="work",priority="200"}"#, "1"),
        (r#"blocked{journal="work",priority="0"}"#, "1"),
        (r#"processing{journal="work",priority="0"}"#, "1"),
        (r#"dead{journal="work"}"#, "0"),
        (r#"oldest_due_age_seconds{journal="work"}"#, "90.0"),
        (r#"oldest_lease_age_seconds{journal="work"}"#, "90.0"),
        (
            r#"last_success_timestamp_seconds{journal="work"}"#,
            "1794767043",
        ),
        (r#"up{journal="work"}"#, "1"),
        (r#"adds_total{journal="work"}"#, "4"),
        (r#"claims_total{journal="work"}"#, "1"),
        (r#"timeouts_total{journal="work"}"#, "0"),
    ] {
        let series = format!("cannery_journal_{series}");
        assert_eq!(bench.value(&series).as_deref(), Some(value), "{series}");
    }
    journal.fail(token, "no use", Retry::Never).await.unwrap();
    bench.metrics.refresh().await;
    assert_eq!(
        bench
            .value(r#"cannery_journal_dead{journal="work"}"#)
            .as_deref(),
        Some("1")
    );
    assert_eq!(
        bench.value(r#"cannery_journal_segments{journal="work"}"#),
        None
    );
}

#[tokio::test]
async fn a_journal_is_down_until_it_is_open() {
    let bench = Bench::new();
    bench.metrics.expect("later");
    let up = r#"cannery_journal_up{journal="later"}"#;
    assert_eq!(bench.value(up).as_deref(), Some("0"));
    assert!(bench.metrics.journal("later").is_none());
    let dir = tempfile::tempdir().unwrap();
    let place = Place {
        disk: Arc::new(RealDisk),
        dir: dir.path().to_owned(),
        owner: "a test".to_owned(),
        clock: bench.simulated.clock(),
        rng: Rng::seeded(1),
    };
    let embedded = Embedded::open(place, Some(Declaration::default()))
        .await
        .unwrap();
    let measured = bench.metrics.measure("later", embedded);
    bench.metrics.expect("later");
    let journal = bench.journal(Arc::clone(&measured));
    journal.add_one(entry("a", Priority::NEW)).await.unwrap();
    // The next answer comes after the files of the first commit were counted.
    journal.stats().await.unwrap();
    assert_eq!(bench.value(up).as_deref(), Some("1"));
    let segments = bench.value(r#"cannery_journal_segments{journal="later"}"#);
    assert_eq!(segments.as_deref(), Some("1"));
    let bytes = bench.value(r#"cannery_journal_bytes{journal="later"}"#);
    assert!(
        bytes.is_some_and(|bytes| bytes.parse::<u64>().unwrap() > 0),
        "{:?}",
        bench.lines()
    );
    measured.close().await;
}

/// Counts how often it is asked for its numbers; may be slow or broken.
#[derive(Debug)]
struct Asked {
    inner: Memory,
    times: AtomicUsize,
    broken: AtomicBool,
    slow: Option<SimulatedClock>,
}

#[async_trait]
impl Engine for Asked {
    async fn call(&self, op: Op) -> Result<Reply<Data>, Error> {
        self.times.fetch_add(1, Ordering::Relaxed);
        if self.broken.load(Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Unavailable, "gone"));
        }
        if let Some(simulated) = &self.slow {
            simulated.advance(Duration::from_secs(2)).await;
        }
        self.inner.call(op).await
    }

    fn now(&self) -> Date {
        self.inner.now()
    }

    fn wakes(&self) -> Wakes {
        self.inner.wakes()
    }

    fn declaration(&self) -> Declaration {
        self.inner.declaration()
    }

    fn health(&self) -> Health {
        if self.broken.load(Ordering::Relaxed) {
            return Health::Bad("gone".to_owned());
        }
        self.inner.health()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}

impl Asked {
    fn new(bench: &Bench, slow: Option<SimulatedClock>) -> Arc<Self> {
        Arc::new(Self {
            inner: bench.memory(),
            times: AtomicUsize::new(0),
            broken: AtomicBool::new(false),
            slow,
        })
    }

    fn times(&self) -> usize {
        self.times.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn an_engine_is_asked_at_most_once_a_second_and_never_by_a_scrape() {
    let bench = Bench::new();
    let engine = Asked::new(&bench, None);
    let measured = bench
        .metrics
        .measure("work", Arc::clone(&engine) as Arc<dyn Engine>);
    for _ in 0..10 {
        bench.metrics.refresh().await;
        bench.lines();
    }
    assert_eq!(engine.times(), 1);
    bench.simulated.advance(Duration::from_secs(1)).await;
    tokio::join!(measured.refresh(), measured.refresh(), measured.refresh());
    assert_eq!(engine.times(), 2);
}

#[tokio::test]
async fn numbers_that_are_hard_work_come_in_their_own_rhythm_only() {
    let bench = Bench::new();
    let engine = Asked::new(&bench, Some(bench.simulated.clone()));
    let measured = bench
        .metrics
        .measure("work", Arc::clone(&engine) as Arc<dyn Engine>);
    assert_eq!(measured.ask().await.unwrap(), Duration::from_secs(2));
    bench.simulated.advance(Duration::from_secs(60)).await;
    measured.refresh().await;
    assert_eq!(engine.times(), 1);
    measured.ask().await.unwrap();
    assert_eq!(engine.times(), 2);
}

#[tokio::test]
async fn the_last_numbers_stay_while_the_engine_is_down_and_it_says_so() {
    let bench = Bench::new();
    let engine = Asked::new(&bench, None);
    let measured = bench
        .metrics
        .measure("work", Arc::clone(&engine) as Arc<dyn Engine>);
    bench
        .journal(Arc::clone(&measured))
        .add_one(entry("a", Priority::NEW))
        .await
        .unwrap();
    measured.ask().await.unwrap();
    engine.broken.store(true, Ordering::Relaxed);
    bench.simulated.advance(Duration::from_secs(5)).await;
    assert_eq!(
        measured.ask().await.unwrap_err().kind,
        ErrorKind::Unavailable
    );
    for (series, value) in [
        (r#"up{journal="work"}"#, "0"),
        (r#"adds_total{journal="work"}"#, "1"),
        (
            r#"last_success_timestamp_seconds{journal="work"}"#,
            "1794767043",
        ),
    ] {
        let series = format!("cannery_journal_{series}");
        assert_eq!(bench.value(&series).as_deref(), Some(value), "{series}");
    }
}

#[test]
fn the_totals_are_those_of_the_engine() {
    let names = Counts::default().fields_mut().map(|(name, _)| name);
    assert_eq!(TOTALS.map(|(name, _)| name), names);
    assert!(STANDARD.is_sorted());
}
