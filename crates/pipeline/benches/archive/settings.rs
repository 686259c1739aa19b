//! What the stages are told: the rules of every bucket, five features, a lake and a scratch folder in the bench's own.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::archive::FRAME_BYTES;
use cannery_formats::can::CAN_BYTES;
use cannery_formats::frames::{FrameCodec, FrameEncoder};
use cannery_lake::{DiskStore, Lake, LakeMetrics, Parts, RetryPolicy};
use cannery_pipeline::features::Features;
use cannery_pipeline::inputs::{Choice, Inputs, Reports};
use cannery_pipeline::stage::Plant;
use cannery_pipeline::{Scratch, lake_key};
use cannery_runtime::disk::create_dir_all;
use cannery_runtime::{Clock, RealDisk, Rng};
use cannery_sanitise::Rules;

const RULES: &str = "version: 1
rules:
  - {op: null_fill, at: [input, input_hashes, options, probe_asn, probe_cc, probe_city, backend_version, test_helpers]}
  - {op: stamp, at: [bucket_date], from: bucket_date}
  - {op: stamp, at: [report_filename], from: textname}
  - {op: content_id, at: [id]}
  - {op: truncate_ip, at: [probe_ip, test_keys.client_resolver]}
";

const FEATURES: &str = r#"
time:
  - {at: measurement_start_time, format: "%Y-%m-%d %H:%M:%S"}
features:
  - table: probe
    version: 1
    filter: '{cc: .probe_cc, asn: .probe_asn, software: .software_name, software_version, runtime: .test_runtime}'
    columns: [{name: cc, type: text}, {name: asn, type: text}, {name: software, type: text}, {name: software_version, type: text}, {name: runtime, type: float}]
  - table: verdict
    version: 1
    filter: '{input, blocking: (.test_keys.blocking | tostring), accessible: .test_keys.accessible}'
    columns: [{name: input, type: text}, {name: blocking, type: text}, {name: accessible, type: bool}]
  - table: request
    version: 1
    filter: '.test_keys.requests[]? | {url: .request.url, code: .response.code, failure}'
    columns: [{name: url, type: text}, {name: code, type: int}, {name: failure, type: text}]
  - table: answer
    version: 1
    filter: '.test_keys.queries[]? | .hostname as $host | .answers[]? | {host: $host, ip: .ipv4, ttl}'
    columns: [{name: host, type: text}, {name: ip, type: text}, {name: ttl, type: int}]
  - table: connection
    version: 1
    filter: '.test_keys.tcp_connect[]? | {ip, port, works: .status.success}'
    columns: [{name: ip, type: text}, {name: port, type: int}, {name: works, type: bool}]
"#;

pub(crate) fn rules() -> Arc<Rules> {
    Arc::new(Rules::parse(RULES, |_| Err("no table".to_owned())).unwrap())
}

pub(crate) fn features() -> Arc<Features> {
    Arc::new(Features::parse(FEATURES).unwrap())
}

pub(crate) fn encoder() -> FrameEncoder {
    FrameEncoder::new(FrameCodec::Lz4, 5).unwrap()
}

pub(crate) async fn plant(folder: &Path) -> Plant {
    let lake = lake(folder);
    Plant {
        raw: lake.clone(),
        public: lake.clone(),
        scratch: Scratch::open(&folder.join("scratch"), Rng::from_os()).unwrap(),
        clock: Clock::real(),
        encoder: encoder(),
        can_bytes: CAN_BYTES,
        frame_bytes: FRAME_BYTES as u64,
        lake_key: lake_key(&lake, &Rng::from_os()).await.unwrap(),
    }
}

pub(crate) fn inputs(folder: &Path, plant: &Plant) -> Inputs {
    Inputs {
        lake: plant.raw.clone(),
        reports: Some(Reports::Folder(folder.join("reports"))),
        spools: Choice::None,
        feeds: Choice::None,
        settle: Duration::ZERO,
    }
}

fn lake(folder: &Path) -> Lake {
    let root = folder.join("lake");
    create_dir_all(&RealDisk, &root).unwrap();
    let lake = Lake::new(Parts {
        id: "main".to_owned(),
        url: format!("file://{}", root.display()),
        store: Arc::new(DiskStore::new(Arc::new(RealDisk), root, Rng::from_os())),
        prefix: String::new(),
        clock: Clock::real(),
        rng: Rng::from_os(),
        retry: RetryPolicy::default(),
        metrics: LakeMetrics::default(),
    });
    lake.unwrap()
}
