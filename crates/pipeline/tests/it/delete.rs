//! Hours that are deleted stay deleted, whoever comes late.

use std::collections::BTreeSet;
use std::sync::Arc;

use cannery_formats::Key;
use cannery_formats::feed::{Codec, FeedId, Hour};
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
    assert!(text.ends_with("; 1 unknown object stays"), "{text}");
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

/// Three hours, of which only the second has an archive.
fn three_hours() -> Scope {
    Scope {
        feeds: None,
        from: Some("20261115T17Z".parse().unwrap()),
        to: Some("20261115T20Z".parse().unwrap()),
    }
}

fn later() -> Timestamp {
    "2026-11-16T00:00:00Z".parse().unwrap()
}

async fn planned(bucket: &Bucket, known: &[&str]) -> delete::Plan {
    let known: BTreeSet<FeedId> = known.iter().map(|id| FeedId::new(*id).unwrap()).collect();
    let lake = &bucket.honest.lake;
    let scope = three_hours();
    let plan = delete::plan_with_empty_hours(lake, &scope, &known, later());
    plan.await.unwrap()
}

async fn marks(bucket: &Bucket) -> Vec<(String, Hour)> {
    let entries = bucket.honest.lake.list_all(None).await.unwrap();
    let objects = entries
        .iter()
        .filter_map(|entry| entry.key.as_feed_object());
    let marks =
        objects.filter(|(feed, hour, name)| Key::feed_tombstone(feed, *hour).file_name() == *name);
    marks
        .map(|(feed, hour, _)| (feed.to_string(), hour))
        .collect()
}

#[tokio::test]
async fn an_hour_that_was_empty_when_it_was_deleted_stays_empty_whoever_comes_late() {
    for way in WAYS {
        let bucket = Bucket::new(way);
        let before = Key::new("f/2026/11/15/17/notes.txt").unwrap();
        bucket.put(&before, b"of the feed, but no archive").await;
        let plan = planned(&bucket, &["g"]).await;
        let texts: Vec<_> = plan.empty.iter().map(ToString::to_string).collect();
        assert_eq!(
            texts,
            [
                "f 20261115T17Z to 20261115T20Z in `main`: 3 hours without an archive",
                "g 20261115T17Z to 20261115T20Z in `main`: 3 hours without an archive",
            ]
        );
        assert_eq!((plan.objects(), plan.empty_hours()), (0, 6));
        assert_eq!(marks(&bucket).await, [], "a plan changes nothing");
        let lake = &bucket.honest.lake;
        delete::run(lake, &plan, "test", later(), &mut |hour| panic!("{hour}"))
            .await
            .unwrap();
        assert_eq!(marks(&bucket).await.len(), 6);
        // The hour of the middle, from a replica that was away.
        bucket.upload(&upload("a", Codec::Gzip)).await;
        bucket.consolidate().await;
        assert!(bucket.look().await.keys().is_empty(), "{way:?}");
        // What is marked is not planned again, and can be lifted.
        assert_eq!(planned(&bucket, &["g"]).await, delete::Plan::default());
        let lifted = delete::lift(lake, &three_hours()).await.unwrap();
        assert_eq!(lifted.len(), 6);
    }
}

#[tokio::test]
async fn an_archive_that_comes_between_the_plan_and_the_mark_goes_and_is_told_of() {
    let bucket = Bucket::new(crate::kit::Way::Hashed);
    let plan = planned(&bucket, &["f"]).await;
    assert_eq!((plan.objects(), plan.empty_hours()), (0, 3));
    bucket.upload(&upload("a", Codec::Gzip)).await;
    let mut gone = Vec::new();
    let mut done = |hour: &DoomedHour| gone.push((hour.hour, hour.archives.len()));
    delete::run(&bucket.honest.lake, &plan, "test", later(), &mut done)
        .await
        .unwrap();
    assert_eq!(gone, [(hour(), 1)]);
    assert!(bucket.look().await.keys().is_empty());
}

#[tokio::test]
async fn a_delete_that_dies_among_the_marks_is_finished_by_the_next() {
    for request in 1..12 {
        let bucket = Bucket::new(crate::kit::Way::Hashed);
        bucket.upload(&upload("a", Codec::Gzip)).await;
        let plan = planned(&bucket, &[]).await;
        assert_eq!((plan.objects(), plan.empty_hours()), (1, 2));
        let death = Death {
            request,
            after_effect: request % 2 == 0,
        };
        let troubled = Troubled::new(bucket.raw.clone(), None, Some(death));
        let mortal = patient_lake("main", Arc::new(troubled.clone()), bucket.way);
        let mut unheard = |_: &DoomedHour| {};
        tokio::select! {
            done = delete::run(&mortal, &plan, "test", later(), &mut unheard) => done.unwrap(),
            () = troubled.dead.cancelled() => {}
        }
        let rest = planned(&bucket, &["f"]).await;
        let lake = &bucket.honest.lake;
        delete::run(lake, &rest, "test", later(), &mut |_| {})
            .await
            .unwrap();
        assert_eq!(marks(&bucket).await.len(), 3, "dead at {request}");
        assert!(bucket.look().await.keys().is_empty(), "dead at {request}");
    }
}
