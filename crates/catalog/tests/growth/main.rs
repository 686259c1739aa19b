//! What a load takes does not grow with what was loaded before, in the steps of SQLite's machine.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what is wrong by failing"
)]

use std::sync::atomic::{AtomicU64, Ordering};

use cannery_catalog::{
    Catalog, Decision, FileFacts, LoadPlan, NewMeasurement, NewReport, Place, Residual,
};
use cannery_runtime::{Clock, Rng};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

const FILES: u64 = 40;
const PER_FILE: u64 = 200;

static STEPS: AtomicU64 = AtomicU64::new(0);

/// Adds up the steps that statements tell of.
struct Ear;

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "cannery_database::steps"
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Steps);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Steps;

impl Visit for Steps {
    fn record_i64(&mut self, field: &Field, steps: i64) {
        if field.name() == "steps" {
            STEPS.fetch_add(steps.try_into().unwrap(), Ordering::Relaxed);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// Loads one file; some of its measurements stand in the file before, too.
async fn load(catalog: &Catalog, file: u64, rng: &Rng, before: &mut Vec<String>) {
    let bucket = "2017-01-02".to_owned();
    let plan = LoadPlan {
        facts: FileFacts {
            name: format!("{bucket}/ndt.{file:04}.tar.lz4"),
            generation: "r00000001".to_owned(),
            bucket,
            kind: "ndt".to_owned(),
            file_sha1: format!("file {file}"),
            text_sha1: format!("text {file}"),
            file_size: 1,
            text_size: 1,
            rules_hash: String::new(),
        },
        decision: Decision::Ingest,
        expected: None,
        features: Vec::new(),
        replaces: Vec::new(),
        residual: Residual::Replace,
    };
    let mut load = catalog.load(plan).await.unwrap();
    let report = NewReport {
        textname: format!("2017-01-02/report-{file}"),
        src_size: 1,
        sent: None,
    };
    load.report(&report).await.unwrap();
    let mut uids = before.split_off(before.len().saturating_sub(3));
    uids.resize_with(PER_FILE.try_into().unwrap(), || {
        let letters = b"abcdefghijklmnop";
        let letter = |_| char::from(letters[usize::try_from(rng.below(16)).unwrap()]);
        (0..32).map(letter).collect()
    });
    for uid in &uids {
        let measurement = NewMeasurement {
            uid: uid.clone(),
            place: Place {
                frame_off: 0,
                frame_size: 1,
                intra_off: 0,
                intra_size: 1,
            },
            time_ms: Some(1_483_315_200_000),
            digest: None,
            rows: Vec::new(),
        };
        load.measurement(measurement).await.unwrap();
    }
    load.commit(async { Ok(()) }).await.unwrap();
    *before = uids;
}

#[tokio::test]
async fn the_last_load_takes_as_many_steps_as_the_second() {
    tracing::subscriber::set_global_default(Ear).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let address = format!("sqlite:{}", folder.path().join("catalog.db").display());
    let catalog = Catalog::open(&address, Clock::real()).await.unwrap();
    let (rng, mut before) = (Rng::seeded(1), Vec::new());
    let mut steps = Vec::new();
    for file in 0..FILES {
        STEPS.store(0, Ordering::Relaxed);
        load(&catalog, file, &rng, &mut before).await;
        steps.push(STEPS.load(Ordering::Relaxed));
    }
    catalog.close().await;
    println!("steps: {steps:?}");
    let (second, last) = (steps[1], steps[steps.len() - 1]);
    assert!(second > PER_FILE, "{steps:?}");
    assert!(last * 10 <= second * 11, "a load grows: {steps:?}");
}
