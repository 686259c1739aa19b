//! The feeds, as the product collects them, and a look at them from outside.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cannery_collect::feed::monitor::Lateness;
use cannery_collect::feed::{
    Ask, Depot, FeedSettings, Feeds, FeedsParts, Fetcher, Monitor, Uploads,
};
use cannery_formats::feed::{Codec, FeedId, Hour};
use cannery_formats::hour_archive::Compression;
use cannery_journal::embedded::{Embedded, Place};
use cannery_journal::{Declaration, Journal};
use cannery_lake::{DiskStore, Lake, LakeMetrics, Mirrors, Parts, RetryPolicy};
use cannery_runtime::disk::create_dir_all;
use cannery_runtime::{Clock, PrivateUrl, RealDisk, Rng};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::clock;
use crate::server::Server;
use crate::usage::{Used, cpu_seconds, machine_seconds, rss_bytes};

/// So many hours pass.
const HOURS: u32 = 5;

/// What was seen.
pub(crate) struct Polled {
    pub(crate) totals: Sums,
    pub(crate) lateness: Lateness,
    pub(crate) latency_ms: f64,
    pub(crate) ours: Used,
    pub(crate) server: Used,
    pub(crate) others_percent: f64,
    /// How many were missed by the end of each tenth of the time.
    pub(crate) missed: Vec<u64>,
}

/// Of all feeds together.
#[derive(Default)]
pub(crate) struct Sums {
    pub(crate) stored: u64,
    pub(crate) unchanged: u64,
    pub(crate) failed: u64,
    pub(crate) missed: u64,
    pub(crate) archives: u64,
    pub(crate) uploads: u64,
}

pub(crate) fn run(feeds: usize, time: Duration) -> Polled {
    let folder = TempDir::with_prefix_in("bench-feeds-", env!("CARGO_TARGET_TMPDIR")).unwrap();
    let server = Server::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(poll(folder.path(), &server, feeds, time))
}

async fn poll(folder: &Path, server: &Server, feeds: usize, time: Duration) -> Polled {
    let clock = clock::hours_of(time / HOURS);
    let collector = Feeds::open(parts(folder, &clock).await).unwrap();
    let url = format!("http://127.0.0.1:{}", server.port);
    collector.set((0..feeds).map(|number| feed(number, &url)).collect());
    let stop = CancellationToken::new();
    let looking = async {
        let seen = look(&clock, server, time, collector.monitor()).await;
        // What follows is the flush, which is not about time.
        let lateness = collector.monitor().lateness();
        stop.cancel();
        (seen, lateness)
    };
    let limit = watch::Sender::new(Duration::from_secs(600)).subscribe();
    let (left, (seen, lateness)) = tokio::join!(collector.run(stop.clone(), limit), looking);
    assert!(left.is_nothing(), "{left}");
    let (totals, latency_ms) = sums(collector.monitor());
    Polled {
        totals,
        lateness,
        latency_ms,
        ours: seen.ours,
        server: seen.server,
        others_percent: seen.others_percent,
        missed: seen.missed,
    }
}

struct Seen {
    ours: Used,
    server: Used,
    others_percent: f64,
    missed: Vec<u64>,
}

async fn look(clock: &Clock, server: &Server, time: Duration, monitor: &Monitor) -> Seen {
    let processes = [std::process::id(), server.id()];
    let begun = clock.elapsed();
    let cpu = processes.map(cpu_seconds);
    let (busy, all) = machine_seconds();
    let (mut first, mut missed) = ([0; 2], Vec::new());
    for tenth in 1..=10 {
        let end = time * tenth / 10;
        clock.sleep(end.saturating_sub(clock.since(begun))).await;
        missed.push(sums(monitor).0.missed);
        // Two hours are packed by then, and what is kept for the next ones is there.
        if tenth == 5 {
            first = processes.map(rss_bytes);
        }
    }
    let seconds = clock.since(begun).as_secs_f64();
    let used = |at: usize| Used {
        seconds,
        cpu_seconds: cpu_seconds(processes[at]) - cpu[at],
        rss_first: first[at],
        rss_last: rss_bytes(processes[at]),
    };
    let (ours, server) = (used(0), used(1));
    let (busy_now, all_now) = machine_seconds();
    let others = busy_now - busy - ours.cpu_seconds - server.cpu_seconds;
    Seen {
        ours,
        server,
        others_percent: 100.0 * others / (all_now - all),
        missed,
    }
}

fn sums(monitor: &Monitor) -> (Sums, f64) {
    let (mut sums, mut latency_ms) = (Sums::default(), 0);
    for totals in monitor.totals().values() {
        sums.stored += totals.stored;
        sums.unchanged += totals.unchanged;
        sums.failed += totals.failed;
        sums.missed += totals.missed;
        sums.archives += totals.archives.ok;
        sums.uploads += totals.uploads.ok;
        latency_ms += totals.latency_ms;
    }
    let latency_ms = latency_ms as f64 / (sums.stored + sums.unchanged).max(1) as f64;
    (sums, latency_ms)
}

/// Nobody wants to know.
struct Unheard;

#[async_trait]
impl Uploads for Unheard {
    async fn uploaded(&self, _: &str, _: &FeedId, _: Hour) {}
}

async fn parts(folder: &Path, clock: &Clock) -> FeedsParts {
    let rng = Rng::from_os();
    let place = Place {
        disk: Arc::new(RealDisk),
        dir: folder.join("shipping"),
        owner: "bench".to_owned(),
        clock: clock.clone(),
        rng: rng.clone(),
    };
    let journal = Embedded::open(place, Some(Declaration::default()));
    let keep = Duration::from_secs(72 * 3_600);
    let logs = folder.join("logs");
    FeedsParts {
        depot: Depot::new(Arc::new(RealDisk), folder),
        clock: clock.clone(),
        rng,
        mirrors: Mirrors::new(vec![lake(folder, clock)]).unwrap(),
        journals: vec![Journal::new("shipping", journal.await.unwrap())],
        fetcher: Fetcher::new(clock.clone(), 10_000).unwrap(),
        monitor: Monitor::open(Arc::new(RealDisk), &logs, clock.clone(), keep).unwrap(),
        uploads: Arc::new(Unheard),
        replica: "bench".to_owned(),
        cleared: None,
    }
}

fn lake(folder: &Path, clock: &Clock) -> Lake {
    let root = folder.join("lake");
    create_dir_all(&RealDisk, &root).unwrap();
    let lake = Lake::new(Parts {
        id: "main".to_owned(),
        url: format!("file://{}", root.display()),
        store: Arc::new(DiskStore::new(Arc::new(RealDisk), root, Rng::from_os())),
        prefix: String::new(),
        clock: clock.clone(),
        rng: Rng::from_os(),
        retry: RetryPolicy::default(),
        metrics: LakeMetrics::default(),
    });
    lake.unwrap()
}

fn feed(number: usize, url: &str) -> FeedSettings {
    FeedSettings {
        id: FeedId::new(format!("feed{number:04}")).unwrap(),
        ask: Ask {
            url: PrivateUrl::new(format!("{url}/{number}")),
            headers: Vec::new(),
            timeout: Duration::from_secs(10),
            max_bytes: 1 << 20,
            allow_private: true,
            conditional: true,
            accept_status: Vec::new(),
            keep_error_body: false,
        },
        periodicity: Duration::from_secs(1),
        postfix: ".json".to_owned(),
        compression: Compression::of(Codec::Gzip),
    }
}
