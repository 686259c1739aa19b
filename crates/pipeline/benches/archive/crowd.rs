//! Fills a catalog with measurements that are in no archive: they are only in the way.

use cannery_catalog::{
    Catalog, Decision, FileFacts, Filter, LoadPlan, NewMeasurement, NewReport, Place, Residual,
};
use cannery_formats::Uid;
use cannery_runtime::{Clock, Rng};

/// About 64 MiB of measurements of 20 kB.
const PER_FILE: u64 = 3_000;

/// Until there are so many.
pub(crate) fn fill(address: &str, count: u64) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let catalog = Catalog::open(address, Clock::real()).await.unwrap();
        let page = catalog.measurements(&Filter::default(), None, 1).await;
        assert!(!page.unwrap().items.is_empty(), "nothing was loaded before");
        let rng = Rng::seeded(3);
        for file in 0..count.div_ceil(PER_FILE) {
            load(&catalog, file, &rng).await;
        }
        catalog.close().await;
    });
}

async fn load(catalog: &Catalog, file: u64, rng: &Rng) {
    let bucket = "2017-01-02".to_owned();
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
        features: Vec::new(),
        replaces: Vec::new(),
        residual: Residual::Replace,
    };
    let mut load = catalog.load(plan).await.unwrap();
    for number in 0..PER_FILE {
        if number % 100 == 0 {
            let textname = format!("2017-01-02/report-{file}-{number}.json");
            let report = NewReport {
                textname,
                src_size: 2_000_000,
                sent: None,
            };
            load.report(&report).await.unwrap();
        }
        let mut uid = [0; 20];
        rng.fill(&mut uid);
        let measurement = NewMeasurement {
            uid: Uid::from_bytes(uid).to_string(),
            place: Place {
                frame_off: number * 4_000,
                frame_size: 56_000,
                intra_off: number % 13 * 20_000,
                intra_size: 20_000,
            },
            time_ms: Some(1_483_315_200_000),
            digest: None,
            rows: Vec::new(),
        };
        load.measurement(measurement).await.unwrap();
    }
    load.commit(async { Ok(()) }).await.unwrap();
}
