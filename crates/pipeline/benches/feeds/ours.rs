//! The product: each replica packs and ships what it has, and one of them merges.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use cannery_collect::feed::{Depot, Feeds, FeedsParts, Fetcher, Monitor, Uploads};
use cannery_formats::feed::{Coverage, FeedId, Hour};
use cannery_formats::hour_archive::{Limits, survey};
use cannery_journal::{Declaration, Journal, Memory};
use cannery_lake::{DiskStore, Lake, LakeMetrics, Mirrors, Parts, RetryPolicy};
use cannery_pipeline::consolidate::Consolidator;
use cannery_pipeline::{Algorithm, HourFolder, Scratch, Store};
use cannery_runtime::disk::create_dir_all;
use cannery_runtime::{Clock, RealDisk, Rng};
use futures::future::join_all;
use tokio::runtime::Runtime;

use crate::REPLICAS;
use crate::bodies::{Replica, feed, hour};
use cannery_testkit::usage::{Used, measure, rss_bytes};

/// What packing and shipping took, what merging did, and the memory at its end.
pub(crate) fn run(
    runtime: &Runtime,
    folder: &Path,
    replicas: &[Replica],
    polls: usize,
) -> (Used, Used, u64) {
    let store = Store::new(lake(folder), Algorithm::Hashed);
    // A process does this once, at its start.
    runtime.block_on(store.lake.ensure_probed()).unwrap();
    let packed = measure(|| runtime.block_on(pack(&store, replicas)));
    let scratch = Scratch::open(&folder.join("scratch"), Rng::from_os()).unwrap();
    let merged = measure(|| {
        let consolidator = Consolidator::new(scratch);
        let merging = async { consolidator.consolidate(&store, &feed(), hour()).await };
        runtime.block_on(merging).unwrap();
    });
    let rss = rss_bytes();
    runtime.block_on(check(&store.lake, polls));
    (packed, merged, rss)
}

/// Replicas are machines of their own: they do it at the same time.
async fn pack(store: &Store, replicas: &[Replica]) {
    let feeds = replicas.iter().map(|replica| feeds(store, replica));
    let feeds: Vec<Feeds> = feeds.collect();
    let flushed = join_all(
        feeds
            .iter()
            .map(|feeds| feeds.flush(Duration::from_secs(600))),
    )
    .await;
    for left in flushed {
        assert!(left.is_nothing(), "{left}");
    }
}

/// That it is all there, in one archive.
async fn check(lake: &Lake, polls: usize) {
    let folder = HourFolder::list(lake, &feed(), hour()).await.unwrap();
    let [archive] = folder.archives()[..] else {
        panic!("not one archive: {folder:?}");
    };
    let object = lake.get(&archive.key, 1 << 30).await.unwrap();
    let found = survey(&*object.bytes, &feed(), hour(), &Limits::default()).unwrap();
    let bodies = found.set.iter();
    let bodies = bodies.filter(|member| !Coverage::is_member(member.name()));
    assert_eq!(bodies.count(), polls * REPLICAS);
    assert_eq!(found.coverage.len(), REPLICAS);
}

fn feeds(store: &Store, replica: &Replica) -> Feeds {
    let (clock, rng) = (Clock::real(), Rng::from_os());
    let list = Memory::new(Declaration::default(), clock.clone(), rng.clone());
    let (workspace, keep) = (&replica.workspace, Duration::from_secs(3_600));
    let logs = workspace.join("logs");
    let parts = FeedsParts {
        depot: Depot::new(Arc::new(RealDisk), workspace),
        clock: clock.clone(),
        rng,
        mirrors: Mirrors::new(vec![store.lake.clone()]).unwrap(),
        journals: vec![Journal::new("shipping", Arc::new(list))],
        fetcher: Fetcher::new(clock.clone(), 1).unwrap(),
        monitor: Monitor::open(Arc::new(RealDisk), &logs, clock, keep).unwrap(),
        uploads: Arc::new(Unheard),
        cleared: None,
        replica: workspace
            .file_name()
            .unwrap()
            .to_string_lossy()
            .into_owned(),
    };
    Feeds::open(parts).unwrap()
}

/// The bench itself says when to merge.
struct Unheard;

#[async_trait]
impl Uploads for Unheard {
    async fn uploaded(&self, _: &str, _: &FeedId, _: Hour) {}
}

fn lake(folder: &Path) -> Lake {
    let root = folder.join("lake");
    create_dir_all(&RealDisk, &root).unwrap();
    let lake = Lake::new(Parts {
        id: "main".to_owned(),
        url: format!("file://{}", root.display()),
        store: Arc::new(DiskStore::new(Arc::new(RealDisk), root, Rng::from_os())),
        prefix: String::new(),
        clock: Clock::real(),
        rng: Rng::from_os(),
        retry: RetryPolicy::default(),
        metrics: LakeMetrics::default(),
    });
    lake.unwrap()
}
