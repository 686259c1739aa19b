//! A replica that dies at every request in turn, before and after its effect. Whoever comes next finishes the work.

use std::sync::Arc;

use cannery_formats::feed::Codec;

use crate::kit::{Bucket, Upload, WAYS, Way, feed, hour, patient_lake, set, store, upload};
use crate::troubled::{Death, Troubled};

fn uploads() -> Vec<Upload> {
    vec![
        upload("a b", Codec::Gzip),
        upload("b c", Codec::Zstd),
        upload("d", Codec::Gzip),
    ]
}

/// Runs one consolidator that may die; says how many requests it made and whether it ended.
async fn live(bucket: &Bucket, death: Option<Death>) -> (u64, bool) {
    let troubled = Troubled::new(bucket.raw.clone(), None, death);
    let mortal = store(
        patient_lake("main", Arc::new(troubled.clone()), bucket.way),
        bucket.way,
    );
    let consolidator = bucket.consolidator();
    let feed = feed();
    let ended = tokio::select! {
        done = consolidator.consolidate(&mortal, &feed, hour()) => {
            done.unwrap();
            true
        }
        () = troubled.dead.cancelled() => false,
    };
    (troubled.requests(), ended)
}

async fn die_everywhere(way: Way, before: impl AsyncFn(&Bucket), whole: &str) {
    for after_effect in [false, true] {
        let mut request = 1;
        loop {
            let context = format!("{way:?}, dead at request {request}, after: {after_effect}");
            let bucket = Bucket::new(way);
            before(&bucket).await;
            let death = Death {
                request,
                after_effect,
            };
            let (_, ended) = live(&bucket, Some(death)).await;
            let left = bucket.look().await.counted(way);
            assert_eq!(left, set(whole), "{context}: something is lost");
            let (_, finished) = live(&bucket, None).await;
            assert!(finished);
            bucket.assert_one(&set(whole), &context).await;
            if ended {
                assert!(request > 10, "{context}: too few requests to mean anything");
                break;
            }
            request += 1;
        }
    }
}

#[tokio::test]
async fn a_death_at_any_request_loses_nothing_and_is_mended_by_the_next() {
    for way in WAYS {
        let before = async |bucket: &Bucket| {
            for upload in uploads() {
                bucket.upload(&upload).await;
            }
        };
        die_everywhere(way, before, "a b c d").await;
    }
}

#[tokio::test]
async fn so_does_a_death_while_a_late_archive_is_merged() {
    for way in WAYS {
        let before = async |bucket: &Bucket| {
            for upload in uploads() {
                bucket.upload(&upload).await;
            }
            bucket.consolidate().await;
            bucket.upload(&upload("e", Codec::Gzip)).await;
            bucket.upload(&upload("a b", Codec::Gzip)).await;
        };
        die_everywhere(way, before, "a b c d e").await;
    }
}

#[tokio::test]
async fn nothing_of_a_dead_visit_stays_in_the_scratch_folder() {
    let bucket = Bucket::new(Way::Hashed);
    for upload in uploads() {
        bucket.upload(&upload).await;
    }
    let death = Death {
        request: 9,
        after_effect: true,
    };
    let (_, ended) = live(&bucket, Some(death)).await;
    assert!(!ended);
    let left = std::fs::read_dir(bucket.scratch.path()).unwrap().count();
    assert_eq!(left, 0, "a dropped visit removes its files");
}
