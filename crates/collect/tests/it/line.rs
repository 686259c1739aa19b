//! A spool from the folder to the lake, judged by an auditor that shares no code with it.

use std::sync::Arc;
use std::time::Duration;

use cannery_collect::quarantine::Quarantine;
use cannery_collect::spool::Flushed;
use cannery_formats::Digest;
use cannery_lake::fault::Faults;
use cannery_runtime::disk::write_durably;
use cannery_runtime::{Clock, Disk as _, RealDisk};
use serde_json::json;
use tokio_util::sync::CancellationToken;

use crate::node::Node;

/// Collects until `done` holds, then stops and flushes.
async fn collect(node: &Node, done: impl Future<Output = ()>) -> Flushed {
    let stop = CancellationToken::new();
    let spool = node.spool().await;
    let running = tokio::spawn(spool.run(stop.clone(), Duration::from_secs(60)));
    done.await;
    stop.cancel();
    running.await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lies_there_and_what_comes_is_in_the_lake_exactly_once() {
    let mut node = Node::new();
    for number in 0..300 {
        let text = format!("{{\"n\":{number},\"text\":\"{}\"}}", "x".repeat(number));
        node.produce("foo1", &format!("2026/11/15/{number:04}.json"), &text, true);
    }
    let stop = CancellationToken::new();
    let spool = node.spool().await;
    let running = tokio::spawn(spool.run(stop.clone(), Duration::from_secs(60)));
    for number in 0..100 {
        let date = format!("2026/11/{:02}", 10 + number % 5);
        let text = format!("{{\n  \"n\": {number}\n}}\n");
        let raw = format!("{{\"n\":{number}}}");
        node.produce("bar1", &format!("{date}/{number}.json"), &text, true);
        let line = node.ledger.last_mut().unwrap();
        line["raw_sha256"] = json!(Digest::of(raw.as_bytes()).to_string());
    }
    node.produce("foo1", "2026/11/15/young.json", "not yet JSON", false);
    // Bundles are sealed at the end; until then the files stay.
    let clock = Clock::real();
    clock.sleep(Duration::from_secs(2)).await;
    stop.cancel();
    let flushed = running.await.unwrap().unwrap();
    assert_eq!(flushed, Flushed::default());
    assert_eq!(
        node.files_left(),
        1,
        "a young file that is wrong is left alone"
    );
    let young = node.path("spool/ndt/foo1/2026/11/15/young.json");
    RealDisk.remove_file(&young).unwrap();
    node.audit(&["--expect-drained"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_rewritten_is_shipped_again() {
    let mut node = Node::new();
    let must_ship = |node: &mut Node| node.ledger.last_mut().unwrap()["must_ship"] = json!(true);
    node.produce("foo1", "2026/11/15/a.json", "{\"n\":1}", true);
    must_ship(&mut node);
    let first = collect(&node, Clock::real().sleep(Duration::from_millis(500))).await;
    assert_eq!(first, Flushed::default());
    node.produce("foo1", "2026/11/15/a.json", "{\"n\":2}", true);
    must_ship(&mut node);
    collect(&node, Clock::real().sleep(Duration::from_millis(500))).await;
    node.drained(0).await;
    node.audit(&["--expect-drained"]).await;
}

/// While a bundle is open its files lie there, and anything may happen to them.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_renamed_over_a_file_that_was_read_is_shipped_and_what_is_only_touched_is_not() {
    let mut node = Node::new();
    let must_ship = |node: &mut Node| node.ledger.last_mut().unwrap()["must_ship"] = json!(true);
    node.produce("foo1", "2026/11/15/over.json", "{\"n\":1}", true);
    must_ship(&mut node);
    node.produce("foo1", "2026/11/15/touched.json", "{\"n\":2}", true);
    let stop = CancellationToken::new();
    let spool = node.spool().await;
    let progress = spool.progress();
    let running = tokio::spawn(spool.run(stop.clone(), Duration::from_secs(60)));
    while progress.passed().taken < 2 {
        Clock::real().sleep(Duration::from_millis(10)).await;
    }
    node.produce("foo1", "2026/11/15/over.json", "{\"n\":3}", true);
    must_ship(&mut node);
    let touched = node.path("spool/ndt/foo1/2026/11/15/touched.json");
    let touched = std::fs::File::options().write(true).open(touched).unwrap();
    touched
        .set_modified(std::time::SystemTime::UNIX_EPOCH)
        .unwrap();
    stop.cancel();
    running.await.unwrap().unwrap();
    collect(&node, Clock::real().sleep(Duration::from_millis(500))).await;
    node.drained(0).await;
    node.audit(&["--expect-drained"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_collected_is_kept_with_its_reason_and_blocks_nothing() {
    let mut node = Node::new();
    node.min_file_age = Duration::ZERO;
    node.produce("foo1", "2026/11/15/good.json", "{\"n\":1}", true);
    let large = format!("{{\"text\":\"{}\"}}", "x".repeat(70_000));
    for (name, text) in [
        ("2026/11/15/notes.txt", "{}"),
        ("2026/11/15/empty.json", ""),
        ("2026/11/15/half.json", "{\"n\":"),
        ("2026/11/15/two.json", "{} {}"),
        ("2026/11/15/misfit.json", "{\"n\":\"many\"}"),
        ("2026/11/15/unknown.json", "{\"m\":1}"),
        ("2026/11/15/large.json", large.as_str()),
        ("2026/11/deep.json", "{\"n\":1}"),
        ("2026/11/15/16/deeper.json", "{\"n\":1}"),
    ] {
        node.produce("foo1", name, text, false);
    }
    let date = node.path("spool/ndt/foo1/2026/11/15");
    let secret = node.path("secret.json");
    write_durably(&RealDisk, &secret, b"{\"n\":7}").unwrap();
    std::os::unix::fs::symlink(&secret, date.join("link.json")).unwrap();
    let pipe = date.join("pipe.json");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &pipe,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    collect(&node, node.drained(1)).await;
    let home = node.path("spool");
    let quarantine = Quarantine::open(Arc::new(RealDisk), Clock::real(), &home, u64::MAX).unwrap();
    let reasons: std::collections::BTreeMap<String, String> = quarantine
        .list()
        .unwrap()
        .into_iter()
        .filter_map(|kept| kept.reason)
        .map(|reason| {
            let name = reason.file.rsplit('/').next().unwrap().to_owned();
            (name, reason.reason)
        })
        .collect();
    for (name, reason) in [
        ("notes.txt", "extension"),
        ("empty.json", "empty"),
        ("half.json", "json"),
        ("two.json", "json"),
        ("misfit.json", "schema"),
        ("unknown.json", "schema"),
        ("large.json", "too_large"),
        ("deep.json", "depth"),
        ("16", "depth"),
        ("link.json", "link"),
        ("pipe.json", "special"),
    ] {
        assert_eq!(
            reasons.get(name).map(String::as_str),
            Some(reason),
            "{name}: {reasons:?}"
        );
    }
    assert!(secret.exists(), "what a link points to is not touched");
    node.audit(&[]).await;
}

/// Answers that are lost, that never come, and that say to come back later.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_fails_now_and_then_makes_nothing_twice() {
    let mut node = Node::new();
    for number in 0..2_000 {
        let text = format!(
            "{{\"n\":{number},\"text\":\"{}\"}}",
            "x".repeat(number % 300)
        );
        node.produce("foo1", &format!("2026/11/15/{number:04}.json"), &text, true);
    }
    let faults = Faults::by_seed(3, 0.2);
    let spool = node.spool_on(node.lake_with(&faults)).await;
    let never = CancellationToken::new();
    let drained = spool.until_drained(never, Duration::from_secs(60));
    let drained = Clock::real()
        .timeout(Duration::from_secs(300), drained)
        .await;
    assert_eq!(drained.unwrap().unwrap(), Flushed::default());
    assert!(faults.injected() > 0);
    node.audit(&["--expect-drained"]).await;
}

/// More dates at once than bundles may be: what is open must make room.
#[tokio::test(flavor = "multi_thread")]
async fn a_backlog_of_many_dates_is_no_dead_end() {
    let mut node = Node::new();
    for number in 0..40 {
        let date = format!("2026/{:02}/{:02}", 1 + number % 12, 1 + number % 28);
        let name = format!("{date}/{number}.json");
        node.produce("foo1", &name, &format!("{{\"n\":{number}}}"), true);
    }
    let (spool, never) = (node.spool().await, CancellationToken::new());
    let drained = spool.until_drained(never, Duration::from_secs(60));
    let drained = Clock::real()
        .timeout(Duration::from_secs(60), drained)
        .await;
    let flushed = drained.unwrap().unwrap();
    assert_eq!((flushed, node.files_left()), (Flushed::default(), 0));
    node.audit(&["--expect-drained"]).await;
}
