//! A spool that ends by itself, and what it tells of itself meanwhile.

use std::sync::Arc;
use std::time::Duration;

use cannery_collect::spool::{Flushed, Progress, SpoolFull};
use cannery_runtime::disk::{Open, create_dir_all, write_durably};
use cannery_runtime::{Clock, Disk as _, RealDisk};
use tokio_util::sync::CancellationToken;

use crate::node::Node;

/// Collects what is there.
async fn drain(node: &Node) -> (Flushed, Arc<Progress>) {
    let spool = node.spool().await;
    let progress = spool.progress();
    let never = CancellationToken::new();
    let flushed = spool.until_drained(never, Duration::from_secs(60));
    let clock = Clock::real();
    let flushed = clock.timeout(Duration::from_secs(120), flushed).await;
    (flushed.unwrap().unwrap(), progress)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spool_is_drained_and_ends() {
    let mut node = Node::new();
    let nothing = drain(&node).await.0;
    assert_eq!(nothing, Flushed::default(), "there is not even a folder");
    for number in 0..500 {
        let text = format!("{{\"n\":{number},\"text\":\"{}\"}}", "x".repeat(number));
        let name = format!("2026/11/{:02}/{number}.json", 1 + number % 25);
        let datatype = ["foo1", "bar1"][number % 2];
        node.produce(datatype, &name, &text, true);
    }
    let (flushed, progress) = drain(&node).await;
    assert_eq!((flushed, node.files_left()), (Flushed::default(), 0));
    let snapshot = progress.snapshot();
    for one in &snapshot.datatypes {
        assert_eq!((one.files_taken, one.files_bundled), (250, 250));
        assert_eq!((one.files_removed, one.files_waiting), (250, 0));
        assert!(one.files_seen >= 250);
        assert_eq!(one.bundles_shipped, one.bundles_sealed);
        assert!(one.bundles_shipped >= 12 && one.ships.len() >= 12);
        let ships = one.ships.iter().map(|ship| ship.shipped);
        assert_eq!(one.last_ship, ships.max());
        assert!(one.open.is_empty() && one.unshipped.is_empty());
        assert_eq!(one.oldest_waiting, None);
    }
    assert!(snapshot.scans >= 2 && snapshot.last_scan.is_some());
    let complete = node.path("work/outbox/.complete");
    assert!(complete.exists(), "the next start need not ask the lake");
    node.audit(&["--expect-drained"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_that_are_written_to_or_young_and_wrong_are_left_and_counted() {
    let mut node = Node::new();
    node.produce("foo1", "2026/11/15/good.json", "{\"n\":1}", true);
    node.produce("foo1", "2026/11/15/wrong.json", "{\"n\":", false);
    let folder = node.path("spool/ndt/bar1/2026/11/15");
    create_dir_all(&RealDisk, &folder).unwrap();
    let open = RealDisk
        .open(&folder.join("open.json"), Open::CreateNew)
        .unwrap();
    open.write_all_at(0, b"{\"n\":2}").unwrap();
    let (flushed, progress) = drain(&node).await;
    assert_eq!((flushed.left.len(), flushed.waiting), (0, 2));
    assert_eq!(node.files_left(), 2);
    let snapshot = progress.snapshot();
    let waiting: Vec<_> = snapshot
        .datatypes
        .iter()
        .map(|one| (one.files_waiting, one.oldest_waiting.is_some()))
        .collect();
    assert_eq!(waiting, [(1, true), (1, true)]);
    drop(open);
}

/// A day old, and not JSON: that is the end of it.
#[tokio::test(flavor = "multi_thread")]
async fn bad_files_are_judged_and_do_not_wait() {
    let mut node = Node::new();
    node.min_file_age = Duration::ZERO;
    for number in 0..3 {
        let name = format!("2026/11/15/{number}.json");
        node.produce("foo1", &name, "{\"n\":", false);
    }
    node.produce("bar1", "2026/11/stray.json", "{\"n\":1}", false);
    let (flushed, progress) = drain(&node).await;
    assert_eq!((flushed, node.files_left()), (Flushed::default(), 0));
    let snapshot = progress.snapshot();
    assert_eq!(snapshot.datatypes[0].files_bad["json"], 3);
    assert_eq!(snapshot.datatypes[1].files_bad["depth"], 1);
    assert_eq!(snapshot.datatypes[0].files_waiting, 0);
    assert!(snapshot.quarantine_bytes > 0);
}

/// The lake is away: a spool that is to be drained waits for it, and can be stopped.
#[tokio::test(flavor = "multi_thread")]
async fn a_drain_that_cannot_ship_ends_when_it_is_stopped() {
    let mut node = Node::new();
    node.produce("foo1", "2026/11/15/a.json", "{\"n\":1}", true);
    let spool = node.spool().await;
    // A file where the objects go.
    write_durably(&RealDisk, &node.path("lake/autoload"), b"").unwrap();
    let (stop, progress) = (CancellationToken::new(), spool.progress());
    let draining = tokio::spawn(spool.until_drained(stop.clone(), Duration::from_millis(50)));
    let clock = Clock::real();
    let sealed = async {
        while progress.passed().sealed == 0 {
            clock.sleep(Duration::from_millis(5)).await;
        }
    };
    clock
        .timeout(Duration::from_secs(60), sealed)
        .await
        .unwrap();
    assert!(!draining.is_finished());
    assert_eq!(progress.snapshot().datatypes[0].unshipped.len(), 1);
    stop.cancel();
    let flushed = draining.await.unwrap().unwrap();
    assert_eq!((flushed.left.len(), node.files_left()), (1, 1));

    RealDisk.remove_file(&node.path("lake/autoload")).unwrap();
    let spool = node.spool().await;
    assert_eq!(spool.progress().snapshot().datatypes[0].unshipped.len(), 1);
    drop(spool);
    assert_eq!(drain(&node).await.0, Flushed::default());
    node.audit(&["--expect-drained"]).await;
}

/// It ends before anybody looked; so somebody looks at the end.
#[tokio::test(flavor = "multi_thread")]
async fn a_drained_spool_that_is_too_full_says_so() {
    let mut node = Node::new();
    node.room = (Some(100), SpoolFull::Refuse);
    let name = "2026/11/15/young.json";
    node.produce("foo1", name, &"x".repeat(200), false);
    let (flushed, progress) = drain(&node).await;
    assert_eq!((flushed.waiting, node.files_left()), (1, 1));
    let snapshot = progress.snapshot();
    assert_eq!((snapshot.full, snapshot.spool_bytes), (true, 200));
    assert_eq!(snapshot.spool_bytes_max, Some(100));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_spool_that_is_too_full_says_so_and_goes_on() {
    let mut node = Node::new();
    node.min_file_age = Duration::ZERO;
    node.room = (Some(1_000), SpoolFull::DropOldestBad);
    for number in 0..5 {
        let name = format!("2026/11/15/{number}.json");
        node.produce("foo1", &name, &"x".repeat(2_000), false);
    }
    node.produce("foo1", "2026/11/15/good.json", "{\"n\":1}", true);
    let spool = node.spool().await;
    let (stop, progress) = (CancellationToken::new(), spool.progress());
    let running = tokio::spawn(spool.run(stop.clone(), Duration::from_secs(60)));
    let clock = Clock::real();
    let evicted = async {
        // Only the good file is left, which is never dropped.
        while progress.snapshot().quarantine_evictions < 5 {
            clock.sleep(Duration::from_millis(5)).await;
        }
    };
    clock
        .timeout(Duration::from_secs(60), evicted)
        .await
        .unwrap();
    stop.cancel();
    assert_eq!(running.await.unwrap().unwrap(), Flushed::default());
    let snapshot = progress.snapshot();
    assert_eq!((snapshot.quarantine_bytes, snapshot.full), (0, false));
    assert_eq!(snapshot.datatypes[0].files_removed, 1);
}
