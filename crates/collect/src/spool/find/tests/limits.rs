//! Slow consumers, many files, and the end.

use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::*;

/// How many names are in the hands of the three threads beside the channel.
const IN_HAND: u64 = 3;

/// Makes empty files as fast as the disk can.
fn fill(folder: &Path, names: std::ops::Range<usize>) {
    std::fs::create_dir_all(folder).unwrap();
    for number in names {
        let path = folder.join(format!("{number}.json"));
        mknodat(CWD, path, FileType::RegularFile, Mode::RUSR, 0).unwrap();
    }
}

#[tokio::test]
async fn a_backlog_waits_on_the_disk_and_not_in_memory() {
    let files = if cannery_testkit::long_run() {
        200_000
    } else {
        20_000
    };
    let capacity = 64;
    let mut bench = Bench::with(capacity, |root| {
        fill(&root.join("foo1/2026/11/15"), 0..files);
    });
    // The channel, and what the scan and the consumer have in hand of a batch each.
    let room = capacity as u64 + 2 * (capacity as u64 / 8) + IN_HAND;
    let mut told = BTreeSet::new();
    let (mut received, mut most) = (0, 0);
    while told.len() < files {
        if received % 500 == 0 {
            // Slow enough for the scan to run ahead as far as it can.
            Clock::real().sleep(Duration::from_millis(2)).await;
        }
        let ahead = bench.finder.counters().files_seen[0] - received;
        most = most.max(ahead);
        assert!(ahead <= room, "{ahead} in memory");
        told.insert(bench.file().await.0);
        received += 1;
    }
    assert!(most >= capacity as u64, "the consumer was not slow");
}

#[tokio::test]
async fn a_consumer_that_sleeps_through_an_overflow_misses_nothing() {
    let limit = std::fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
    let limit: usize = limit.trim().parse().unwrap();
    if limit > 40_000 {
        // Too many files for a test: `lost_events_lead_to_a_scan_of_everything` does it without.
        return;
    }
    let mut bench = Bench::with(64, |root| {
        std::fs::create_dir_all(root.join("foo1/2026/11/15")).unwrap();
    });
    bench.until(|counters| counters.scans == 1).await;
    // What the channel and one read of events hold comes on top.
    let files = limit + 4_096;
    for number in 0..files {
        write(&bench.day().join(format!("{number}.json")));
    }
    let mut missing: BTreeSet<String> = (0..files)
        .map(|number| format!("foo1/2026/11/15/{number}.json"))
        .collect();
    while !missing.is_empty() {
        let (name, _) = bench.file().await;
        missing.remove(&name);
    }
    assert!(bench.finder.counters().overflows >= 1);
}

#[tokio::test]
async fn it_stops_while_all_its_threads_wait_for_the_consumer() {
    let mut bench = Bench::with(2, |root| {
        fill(&root.join("foo1/2026/11/15"), 0..100);
        fill(&root.join("bar1/2026/11/15"), 0..100);
    });
    // The scan has one in its hand; so have the events, and so has the look into a new folder.
    bench.until(|counters| counters.files_seen[0] >= 3).await;
    write(&bench.day().join("event.json"));
    bench.until(|counters| counters.files_seen[0] >= 4).await;
    write_in(&bench.root().join("foo1/2026/11/16"), "fresh.json");
    let finder = bench.finder;
    patiently(async {
        tokio::task::spawn_blocking(move || finder.stop())
            .await
            .unwrap();
    })
    .await;
    let mut left = 0;
    while bench.sightings.recv().await.is_some() {
        left += 1;
    }
    assert_eq!(left, 2);
}

#[tokio::test]
async fn a_dropped_receiver_ends_the_work() {
    let bench = Bench::with(1, |root| fill(&root.join("foo1/2026/11/15"), 0..100));
    drop(bench.sightings);
    let finder = bench.finder;
    patiently(async {
        while finder.threads.iter().filter(|t| t.is_finished()).count() < 1 {
            Clock::real().sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
    assert!(finder.counters().files_seen[0] <= 2);
}
