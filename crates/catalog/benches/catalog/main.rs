//! How fast a catalog is loaded, and how fast a measurement is found in a large one.
//!
//! Loads 1,000,000 measurements in files of 3,000, each with a row of each of five features in the first files, then looks up
//! uids at random. SQLite always; PostgreSQL where it is installed. Prints a table and lines of JSON.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a benchmark prints, and stops at the first thing that fails"
)]

use std::path::Path;
use std::time::Duration;

use cannery_catalog::{
    Catalog, Column, ColumnType, Decision, Feature, FileFacts, LoadPlan, NewMeasurement, NewReport,
    NewRow, Place, Residual,
};
use cannery_runtime::{Clock, Rng};
use cannery_testkit::postgres::Postgres;
use serde_json::json;

/// About 64 MiB of measurements of 20 kB.
const PER_FILE: u64 = 3_000;
const FEATURES: u64 = 5;

/// How much is done.
struct Effort {
    measurements: u64,
    /// Files that have rows of features; the others have places only.
    files_with_rows: u64,
    lookups: u64,
}

fn main() {
    let quick = std::env::var_os("CANNERY_BENCH_QUICK").is_some_and(|value| value == "1");
    let effort = if quick {
        Effort {
            measurements: 12_000,
            files_with_rows: 1,
            lookups: 500,
        }
    } else {
        Effort {
            measurements: 1_000_000,
            files_with_rows: 20,
            lookups: 20_000,
        }
    };
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        // Not in a folder of root's own: the server's user must get there.
        let place = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let folder = tempfile::tempdir_in(place).unwrap();
        let path = folder.path().join("catalog.db");
        measure("sqlite", path.to_str().unwrap(), &effort).await;
        match Postgres::durable(place, &[]).await {
            Ok(server) => measure("postgres", &server.url(), &effort).await,
            Err(error) => println!("postgres: not measured: {error}"),
        }
    });
}

async fn measure(engine: &str, address: &str, effort: &Effort) {
    let clock = Clock::real();
    let catalog = Catalog::open(address, clock.clone()).await.unwrap();
    for number in 0..FEATURES {
        catalog.declare_feature(&feature(number)).await.unwrap();
    }
    let files = effort.measurements / PER_FILE;
    let (mut with_rows, mut without) = (Duration::ZERO, Duration::ZERO);
    for file in 0..files {
        let began = clock.elapsed();
        let has_rows = file < effort.files_with_rows;
        load(&catalog, file, has_rows).await;
        let spent = clock.since(began);
        if has_rows {
            with_rows += spent;
        } else {
            without += spent;
        }
    }
    let files_without = files - effort.files_with_rows;
    tell(
        engine,
        "load, 5 features",
        effort.files_with_rows * PER_FILE,
        with_rows,
    );
    tell(
        engine,
        "load, places only",
        files_without * PER_FILE,
        without,
    );
    lookups(engine, &catalog, &clock, files * PER_FILE, effort.lookups).await;
    catalog.close().await;
}

async fn lookups(engine: &str, catalog: &Catalog, clock: &Clock, measurements: u64, count: u64) {
    let rng = Rng::seeded(1);
    let mut spent = Vec::new();
    for _ in 0..count {
        let uid = uid(rng.below(measurements));
        let began = clock.elapsed();
        assert!(catalog.lookup(&uid).await.unwrap().is_some());
        spent.push(clock.since(began));
    }
    spent.sort_unstable();
    let micros = |percent: usize| spent[(spent.len() - 1) * percent / 100].as_micros();
    let (p50, p99) = (micros(50), micros(99));
    println!("{engine:9} lookup among {measurements}: p50 {p50} µs, p99 {p99} µs");
    let line = json!({"bench": "catalog", "engine": engine, "what": "lookup", "rows": measurements,
        "p50_us": p50, "p99_us": p99});
    println!("{line}");
}

fn tell(engine: &str, what: &str, measurements: u64, spent: Duration) {
    let each = u64::try_from(spent.as_nanos()).unwrap() / measurements.max(1);
    let rate = 1_000_000_000 / each.max(1);
    println!("{engine:9} {what}: {measurements} in {spent:.1?}, {rate} a second");
    let line = json!({"bench": "catalog", "engine": engine, "what": what,
        "measurements": measurements, "per_second": rate});
    println!("{line}");
}

fn feature(number: u64) -> Feature {
    Feature {
        name: format!("feature{number}"),
        version: 1,
        min_compatible: 1,
        columns: vec![
            Column::new("url", ColumnType::Text),
            Column::new("code", ColumnType::Int),
            Column::new("seconds", ColumnType::Float),
            Column::new("works", ColumnType::Bool),
            Column::new("at", ColumnType::Time),
        ],
    }
}

async fn load(catalog: &Catalog, file: u64, has_rows: bool) {
    let bucket = "2026-11-15".to_owned();
    let names = (0..FEATURES).map(|number| feature(number).name);
    let features: Vec<String> = names.take_while(|_| has_rows).collect();
    let plan = LoadPlan {
        facts: FileFacts {
            name: format!("{bucket}/web_connectivity.{file:04}.tar.lz4"),
            generation: "r00000001".to_owned(),
            bucket,
            kind: "web_connectivity".to_owned(),
            file_sha1: format!("file {file}"),
            text_sha1: format!("text {file}"),
            file_size: 1,
            text_size: 1,
            rules_hash: String::new(),
        },
        decision: Decision::Ingest,
        expected: None,
        features: features.clone(),
        replaces: Vec::new(),
        residual: Residual::Replace,
    };
    let mut load = catalog.load(plan).await.unwrap();
    for number in 0..PER_FILE {
        if number % 30 == 0 {
            let textname = format!("2026-11-15/report-{file}-{number}.json");
            let report = NewReport {
                textname,
                src_size: 600_000,
                sent: None,
            };
            load.report(&report).await.unwrap();
        }
        let rows = features.iter().map(|feature| row(feature, number));
        let measurement = NewMeasurement {
            uid: uid(file * PER_FILE + number),
            place: Place {
                frame_off: number * 4_000,
                frame_size: 56_000,
                intra_off: number % 13 * 20_000,
                intra_size: 20_000,
            },
            time_ms: Some(1_794_700_800_000 + i64::try_from(number).unwrap() * 1000),
            digest: Some(i64::try_from(number).unwrap()),
            rows: rows.collect(),
        };
        load.measurement(measurement).await.unwrap();
    }
    load.commit(async { Ok(()) }).await.unwrap();
}

fn row(feature: &str, number: u64) -> NewRow {
    NewRow {
        feature: feature.to_owned(),
        values: vec![
            json!(format!("https://www.example.org/some/longer/path/{number}")),
            json!(200 + number % 300),
            json!(0.25),
            json!(number.is_multiple_of(2)),
            json!("2026-11-15T12:00:00Z"),
        ],
    }
}

/// Spread over the index as real ones are.
fn uid(number: u64) -> String {
    let mut spread = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let (mut text, mut rest) = (String::new(), number);
    for _ in 0..13 {
        text.push(letter(spread % 32));
        spread /= 32;
    }
    while text.len() < 32 {
        text.push(letter(rest % 32));
        rest /= 32;
    }
    text
}

fn letter(digit: u64) -> char {
    let alphabet = b"abcdefghijklmnopqrstuvwxyz234567";
    char::from(alphabet[usize::try_from(digit).unwrap()])
}
