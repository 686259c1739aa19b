//! Feeds, from a server that behaves or not, to a lake.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cannery_collect::feed::{
    Ask, Depot, FeedSettings, Feeds, FeedsParts, Fetcher, Left, Monitor, Uploads,
};
use cannery_formats::Digest;
use cannery_formats::feed::{Codec, Coverage, FeedId, Hour, Slot};
use cannery_formats::hour_archive::{Compression, Limits, Survey, survey};
use cannery_journal::{Declaration, Journal, Memory};
use cannery_lake::{DiskStore, Lake, LakeMetrics, Mirrors, Parts, RetryPolicy};
use cannery_runtime::{Clock, PrivateUrl, RealDisk, Rng};
use cannery_testkit::feed_server::{Behaviour, FeedServer};
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[derive(Default)]
struct Told(Mutex<Vec<(String, FeedId, Hour)>>);

#[async_trait]
impl Uploads for Told {
    async fn uploaded(&self, store: &str, feed: &FeedId, hour: Hour) {
        let told = (store.to_owned(), feed.clone(), hour);
        self.0.lock().unwrap().push(told);
    }
}

/// A machine that collects feeds.
struct Replica {
    folder: TempDir,
    lake: Lake,
    told: Arc<Told>,
}

impl Replica {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = DiskStore::new(
            Arc::new(RealDisk),
            folder.path().join("lake"),
            Rng::seeded(1),
        );
        let lake = Lake::new(Parts {
            id: "main".to_owned(),
            url: "file:".to_owned(),
            store: Arc::new(store),
            prefix: String::new(),
            clock: Clock::real(),
            rng: Rng::seeded(2),
            retry: RetryPolicy::default(),
            metrics: LakeMetrics::default(),
        });
        Self {
            folder,
            lake: lake.unwrap(),
            told: Arc::default(),
        }
    }

    fn workspace(&self) -> &Path {
        self.folder.path()
    }

    fn feeds(&self) -> Feeds {
        let (clock, rng) = (Clock::real(), Rng::seeded(3));
        let disk: Arc<dyn cannery_runtime::Disk> = Arc::new(RealDisk);
        let logs = self.workspace().join("logs");
        let keep = Duration::from_secs(3_600);
        let list = Memory::new(Declaration::default(), clock.clone(), rng.clone());
        Feeds::open(FeedsParts {
            depot: Depot::new(Arc::clone(&disk), self.workspace()),
            clock: clock.clone(),
            rng,
            mirrors: Mirrors::new(vec![self.lake.clone()]).unwrap(),
            journal: Journal::new("shipping", Arc::new(list)),
            fetcher: Fetcher::new(clock.clone(), 100).unwrap(),
            monitor: Monitor::open(disk, &logs, clock, keep).unwrap(),
            uploads: Arc::clone(&self.told) as _,
            replica: "node1".to_owned(),
            cleared: None,
        })
        .unwrap()
    }

    /// Everything in the lake.
    async fn surveys(&self) -> Vec<(FeedId, Survey)> {
        let mut surveys = Vec::new();
        for entry in self.lake.list_all(None).await.unwrap() {
            let (feed, hour, _) = entry.key.as_feed_object().unwrap();
            let object = self.lake.get(&entry.key, 1 << 30).await.unwrap();
            let found = survey(&*object.bytes, &feed, hour, &Limits::default()).unwrap();
            surveys.push((feed, found));
        }
        surveys
    }

    /// The digests of the bodies of a feed in the lake.
    async fn bodies(&self, feed: &str) -> BTreeSet<Digest> {
        let surveys = self.surveys().await.into_iter();
        let own = surveys.filter(|(of, _)| of.as_str() == feed);
        own.flat_map(|(_, found)| found.set.iter().cloned().collect::<Vec<_>>())
            .filter(|member| !Coverage::is_member(member.name()))
            .map(|member| member.sha256())
            .collect()
    }

    async fn coverage(&self, feed: &str) -> Vec<Slot> {
        let surveys = self.surveys().await.into_iter();
        let own = surveys.filter(|(of, _)| of.as_str() == feed);
        let coverages = own.flat_map(|(_, found)| found.coverage);
        coverages
            .flat_map(|coverage| coverage.spans)
            .flat_map(|span| span.runs)
            .flat_map(|run| vec![run.slot; run.count as usize])
            .collect()
    }
}

fn feed(id: &str, url: &str) -> FeedSettings {
    FeedSettings {
        id: FeedId::new(id).unwrap(),
        ask: Ask {
            url: PrivateUrl::new(url),
            headers: Vec::new(),
            timeout: Duration::from_millis(500),
            max_bytes: 10_000,
            allow_private: true,
            conditional: true,
            accept_status: vec![200],
            keep_error_body: false,
        },
        periodicity: Duration::from_millis(100),
        postfix: ".txt".to_owned(),
        compression: Compression::of(Codec::Zstd),
    }
}

fn numbered(count: usize) -> Vec<Bytes> {
    (0..count)
        .map(|n| Bytes::from(format!("body {n}")))
        .collect()
}

async fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is() {
            return;
        }
        Clock::real().sleep(Duration::from_millis(50)).await;
    }
    panic!("waited in vain: {what}");
}

fn limit() -> watch::Receiver<Duration> {
    watch::Sender::new(Duration::from_secs(60)).subscribe()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_body_that_was_served_is_in_the_lake_and_the_workspace_is_empty() {
    let server = FeedServer::start().await.unwrap();
    server.on("/a", Behaviour::Bodies(numbered(12)));
    server.on("/same", Behaviour::body("always the same"));
    server.on("/down", Behaviour::Status(503));
    let replica = Replica::new();
    let (feeds, stop) = (replica.feeds(), CancellationToken::new());
    feeds.set(vec![
        feed("a", &server.url("/a")),
        feed("same", &server.url("/same")),
        feed("down", &server.url("/down")),
    ]);
    let watching = async {
        wait_until("polls", || {
            ["/a", "/same", "/down"]
                .iter()
                .all(|path| server.requests(path).len() > 15)
        })
        .await;
        stop.cancel();
    };
    let (left, ()) = tokio::join!(feeds.run(stop.clone(), limit()), watching);
    assert_eq!(left, Left::default());
    let expected = numbered(12).iter().map(|body| Digest::of(body)).collect();
    assert_eq!(replica.bodies("a").await, expected);
    assert_eq!(replica.bodies("same").await.len(), 1);
    assert_eq!(replica.bodies("down").await.len(), 0);
    let same = replica.coverage("same").await;
    assert!(same.iter().filter(|slot| **slot == Slot::Unchanged).count() > 10);
    let down = replica.coverage("down").await;
    let failed = |slot: &&Slot| matches!(slot, Slot::Failed { reason } if reason == "status 503");
    assert!(down.iter().filter(failed).count() > 10, "{down:?}");
    for name in ["downloads", "archives"] {
        let left = walk(&replica.workspace().join(name));
        assert_eq!(left, Vec::<String>::new());
    }
    assert_eq!(replica.told.0.lock().unwrap().len(), 3);
    let totals = feeds.monitor().totals();
    assert_eq!(totals[&FeedId::new("a").unwrap()].uploads.ok, 1);
    let logs = walk(&replica.workspace().join("logs"));
    assert!(
        logs.iter().any(|name| name.ends_with("totals.json")),
        "{logs:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_misbehaves_stops_nobody_else() {
    let server = FeedServer::start().await.unwrap();
    server.on("/good", Behaviour::Bodies(numbered(1_000)));
    server.on("/hung", Behaviour::Hung);
    server.on("/endless", Behaviour::Endless);
    server.on("/loop", Behaviour::Redirect(server.url("/loop")));
    server.on(
        "/bomb",
        Behaviour::GzipBomb {
            unpacked_bytes: 1 << 30,
        },
    );
    server.on("/huge", Behaviour::body(vec![7; 20_000]));
    let replica = Replica::new();
    let (feeds, stop) = (replica.feeds(), CancellationToken::new());
    let bad = ["hung", "endless", "loop", "bomb", "huge"];
    let all = bad.iter().chain(&["good"]);
    feeds.set(
        all.map(|id| feed(id, &server.url(&format!("/{id}"))))
            .collect(),
    );
    let watching = async {
        wait_until("good polls", || server.requests("/good").len() > 30).await;
        stop.cancel();
    };
    let (left, ()) = tokio::join!(feeds.run(stop.clone(), limit()), watching);
    assert_eq!(left, Left::default());
    assert!(replica.bodies("good").await.len() > 25);
    let good = replica.coverage("good").await;
    assert!(good.iter().all(|slot| *slot == Slot::Stored), "{good:?}");
    for (id, reason) in
        bad.iter()
            .zip(["timeout", "too large", "redirect", "too large", "too large"])
    {
        assert_eq!(replica.bodies(id).await.len(), 0);
        let slots = replica.coverage(id).await;
        let fits = |slot: &&Slot| matches!(slot, Slot::Failed { reason: why } if why.contains(reason) || why.contains("took too long"));
        assert!(
            !slots.is_empty()
                && slots
                    .iter()
                    .all(|slot| fits(&slot) || *slot == Slot::NotCollected),
            "{id}: {slots:?}"
        );
        assert!(
            slots
                .iter()
                .any(|slot| matches!(slot, Slot::Failed { reason: why } if why.contains(reason))),
            "{id}: {slots:?}"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_starts_and_ends_feeds_and_leaves_the_others_alone() {
    let server = FeedServer::start().await.unwrap();
    for path in ["/a", "/b", "/c"] {
        server.on(path, Behaviour::Bodies(numbered(10_000)));
    }
    let replica = Replica::new();
    let (feeds, stop) = (replica.feeds(), CancellationToken::new());
    let (a, b) = (feed("a", &server.url("/a")), feed("b", &server.url("/b")));
    feeds.set(vec![a.clone(), b]);
    let watching = async {
        wait_until("first", || server.requests("/b").len() > 3).await;
        feeds.set(vec![a.clone(), feed("c", &server.url("/c"))]);
        wait_until("second", || server.requests("/c").len() > 5).await;
        let asked = server.requests("/b").len();
        wait_until("third", || server.requests("/c").len() > 15).await;
        assert_eq!(server.requests("/b").len(), asked, "b was ended");
        stop.cancel();
    };
    tokio::join!(feeds.run(stop.clone(), limit()), watching);
    assert!(replica.bodies("b").await.len() > 2);
    let slots = replica.coverage("a").await;
    assert!(slots.iter().all(|slot| *slot == Slot::Stored), "{slots:?}");
    let runs = replica.surveys().await;
    let spans = runs
        .iter()
        .filter(|(id, _)| *id == a.id)
        .flat_map(|(_, found)| &found.coverage)
        .map(|coverage| coverage.spans.len())
        .sum::<usize>();
    assert_eq!(spans, 1, "one grid from the beginning to the end");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_shipped_is_named_and_the_next_start_ships_it() {
    let server = FeedServer::start().await.unwrap();
    server.on("/a", Behaviour::Bodies(numbered(5)));
    let replica = Replica::new();
    let (feeds, stop) = (replica.feeds(), CancellationToken::new());
    feeds.set(vec![feed("a", &server.url("/a"))]);
    // A file where the lake should be.
    #[allow(
        clippy::disallowed_methods,
        reason = "the input of a test need not be durable"
    )]
    std::fs::write(replica.workspace().join("lake"), b"in the way").unwrap();
    let watching = async {
        wait_until("polls", || server.requests("/a").len() > 8).await;
        stop.cancel();
    };
    let short = watch::Sender::new(Duration::from_millis(300)).subscribe();
    let (left, ()) = tokio::join!(feeds.run(stop.clone(), short), watching);
    assert_eq!(left.archives.len(), 1, "{left:?}");
    assert!(left.to_string().starts_with("`a_"), "{left}");
    std::fs::remove_file(replica.workspace().join("lake")).unwrap();
    let left = replica.feeds().flush(Duration::from_secs(60)).await;
    assert_eq!(left, Left::default());
    assert_eq!(replica.bodies("a").await.len(), 5);
}

/// The files below a folder.
fn walk(folder: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let entries = entries.map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => walk(&path),
            false => vec![path.display().to_string()],
        })
        .collect()
}
