//! A catalog that is made of the lake alone is equal to the one that the line has filled, at every stage of a bucket's life.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use cannery_catalog::{Beside, Catalog, ErrorKind};
use cannery_formats::Key;
use cannery_lake::Lake;
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_pipeline::autoclave::Autoclave;
use cannery_pipeline::features::Features;
use cannery_pipeline::rebuild::{Damaged, Rebuilder};
use cannery_runtime::Clock;

use crate::can_kit::{Works, lake_on};
use crate::line::fill;
use crate::line_kit::{FEATURES, Mill, rules};
use crate::sweeping::{GRACE, few, sealed, sweep};

fn rebuilder(mill: &Mill, lake: &Lake) -> Rebuilder {
    let mut plant = mill.works.plant(lake);
    plant.clock = mill.clock();
    plant.frame_bytes = 8_000;
    let autoclave = Autoclave {
        plant: plant.clone(),
        rules: Arc::new(rules()),
    };
    Rebuilder {
        plant,
        features: Arc::new(Features::parse(FEATURES).unwrap()),
        generation: autoclave.generation(),
    }
}

/// An address where no catalog is.
pub(crate) fn somewhere(mill: &Mill, name: &str) -> String {
    let file = mill.works.scratch.path().join(name);
    format!("sqlite:{}", file.display())
}

/// Fills another catalog from the lake, and compares.
pub(crate) async fn is_equal(mill: &Mill, address: &str) {
    let fresh = Catalog::open(address, Clock::real()).await.unwrap();
    let rebuilder = rebuilder(mill, &mill.works.lake);
    let report = rebuilder.fill(&fresh, &mut |_| {}).await.unwrap();
    assert!(report.files > 0 && report.left_out.is_empty(), "{report:?}");
    let differences = mill.catalog.differences(&fresh).await.unwrap();
    assert_eq!(differences, []);
    assert_eq!(fresh.check().await.unwrap(), Vec::<String>::new());
    let again = rebuilder.fill(&fresh, &mut |_| {}).await.unwrap();
    assert_eq!(again.files, 0, "what is loaded is not loaded again");
    fresh.close().await;
}

#[tokio::test]
async fn of_an_open_bucket() {
    let mill = Mill::new(Works::in_memory()).await;
    fill(&mill.works, &few()).await;
    mill.discover().await;
    mill.work(mill.line().await, Duration::from_secs(3_600))
        .await;
    assert!(!mill.files().await.is_empty());
    is_equal(&mill, &somewhere(&mill, "open.db")).await;
}

#[tokio::test]
async fn of_a_sealed_bucket_before_and_after_the_sweep() {
    let (mill, _) = sealed().await;
    is_equal(&mill, &somewhere(&mill, "sealed.db")).await;
    mill.simulated.advance(GRACE).await;
    assert!(!sweep(&mill).await.removed.is_empty());
    is_equal(&mill, &somewhere(&mill, "swept.db")).await;
}

#[cfg(feature = "real-servers")]
#[tokio::test]
async fn in_postgresql_of_what_was_in_sqlite() {
    let server = cannery_testkit::postgres::Postgres::start().await.unwrap();
    let url = server.create_database("rebuilt").await.unwrap();
    let (mill, _) = sealed().await;
    is_equal(&mill, &url).await;
    // And in the place of an old one.
    let beside = Beside::open(&url, Clock::real()).await.unwrap();
    let rebuilder = rebuilder(&mill, &mill.works.lake);
    let (_, differences) = rebuilder.compare(beside, &mut |_| {}).await.unwrap();
    assert_eq!(differences, []);
    let beside = Beside::open(&url, Clock::real()).await.unwrap();
    let done = rebuilder
        .replace(beside, Damaged::Refuse, &mut |_| {})
        .await;
    assert!(done.unwrap().is_replaced);
    let catalog = Catalog::open(&url, Clock::real()).await.unwrap();
    assert_eq!(mill.catalog.differences(&catalog).await.unwrap(), []);
}

/// A bucket is sealed, and an archive of its cans is not made yet: what it replaces is loaded, and no measurement is nowhere.
#[tokio::test]
async fn of_a_bucket_that_is_being_sealed() {
    let (mill, expected) = sealed().await;
    let all = mill.works.lake.list_all(None).await.unwrap();
    let sealed = all.into_iter().map(|entry| entry.key).filter(|key| {
        key.as_str().starts_with("autoclaved/") && key.as_str().contains("/ndt.0.tar.lz4")
    });
    let sealed: Vec<Key> = sealed.collect();
    assert_eq!(sealed.len(), 2);
    mill.works.lake.delete_many(sealed).await.unwrap();
    let fresh = Catalog::open(&somewhere(&mill, "sealing.db"), Clock::real()).await;
    let fresh = fresh.unwrap();
    let rebuilder = rebuilder(&mill, &mill.works.lake);
    rebuilder.fill(&fresh, &mut |_| {}).await.unwrap();
    for uid in expected.keys() {
        assert!(fresh.lookup(uid).await.unwrap().is_some(), "{uid}");
    }
    fresh.close().await;
}

/// The lake fails at any request: the old catalog is as it was, and the next attempt ends well.
#[tokio::test]
async fn after_a_fault_the_old_catalog_is_as_it_was() {
    let (mill, _) = sealed().await;
    let address = somewhere(&mill, "old.db");
    let old = Catalog::open(&address, Clock::real()).await.unwrap();
    let mut failed = BTreeSet::new();
    for before in [0, 1, 3, 7, 12, 20, 30, 45] {
        let faults = Faults::none();
        faults.next(Request::Get, Fault::Latency(Duration::ZERO), before);
        faults.next(Request::Get, Fault::ErrorBefore, u32::MAX);
        let store = FaultStore::new(mill.works.store.clone(), faults, Clock::real());
        let lake = lake_on(Arc::new(store), Duration::from_millis(100));
        let beside = Beside::open(&address, Clock::real()).await.unwrap();
        let done = rebuilder(&mill, &lake)
            .replace(beside, Damaged::Refuse, &mut |_| {})
            .await;
        // The new one is in use as a whole, or not at all.
        if mill.catalog.differences(&old).await.unwrap().is_empty() {
            break;
        }
        assert!(done.is_err(), "{before}");
        failed.insert(before);
        let tables = old.hashes().await.unwrap();
        assert!(tables.iter().all(|table| table.rows == 0), "{tables:?}");
    }
    assert!(failed.len() > 3, "{failed:?}");
    let beside = Beside::open(&address, Clock::real()).await.unwrap();
    let done = rebuilder(&mill, &mill.works.lake)
        .replace(beside, Damaged::Refuse, &mut |_| {})
        .await;
    assert!(done.unwrap().is_replaced);
    assert_eq!(mill.catalog.differences(&old).await.unwrap(), []);
    old.close().await;
}

#[tokio::test]
async fn two_at_once_are_refused() {
    let mill = Mill::new(Works::in_memory()).await;
    let address = somewhere(&mill, "two.db");
    let first = Beside::open(&address, Clock::real()).await.unwrap();
    let second = Beside::open(&address, Clock::real()).await.unwrap_err();
    assert_eq!(second.kind, ErrorKind::Conflict);
    first.discard().await.unwrap().close().await;
}

#[tokio::test]
async fn an_archive_that_is_gone_is_named_and_the_others_are_loaded() {
    let (mill, _) = sealed().await;
    let all = mill
        .works
        .lake
        .list_all(Some(&Key::autoclaved_folder()))
        .await;
    let all = all.unwrap().into_iter().map(|entry| entry.key);
    let is_it = |key: &Key| key.as_str().ends_with("/ndt.0.tar.lz4");
    let gone = all.into_iter().find(is_it).unwrap();
    mill.works.lake.delete(&gone).await.unwrap();
    let address = somewhere(&mill, "gone.db");
    let fresh = Catalog::open(&address, Clock::real()).await.unwrap();
    let rebuilder = rebuilder(&mill, &mill.works.lake);
    let report = rebuilder.fill(&fresh, &mut |_| {}).await.unwrap();
    assert!(report.files > 0, "{report:?}");
    assert_eq!(report.left_out.len(), 1);
    assert_eq!(report.left_out[0].key, gone);
    fresh.close().await;
}
