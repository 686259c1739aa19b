//! Hours that are deleted stay deleted, whoever comes late.

use std::sync::Arc;

use cannery_formats::Key;
use cannery_formats::feed::Codec;
use cannery_pipeline::consolidate::Step;
use cannery_pipeline::delete::{self, DoomedHour};
use cannery_pipeline::{Error, Scope};
use cannery_runtime::Rng;
use jiff::Timestamp;

use crate::kit::{Bucket, WAYS, feed, hour, in_hour, patient_lake, set, store, upload};
use crate::troubled::{Death, Troubled};

fn scope() -> Scope {
    Scope {
        feeds: Some([feed()].into()),
        from: Some(hour()),
        to: hour().next(),
    }
}

async fn delete(bucket: &Bucket) -> Vec<DoomedHour> {
    let lake = &bucket.honest.lake;
    let plan = delete::plan(lake, &scope()).await.unwrap();
    let mut gone = Vec::new();
    let mut done = |hour: &DoomedHour| gone.push(hour.clone());
    delete::run(lake, &plan, "test", Timestamp::UNIX_EPOCH, &mut done)
        .await
        .unwrap();
    gone
}

#[tokio::test]
async fn a_late_archive_does_not_bring_a_deleted_hour_back() {
    for way in WAYS {
        let bucket = Bucket::new(way);
        for words in ["a", "b"] {
            bucket.upload(&upload(words, Codec::Gzip)).await;
        }
        bucket.consolidate().await;
        assert_eq!(delete(&bucket).await.len(), 1);
        assert!(bucket.look().await.keys().is_empty(), "{way:?}");
        for words in ["a", "c"] {
            bucket.upload(&upload(words, Codec::Zstd)).await;
        }
        let report = bucket.consolidate().await;
        let deleted = |step: &&Step| matches!(step, Step::Deleted { .. });
        assert_eq!(report.steps.iter().filter(deleted).count(), 2, "{report}");
        assert!(report.steps.contains(&Step::Tombstoned));
        let look = bucket.look().await;
        assert!(look.keys().is_empty() && look.tombstone, "{way:?}");
        let lifted = delete::lift(&bucket.honest.lake, &scope()).await.unwrap();
        assert_eq!(lifted, [(feed(), hour())]);
        bucket.upload(&upload("a", Codec::Gzip)).await;
        bucket.consolidate().await;
        bucket
            .assert_one(&set("a"), &format!("{way:?} lifted"))
            .await;
    }
}

#[tokio::test]
async fn a_plan_changes_nothing_and_says_what_would_go() {
    let bucket = Bucket::new(crate::kit::Way::Hashed);
    let uploads = [upload("a", Codec::Gzip), upload("b", Codec::Zstd)];
    for upload in &uploads {
        bucket.upload(upload).await;
    }
    bucket
        .put(&in_hour("f_20261115T18Z_abcdefghij23.tar.gz"), b"x")
        .await;
    bucket.put(&in_hour("notes.txt"), b"mine").await;
    let other = Key::new("f/2026/11/15/19/f_20261115T19Z.tar.gz").unwrap();
    bucket.put(&other, b"later").await;
    let lake = &bucket.honest.lake;
    let plan = delete::plan(lake, &scope()).await.unwrap();
    assert_eq!(plan.objects(), 3);
    let bytes = uploads.iter().map(|upload| upload.bytes.len() as u64);
    assert_eq!(plan.bytes(), bytes.sum::<u64>() + 1);
    assert_eq!(plan.hours[0].left, [in_hour("notes.txt")]);
    let text = plan.hours[0].to_string();
    assert!(text.ends_with("; 1 unknown objects stay"), "{text}");
    assert_eq!(lake.list_all(None).await.unwrap().len(), 5);
    assert_eq!(delete(&bucket).await[0].archives.len(), 3);
    let left = lake.list_all(None).await.unwrap();
    let left: Vec<_> = left.into_iter().map(|entry| entry.key).collect();
    let mark = Key::feed_tombstone(&feed(), hour());
    assert_eq!(left, [mark, in_hour("notes.txt"), other]);
    assert_eq!(delete::plan(lake, &scope()).await.unwrap().objects(), 0);
}

/// Replicas that end leave nothing of a deleted hour, and nobody has to come after them.
#[tokio::test]
async fn whoever_is_at_work_during_a_delete_removes_what_it_puts() {
    for way in WAYS {
        for seed in 0..25 {
            let bucket = Bucket::new(way);
            let rng = Rng::seeded(seed);
            bucket.upload(&upload("z", Codec::Gzip)).await;
            let replicas = ["a b", "c"].map(|words| replica(&bucket, &rng, words, 0.0));
            let deleting = async {
                for _ in 0..rng.below(100) {
                    tokio::task::yield_now().await;
                }
                delete(&bucket).await;
            };
            tokio::join!(futures::future::join_all(replicas), deleting);
            let look = bucket.look().await;
            let context = format!("{way:?}, seed {seed}: {:?}", look.keys());
            assert!(look.tombstone && look.keys().is_empty(), "{context}");
        }
    }
}

/// A delete in the middle of what replicas do: once all have ended, or died and been followed by one, nothing is left.
#[tokio::test]
async fn a_delete_wins_against_whatever_goes_on() {
    for way in WAYS {
        for seed in 0..25 {
            let context = format!("{way:?}, seed {seed}");
            let bucket = Arc::new(Bucket::new(way));
            let rng = Rng::seeded(seed);
            bucket.upload(&upload("a", Codec::Gzip)).await;
            let replicas = ["a b", "c"].map(|words| replica(&bucket, &rng, words, 0.4));
            let deleting = async {
                for _ in 0..rng.below(200) {
                    tokio::task::yield_now().await;
                }
                delete(&bucket).await;
            };
            tokio::join!(futures::future::join_all(replicas), deleting);
            // Whoever finds the mark removes what is there.
            bucket.consolidate().await;
            let look = bucket.look().await;
            if look.tombstone {
                assert!(look.keys().is_empty(), "{context}: {:?}", look.keys());
            } else {
                // The delete found nothing: all archives were about to be put.
                assert!(look.whole().contains_all(&set("c")), "{context}");
            }
        }
    }
}

async fn replica(bucket: &Bucket, rng: &Rng, words: &str, deaths: f64) {
    let death = rng.chance(deaths).then(|| Death {
        request: 1 + rng.below(30),
        after_effect: rng.chance(0.5),
    });
    let troubled = Troubled::new(bucket.raw.clone(), Some(rng.clone()), death);
    let lake = patient_lake("main", Arc::new(troubled.clone()), bucket.way);
    let (store, own) = (store(lake, bucket.way), upload(words, Codec::Zstd));
    let work = async {
        store.lake.put_new(&own.key, own.bytes).await.unwrap();
        let consolidator = bucket.consolidator();
        match consolidator.consolidate(&store, &feed(), hour()).await {
            Ok(_) | Err(Error::Restless { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    };
    tokio::select! {
        () = work => {}
        () = troubled.dead.cancelled() => {}
    }
}

#[tokio::test]
async fn a_delete_that_dies_is_finished_by_whoever_consolidates() {
    for way in WAYS {
        for request in 1..12 {
            let bucket = Bucket::new(way);
            for words in ["a", "b"] {
                bucket.upload(&upload(words, Codec::Gzip)).await;
            }
            bucket.consolidate().await;
            let lake = &bucket.honest.lake;
            let plan = delete::plan(lake, &scope()).await.unwrap();
            let death = Death {
                request,
                after_effect: true,
            };
            let troubled = Troubled::new(bucket.raw.clone(), None, Some(death));
            let mortal = patient_lake("main", Arc::new(troubled.clone()), way);
            let mut done = |_: &DoomedHour| {};
            tokio::select! {
                done = delete::run(&mortal, &plan, "test", Timestamp::UNIX_EPOCH, &mut done) => {
                    done.unwrap();
                }
                () = troubled.dead.cancelled() => {}
            }
            bucket.consolidate().await;
            let look = bucket.look().await;
            let context = format!("{way:?} dead at {request}");
            assert!(look.tombstone && look.keys().is_empty(), "{context}");
        }
    }
}
