//! Replicas that do not think the same of what a store can do: the first one decides, and nothing is lost.

use std::sync::Arc;

use cannery_formats::Key;
use cannery_formats::feed::Codec;
use cannery_pipeline::scan;
use cannery_pipeline::{Error, Store};
use cannery_runtime::Rng;

use crate::kit::{Bucket, Way, feed, hour, patient_lake, primary, secondary, set, store, upload};
use crate::troubled::Troubled;

/// Somebody else at the same objects, who thinks that the store is of this kind.
fn other(bucket: &Bucket, way: Way, rng: Option<Rng>) -> Store {
    let troubled = Troubled::new(bucket.raw.clone(), rng, None);
    store(patient_lake("main", Arc::new(troubled), way), way)
}

async fn said(bucket: &Bucket) -> String {
    let object = bucket.honest.lake.get(&Key::primaries(), 100).await;
    String::from_utf8(object.unwrap().bytes.to_vec()).unwrap()
}

#[tokio::test]
async fn who_could_swap_copies_where_the_others_do() {
    let bucket = Bucket::new(Way::Projected);
    bucket.upload(&upload("a", Codec::Gzip)).await;
    bucket.consolidate().await;
    assert_eq!(said(&bucket).await, "{\"primaries\":\"copied\"}\n");
    bucket.upload(&upload("b", Codec::Gzip)).await;
    let swapper = other(&bucket, Way::Swapped, None);
    let (consolidator, feed) = (bucket.consolidator(), feed());
    let report = consolidator.consolidate(&swapper, &feed, hour()).await;
    report.unwrap();
    let look = bucket.look().await;
    let whole = secondary(&set("a b"), Codec::Gzip);
    assert_eq!(
        look.keys(),
        [&primary(), &whole],
        "it stays beside its copy"
    );
    let found = scan::whole_lake(&swapper, &mut |_| {}).await.unwrap();
    assert_eq!(found.unmerged, [], "and that is as it should be");
}

#[tokio::test]
async fn who_cannot_swap_where_the_others_do_refuses_and_changes_nothing() {
    let bucket = Bucket::new(Way::Swapped);
    bucket.upload(&upload("a", Codec::Gzip)).await;
    bucket.consolidate().await;
    assert_eq!(said(&bucket).await, "{\"primaries\":\"swapped\"}\n");
    bucket.upload(&upload("b", Codec::Gzip)).await;
    let before = bucket.look().await;
    let copier = other(&bucket, Way::Projected, None);
    let (consolidator, feed) = (bucket.consolidator(), feed());
    let error = consolidator.consolidate(&copier, &feed, hour()).await;
    let error = error.unwrap_err();
    assert!(matches!(error, Error::Disagreed { .. }), "{error}");
    assert_eq!(bucket.look().await.keys(), before.keys());
}

#[tokio::test]
async fn what_cannot_be_read_is_an_error_and_nothing_is_changed() {
    for way in [Way::Swapped, Way::Projected] {
        let bucket = Bucket::new(way);
        bucket.put(&Key::primaries(), b"{\"primaries\":\"bo").await;
        bucket.upload(&upload("a", Codec::Gzip)).await;
        bucket.upload(&upload("b", Codec::Gzip)).await;
        let (consolidator, feed) = (bucket.consolidator(), feed());
        let error = consolidator
            .consolidate(&bucket.honest, &feed, hour())
            .await;
        let error = error.unwrap_err();
        assert!(matches!(error, Error::Unusable { .. }), "{error}");
        assert_eq!(bucket.look().await.keys().len(), 2, "{way:?}");
    }
}

#[tokio::test]
async fn hours_that_have_no_primary_need_no_agreement() {
    let bucket = Bucket::new(Way::Hashed);
    bucket.upload(&upload("a", Codec::Gzip)).await;
    bucket.upload(&upload("b", Codec::Gzip)).await;
    bucket.consolidate().await;
    let object = bucket.honest.lake.get(&Key::primaries(), 100).await;
    object.unwrap_err();
}

/// The race that would lose data: `tests/model/mixed.rs`.
#[tokio::test]
async fn replicas_of_both_kinds_at_once_lose_nothing() {
    let mut decided = [0, 0];
    for seed in 0..60 {
        let bucket = Bucket::new(Way::Swapped);
        let rng = Rng::seeded(seed);
        let words = ["a", "b", "c", "a b"];
        for words in &words[..2] {
            bucket.upload(&upload(words, Codec::Gzip)).await;
        }
        let ways = [Way::Swapped, Way::Projected, Way::Swapped, Way::Projected];
        let replicas = ways.map(|way| other(&bucket, way, Some(rng.clone())));
        let work = replicas.iter().zip(words).map(async |(store, words)| {
            let own = upload(words, Codec::Zstd);
            store.lake.put_new(&own.key, own.bytes).await.unwrap();
            for _ in 0..3 {
                let (consolidator, feed) = (bucket.consolidator(), feed());
                match consolidator.consolidate(store, &feed, hour()).await {
                    Ok(_) | Err(Error::Restless { .. } | Error::Disagreed { .. }) => {}
                    Err(error) => panic!("seed {seed}: {error}"),
                }
            }
        });
        futures::future::join_all(work).await;
        assert_eq!(bucket.look().await.whole(), set("a b c"), "seed {seed}");
        decided[usize::from(said(&bucket).await.contains("copied"))] += 1;
    }
    assert!(decided.iter().all(|count| *count > 5), "{decided:?}");
}
