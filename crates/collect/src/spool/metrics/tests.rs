use std::time::Duration;

use cannery_formats::spool::Experiment;
use cannery_runtime::clock::SimulatedClock;
use prometheus_client::encoding::text::encode;

use super::super::crash_tests::settings;
use super::super::fault;
use super::super::progress::tests::{at, sealed};
use super::*;

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

#[tokio::test]
async fn a_spool_shows_what_it_did_and_holds() {
    let time = SimulatedClock::starting_at(at(0));
    let metrics = SpoolMetrics::new(time.clock());
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    let mut settings = settings();
    settings.spool_bytes_max = Some(1_000);
    let progress = Arc::new(Progress::new(&settings));
    // Registered first, shown later.
    metrics.show(Arc::clone(&progress));
    settings.experiment = Experiment::new("wehe").unwrap();
    settings.spool_bytes_max = None;
    metrics.show(Arc::new(Progress::new(&settings)));

    let foo1 = r#"{experiment="ndt",datatype="foo1"}"#;
    let before = text(&registry);
    let none = format!("cannery_spool_last_ship_success_timestamp_seconds{foo1}");
    assert_eq!(value(&before, &none), None, "never is not 1970");

    progress.took(0);
    progress.met_bad(0, "schema");
    progress.sealed(&sealed("foo1", 1, 2));
    progress.sealed(&sealed("foo1", 2, 1));
    progress.shipped(&sealed("foo1", 1, 2), at(7));
    progress.census().heard_of(0, 10, at(-60));
    progress.weighed(1_200, true);
    time.advance(Duration::from_secs(30)).await;
    let text = text(&registry);
    for (name, expected) in [
        ("files_seen_total", "0"),
        ("files_taken_total", "1"),
        ("files_bundled_total", "3"),
        ("files_waiting", "1"),
        ("bundles_sealed_total", "2"),
        ("bundles_shipped_total", "1"),
        ("bundles_unshipped", "1"),
        ("bundles_open", "0"),
        ("bytes_shipped_total", "37"),
        ("raw_bytes_shipped_total", "20"),
        ("oldest_unshipped_age_seconds", "90.0"),
        (
            "last_ship_success_timestamp_seconds",
            &at(7).as_second().to_string(),
        ),
    ] {
        let series = format!("cannery_spool_{name}{foo1}");
        assert_eq!(value(&text, &series), Some(expected), "{series}\n{text}");
    }
    for (name, ndt, wehe) in [
        ("scans_total", Some("0"), Some("0")),
        ("watch_overflows_total", Some("0"), Some("0")),
        ("quarantine_bytes", Some("0"), Some("0")),
        ("quarantine_evictions_total", Some("0"), Some("0")),
        ("bytes", Some("1200"), Some("0")),
        ("bytes_max", Some("1000"), None),
        ("full", Some("1"), Some("0")),
    ] {
        for (experiment, expected) in [("ndt", ndt), ("wehe", wehe)] {
            let series = format!("cannery_spool_{name}{{experiment=\"{experiment}\"}}");
            assert_eq!(value(&text, &series), expected, "{series}\n{text}");
        }
    }
    for word in fault::WORDS {
        let labels = format!(r#"{{experiment="ndt",datatype="foo1",reason="{word}"}}"#);
        let expected = if word == "schema" { "1" } else { "0" };
        let found = value(&text, &format!("cannery_spool_files_bad_total{labels}"));
        assert_eq!(found, Some(expected), "{word}");
    }
}

#[test]
fn a_spool_that_comes_again_takes_its_place() {
    let metrics = SpoolMetrics::new(Clock::real());
    let mut registry = Registry::default();
    metrics.register(&mut registry);
    for _ in 0..2 {
        metrics.show(Arc::new(Progress::new(&settings())));
    }
    let text = text(&registry);
    let series = text
        .lines()
        .filter(|line| line.starts_with("cannery_spool_scans_total"));
    assert_eq!(series.count(), 1, "{text}");
    for line in text.lines().filter(|line| line.starts_with("# HELP")) {
        assert!(line.ends_with('.'), "{line}");
    }
}
