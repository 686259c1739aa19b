//! Archives that are damaged, made by others, or not what their names say.

use std::io::Write as _;
use std::sync::Arc;

use cannery_formats::Key;
use cannery_formats::feed::Codec;
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_pipeline::audit::Auditor;
use cannery_pipeline::consolidate::{Report, Step};
use cannery_pipeline::{Error, Scope};
use cannery_runtime::Clock;
use flate2::write::GzEncoder;

use crate::kit::{
    Bucket, WAYS, Way, feed, hour, in_hour, lake, path_of, patient_lake, primary, secondary, set,
    store, upload,
};
use crate::troubled::{Old, Troubled};

/// A tar as any program would make it, with these files.
fn plain_tar(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut gzip = GzEncoder::new(Vec::new(), flate2::Compression::best());
    let mut tar = tar::Builder::new(&mut gzip);
    for (name, body) in files {
        let mut header = tar::Header::new_gnu();
        header.set_size(body.len() as u64);
        header.set_mode(0o600);
        // Past the builder, which refuses names that lead out.
        header.as_gnu_mut().unwrap().name[..name.len()].copy_from_slice(name.as_bytes());
        header.set_cksum();
        tar.append(&header, *body).unwrap();
    }
    tar.finish().unwrap();
    drop(tar);
    gzip.flush().unwrap();
    gzip.finish().unwrap()
}

fn left_alone(report: &Report) -> Vec<&Key> {
    let steps = report.steps.iter().filter_map(|step| match step {
        Step::LeftAlone { key, .. } => Some(key),
        _ => None,
    });
    steps.collect()
}

#[tokio::test]
async fn what_hoard_made_is_merged() {
    for way in WAYS {
        let bucket = Bucket::new(way);
        let with_manifest = plain_tar(&[
            (".hoard_manifest.json", b"{\"FeedID\":\"f\"}"),
            ("h1", b"body of h1"),
        ]);
        // It names nothing in order, and has no manifest at all.
        let without = plain_tar(&[("h3", b"body of h3"), ("h2", b"body of h2")]);
        let foreign = in_hour("f_20261115T18Z_abcdefghij23_6.tar.gz");
        bucket.put(&foreign, &with_manifest).await;
        let foreign = in_hour("f_20261115T18Z_abcdefghij24.tar.gz");
        bucket.put(&foreign, &without).await;
        bucket.upload(&upload("a", Codec::Zstd)).await;
        bucket.consolidate().await;
        let whole = set("a h1 h2 h3");
        bucket.assert_one(&whole, &format!("{way:?}")).await;
    }
}

#[tokio::test]
async fn a_foreign_archive_with_the_same_content_gives_way_to_the_smaller_key() {
    let bucket = Bucket::new(Way::Hashed);
    let foreign = in_hour("f_20261115T18Z_222222222222.tar.gz");
    bucket
        .put(&foreign, &plain_tar(&[("a", b"body of a")]))
        .await;
    let ours = upload("a", Codec::Gzip);
    bucket.upload(&ours).await;
    bucket.consolidate().await;
    let smaller = std::cmp::min(&foreign, &ours.key).clone();
    assert_eq!(bucket.look().await.keys(), [&smaller]);
}

#[tokio::test]
async fn an_entry_that_nobody_can_parse_is_carried_over() {
    for way in WAYS {
        let bucket = Bucket::new(way);
        let strange = "odd..name~ .coverage/r-x.json:not_json";
        bucket.upload(&upload(strange, Codec::Gzip)).await;
        bucket.upload(&upload("a", Codec::Gzip)).await;
        bucket.consolidate().await;
        let whole = set(strange).union(&set("a"));
        bucket.assert_one(&whole, &format!("{way:?}")).await;
    }
}

/// Ways to damage an archive, named for what is wrong.
fn damaged() -> Vec<(&'static str, Vec<u8>)> {
    let whole = upload("x y z", Codec::Gzip).bytes;
    let half = whole[..whole.len() / 2].to_vec();
    let mut flipped = whole.clone();
    let middle = flipped.len() / 2;
    flipped[middle] ^= 0x10;
    let mut twice = whole.clone();
    twice.extend_from_slice(&whole);
    vec![
        ("truncated", half),
        ("bit-flipped", flipped),
        ("twice-over", twice),
        ("empty", Vec::new()),
        ("not-an-archive", b"<html>503</html>".to_vec()),
        ("of-another-set", upload("other", Codec::Gzip).bytes),
        ("leads-out", plain_tar(&[("../../etc/passwd", b"x")])),
    ]
}

#[tokio::test]
async fn a_damaged_archive_is_left_alone_and_the_others_are_merged() {
    for way in WAYS {
        for (what, bytes) in damaged() {
            let context = format!("{way:?}: {what}");
            let bucket = Bucket::new(way);
            let key = secondary(&set("x y z"), Codec::Gzip);
            bucket.put(&key, &bytes).await;
            bucket.upload(&upload("a", Codec::Gzip)).await;
            bucket.upload(&upload("b", Codec::Zstd)).await;
            let report = bucket.consolidate().await;
            assert_eq!(left_alone(&report), [&key], "{context}");
            let kept = bucket.honest.lake.get(&key, 1 << 20).await.unwrap();
            assert_eq!(kept.bytes, bytes, "{context}");
            let others = bucket.folder().await.archives().len() - 1;
            let expected = if way == Way::Projected { 2 } else { 1 };
            assert_eq!(others, expected, "{context}");
            assert!(bucket.look().await.whole().contains_all(&set("a b")));
        }
    }
}

#[tokio::test]
async fn a_name_that_damage_has_taken_does_not_stop_the_merge() {
    let bucket = Bucket::new(Way::Hashed);
    let taken = secondary(&set("a b"), Codec::Gzip);
    bucket.put(&taken, b"not an archive").await;
    bucket.upload(&upload("a", Codec::Gzip)).await;
    bucket.upload(&upload("b", Codec::Gzip)).await;
    let report = bucket.consolidate().await;
    assert_eq!(left_alone(&report), [&taken]);
    let look = bucket.look().await;
    assert_eq!(look.keys(), [&secondary(&set("a b"), Codec::Zstd)]);
    assert_eq!(look.other, [taken]);
}

#[tokio::test]
async fn under_a_damaged_primary_everything_else_stays_in_one_archive() {
    for way in [Way::Swapped, Way::Projected] {
        let bucket = Bucket::new(way);
        bucket.put(&primary(), b"not an archive").await;
        bucket.upload(&upload("a", Codec::Gzip)).await;
        bucket.upload(&upload("b", Codec::Gzip)).await;
        let report = bucket.consolidate().await;
        assert_eq!(left_alone(&report), [&primary()], "{way:?}");
        let look = bucket.look().await;
        assert_eq!(look.keys(), [&secondary(&set("a b"), Codec::Gzip)]);
        assert_eq!(look.other, [primary()]);
        assert!(!bucket.consolidate().await.is_change(), "{way:?}");
    }
}

#[tokio::test]
async fn unknown_names_are_not_touched() {
    for way in WAYS {
        let bucket = Bucket::new(way);
        let unknown = [
            "notes.txt",
            "f_20261115T19Z.tar.gz",
            "below/f_20261115T18Z.tar.gz",
        ];
        for name in unknown {
            bucket.put(&in_hour(name), b"mine").await;
        }
        bucket.upload(&upload("a", Codec::Gzip)).await;
        bucket.upload(&upload("b", Codec::Gzip)).await;
        bucket.consolidate().await;
        assert_eq!(bucket.look().await.other.len(), unknown.len(), "{way:?}");
    }
}

/// A large object cannot be replaced: what the primary lacks stays in one archive beside it.
#[tokio::test]
async fn a_primary_that_cannot_be_replaced_loses_nothing() {
    let bucket = Bucket::new(Way::Swapped);
    let small = bucket.consolidator().swap_bytes_max(10);
    let consolidate = async || {
        let feed = feed();
        let report = small.consolidate(&bucket.honest, &feed, hour());
        report.await.unwrap()
    };
    bucket.upload(&upload("a b", Codec::Gzip)).await;
    consolidate().await;
    assert_eq!(bucket.look().await.keys(), [&primary()]);
    for words in ["c", "d", "a", "b"] {
        bucket.upload(&upload(words, Codec::Gzip)).await;
    }
    let report = consolidate().await;
    assert_eq!(left_alone(&report), [&primary()]);
    let look = bucket.look().await;
    let beside = secondary(&set("c d"), Codec::Gzip);
    assert_eq!(look.keys(), [&primary(), &beside]);
    assert_eq!(look.whole(), set("a b c d"));
    let again = consolidate().await;
    assert!(!again.is_change(), "{again}");
    let auditor = Auditor::new(small.clone());
    let (stores, scope) = ([bucket.honest.clone()], Scope::default());
    let found = auditor.audit(&stores, &scope, &mut |_, _| {}).await;
    assert_eq!(found.unwrap(), [], "nothing can be done about it");
    // Whoever can replace it does so.
    bucket.consolidate().await;
    bucket.assert_one(&set("a b c d"), "replaced").await;
}

/// A store that says yes and keeps something else: that is found by reading, before anything is deleted.
#[tokio::test]
async fn nothing_is_deleted_when_what_was_put_does_not_read_back() {
    for way in WAYS {
        for first in ["", "z"] {
            let bucket = Bucket::new(way);
            for words in [first, "a", "b"] {
                bucket.upload(&upload(words, Codec::Gzip)).await;
                if words == "z" {
                    bucket.consolidate().await;
                }
            }
            let before = bucket.look().await;
            let mut liar = Troubled::new(bucket.raw.clone(), None, None);
            liar.forgets = true;
            let liar = store(patient_lake("main", Arc::new(liar), way), way);
            let (consolidator, feed) = (bucket.consolidator(), feed());
            let error = consolidator.consolidate(&liar, &feed, hour()).await;
            let error = error.unwrap_err();
            assert!(matches!(error, Error::ReadBack { .. }), "{way:?}: {error}");
            let after = bucket.look().await;
            for (key, _) in before.archives {
                let kept = after.keys().contains(&&key) || key == primary();
                assert!(kept, "{way:?}: {key} was deleted");
            }
        }
    }
}

#[tokio::test]
async fn an_hour_that_never_stands_still_is_an_error_with_everything_there() {
    // Every compare-and-swap is told that somebody else was first, though it was done.
    let bucket = Bucket::new(Way::Swapped);
    bucket.upload(&upload("a", Codec::Gzip)).await;
    bucket.consolidate().await;
    bucket.upload(&upload("b", Codec::Gzip)).await;
    let faults = Faults::none();
    faults.next(Request::Put, Fault::PreconditionFailed, u32::MAX);
    let faulty = FaultStore::new(bucket.raw.clone(), faults, Clock::real());
    let faulty = store(lake("main", Arc::new(faulty), Way::Swapped), Way::Swapped);
    let consolidator = bucket.consolidator();
    let error = consolidator.consolidate(&faulty, &feed(), hour()).await;
    let error = error.unwrap_err();
    assert!(
        matches!(error, Error::Restless { .. } | Error::Lake(_)),
        "{error}"
    );
    assert_eq!(bucket.look().await.whole(), set("a b"));
}

/// A store that answers every read of the primary with a version of before.
async fn replaying(bucket: &Bucket, old: &Arc<Old>) -> Result<Report, Error> {
    let mut troubled = Troubled::new(bucket.raw.clone(), None, None);
    troubled.replays = Some(Arc::clone(old));
    let lake = patient_lake("main", Arc::new(troubled), bucket.way);
    let store = store(lake, bucket.way);
    let (consolidator, feed) = (bucket.consolidator(), feed());
    consolidator.consolidate(&store, &feed, hour()).await
}

#[tokio::test]
async fn an_old_version_of_the_primary_that_is_replayed_lets_nothing_be_lost() {
    for way in [Way::Swapped, Way::Projected] {
        for late in ["c", "b", "a", "a b", "b c"] {
            let context = format!("{way:?}: {late}");
            let bucket = Bucket::new(way);
            bucket.upload(&upload("a", Codec::Gzip)).await;
            bucket.consolidate().await;
            let old = Arc::new(Old::of(&*bucket.raw, &path_of(&primary())).await);
            bucket.upload(&upload("b", Codec::Gzip)).await;
            bucket.consolidate().await;
            bucket.upload(&upload(late, Codec::Zstd)).await;
            let whole = set("a b").union(&set(late));
            let kept = secondary(&set(late), Codec::Zstd);
            let outcome = replaying(&bucket, &old).await;
            let look = bucket.look().await;
            assert_eq!(look.whole(), whole, "{context}");
            if way == Way::Swapped && late != "a" {
                // What the old version lacks cannot be proven to be in the primary: the secondary stays.
                outcome.unwrap_err();
                assert!(look.keys().contains(&&kept), "{context}: {:?}", look.keys());
            }
            // Once the store tells the truth again, the hour becomes one.
            bucket.consolidate().await;
            bucket.assert_one(&whole, &context).await;
        }
    }
}

/// The swap is done, and the read-back shows what was there before: nothing proves that it was done.
#[tokio::test]
async fn a_read_back_that_shows_the_version_of_before_lets_nothing_be_deleted() {
    let bucket = Bucket::new(Way::Swapped);
    bucket.upload(&upload("a", Codec::Gzip)).await;
    bucket.consolidate().await;
    let old = Arc::new(Old::of(&*bucket.raw, &path_of(&primary())).await);
    let late = upload("b", Codec::Gzip);
    bucket.upload(&late).await;
    replaying(&bucket, &old).await.unwrap_err();
    let look = bucket.look().await;
    assert_eq!(look.keys(), [&primary(), &late.key]);
    assert_eq!(look.whole(), set("a b"));
}
