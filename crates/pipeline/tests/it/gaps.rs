//! Coverage from archives that are merged or not, or damaged.

use cannery_formats::feed::{Codec, Coverage, CoverageSpan, Hour, Slot, SlotRun};
use cannery_pipeline::gaps::{CoverageReader, HourState, Seen, joined};
use cannery_pipeline::{Scope, Scratch, delete};
use cannery_runtime::Rng;
use jiff::Timestamp;

use crate::kit::{Bucket, WAYS, feed, hour, secondary, set, upload};

/// An archive that holds nothing but the coverage of one replica.
fn covering(replica: &str, runs: &[(Slot, u32)]) -> String {
    let runs = runs.iter().cloned();
    let span = CoverageSpan {
        offset_ms: 0,
        period_ms: 900_000,
        runs: runs.map(|(slot, count)| SlotRun { slot, count }).collect(),
    };
    let coverage = Coverage::new(feed(), hour(), replica, vec![span]);
    let (name, json) = coverage.to_member();
    format!("{name}:{}", String::from_utf8(json).unwrap().trim_end())
}

#[tokio::test]
async fn the_coverage_of_all_replicas_survives_the_merge() {
    for way in WAYS {
        let bucket = Bucket::new(way);
        let one = covering("one", &[(Slot::Stored, 1), (Slot::NotCollected, 3)]);
        let two = covering("two", &[(Slot::NotCollected, 1), (Slot::Unchanged, 2)]);
        bucket
            .upload(&upload(&format!("a {one}"), Codec::Gzip))
            .await;
        bucket
            .upload(&upload(&format!("b {two}"), Codec::Zstd))
            .await;
        let before = read(&bucket).await;
        bucket.consolidate().await;
        assert_eq!(read(&bucket).await, before, "{way:?}");
        let [known, absent] = &before[..] else {
            panic!("two hours were asked for");
        };
        assert_eq!(known.state, HourState::Known);
        let counts = [
            known.stored,
            known.unchanged,
            known.failed,
            known.not_collected,
        ];
        assert_eq!(counts, [1, 2, 0, 1]);
        assert_eq!(absent.state, HourState::Absent);
        let gaps: Vec<_> = joined(&before).iter().map(ToString::to_string).collect();
        assert_eq!(
            gaps,
            [
                "2026-11-15T18:45:00Z to 2026-11-15T20:00:00Z: 1 poll not made, no archive for 1 hour"
            ]
        );
    }
}

async fn read(bucket: &Bucket) -> Vec<cannery_pipeline::gaps::HourCoverage> {
    let scratch = Scratch::open(bucket.scratch.path(), Rng::from_os());
    let reader = CoverageReader::new(scratch.unwrap());
    let to: Hour = "20261115T20Z".parse().unwrap();
    let now = "2026-11-16T00:00:00Z".parse().unwrap();
    let mut heard = 0;
    let mut seen = |seen: Seen<'_>| heard += usize::from(matches!(seen, Seen::Hour(_)));
    let feed = feed();
    let hours = reader.hours(&bucket.honest.lake, &feed, (hour(), to), now, &mut seen);
    let hours = hours.await.unwrap();
    assert_eq!(heard, hours.len());
    hours
}

#[tokio::test]
async fn a_damaged_archive_is_named() {
    let bucket = Bucket::new(crate::kit::Way::Hashed);
    let key = secondary(&set("x"), Codec::Gzip);
    bucket.put(&key, b"damaged").await;
    let hours = read(&bucket).await;
    assert_eq!(hours[0].state, HourState::Unknown);
    assert_eq!(hours[0].unreadable, [key]);
}

#[tokio::test]
async fn an_hour_that_was_deleted_is_said_to_be() {
    let bucket = Bucket::new(crate::kit::Way::Hashed);
    bucket.upload(&upload("a", Codec::Gzip)).await;
    let lake = &bucket.honest.lake;
    let plan = delete::plan(lake, &Scope::default()).await.unwrap();
    delete::run(lake, &plan, "test", Timestamp::UNIX_EPOCH, &mut |_| {})
        .await
        .unwrap();
    let hours = read(&bucket).await;
    assert_eq!(hours[0].state, HourState::Deleted);
    let gaps: Vec<_> = joined(&hours).iter().map(ToString::to_string).collect();
    assert_eq!(
        gaps,
        [
            "2026-11-15T18:00:00Z to 2026-11-15T19:00:00Z: 1 hour deleted on purpose",
            "2026-11-15T19:00:00Z to 2026-11-15T20:00:00Z: no archive for 1 hour"
        ]
    );
}
