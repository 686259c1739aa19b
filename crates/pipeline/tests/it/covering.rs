//! What came of feeds and nodes stands in the catalog, is as the lake has it, and is the same in a catalog that is made anew.

use std::time::Duration;

use cannery_catalog::{Catalog, CoverageFilter, CoverageState};
use cannery_formats::Key;
use cannery_formats::feed::{Codec, Coverage, CoverageSpan, Slot, SlotRun};
use cannery_lake::Lake;
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_pipeline::line::{Backfill, Ended};
use cannery_pipeline::stage::Stage;
use cannery_runtime::Clock;

use crate::can_kit::{Works, lake_on};
use crate::catching_up::discoverer;
use crate::kit::{feed, hour, upload};
use crate::line::fill;
use crate::line_kit::Mill;
use crate::rebuilding::{is_equal, somewhere};
use crate::sweeping::few;

const HOUR: Duration = Duration::from_secs(3_600);
const KEY: &str = "cover/2026-11-15/feed-f/18";

type Shown = (String, String, u64, u64, u64, CoverageState);

async fn rows(catalog: &Catalog) -> Vec<Shown> {
    let all = CoverageFilter::default();
    let rows = catalog.coverage(&all, 1_000).await.unwrap().into_iter();
    rows.map(|row| {
        let Row { name, hour, .. } = &row;
        (
            name.clone(),
            hour.clone(),
            row.expected,
            row.present,
            row.bytes,
            row.state,
        )
    })
    .collect()
}

type Row = cannery_catalog::Coverage;

fn of_feed(expected: u64, present: u64, bytes: u64, state: CoverageState) -> Shown {
    let (name, hour) = ("f".to_owned(), "2026-11-15T18".to_owned());
    (name, hour, expected, present, bytes, state)
}

/// What one replica says of the four polls of the hour.
fn saying(replica: &str, slots: [Slot; 4]) -> String {
    let runs = slots.map(|slot| SlotRun { slot, count: 1 });
    let span = CoverageSpan {
        offset_ms: 0,
        period_ms: 900_000,
        runs: runs.to_vec(),
    };
    let (name, json) = Coverage::new(feed(), hour(), replica, vec![span]).to_member();
    format!("{name}:{}", String::from_utf8(json).unwrap().trim_end())
}

async fn put(lake: &Lake, words: &str) -> Key {
    let archive = upload(words, Codec::Gzip);
    lake.put_new(&archive.key, archive.bytes).await.unwrap();
    archive.key
}

async fn work(mill: &Mill) {
    mill.discover().await;
    mill.work(mill.line().await, HOUR).await;
    assert_eq!(mill.dead().await.len(), 0);
}

#[tokio::test]
async fn of_a_bundle_and_an_hour() {
    let mill = Mill::new(Works::in_memory()).await;
    fill(&mill.works, &few()).await;
    work(&mill).await;
    let rows = rows(&mill.catalog).await;
    let [of_hour, of_node] = &rows[..] else {
        panic!("{rows:?}");
    };
    assert_eq!(*of_hour, of_feed(3, 3, 28, CoverageState::Unknown));
    let (node, at, expected, present, bytes, state) = of_node;
    assert_eq!(
        (node.as_str(), at.as_str()),
        ("mlab1-lga01", "2016-12-31T18")
    );
    assert_eq!((*expected, *present, *state), (1, 1, CoverageState::Known));
    assert!(*bytes > 1_000, "{bytes}");
    assert_eq!(mill.told.of(KEY), [Ended::Done]);
    is_equal(&mill, &somewhere(&mill, "covered.db")).await;
}

#[tokio::test]
async fn of_an_hour_that_is_merged_later_and_deleted_at_last() {
    let mill = Mill::new(Works::in_memory()).await;
    let lake = &mill.works.lake;
    let failed = || Slot::Failed {
        reason: "time-out".into(),
    };
    let one = saying(
        "one",
        [Slot::Stored, failed(), failed(), Slot::NotCollected],
    );
    let first = put(lake, &format!("a {one}")).await;
    work(&mill).await;
    let known = CoverageState::Known;
    assert_eq!(rows(&mill.catalog).await, [of_feed(4, 1, 9, known)]);
    // Another replica was late; what it brings is in the archive that takes the place of the first.
    let two = saying(
        "two",
        [Slot::NotCollected, Slot::Stored, Slot::Unchanged, failed()],
    );
    put(lake, &format!("a b {one} {two}")).await;
    lake.delete(&first).await.unwrap();
    work(&mill).await;
    assert_eq!(rows(&mill.catalog).await, [of_feed(4, 3, 18, known)]);
    is_equal(&mill, &somewhere(&mill, "merged.db")).await;
    // Nobody tells the line that an hour was deleted; it sees it when it compares.
    let line = mill.line().await;
    assert_eq!(line.catch_up().await.unwrap().to_cover, 0);
    let tombstone = Key::feed_tombstone(&feed(), hour());
    lake.put_new(&tombstone, b"{}".to_vec()).await.unwrap();
    assert_eq!(line.catch_up().await.unwrap().to_cover, 1);
    mill.work(line.clone(), HOUR).await;
    let deleted = of_feed(0, 0, 0, CoverageState::Deleted);
    assert_eq!(rows(&mill.catalog).await, [deleted]);
    assert_eq!(line.catch_up().await.unwrap().to_cover, 0);
    is_equal(&mill, &somewhere(&mill, "deleted.db")).await;
    lake.delete(&tombstone).await.unwrap();
    assert_eq!(line.catch_up().await.unwrap().to_cover, 1);
    mill.work(line, HOUR).await;
    assert_eq!(rows(&mill.catalog).await, [of_feed(4, 3, 18, known)]);
}

/// The journal is lost before the work on the hour is done; and what a person asks for is done again.
#[tokio::test]
async fn of_an_hour_whose_work_was_lost() {
    let mut mill = Mill::new(Works::in_memory()).await;
    fill(&mill.works, &few()).await;
    work(&mill).await;
    let before = rows(&mill.catalog).await;
    mill.catalog
        .uncover("feed", "f", "2026-11-15T18")
        .await
        .unwrap();
    assert_eq!(rows(&mill.catalog).await.len(), 1);
    mill.drop_journal();
    let line = mill.line().await;
    let caught = line.catch_up().await.unwrap();
    assert_eq!((caught.to_cover, caught.is_behind()), (1, true));
    mill.work(line.clone(), HOUR).await;
    assert_eq!(rows(&mill.catalog).await, before);
    for (date, kind, count) in [
        ("2026-11-15", None, 1),
        ("2026-11-15", Some("feed-f"), 1),
        ("2026-11-15", Some("feed-g"), 0),
        ("2026-11-16", None, 0),
    ] {
        let backfill = Backfill {
            from: date.parse().unwrap(),
            to: date.parse().unwrap(),
            stages: [Stage::Cover].into(),
            kind: kind.map(|kind| kind.parse().unwrap()),
        };
        let planned = line.plan(&backfill, &discoverer(&mill)).await.unwrap();
        assert_eq!(planned.len(), count, "{date} {kind:?}");
        assert!(planned.iter().all(|one| one.key.to_string() == KEY));
    }
}

/// The store fails whenever the archive of the hour is read: the work stays, and the row comes with the store.
#[tokio::test]
async fn of_an_hour_that_cannot_be_read_for_a_while() {
    let mill = Mill::new(Works::in_memory()).await;
    put(&mill.works.lake, "a b").await;
    work(&mill).await;
    mill.catalog
        .uncover("feed", "f", "2026-11-15T18")
        .await
        .unwrap();
    let faults = Faults::none();
    let store = FaultStore::new(mill.works.store.clone(), faults.clone(), Clock::real());
    let lake = lake_on(std::sync::Arc::new(store), Duration::from_millis(100));
    let line = mill.line_on(&lake);
    assert_eq!(line.catch_up().await.unwrap().to_cover, 1);
    faults.next(Request::Get, Fault::ErrorBefore, 1_000);
    mill.work(line.clone(), Duration::from_secs(120)).await;
    assert_eq!(rows(&mill.catalog).await, []);
    assert_eq!(mill.alive().await.len(), 1, "it waits for the store");
    faults.stop();
    mill.work(line, HOUR).await;
    let row = of_feed(2, 2, 18, CoverageState::Unknown);
    assert_eq!(rows(&mill.catalog).await, [row]);
}
