//! What is raw in one lake, and archives in another, which others may read.

use std::sync::Arc;
use std::time::Duration;

use cannery_formats::Key;
use cannery_lake::Lake;
use cannery_pipeline::look::{Look, Looker, Seal};
use cannery_pipeline::measurement;
use object_store::memory::InMemory;

use crate::can_kit::{Works, bucket, lake_on};
use crate::line::check;
use crate::sweeping::{GRACE, sealed_in, sweep, verify};

async fn keys(lake: &Lake) -> Vec<String> {
    let all = lake.list_all(None).await.unwrap();
    all.into_iter().map(|entry| entry.key.to_string()).collect()
}

fn works() -> Works {
    let store = Arc::new(InMemory::new());
    Works {
        apart: Some(lake_on(store, Duration::from_secs(600))),
        ..Works::in_memory()
    }
}

/// From the reports to the sweep; nothing but archives is ever in the public lake, and no archive in the private one.
#[tokio::test]
async fn archives_are_apart_through_all_stages() {
    let (mill, expected) = sealed_in(works()).await;
    let (private, public) = (&mill.works.lake, mill.works.public());
    let before = keys(public).await;
    mill.simulated.advance(GRACE).await;
    let report = sweep(&mill).await;
    assert!(!report.is_waiting && report.kept.is_empty(), "{report:?}");
    let of_archives = |key: &&Key| key.as_str().starts_with("autoclaved/");
    let (of_public, of_private) = (
        report.removed.iter().filter(of_archives).count(),
        report
            .removed
            .iter()
            .filter(|key| !of_archives(key))
            .count(),
    );
    assert!(of_public > 0 && of_private > 0, "{report:?}");
    let after = keys(public).await;
    assert_eq!(after.len() + of_public, before.len());
    for key in before.iter().chain(&after) {
        assert!(key.starts_with("autoclaved/"), "{key} is in public");
    }
    let is_archive = |key: &String| key.starts_with("autoclaved/");
    assert!(!keys(private).await.iter().any(is_archive));
    check(&mill, &expected).await;
    verify(&mill).await;
    let uid = expected.keys().next().unwrap().parse().unwrap();
    let read = measurement::read(public, &mill.catalog, &uid).await;
    assert_eq!(read.unwrap().unwrap().text, expected[&uid.to_string()]);
    let line = mill.line().await;
    assert!(!line.catch_up().await.unwrap().is_behind());
    let looker = Looker::new(private.clone(), public.clone());
    let generation = looker.generation().await.unwrap();
    let look: Look = looker.look(bucket(), generation).await.unwrap();
    assert_eq!((look.seal, look.archives), (Seal::Sealed, look.cans));
}
