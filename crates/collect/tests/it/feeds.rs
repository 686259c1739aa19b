//! Feeds, from a server that behaves or not, to a lake.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cannery_collect::feed::{
    Ask, Cleared, Depot, FeedSettings, Feeds, FeedsParts, Fetcher, Left, Monitor, Uploads,
};
use cannery_formats::Digest;
use cannery_formats::feed::{Codec, Coverage, FeedId, Hour, Slot};
use cannery_formats::hour_archive::{Compression, Limits, Survey, survey};
use cannery_journal::{Declaration, Journal, Memory};
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_lake::{DiskStore, Lake, LakeMetrics, Mirrors, Parts, RetryPolicy};
use cannery_runtime::{Clock, PrivateUrl, RealDisk, Rng};
use cannery_testkit::feed_server::{Behaviour, FeedServer};
use object_store::ObjectStore;
use object_store::memory::InMemory;
use tempfile::TempDir;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

#[derive(Default)]
pub(crate) struct Told(Mutex<Vec<(String, FeedId, Hour)>>);

#[async_trait]
impl Uploads for Told {
    async fn uploaded(&self, store: &str, feed: &FeedId, hour: Hour) {
        let told = (store.to_owned(), feed.clone(), hour);
        self.0.lock().unwrap().push(told);
    }
}

/// A machine that collects feeds.
pub(crate) struct Replica {
    folder: TempDir,
    pub(crate) clock: Clock,
    pub(crate) lake: Lake,
    /// Asked before the lake.
    mirrors: Vec<Lake>,
    cleared: Option<watch::Receiver<Cleared>>,
    told: Arc<Told>,
    /// Those of the last process.
    journals: Mutex<Vec<Journal>>,
}

fn lake_of(id: &str, store: Arc<dyn ObjectStore>) -> Lake {
    let lake = Lake::new(Parts {
        id: id.to_owned(),
        url: "file:".to_owned(),
        store,
        prefix: String::new(),
        clock: Clock::real(),
        rng: Rng::seeded(2),
        retry: RetryPolicy::default(),
        metrics: LakeMetrics::default(),
    });
    lake.unwrap()
}

impl Replica {
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let store = DiskStore::new(
            Arc::new(RealDisk),
            folder.path().join("lake"),
            Rng::seeded(1),
        );
        Self {
            folder,
            clock: Clock::real(),
            lake: lake_of("main", Arc::new(store)),
            mirrors: Vec::new(),
            cleared: None,
            told: Arc::default(),
            journals: Mutex::default(),
        }
    }

    /// Hours that are over, of so many feeds, as a process before has left them.
    fn with_hours(self, feeds: usize) -> Self {
        for number in 0..feeds {
            let folder = self
                .workspace()
                .join(format!("downloads/f{number}/2026/11/15/18"));
            std::fs::create_dir_all(&folder).unwrap();
            let name = "f_20261115T180000.000Z_aaaaaaaaaaaaaaaaaaaaaaaaaa";
            #[allow(
                clippy::disallowed_methods,
                reason = "the input of a test need not be durable"
            )]
            std::fs::write(folder.join(name), format!("{number}")).unwrap();
        }
        self
    }

    /// The archives that wait on the disk.
    fn waiting(&self) -> usize {
        let depot = Depot::new(Arc::new(RealDisk), self.workspace());
        depot.waiting().unwrap().len()
    }

    /// How many archives were told to be in a store.
    fn told(&self, store: &str) -> usize {
        let told = self.told.0.lock().unwrap();
        told.iter().filter(|(of, _, _)| of == store).count()
    }

    pub(crate) fn workspace(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn feeds(&self) -> Feeds {
        let (clock, rng) = (self.clock.clone(), Rng::seeded(3));
        let disk: Arc<dyn cannery_runtime::Disk> = Arc::new(RealDisk);
        let logs = self.workspace().join("logs");
        let keep = Duration::from_secs(3_600);
        let lakes = self.mirrors.iter().chain([&self.lake]).cloned();
        let lakes: Vec<_> = lakes.collect();
        let lists = lakes.iter().map(|lake| {
            let list = Memory::new(Declaration::default(), clock.clone(), rng.clone());
            Journal::new(lake.id(), Arc::new(list))
        });
        let journals: Vec<_> = lists.collect();
        *self.journals.lock().unwrap() = journals.clone();
        Feeds::open(FeedsParts {
            depot: Depot::new(Arc::clone(&disk), self.workspace()),
            clock: clock.clone(),
            rng: rng.clone(),
            mirrors: Mirrors::new(lakes).unwrap(),
            journals,
            fetcher: Fetcher::new(clock.clone(), 100).unwrap(),
            monitor: Monitor::open(disk, &logs, clock, keep).unwrap(),
            uploads: Arc::clone(&self.told) as _,
            replica: "node1".to_owned(),
            cleared: self.cleared.clone(),
        })
        .unwrap()
    }

    /// Everything in the lake.
    pub(crate) async fn surveys(&self) -> Vec<(FeedId, Survey)> {
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
    pub(crate) async fn bodies(&self, feed: &str) -> BTreeSet<Digest> {
        let surveys = self.surveys().await.into_iter();
        let own = surveys.filter(|(of, _)| of.as_str() == feed);
        own.flat_map(|(_, found)| found.set.iter().cloned().collect::<Vec<_>>())
            .filter(|member| !Coverage::is_member(member.name()))
            .map(|member| member.sha256())
            .collect()
    }

    pub(crate) async fn coverage(&self, feed: &str) -> Vec<Slot> {
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

pub(crate) fn feed(id: &str, url: &str) -> FeedSettings {
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

pub(crate) async fn wait_until(what: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..600 {
        if is() {
            return;
        }
        Clock::real().sleep(Duration::from_millis(50)).await;
    }
    panic!("waited in vain: {what}");
}

/// A machine that has other things to do makes polls fall out; nothing else may.
fn stored_or_late(slot: &Slot) -> bool {
    match slot {
        Slot::Stored => true,
        Slot::Failed { reason } => reason == "the one before took too long",
        // A poll that began late lies on no grid with its neighbours.
        Slot::NotCollected => true,
        Slot::Unchanged => false,
    }
}

pub(crate) fn limit() -> watch::Receiver<Duration> {
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
    assert!(good.iter().all(stored_or_late), "{good:?}");
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
    server.on("/a", Behaviour::Bodies(numbered(1)));
    for path in ["/b", "/c"] {
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
    // A poller that had been started anew would not know what it stored before, and store it again.
    let surveys = replica.surveys().await;
    let hours: Vec<_> = surveys
        .iter()
        .filter(|(id, _)| *id == a.id)
        .flat_map(|(_, found)| &found.coverage)
        .collect();
    assert!(!hours.is_empty());
    for hour in hours {
        let runs = hour.spans.iter().flat_map(|span| &span.runs);
        let stored = runs.filter(|run| run.slot == Slot::Stored);
        let stored: u32 = stored.map(|run| run.count).sum();
        assert_eq!(stored, 1, "{hour:?}");
    }
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

/// A mirror that takes what it is given and never says so.
fn silent(id: &str, faults: &Faults) -> Lake {
    faults.next(Request::Put, Fault::HangAfter, 1_000_000);
    let store = FaultStore::new(Arc::new(InMemory::new()), faults.clone(), Clock::real());
    lake_of(id, Arc::new(store))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_that_does_not_answer_takes_nothing_from_the_others() {
    let mut replica = Replica::new().with_hours(12);
    let faults = Faults::none();
    replica.mirrors = vec![silent("dead", &faults)];
    let (feeds, stop) = (replica.feeds(), CancellationToken::new());
    let watching = async {
        wait_until("the healthy one has all", || replica.told("main") == 12).await;
        assert_eq!(
            replica.waiting(),
            12,
            "they stay until every mirror has them"
        );
        assert_eq!(replica.told("dead"), 0);
        assert!(faults.requests() <= 8, "{} requests", faults.requests());
        stop.cancel();
    };
    let short = watch::Sender::new(Duration::from_millis(100)).subscribe();
    let (left, ()) = tokio::join!(feeds.run(stop.clone(), short), watching);
    // Those that were sent are there by now, and seen to be.
    assert!(left.archives.len() >= 8, "{left}");
    faults.stop();
    let left = replica.feeds().flush(Duration::from_secs(60)).await;
    assert_eq!(left, Left::default());
    assert_eq!((replica.told("main"), replica.told("dead")), (12, 12));
    assert_eq!(
        walk(&replica.workspace().join("archives")),
        Vec::<String>::new()
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn archives_are_shipped_while_no_journal_can_be_used() {
    let replica = Replica::new().with_hours(12);
    let (feeds, stop) = (replica.feeds(), CancellationToken::new());
    let journals = replica.journals.lock().unwrap().clone();
    for journal in journals {
        journal.close().await;
    }
    let watching = async {
        wait_until("everything is shipped", || replica.told("main") == 12).await;
        wait_until("and gone", || replica.waiting() == 0).await;
        stop.cancel();
    };
    let (left, ()) = tokio::join!(feeds.run(stop.clone(), limit()), watching);
    assert_eq!(left, Left::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_end_of_a_process_ships_to_the_healthy_one_whatever_another_does() {
    let mut replica = Replica::new().with_hours(12);
    let faults = Faults::none();
    replica.mirrors = vec![silent("dead", &faults)];
    let left = replica.feeds().flush(Duration::from_secs(5)).await;
    assert_eq!(left.archives.len(), 12, "{left}");
    assert!(left.stores.keys().eq(["dead"]), "{left}");
    let said = left.to_string();
    assert!(
        said.ends_with("; to `dead`: it has not answered yet"),
        "{said}"
    );
    assert_eq!((replica.told("main"), replica.told("dead")), (12, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_is_shipped_to_as_soon_as_it_is_known_and_while_it_is() {
    let mut replica = Replica::new().with_hours(6);
    let store = Arc::new(InMemory::new());
    replica.mirrors = vec![lake_of("unknown", Arc::clone(&store) as _)];
    let cleared = watch::Sender::new(Cleared::from(["main".to_owned()]));
    replica.cleared = Some(cleared.subscribe());
    let (feeds, stop) = (replica.feeds(), CancellationToken::new());
    let watching = async {
        wait_until("the known one has all", || replica.told("main") == 6).await;
        assert_eq!(replica.told("unknown"), 0);
        assert_eq!(replica.mirrors[0].list_all(None).await.unwrap(), []);
        cleared.send_modify(|cleared| cleared.extend(["unknown".to_owned()]));
        wait_until("the other has all", || replica.waiting() == 0).await;
        assert_eq!((replica.told("main"), replica.told("unknown")), (6, 6));
        stop.cancel();
    };
    let (left, ()) = tokio::join!(feeds.run(stop.clone(), limit()), watching);
    assert_eq!(left, Left::default());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poll_that_is_under_way_at_a_stop_is_finished_but_not_for_ever() {
    let server = FeedServer::start().await.unwrap();
    let slow = Behaviour::Slow {
        body: Bytes::from_static(b"worth waiting for"),
        chunk_bytes: 5,
        pause: Duration::from_millis(300),
    };
    server.on("/slow", slow);
    server.on("/hung", Behaviour::Hung);
    let replica = Replica::new();
    let (feeds, stop) = (replica.feeds(), CancellationToken::new());
    let long = |id: &str| {
        let mut feed = feed(id, &server.url(&format!("/{id}")));
        feed.ask.timeout = Duration::from_secs(3_600);
        feed
    };
    feeds.set(vec![long("slow"), long("hung")]);
    let watching = async {
        wait_until("both are asked", || {
            ["/slow", "/hung"]
                .iter()
                .all(|path| !server.requests(path).is_empty())
        })
        .await;
        stop.cancel();
    };
    let limit = watch::Sender::new(Duration::from_secs(8)).subscribe();
    let (left, ()) = tokio::join!(feeds.run(stop.clone(), limit), watching);
    assert_eq!(left, Left::default());
    assert_eq!(server.requests("/slow").len(), 1, "no other was begun");
    let expected = BTreeSet::from([Digest::of(b"worth waiting for")]);
    assert_eq!(replica.bodies("slow").await, expected);
    assert_eq!(replica.bodies("hung").await.len(), 0);
}

/// The files below a folder.
pub(crate) fn walk(folder: &Path) -> Vec<String> {
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
