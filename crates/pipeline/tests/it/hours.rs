//! What becomes of an hour when nothing goes wrong.

use std::sync::Arc;

use cannery_formats::Key;
use cannery_formats::feed::Codec;
use cannery_lake::{DiskStore, Honours};
use cannery_pipeline::consolidate::Step;
use cannery_pipeline::{Algorithm, Error, Store, scan};
use cannery_runtime::{RealDisk, Rng};

use crate::kit::{
    Bucket, WAYS, Way, feed, hour, patient_lake, primary, secondary, set, store, upload,
};

#[tokio::test]
async fn several_archives_become_one_whatever_their_codecs() {
    for way in WAYS {
        let bucket = Bucket::new(way);
        for (words, codec) in [
            ("a b", Codec::Gzip),
            ("b c", Codec::Zstd),
            ("d", Codec::Xz),
            ("a e", Codec::Bzip2),
        ] {
            bucket.upload(&upload(words, codec)).await;
        }
        bucket.consolidate().await;
        bucket
            .assert_one(&set("a b c d e"), &format!("{way:?}"))
            .await;
        let gzip = match way {
            Way::Hashed => secondary(&set("a b c d e"), Codec::Gzip),
            Way::Swapped | Way::Projected => primary(),
        };
        let object = bucket.honest.lake.get(&gzip, 1 << 20).await.unwrap();
        assert_eq!(Codec::of_content(&object.bytes), Some(Codec::Gzip));
        assert_eq!(
            object.bytes,
            upload("a b c d e", Codec::Gzip).bytes,
            "{way:?}"
        );
        let again = bucket.consolidate().await;
        assert!(!again.is_change(), "{again}");
        assert_eq!(again.steps.last(), Some(&Step::NothingToDo));
    }
}

#[tokio::test]
async fn an_archive_that_arrives_late_is_merged() {
    for way in WAYS {
        let bucket = Bucket::new(way);
        for (words, whole) in [("a", "a"), ("b", "a b"), ("a", "a b"), ("c d", "a b c d")] {
            bucket.upload(&upload(words, Codec::Gzip)).await;
            bucket.consolidate().await;
            bucket
                .assert_one(&set(whole), &format!("{way:?} {words}"))
                .await;
        }
    }
}

#[tokio::test]
async fn the_same_name_with_other_content_is_kept_twice() {
    for way in WAYS {
        let bucket = Bucket::new(way);
        bucket.upload(&upload("x:one", Codec::Gzip)).await;
        bucket.upload(&upload("x:two", Codec::Gzip)).await;
        bucket.consolidate().await;
        let whole = bucket.look().await.whole();
        assert_eq!(whole, set("x:one x:two"), "{way:?}");
    }
}

#[tokio::test]
async fn an_hour_that_has_a_primary_stays_one_after_the_algorithm_changed() {
    for way in [Way::Swapped, Way::Projected] {
        let bucket = Bucket::new(way);
        bucket.upload(&upload("a b", Codec::Gzip)).await;
        bucket.consolidate().await;
        let changed = Store::new(bucket.honest.lake.clone(), Algorithm::Hashed);
        bucket.upload(&upload("c", Codec::Gzip)).await;
        bucket.upload(&upload("d", Codec::Gzip)).await;
        let found = scan::whole_lake(&changed, &mut |_| {}).await.unwrap();
        assert_eq!(found.unmerged, [(feed(), hour())], "{way:?}");
        let (consolidator, feed) = (bucket.consolidator(), feed());
        let report = consolidator.consolidate(&changed, &feed, hour());
        assert!(report.await.unwrap().is_change(), "{way:?}");
        bucket
            .assert_one(&set("a b c d"), &format!("{way:?}"))
            .await;
        let found = scan::whole_lake(&changed, &mut |_| {}).await.unwrap();
        assert_eq!(found.unmerged, [], "{way:?}");
    }
}

#[tokio::test]
async fn of_equal_sets_the_smallest_key_is_kept() {
    let bucket = Bucket::new(Way::Hashed);
    for codec in [Codec::Zstd, Codec::Bzip2, Codec::Gzip] {
        bucket.upload(&upload("a b", codec)).await;
    }
    bucket.consolidate().await;
    let look = bucket.look().await;
    assert_eq!(look.keys(), [&secondary(&set("a b"), Codec::Bzip2)]);
}

#[tokio::test]
async fn an_empty_hour_stays_empty() {
    for way in WAYS {
        let bucket = Bucket::new(way);
        let report = bucket.consolidate().await;
        assert!(!report.is_change(), "{report}");
        assert_eq!(bucket.look().await.keys().len(), 0);
    }
}

#[tokio::test]
async fn a_report_is_one_line_and_json() {
    let bucket = Bucket::new(Way::Hashed);
    bucket.upload(&upload("a", Codec::Gzip)).await;
    bucket.upload(&upload("b", Codec::Gzip)).await;
    let report = bucket.consolidate().await;
    let text = report.to_string();
    assert!(text.starts_with("f 20261115T18Z in `main`: found 2 archives, merged 2 archives into `f/2026/11/15/18/f_2026"), "{text}");
    assert!(!text.contains('\n'));
    let json = serde_json::to_value(&report).unwrap();
    assert_eq!(json["steps"][1]["step"], "merged");
    assert_eq!(json["steps"][1]["entries"], 2);
}

#[tokio::test]
async fn a_store_without_create_if_absent_is_refused() {
    let bucket = Bucket::new(Way::Hashed);
    bucket.upload(&upload("a", Codec::Gzip)).await;
    bucket.upload(&upload("b", Codec::Gzip)).await;
    bucket.honest.lake.set_honours(Honours {
        create: false,
        update: false,
    });
    let consolidator = bucket.consolidator();
    let refused = consolidator
        .consolidate(&bucket.honest, &feed(), hour())
        .await;
    assert!(matches!(refused, Err(Error::Refused { .. })), "{refused:?}");
    assert_eq!(bucket.look().await.keys().len(), 2);
}

#[tokio::test]
async fn a_change_of_the_algorithm_loses_nothing() {
    for before in WAYS {
        for after in WAYS {
            let mut bucket = Bucket::new(before);
            bucket.upload(&upload("a", Codec::Gzip)).await;
            bucket.upload(&upload("b", Codec::Gzip)).await;
            bucket.consolidate().await;
            let lake = crate::kit::lake("main", bucket.raw.clone(), after);
            bucket.honest = store(lake, after);
            bucket.upload(&upload("c", Codec::Gzip)).await;
            if (before, after) == (Way::Swapped, Way::Projected) {
                // Others may still swap: that they do not any more, a person has to say.
                let (consolidator, feed) = (bucket.consolidator(), feed());
                let refused = consolidator
                    .consolidate(&bucket.honest, &feed, hour())
                    .await;
                assert!(
                    matches!(refused, Err(Error::Disagreed { .. })),
                    "{refused:?}"
                );
                bucket.honest.lake.delete(&Key::primaries()).await.unwrap();
                let lake = crate::kit::lake("main", bucket.raw.clone(), after);
                bucket.honest = store(lake, after);
            }
            bucket.consolidate().await;
            let look = bucket.look().await;
            assert_eq!(look.whole(), set("a b c"), "{before:?} {after:?}");
        }
    }
}

#[tokio::test]
async fn a_lake_in_a_folder_is_consolidated_like_any_other() {
    let folder = tempfile::tempdir().unwrap();
    for way in WAYS {
        let disk = DiskStore::new(
            Arc::new(RealDisk),
            folder.path().join(format!("{way:?}")),
            Rng::from_os(),
        );
        std::fs::create_dir(folder.path().join(format!("{way:?}"))).unwrap();
        let store = store(patient_lake("main", Arc::new(disk), way), way);
        let consolidator = Bucket::new(way);
        let consolidator = consolidator.consolidator();
        for words in ["a", "b", "a c"] {
            let upload = upload(words, Codec::Zstd);
            store.lake.put_new(&upload.key, upload.bytes).await.unwrap();
            let report = consolidator.consolidate(&store, &feed(), hour()).await;
            report.unwrap();
        }
        let whole = match way {
            Way::Hashed => secondary(&set("a b c"), Codec::Gzip),
            Way::Swapped | Way::Projected => primary(),
        };
        let object = store.lake.get(&whole, 1 << 20).await.unwrap();
        assert_eq!(object.bytes, upload("a b c", Codec::Gzip).bytes, "{way:?}");
        let left = store.lake.list_all(None).await.unwrap().into_iter();
        let left = left.filter(|entry| !entry.key.is_internal()).count();
        assert_eq!(left, if way == Way::Projected { 2 } else { 1 }, "{way:?}");
    }
}
