//! Reads are measured on an archive that is there, else on an object that goes again, whatever fails.

use std::sync::Arc;
use std::time::Duration;

use cannery_formats::Key;
use cannery_lake::Lake;
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_pipeline::frame_probe::{Probed, READS, SIZES, measure};
use cannery_runtime::{Clock, Rng};

use crate::can_kit::{Works, lake_on};

async fn left(lake: &Lake) -> usize {
    let left = lake.list_all(Some(&Key::probes())).await.unwrap();
    left.len()
}

#[tokio::test]
async fn an_archive_is_read_where_one_is_long_enough() {
    let works = Works::in_memory();
    let (clock, rng) = (Clock::real(), Rng::seeded(1));
    let key = |name: &str| Key::new(format!("autoclaved/r01234567/2017-01-01/{name}")).unwrap();
    works.put(&key("a.0.tar.lz4"), &[1; 1 << 20]).await;
    let (probed, measured) = measure(&works.lake, &clock, &rng).await.unwrap();
    assert!(matches!(probed, Probed::Temporary(_)), "{probed:?}");
    assert_eq!(left(&works.lake).await, 0);
    let sizes: Vec<u64> = measured.iter().map(|one| one.bytes).collect();
    assert_eq!(sizes, SIZES);
    assert!(measured.iter().all(|one| one.reads == READS));
    let long = key("b.0.tar.lz4");
    works.put(&long, &vec![1; 9 << 20]).await;
    let (probed, _) = measure(&works.lake, &clock, &rng).await.unwrap();
    assert_eq!(probed, Probed::Archive(long));
}

/// Measures on a store whose next requests of a kind fail; whether it could.
async fn with(works: &Works, request: Request, fault: Fault, times: u32) -> bool {
    let faults = Faults::none();
    let store = FaultStore::new(works.store.clone(), faults.clone(), Clock::real());
    let lake = lake_on(Arc::new(store), Duration::from_millis(100));
    faults.next(request, fault, times);
    let (clock, rng) = (Clock::real(), Rng::seeded(1));
    let outcome = measure(&lake, &clock, &rng).await;
    assert_eq!(left(&works.lake).await, 0, "{request:?} {fault:?} {times}");
    outcome.is_ok()
}

#[tokio::test]
async fn nothing_is_left_when_the_store_fails() {
    let works = Works::in_memory();
    assert!(!with(&works, Request::Put, Fault::ErrorBefore, 100_000).await);
    // An answer that was lost is settled by reading.
    with(&works, Request::Put, Fault::ErrorAfter, 100_000).await;
    // It is tried again for a while; then reads are given up, and the object goes all the same.
    let mut times = 6;
    while with(&works, Request::Get, Fault::ErrorBefore, times).await {
        times += 1;
        assert!(times < 1_000, "it never gives up");
    }
}
