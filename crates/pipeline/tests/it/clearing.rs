//! Report files go once they are in verified cans, if that is wanted, and only if they are what was canned.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::Key;
use cannery_lake::Lake;
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_pipeline::canning::Canner;
use cannery_pipeline::clear::{ClearReport, Clearer};
use cannery_pipeline::inputs::{Inputs, Reports};
use cannery_runtime::disk::{create_dir_all, write_durably};
use cannery_runtime::{Clock, RealDisk};

use crate::can_kit::{Texts, Works, bucket, key_of, lake_on};
use crate::line::{check, fill};
use crate::line_kit::Mill;
use crate::sweeping::few;
use crate::troubled::{Death, Troubled};

const HOUR: Duration = Duration::from_secs(3_600);

fn clearer_on(works: &Works, lake: &Lake) -> Clearer {
    Clearer {
        plant: works.plant(lake),
        inputs: works.inputs(lake),
        disk: Arc::new(RealDisk),
    }
}

async fn clear(works: &Works) -> ClearReport {
    let clearer = clearer_on(works, &works.lake);
    clearer.bucket(bucket()).await.unwrap()
}

/// A sealed bucket, and its reports.
async fn sealed() -> (Works, Texts) {
    let (works, texts) = (Works::in_memory(), few());
    works.fill(&texts).await;
    works.canner().bucket(bucket()).await.unwrap();
    (works, texts)
}

async fn reports(works: &Works) -> usize {
    let folder = Key::raw_reports(None);
    works.lake.list_all(Some(&folder)).await.unwrap().len()
}

#[tokio::test]
async fn reports_that_are_in_sealed_cans_go_and_what_has_changed_stays() {
    let (works, texts) = sealed().await;
    let changed = key_of(texts.keys().next().unwrap());
    works.lake.delete(&changed).await.unwrap();
    works.put(&changed, b"something else").await;
    let late = key_of("2017-01-01/20161231T000030Z-US-AS7922-ndt-late-0.2.0-probe.json");
    works.put(&late, b"{}\n").await;
    let report = clear(&works).await;
    assert_eq!(report.removed.len(), texts.len() - 1, "{report:?}");
    let kept: Vec<&Key> = report.kept.iter().map(|kept| &kept.key).collect();
    assert_eq!(kept, [&changed]);
    assert!(report.kept[0].why.contains("has changed"), "{report:?}");
    assert_eq!(reports(&works).await, 2, "the late one is in no can");
    assert!(works.texts().await == texts, "the cans have all");
    let again = clear(&works).await;
    assert_eq!((again.removed.len(), again.kept.len()), (0, 1));
}

#[tokio::test]
async fn nothing_goes_that_is_in_an_open_can_or_in_a_damaged_one() {
    let (works, texts) = (Works::in_memory(), few());
    works.fill(&texts).await;
    let all: Vec<&String> = texts.keys().collect();
    crate::can_kit::open_all(&works.canner(), &all).await;
    assert_eq!(clear(&works).await, ClearReport::default());
    works.sealer().seal(bucket()).await.unwrap();
    let is_ndt = |key: &&String| key.ends_with("/ndt.0.tar.lz4");
    let can = works.sealed().await;
    let can = Key::new(can.keys().find(is_ndt).unwrap().as_str()).unwrap();
    let mut bytes = works.lake.get(&can, 1 << 30).await.unwrap().bytes.to_vec();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    works.lake.delete(&can).await.unwrap();
    works.put(&can, &bytes).await;
    let report = clear(&works).await;
    assert_eq!(report.kept.len(), 1, "{report:?}");
    assert_eq!(report.kept[0].key, can);
    let is_ndt = |key: &Key| key.as_str().contains("-ndt-");
    assert!(!report.removed.is_empty() && !report.removed.iter().any(is_ndt));
}

/// Every report is a file, or in a sealed can with the same text.
async fn nothing_is_lost(works: &Works, texts: &Texts, context: &str) {
    assert!(works.texts().await == *texts, "{context}");
}

async fn fail_from_the_nth(request: Request, fault: Fault) {
    for before in 0.. {
        let context = format!("{request:?} meets {fault:?} after {before}");
        let (works, texts) = sealed().await;
        let faults = Faults::none();
        faults.next(request, Fault::Latency(Duration::ZERO), before);
        faults.next(request, fault, u32::MAX);
        let store = FaultStore::new(Arc::clone(&works.store), faults.clone(), Clock::real());
        let lake = lake_on(Arc::new(store), Duration::from_millis(100));
        let ended = clearer_on(&works, &lake).bucket(bucket()).await;
        nothing_is_lost(&works, &texts, &context).await;
        let is_over = faults.injected() <= u64::from(before);
        clear(&works).await;
        assert_eq!(reports(&works).await, 0, "{context}");
        if is_over {
            assert!(ended.is_ok() && before > 2, "{context}");
            return;
        }
    }
}

#[tokio::test]
async fn a_removal_that_fails_anywhere_is_made_up_for() {
    fail_from_the_nth(Request::Delete, Fault::ErrorBefore).await;
    fail_from_the_nth(Request::Get, Fault::ErrorBefore).await;
}

#[tokio::test]
async fn a_death_at_any_request_is_made_up_for() {
    for after_effect in [false, true] {
        for request in 1.. {
            let context = format!("dead at request {request}, after: {after_effect}");
            let (works, texts) = sealed().await;
            let death = Death {
                request,
                after_effect,
            };
            let troubled = Troubled::new(Arc::clone(&works.store), None, Some(death));
            let lake = lake_on(Arc::new(troubled.clone()), HOUR);
            let clearer = clearer_on(&works, &lake);
            let ended = tokio::select! {
                done = clearer.bucket(bucket()) => {
                    done.unwrap();
                    true
                }
                () = troubled.dead.cancelled() => false,
            };
            nothing_is_lost(&works, &texts, &context).await;
            clear(&works).await;
            assert_eq!(reports(&works).await, 0, "{context}");
            if ended {
                assert!(request > 10, "{context}");
                break;
            }
        }
    }
}

fn folder_of(works: &Works, texts: &Texts) -> (PathBuf, Inputs) {
    let root = works.scratch.path().join("reports");
    create_dir_all(&RealDisk, &root.join("2017-01-01")).unwrap();
    for (name, text) in texts {
        write_durably(&RealDisk, &root.join(name), text).unwrap();
    }
    let inputs = Inputs {
        reports: Some(Reports::Folder(root.clone())),
        ..works.inputs(&works.lake)
    };
    (root, inputs)
}

fn files(root: &Path) -> usize {
    std::fs::read_dir(root.join("2017-01-01")).unwrap().count()
}

#[tokio::test]
async fn reports_of_a_folder_go_too() {
    let (works, texts) = (Works::in_memory(), few());
    let (root, inputs) = folder_of(&works, &texts);
    let plant = works.plant(&works.lake);
    let canner = Canner::new(plant.clone(), inputs.clone(), None);
    canner.bucket(bucket()).await.unwrap();
    // As long as it was.
    let (name, text) = texts.first_key_value().unwrap();
    let (changed, other) = (root.join(name), vec![b'x'; text.len()]);
    write_durably(&RealDisk, &changed, &other).unwrap();
    let clearer = Clearer {
        plant,
        inputs,
        disk: Arc::new(RealDisk),
    };
    assert_eq!(clearer.left().await.unwrap().len(), texts.len());
    let report = clearer.bucket(bucket()).await.unwrap();
    assert_eq!(report.removed.len(), texts.len() - 1, "{report:?}");
    assert_eq!((report.kept.len(), files(&root)), (1, 1));
    assert!(works.texts().await == texts);
    assert!(std::fs::read(changed).unwrap() == other);
    let left = clearer.left().await.unwrap();
    assert_eq!(left.len(), 1);
}

async fn until_sealed(mill: &Mill) {
    mill.discover().await;
    let line = mill.line().await;
    mill.work(line.clone(), HOUR).await;
    let midnight = "2017-01-02T00:59:00Z".parse::<jiff::Timestamp>().unwrap();
    let left = midnight.duration_since(mill.clock().now()).unsigned_abs();
    mill.simulated.advance(left).await;
    mill.discover().await;
    mill.work(line, Duration::from_secs(600)).await;
}

#[tokio::test]
async fn the_line_removes_reports_after_the_seal_if_it_shall() {
    for reports_remove in [false, true] {
        let mut mill = Mill::new(Works::in_memory()).await;
        mill.timing.sweep_grace = 1_000 * HOUR;
        mill.reports_remove = reports_remove;
        let texts = few();
        let expected = fill(&mill.works, &texts).await;
        until_sealed(&mill).await;
        check(&mill, &expected).await;
        assert_eq!(mill.dead().await, BTreeMap::new());
        let left = if reports_remove { 0 } else { texts.len() };
        assert_eq!(reports(&mill.works).await, left);
        let bundle = Key::new("autoload").unwrap();
        let bundles = mill.works.lake.list_all(Some(&bundle)).await.unwrap();
        assert_eq!(bundles.len(), 1, "bundles stay");
        mill.discover().await;
        let cans: Vec<_> = (mill.alive().await.into_iter())
            .filter(|(key, _)| key.starts_with("can/"))
            .collect();
        assert_eq!(cans, [], "nothing is canned again");
    }
}

#[tokio::test]
async fn a_lost_journal_leaves_no_reports_behind() {
    let mut mill = Mill::new(Works::in_memory()).await;
    mill.timing.sweep_grace = 1_000 * HOUR;
    fill(&mill.works, &few()).await;
    until_sealed(&mill).await;
    assert_eq!(reports(&mill.works).await, few().len());
    mill.reports_remove = true;
    let line = mill.line().await;
    let caught = line.catch_up().await.unwrap();
    assert_eq!(caught.to_clear, 1);
    mill.work(line.clone(), Duration::from_secs(600)).await;
    assert_eq!(reports(&mill.works).await, 0);
    assert_eq!(line.catch_up().await.unwrap().to_clear, 0);
}
