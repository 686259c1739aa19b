//! Hours that nobody merged, hours that change meanwhile, and hours that are not there.

use std::sync::Arc;

use cannery_formats::Key;
use cannery_formats::feed::{BodyHash, Codec, Coverage, CoverageSpan, Slot, SlotRun};
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_lake::{DiskStore, ErrorKind};
use cannery_runtime::{Clock, RealDisk, Rng};
use futures::FutureExt as _;

use super::paged::Paged;
use super::support::{
    Bench, Body, body, download, feed, foreign, foreign_key, hour, lake_over, packed, primary,
    secondary, tree,
};
use crate::retrieve::{Error, HourOf, Outcome, RetrieveOptions, plan, run};

const FOLDER: &str = "a/2026/11/15/18/";

fn bodies() -> Vec<Body> {
    let minutes = 0..6;
    let body = |minute| download("a", 18, minute, &format!("body {minute}"));
    minutes.map(body).collect()
}

/// A primary, two codecs, and an archive of Hoard's, out of order, which overlap.
async fn unmerged(bench: &Bench, bodies: &[Body]) {
    let at = hour(18);
    let first = packed("a", at, &bodies[..2], Codec::Gzip);
    bench.put(&primary("a", at), first).await;
    for (part, codec) in [(&bodies[1..3], Codec::Zstd), (&bodies[2..4], Codec::Xz)] {
        let key = secondary("a", at, part, codec);
        bench.put(&key, packed("a", at, part, codec)).await;
    }
    let mut part = bodies[3..].to_vec();
    part.reverse();
    let key = foreign_key("a", at, "abcdefghij23");
    bench.put(&key, foreign(&part)).await;
}

#[tokio::test]
async fn archives_of_an_hour_are_united_on_the_fly() {
    let bench = Bench::new();
    let bodies = bodies();
    unmerged(&bench, &bodies).await;
    let retrieved = bench.retrieve(&bench.options()).await.unwrap();
    assert_eq!(bench.tree(), tree(bodies.iter().map(|body| (FOLDER, body))));
    assert_eq!((retrieved.hours, retrieved.files), (1, 6));
    assert_eq!((retrieved.present, retrieved.duplicates), (0, 0));
    let left = std::fs::read_dir(bench.scratch.path()).unwrap().count();
    assert_eq!(left, 0, "the scratch folder is empty again");
}

#[tokio::test]
async fn or_all_of_them_are_there_as_they_are() {
    let bench = Bench::new();
    unmerged(&bench, &bodies()).await;
    let options = RetrieveOptions {
        no_extract: true,
        ..bench.options()
    };
    let retrieved = bench.retrieve(&options).await.unwrap();
    assert_eq!((retrieved.hours, retrieved.files), (1, 4));
    for name in bench.tree().keys() {
        let key = Key::new(name.as_str()).unwrap();
        let object = bench.lake.get(&key, 1 << 20).await.unwrap();
        let file = std::fs::read(bench.target().join(name)).unwrap();
        assert!(file == object.bytes, "{name}");
    }
    let again = bench.retrieve(&options).await.unwrap();
    assert_eq!((again.files, again.present), (0, 4));
}

#[tokio::test]
async fn names_that_are_there_twice_are_both_kept() {
    let bench = Bench::new();
    let (one, two) = (body("sub/x", "111"), body("sub/x", "222"));
    bench.upload("a", 18, &[one.clone(), two.clone()]).await;
    bench.upload("a", 19, &[one, two]).await;
    bench
        .upload("b", 18, &[body("sub/x", "333"), body("sub", "4")])
        .await;
    let options = RetrieveOptions {
        collapse_feeds: true,
        collapse_time: true,
        ..bench.options()
    };
    let retrieved = bench.retrieve(&options).await.unwrap();
    let contents: Vec<_> = bench.tree().into_values().collect();
    assert_eq!(contents.len(), 4, "{:?}", bench.tree());
    for content in ["111", "222", "333", "4"] {
        assert!(contents.iter().any(|found| found == content), "{content}");
    }
    let renamed: Vec<_> = retrieved.renamed.iter().map(ToString::to_string).collect();
    assert_eq!(retrieved.renamed_count, 4, "{renamed:?}");
    for found in &retrieved.renamed {
        assert!(bench.target().join(&found.path).is_file(), "{found}");
    }
    assert_eq!((retrieved.files, retrieved.present), (4, 2));
    let tree = bench.tree();
    let again = bench.retrieve(&options).await.unwrap();
    assert_eq!((again.files, again.present), (0, 6));
    assert_eq!(
        again.renamed, retrieved.renamed,
        "it is the same every time"
    );
    assert_eq!(bench.tree(), tree);
}

#[tokio::test]
async fn twins_of_one_length_get_each_their_own_content() {
    let bench = Bench::new();
    let twins: Vec<Body> = (0..9)
        .map(|n| body("twin", &format!("content {n}")))
        .collect();
    let key = foreign_key("a", hour(18), "abcdefghij23");
    bench.put(&key, foreign(&twins)).await;
    bench.retrieve(&bench.options()).await.unwrap();
    let tree = bench.tree();
    assert_eq!(tree.len(), 9);
    for (name, content) in tree {
        if let Some((_, hash)) = name.split_once(".~") {
            let digest = cannery_formats::Digest::of(content.as_bytes());
            assert_eq!(hash, BodyHash::of(&digest).to_string());
        }
    }
}

#[tokio::test]
async fn coverage_is_only_there_when_asked_for() {
    let run = SlotRun {
        slot: Slot::Stored,
        count: 1,
    };
    let span = CoverageSpan {
        offset_ms: 0,
        period_ms: 3_600_000,
        runs: vec![run],
    };
    let coverage = Coverage::new(feed("a"), hour(18), "lga", vec![span]).to_member();
    let bodies = [download("a", 18, 1, "one"), coverage];
    let bench = Bench::new();
    // An hour in which every poll failed.
    bench.upload("a", 18, &bodies[1..]).await;
    let nothing = bench.retrieve(&bench.options()).await.unwrap();
    assert_eq!(nothing.outcome(), Outcome::Nothing);
    let with_coverage = RetrieveOptions {
        with_coverage: true,
        ..bench.options()
    };
    let told = bench.retrieve(&with_coverage).await.unwrap();
    assert_eq!(told.outcome(), Outcome::Whole);

    let bench = Bench::new();
    bench.upload("a", 18, &bodies).await;
    bench.retrieve(&bench.options()).await.unwrap();
    assert_eq!(bench.tree(), tree([(FOLDER, &bodies[0])]));
    let options = RetrieveOptions {
        with_coverage: true,
        dedupe: true,
        ..bench.options()
    };
    bench.retrieve(&options).await.unwrap();
    assert_eq!(bench.tree(), tree(bodies.iter().map(|body| (FOLDER, body))));
}

#[tokio::test]
async fn of_repeated_bodies_the_first_by_time_stays() {
    let bench = Bench::new();
    for of_day in [3, 1, 2] {
        let bodies = [
            download("a", of_day, 1, "always"),
            download("a", of_day, 2, &format!("only {of_day}")),
            download("a", of_day, 3, "always"),
        ];
        bench.upload("a", of_day, &bodies).await;
    }
    let options = RetrieveOptions {
        dedupe: true,
        collapse_time: true,
        ..bench.options()
    };
    let retrieved = bench.retrieve(&options).await.unwrap();
    assert_eq!((retrieved.files, retrieved.duplicates), (4, 5));
    let expected = [
        download("a", 1, 1, "always"),
        download("a", 1, 2, "only 1"),
        download("a", 2, 2, "only 2"),
        download("a", 3, 2, "only 3"),
    ];
    assert_eq!(bench.tree(), tree(expected.iter().map(|body| ("a/", body))));
}

#[tokio::test]
async fn a_deleted_hour_is_passed_over_and_said() {
    let bench = Bench::new();
    bench.upload("a", 18, &bodies()).await;
    bench.upload("a", 19, &[download("a", 19, 0, "kept")]).await;
    bench
        .put(&Key::feed_tombstone(&feed("a"), hour(18)), "{}")
        .await;
    let retrieved = bench.retrieve(&bench.options()).await.unwrap();
    let deleted = [HourOf {
        feed: feed("a"),
        hour: hour(18),
    }];
    assert_eq!(retrieved.deleted, deleted);
    assert_eq!(retrieved.outcome(), Outcome::Whole);
    let kept = download("a", 19, 0, "kept");
    assert_eq!(bench.tree(), tree([("a/2026/11/15/19/", &kept)]));
}

#[tokio::test]
async fn an_hour_that_is_merged_meanwhile_is_read_again() {
    let bench = Bench::new();
    let bodies = bodies();
    let parts = [&bodies[..3], &bodies[3..]];
    let mut keys = Vec::new();
    for part in parts {
        keys.push(bench.upload("a", 18, part).await);
    }
    let plan = plan(&bench.lake, &bench.options()).await.unwrap();
    bench.upload("a", 18, &bodies).await;
    bench.lake.delete(&keys[0]).await.unwrap();
    bench.lake.delete(&keys[1]).await.unwrap();
    let retrieved = run(&bench.lake, &plan, &bench.workplace, &())
        .await
        .unwrap();
    assert_eq!((retrieved.hours, retrieved.files), (1, 6));
    assert_eq!(bench.tree(), tree(bodies.iter().map(|body| (FOLDER, body))));
}

/// Three bodies, of which the archive of the last two sorts before that of the first, and the first before those of the others.
fn bodies_for_two_pages() -> [Body; 3] {
    let key = |bodies: &[Body]| secondary("a", hour(18), bodies, Codec::Gzip);
    let fits = |bodies: &[Body; 3]| {
        let [first, two, three] = bodies
            .each_ref()
            .map(|body| key(std::slice::from_ref(body)));
        key(&bodies[1..]) < first && first < two && first < three
    };
    let some = |turn| [1, 2, 3].map(|n| download("a", 18, n, &format!("{turn} {n}")));
    (0..).map(some).find(fits).unwrap()
}

#[tokio::test]
async fn what_is_merged_between_two_pages_of_a_listing_is_not_missed() {
    let bodies = bodies_for_two_pages();
    for no_extract in [false, true] {
        let bench = Bench::new();
        let mut keys = Vec::new();
        for body in &bodies {
            keys.push(bench.upload("a", 18, std::slice::from_ref(body)).await);
        }
        let (lake, last_two) = (bench.lake.clone(), bodies[1..].to_vec());
        // A replica that knows only the last two archives unites them.
        let merge = async move {
            let at = hour(18);
            let united = secondary("a", at, &last_two, Codec::Gzip);
            let content = packed("a", at, &last_two, Codec::Gzip);
            lake.put_new(&united, content).await.unwrap();
            lake.delete(&keys[1]).await.unwrap();
            lake.delete(&keys[2]).await.unwrap();
        };
        let paged = Paged::new(bench.raw.clone(), merge.boxed());
        let lake = lake_over(Arc::new(paged));
        let options = RetrieveOptions {
            no_extract,
            ..bench.options()
        };
        let plan = plan(&lake, &options).await.unwrap();
        assert_eq!(plan.archives(), 1, "neither the two nor what has them");
        let retrieved = run(&lake, &plan, &bench.workplace, &()).await.unwrap();
        assert_eq!(retrieved.outcome(), Outcome::Whole);
        if no_extract {
            assert_eq!(retrieved.files, 2);
        } else {
            assert_eq!(bench.tree(), tree(bodies.iter().map(|body| (FOLDER, body))));
        }
    }
}

#[tokio::test]
async fn an_hour_that_is_deleted_meanwhile_is_said() {
    let bench = Bench::new();
    let key = bench.upload("a", 18, &bodies()).await;
    let plan = plan(&bench.lake, &bench.options()).await.unwrap();
    bench
        .put(&Key::feed_tombstone(&feed("a"), hour(18)), "{}")
        .await;
    bench.lake.delete(&key).await.unwrap();
    let retrieved = run(&bench.lake, &plan, &bench.workplace, &())
        .await
        .unwrap();
    assert_eq!(retrieved.deleted.len(), 1);
    assert_eq!(retrieved.outcome(), Outcome::Nothing);
}

#[tokio::test]
async fn nothing_found_is_said_and_leaves_no_trace() {
    let bench = Bench::new();
    bench
        .put(&Key::new("a/2026/11/15/18/notes.txt").unwrap(), "x")
        .await;
    bench
        .put(&Key::new("a/2026/11/14/18/notes.txt").unwrap(), "x")
        .await;
    let retrieved = bench.retrieve(&bench.options()).await.unwrap();
    assert_eq!(retrieved.outcome(), Outcome::Nothing);
    assert!(!bench.target().exists());
}

#[tokio::test]
async fn a_listing_that_fails_is_never_nothing_found() {
    let bench = Bench::new();
    bench.upload("a", 18, &bodies()).await;
    for fault in [Fault::ErrorBefore, Fault::ListEndsAfter(0)] {
        for feeds in [None, Some(vec![feed("a")])] {
            let faults = Faults::none();
            faults.next(Request::List, fault, u32::MAX);
            let faulty = FaultStore::new(bench.raw.clone(), faults, Clock::real());
            let lake = lake_over(Arc::new(faulty));
            let options = RetrieveOptions {
                feeds,
                ..bench.options()
            };
            let failed = plan(&lake, &options).await;
            assert!(
                matches!(failed, Err(Error::Stage(_))),
                "{fault:?}: {failed:?}"
            );
        }
    }
}

#[tokio::test]
async fn a_store_that_is_not_there_is_never_nothing_found() {
    let bench = Bench::new();
    let missing = bench.around.path().join("missing");
    let store = DiskStore::new(Arc::new(RealDisk), missing, Rng::seeded(1));
    let lake = lake_over(Arc::new(store));
    for feeds in [None, Some(vec![feed("a")])] {
        let options = RetrieveOptions {
            feeds,
            ..bench.options()
        };
        match plan(&lake, &options).await {
            Err(Error::Stage(crate::Error::Lake(error))) => {
                assert_eq!(error.kind, ErrorKind::StoreMissing);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test]
async fn a_read_that_fails_is_an_error_and_can_be_repeated() {
    let bench = Bench::new();
    let bodies = bodies();
    unmerged(&bench, &bodies).await;
    let plan = plan(&bench.lake, &bench.options()).await.unwrap();
    let faults = Faults::none();
    faults.next(Request::Get, Fault::ErrorBefore, u32::MAX);
    let faulty = FaultStore::new(bench.raw.clone(), faults, Clock::real());
    let failed = run(&lake_over(Arc::new(faulty)), &plan, &bench.workplace, &()).await;
    assert!(matches!(failed, Err(Error::Stage(_))), "{failed:?}");
    run(&bench.lake, &plan, &bench.workplace, &())
        .await
        .unwrap();
    assert_eq!(bench.tree(), tree(bodies.iter().map(|body| (FOLDER, body))));
}
