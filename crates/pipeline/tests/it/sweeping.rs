//! What a seal has replaced goes, after the grace, and only if what replaced it is whole.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::Key;
use cannery_lake::Lake;
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_pipeline::sweep::{SweepReport, Sweeper};
use cannery_pipeline::verify::Verifier;
use cannery_runtime::Clock;

use crate::can_kit::{Texts, Works, bucket, lake_on, some_reports};
use crate::line::{check, fill};
use crate::line_kit::Mill;

const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const GRACE: Duration = Duration::from_secs(24 * 3_600);

pub(crate) fn few() -> Texts {
    let all = some_reports(5).into_iter();
    all.filter(|(name, _)| name.contains("-ndt-") || name.ends_with(".yaml"))
        .collect()
}

/// A mill whose bucket is sealed and loaded, with the replaced cans still there; and what the catalog should have.
pub(crate) async fn sealed() -> (Mill, BTreeMap<String, Vec<u8>>) {
    sealed_in(Works::in_memory()).await
}

pub(crate) async fn sealed_in(works: Works) -> (Mill, BTreeMap<String, Vec<u8>>) {
    sealed_with(works, &few()).await
}

pub(crate) async fn sealed_with(works: Works, texts: &Texts) -> (Mill, BTreeMap<String, Vec<u8>>) {
    let mut mill = Mill::new(works).await;
    mill.timing.sweep_grace = 1_000 * GRACE;
    let expected = fill(&mill.works, texts).await;
    mill.discover().await;
    let line = mill.line().await;
    mill.work(line.clone(), HOUR).await;
    let midnight = "2017-01-02T00:59:00Z".parse::<jiff::Timestamp>().unwrap();
    let left = midnight.duration_since(mill.clock().now()).unsigned_abs();
    mill.simulated.advance(left).await;
    mill.discover().await;
    mill.work(line, Duration::from_secs(600)).await;
    check(&mill, &expected).await;
    (mill, expected)
}

fn sweeper_on(mill: &Mill, lake: &Lake) -> Sweeper {
    let mut plant = mill.works.plant(lake);
    plant.clock = mill.clock();
    Sweeper {
        plant,
        catalog: mill.catalog.clone(),
        grace: GRACE,
    }
}

pub(crate) async fn sweep(mill: &Mill) -> SweepReport {
    let sweeper = sweeper_on(mill, &mill.works.lake);
    sweeper.bucket(bucket()).await.unwrap()
}

/// Every object of cans and archives.
pub(crate) async fn objects(mill: &Mill) -> Vec<String> {
    let all = mill.works.lake.list_all(None).await.unwrap();
    let keys = all.into_iter().map(|entry| entry.key.to_string());
    keys.filter(|key| key.starts_with("canned/") || key.starts_with("autoclaved/"))
        .collect()
}

pub(crate) async fn verify(mill: &Mill) {
    let plant = mill.works.plant(&mill.works.lake);
    let generation = mill.line().await.prepare().await.unwrap();
    let report = Verifier { plant }.bucket(bucket(), generation).await;
    let report = report.unwrap();
    assert!(report.files > 4 && report.bytes_in > 0, "{report:?}");
    assert_eq!(report.findings, []);
}

#[tokio::test]
async fn what_was_replaced_goes_after_the_grace_and_nothing_else() {
    let (mill, expected) = sealed().await;
    let before = objects(&mill).await;
    let early = sweep(&mill).await;
    assert!(early.is_waiting && early.removed.is_empty(), "{early:?}");
    assert_eq!(objects(&mill).await, before);
    mill.simulated.advance(GRACE).await;
    let report = sweep(&mill).await;
    assert!(!report.is_waiting && report.kept.is_empty(), "{report:?}");
    let after = objects(&mill).await;
    assert_eq!(after.len() + report.removed.len(), before.len());
    let open = after.iter().filter(|key| {
        let name = key.rsplit_once('/').unwrap().1;
        name.split('.').any(|part| part.len() == 16)
    });
    assert_eq!(open.count(), 0, "{after:?}");
    let feeds = after
        .iter()
        .filter(|key| key.contains("/feed-f.0000.index"));
    assert_eq!(feeds.count(), 1, "it says which versions were taken");
    check(&mill, &expected).await;
    verify(&mill).await;
    let again = sweep(&mill).await;
    assert_eq!(again, SweepReport::default());
}

#[tokio::test]
async fn nothing_goes_while_what_replaced_it_is_damaged_or_gone() {
    for is_gone in [false, true] {
        for (folder, end) in [
            ("canned/2017-01-01/ndt.0.tar", "lz4"),
            ("autoclaved/", "ndt.0.tar.lz4"),
        ] {
            let (mill, _) = sealed().await;
            mill.simulated.advance(GRACE).await;
            let before = objects(&mill).await;
            let is_it = |key: &&String| key.starts_with(folder) && key.ends_with(end);
            let key = Key::new(before.iter().find(is_it).unwrap().as_str()).unwrap();
            let mut bytes = mill
                .works
                .lake
                .get(&key, 1 << 30)
                .await
                .unwrap()
                .bytes
                .to_vec();
            let middle = bytes.len() / 2;
            bytes[middle] ^= 1;
            mill.works.lake.delete(&key).await.unwrap();
            if !is_gone {
                mill.works.put(&key, &bytes).await;
            }
            let report = sweep(&mill).await;
            assert!(report.kept.iter().any(|kept| kept.key == key), "{report:?}");
            let is_ndt = |key: &Key| key.as_str().contains("/ndt.");
            assert!(!report.removed.iter().any(is_ndt), "{report:?}");
        }
    }
}

async fn fail_from_the_nth(request: Request, fault: Fault) {
    let (mill, expected) = sealed().await;
    mill.simulated.advance(GRACE).await;
    let mut saved = Vec::new();
    for key in objects(&mill).await {
        let key = Key::new(key).unwrap();
        let object = mill.works.lake.get(&key, 1 << 30).await.unwrap();
        saved.push((key, object.bytes));
    }
    sweep(&mill).await;
    let swept = objects(&mill).await;
    assert!(swept.len() < saved.len());
    for before in 0.. {
        let context = format!("{request:?} meets {fault:?} after {before}");
        for (key, bytes) in &saved {
            mill.works.put(key, bytes).await;
        }
        let faults = Faults::none();
        faults.next(request, Fault::Latency(Duration::ZERO), before);
        faults.next(request, fault, u32::MAX);
        let store = FaultStore::new(Arc::clone(&mill.works.store), faults.clone(), Clock::real());
        let lake = lake_on(Arc::new(store), Duration::from_millis(100));
        let ended = sweeper_on(&mill, &lake).bucket(bucket()).await;
        check(&mill, &expected).await;
        verify(&mill).await;
        let is_over = faults.injected() <= u64::from(before);
        sweep(&mill).await;
        assert_eq!(objects(&mill).await, swept, "{context}");
        if is_over {
            assert!(ended.is_ok() && before > 2, "{context}");
            return;
        }
    }
}

#[tokio::test]
async fn deletes_that_fail_anywhere_are_made_up_for() {
    fail_from_the_nth(Request::Delete, Fault::ErrorBefore).await;
}

#[tokio::test]
async fn reads_that_fail_anywhere_remove_nothing_unproven() {
    fail_from_the_nth(Request::Get, Fault::ErrorBefore).await;
}

#[tokio::test]
async fn listings_that_end_early_remove_nothing_unproven() {
    fail_from_the_nth(Request::List, Fault::ListEndsAfter(1)).await;
}
