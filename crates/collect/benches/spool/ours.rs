//! The spool itself, with everything that keeps a file from being lost or counted twice.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cannery_collect::spool::{
    BadFiles, DatatypeSettings, Spool, SpoolFull, SpoolParts, SpoolSettings,
};
use cannery_formats::NodeName;
use cannery_formats::spool::{Datatype, Experiment, ObjectHome};
use cannery_formats::table_schema::parse_datatype;
use cannery_journal::embedded::{Embedded, Place};
use cannery_journal::{Declaration, Journal};
use cannery_lake::{DiskStore, Lake, LakeMetrics, Mirrors, Parts, RetryPolicy};
use cannery_runtime::disk::create_dir_all;
use cannery_runtime::{Clock, RealDisk, Rng};
use tokio_util::sync::CancellationToken;

use crate::usage::{Used, measure};

pub(crate) fn run(folder: &Path, files: usize) -> Used {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    measure(|| runtime.block_on(drain(folder, files)))
}

async fn drain(folder: &Path, files: usize) {
    let spool = Spool::open(settings(folder), parts(folder).await)
        .await
        .unwrap();
    let (stop, progress) = (CancellationToken::new(), spool.progress());
    let running = tokio::spawn(spool.run(stop.clone(), Duration::from_secs(600)));
    let clock = Clock::real();
    while progress.passed().taken < files as u64 {
        clock.sleep(Duration::from_millis(5)).await;
    }
    stop.cancel();
    let flushed = running.await.unwrap().unwrap();
    assert!(flushed.left.is_empty(), "{flushed:?}");
    assert_eq!(progress.passed().removed, files as u64);
}

async fn parts(folder: &Path) -> SpoolParts {
    let clock = Clock::real();
    let place = Place {
        disk: Arc::new(RealDisk),
        dir: folder.join("work/journal"),
        owner: "bench".to_owned(),
        clock: clock.clone(),
        rng: Rng::from_os(),
    };
    let journal = Embedded::open(place, Some(Declaration::default()))
        .await
        .unwrap();
    let root = folder.join("lake");
    create_dir_all(&RealDisk, &root).unwrap();
    let lake = Lake::new(Parts {
        id: "main".to_owned(),
        url: format!("file://{}", root.display()),
        store: Arc::new(DiskStore::new(Arc::new(RealDisk), root, Rng::from_os())),
        prefix: String::new(),
        clock: clock.clone(),
        rng: Rng::from_os(),
        retry: RetryPolicy::default(),
        metrics: LakeMetrics::default(),
    });
    SpoolParts {
        outbox: folder.join("work/outbox"),
        inventory: folder.join("work/inventory"),
        disk: Arc::new(RealDisk),
        clock,
        rng: Rng::from_os(),
        mirrors: Mirrors::new(vec![lake.unwrap()]).unwrap(),
        journal: Journal::new("spool", journal),
        ask_lake: false,
    }
}

fn settings(folder: &Path) -> SpoolSettings {
    let schema = br#"[{"name":"n","type":"INTEGER"},{"name":"text","type":"STRING"}]"#;
    SpoolSettings {
        experiment: Experiment::new("ndt").unwrap(),
        home: folder.join("spool"),
        object_home: ObjectHome::V1,
        node: NodeName::parse("mlab1-lga01").unwrap(),
        datatypes: vec![DatatypeSettings {
            name: Datatype::new("foo1").unwrap(),
            fields: parse_datatype(schema).unwrap(),
        }],
        extensions: vec![".json".to_owned()],
        bundle_bytes_max: 20 << 20,
        bundle_age_max: Duration::from_secs(3_600),
        min_file_age: Duration::from_secs(7_200),
        scan_interval: Duration::from_secs(300),
        settle: Duration::from_secs(5),
        bad_files: BadFiles::Quarantine,
        quarantine_bytes_max: 1 << 30,
        spool_bytes_max: None,
        spool_full: SpoolFull::Refuse,
        id_column: false,
        index_loadable: false,
        version: "cannery@0.1.0".to_owned(),
        git_commit: "0".repeat(40),
    }
}
