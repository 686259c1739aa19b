use std::sync::Arc;

use cannery_formats::feed::{Codec, ContentSet, Holding, Hour};
use cannery_runtime::RealDisk;
use cannery_runtime::clock::SimulatedClock;
use prometheus_client::encoding::text::encode;
use tempfile::TempDir;

use super::super::monitor::{Polled, Task, TaskKind};
use super::*;

fn start() -> Timestamp {
    "2026-11-15T19:00:30Z".parse().unwrap()
}

/// Somebody who remembers nothing yet.
fn monitor(clock: &Clock) -> (TempDir, Monitor) {
    let dir = tempfile::tempdir().unwrap();
    let keep = Duration::from_secs(3_600);
    let monitor = Monitor::open(Arc::new(RealDisk), dir.path(), clock.clone(), keep);
    (dir, monitor.unwrap())
}

/// What `/metrics` would show.
fn text(registry: &Registry) -> String {
    let mut text = String::new();
    encode(&mut text, registry).unwrap();
    text
}

fn value<'a>(text: &'a str, series: &str) -> Option<&'a str> {
    text.lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
}

fn archive(feed: &FeedId, hour: &str) -> ArchiveName {
    ArchiveName {
        feed: feed.clone(),
        hour: hour.parse().unwrap(),
        holding: Holding::Set(ContentSet::default().hash(), Codec::Zstd),
    }
}

fn task(kind: TaskKind, second: i64, ok: bool) -> Task {
    Task {
        kind,
        at: Timestamp::from_second(second).unwrap(),
        hour: Hour::of(start()),
        store: None,
        ok,
        did: Vec::new(),
    }
}

#[tokio::test]
async fn a_feed_shows_what_it_did_and_holds() {
    let time = SimulatedClock::starting_at(start());
    let (_dir, monitor) = monitor(&time.clock());
    let mut registry = Registry::default();
    FeedMetrics::new(monitor.clone(), time.clock()).register(&mut registry);
    // Registered first, heard of later.
    let (a, b) = (FeedId::new("a").unwrap(), FeedId::new("b").unwrap());
    let ms = Duration::from_millis;
    monitor.polled(&a, start(), ms(1_500), &Polled::Stored(70));
    monitor.polled(&a, start(), ms(250), &Polled::Stored(7));
    monitor.polled(&a, start(), ms(250), &Polled::Unchanged);
    for _ in 0..4 {
        monitor.polled(&a, start(), ms(9), &Polled::Failed("x".to_owned()));
    }
    monitor.missed(&a, start(), 5);
    monitor.polled(&b, start(), ms(9), &Polled::Failed("x".to_owned()));
    monitor.task(&a, task(TaskKind::Archive, 11, true));
    monitor.task(&a, task(TaskKind::Archive, 12, false));
    monitor.task(&a, task(TaskKind::Upload, 13, true));
    monitor.task(&a, task(TaskKind::Upload, 14, true));
    monitor.task(&a, task(TaskKind::Consolidate, 15, false));
    for hour in ["20261115T18Z", "20261115T17Z", "20261115T16Z"] {
        monitor.waits(&archive(&a, hour));
        monitor.waits(&archive(&a, hour));
    }
    monitor.shipped(&archive(&a, "20261115T16Z"));
    monitor.shipped(&archive(&a, "20261115T15Z"));
    time.advance(Duration::from_secs(30)).await;

    let text = text(&registry);
    let second = start().as_second().to_string();
    for (name, labels, expected) in [
        ("polls_total", r#"feed="a",outcome="stored""#, Some("2")),
        ("polls_total", r#"feed="a",outcome="unchanged""#, Some("1")),
        ("polls_total", r#"feed="a",outcome="failed""#, Some("4")),
        ("polls_total", r#"feed="a",outcome="missed""#, Some("5")),
        ("polls_total", r#"feed="b",outcome="failed""#, Some("1")),
        ("bytes_total", r#"feed="a""#, Some("77")),
        ("latency_seconds_sum", r#"feed="a""#, Some("2.0")),
        ("latency_seconds_count", r#"feed="a""#, Some("3")),
        ("latency_seconds_count", r#"feed="b""#, Some("0")),
        (
            "last_success_timestamp_seconds",
            r#"feed="a""#,
            Some(second.as_str()),
        ),
        ("last_success_timestamp_seconds", r#"feed="b""#, None),
        ("archives_total", r#"feed="a",outcome="ok""#, Some("1")),
        ("archives_total", r#"feed="a",outcome="failed""#, Some("1")),
        ("uploads_total", r#"feed="a",outcome="ok""#, Some("2")),
        ("uploads_total", r#"feed="a",outcome="failed""#, Some("0")),
        (
            "consolidations_total",
            r#"feed="a",outcome="failed""#,
            Some("1"),
        ),
        (
            "last_archive_success_timestamp_seconds",
            r#"feed="a""#,
            Some("11"),
        ),
        (
            "last_upload_success_timestamp_seconds",
            r#"feed="a""#,
            Some("14"),
        ),
        (
            "last_consolidation_success_timestamp_seconds",
            r#"feed="a""#,
            None,
        ),
        ("archives_unshipped", r#"feed="a""#, Some("2")),
        ("archives_unshipped", r#"feed="b""#, Some("0")),
        // Since 18:00, where the hour of 17 ended.
        (
            "oldest_unshipped_age_seconds",
            r#"feed="a""#,
            Some("3660.0"),
        ),
        ("oldest_unshipped_age_seconds", r#"feed="b""#, Some("0.0")),
    ] {
        let series = format!("cannery_feed_{name}{{{labels}}}");
        assert_eq!(value(&text, &series), expected, "{series}\n{text}");
    }
    for line in text.lines().filter(|line| line.starts_with("# HELP")) {
        assert!(line.ends_with('.'), "{line}");
    }
}

#[test]
fn lateness_is_a_histogram_of_all_feeds() {
    let clock = Clock::real();
    let (_dir, monitor) = monitor(&clock);
    let mut registry = Registry::default();
    FeedMetrics::new(monitor.clone(), clock).register(&mut registry);
    for millis in [1, 2, 49, 3_600_000] {
        monitor.begun(Duration::from_millis(millis));
    }
    let text = text(&registry);
    for (series, expected) in [
        ("count", "4"),
        ("sum", "3600.052"),
        (r#"bucket{le="0.001"}"#, "1"),
        (r#"bucket{le="0.05"}"#, "3"),
        (r#"bucket{le="60.0"}"#, "3"),
        (r#"bucket{le="+Inf"}"#, "4"),
    ] {
        let series = format!("cannery_feed_lateness_seconds_{series}");
        assert_eq!(value(&text, &series), Some(expected), "{text}");
    }
}
