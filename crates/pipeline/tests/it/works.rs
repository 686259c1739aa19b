//! Cans to make archives of, a lake and a catalog for them, and a look at what is really there.

use std::collections::BTreeMap;
use std::sync::Arc;

use cannery_catalog::Catalog;
use cannery_formats::archive::{Generation, Place};
use cannery_formats::can::{
    BucketFile, CanText, Canned, CannedFile, CannedText, FileName, TextName,
};
use cannery_formats::frames::{FrameCodec, FrameEncoder, FrameFile};
use cannery_formats::{BucketDate, Key, Kind, LakeKey, ReportName, Sums};
use cannery_lake::{DiskStore, Lake};
use cannery_pipeline::Scratch;
use cannery_pipeline::autoclave::{Autoclave, AutoclaveReport};
use cannery_pipeline::centrifuge::{Centrifuge, CentrifugeReport, Target};
use cannery_pipeline::features::Features;
use cannery_pipeline::stage::Plant;
use cannery_runtime::{Clock, RealDisk, Rng};
use cannery_sanitise::{Context, Format, Measurements, Rules, Sanitiser};
use cannery_testkit::reports::{self, Options};
use futures::FutureExt as _;
use futures::TryStreamExt as _;
use object_store::memory::InMemory;
use object_store::{ObjectStore, ObjectStoreExt as _};
use tempfile::TempDir;

use crate::kit::{Way, lake};

pub(crate) const KEY: [u8; 32] = [7; 32];
pub(crate) const FRAME_BYTES: u64 = 16 * 1024;

pub(crate) const FEATURES: &str = r#"
time:
  - {at: measurement_start_time, format: "%Y-%m-%d %H:%M:%S"}
features:
  - table: verdict
    version: 1
    kinds: [web_connectivity]
    filter: '{input, blocking: (.test_keys.blocking | tostring)}'
    columns: [{name: input, type: text}, {name: blocking, type: text}]
  - table: origin
    version: 1
    filter: '{cc: .probe_cc, asn: .probe_asn}'
    columns: [{name: cc, type: text}, {name: asn, type: text}]
aggregates:
  - table: per_day
    version: 1
    query: select count(*) from measurement where date = $1
    columns: [{name: count, type: int}]
"#;

pub(crate) fn bucket() -> BucketDate {
    "2017-01-01".parse().unwrap()
}

/// Rules that change something, and name a table.
pub(crate) fn ooni() -> Arc<Rules> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/ooni");
    let read = |name: &str| std::fs::read_to_string(folder.join(name));
    let rules = read("rules.yml").unwrap();
    let table = |name: &str| read(name).map_err(|error| error.to_string());
    Arc::new(Rules::parse(&rules, table).unwrap())
}

/// A lake and what works on it.
pub(crate) struct Works {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) plant: Plant,
    pub(crate) catalog: Catalog,
    pub(crate) rules: Arc<Rules>,
    pub(crate) features: Arc<Features>,
    kept: TempDir,
}

impl Works {
    pub(crate) async fn new() -> Self {
        Self::on(Arc::new(InMemory::new())).await
    }

    pub(crate) async fn on(store: Arc<dyn ObjectStore>) -> Self {
        let kept = tempfile::tempdir().unwrap();
        let path = kept.path().join("catalog.sqlite");
        let catalog = Catalog::open(path.to_str().unwrap(), Clock::real())
            .await
            .unwrap();
        Self::with(store, catalog, kept).await
    }

    pub(crate) async fn with(store: Arc<dyn ObjectStore>, catalog: Catalog, kept: TempDir) -> Self {
        let lake = lake("main", Arc::clone(&store), Way::Swapped);
        let scratch = kept.path().join("scratch");
        let clock = Clock::real();
        let works = Self {
            plant: Plant {
                raw: lake.clone(),
                public: lake,
                scratch: Scratch::open(&scratch, Rng::seeded(3)).unwrap(),
                clock,
                encoder: FrameEncoder::new(FrameCodec::Lz4, 5).unwrap(),
                can_bytes: 1 << 20,
                frame_bytes: FRAME_BYTES,
                lake_key: LakeKey::new(KEY),
            },
            store,
            catalog,
            rules: ooni(),
            features: Arc::new(Features::parse(FEATURES).unwrap()),
            kept,
        };
        works.centrifuge().declare().await.unwrap();
        works
    }

    /// A store on the disk.
    pub(crate) fn disk(folder: &TempDir) -> Arc<dyn ObjectStore> {
        Arc::new(DiskStore::new(
            Arc::new(RealDisk),
            folder.path().join("lake"),
            Rng::from_os(),
        ))
    }

    pub(crate) fn lake(&self) -> &Lake {
        &self.plant.public
    }

    pub(crate) fn autoclave(&self) -> Autoclave {
        Autoclave {
            plant: self.plant.clone(),
            rules: Arc::clone(&self.rules),
        }
    }

    pub(crate) fn centrifuge(&self) -> Centrifuge {
        Centrifuge {
            plant: self.plant.clone(),
            catalog: self.catalog.clone(),
            features: Arc::clone(&self.features),
        }
    }

    pub(crate) fn generation(&self) -> Generation {
        self.autoclave().generation()
    }

    pub(crate) async fn put(&self, can: &Can) {
        let key = Key::canned(&can.record.filename);
        self.plant
            .raw
            .put_new(&key, can.bytes.clone())
            .await
            .unwrap();
    }

    pub(crate) async fn autoclaved(&self, can: &Can) -> AutoclaveReport {
        self.autoclave().run(&can.record).await.unwrap()
    }

    pub(crate) async fn centrifuged(&self, file: &BucketFile) -> CentrifugeReport {
        self.centrifuged_in_place_of(file, &[]).await
    }

    pub(crate) async fn centrifuged_in_place_of(
        &self,
        file: &BucketFile,
        replaces: &[BucketFile],
    ) -> CentrifugeReport {
        let target = Target {
            generation: self.generation(),
            file: file.clone(),
            replaces: replaces.to_vec(),
        };
        self.centrifuge().run(&target, &open).await.unwrap()
    }

    /// Every object of the store but the one that says which rules are in force, and since when.
    pub(crate) async fn objects(&self) -> BTreeMap<String, Vec<u8>> {
        let listed: Vec<_> = self.store.list(None).try_collect().await.unwrap();
        let mut objects = BTreeMap::new();
        for meta in listed {
            if meta.location.filename() == Some("current.json") {
                continue;
            }
            let got = self.store.get(&meta.location).await.unwrap();
            let bytes = got.bytes().await.unwrap().to_vec();
            objects.insert(meta.location.to_string(), bytes);
        }
        objects
    }

    /// The measurement, as one ranged read of the lake gives it.
    pub(crate) async fn text_of(&self, uid: &str) -> Vec<u8> {
        let found = self.catalog.lookup(uid).await.unwrap();
        let found = found.unwrap_or_else(|| panic!("`{uid}` is not in the catalog"));
        let place = Place {
            frame_off: found.place.frame_off,
            frame_size: found.place.frame_size,
            intra_off: found.place.intra_off,
            intra_size: found.place.intra_size,
        };
        let file: BucketFile = found.file.parse().unwrap();
        let key = Key::autoclaved(found.generation.parse().unwrap(), &file);
        let range = place.frame_off..place.frame_off + place.frame_size;
        let frame = self.lake().get_range(&key, range).await.unwrap();
        place.extract(&frame, file.name.codec(), 1 << 30).unwrap()
    }

    pub(crate) async fn close(self) {
        self.catalog.close().await;
        drop(self.kept);
    }
}

/// A load may always go on.
pub(crate) fn open() -> futures::future::BoxFuture<'static, Result<(), String>> {
    async { Ok(()) }.boxed()
}

/// A can, and what is in it.
#[derive(Clone)]
pub(crate) struct Can {
    pub(crate) record: CannedFile,
    pub(crate) bytes: Vec<u8>,
    pub(crate) reports: Vec<(TextName, Vec<u8>)>,
}

/// A can as canning makes it.
pub(crate) fn can(
    name: impl FnOnce(&[CannedText]) -> FileName,
    is_tar: bool,
    codec: FrameCodec,
    mut reports: Vec<(TextName, Vec<u8>)>,
) -> Can {
    reports.sort();
    let encoder = FrameEncoder::new(codec, 1).unwrap();
    let mut text = if is_tar {
        CanText::tar(100_000)
    } else {
        CanText::plain(100_000)
    };
    let mut file = FrameFile::new(Vec::new(), codec);
    for (name, content) in &reports {
        text.begin(name, content.len() as u64, 5).unwrap();
        text.write(content).unwrap();
        text.end().unwrap();
        while let Some(frame) = text.take_frame() {
            let compressed = encoder.encode(&frame).unwrap();
            file.push(&compressed, frame.len() as u64).unwrap();
        }
    }
    let end = text.finish().unwrap();
    for frame in &end.frames {
        let compressed = encoder.encode(frame).unwrap();
        file.push(&compressed, frame.len() as u64).unwrap();
    }
    let (bytes, sums) = file.finish().unwrap();
    assert_eq!(sums, Sums::of(&bytes));
    let members = match &end.canned {
        Canned::Tar { texts, .. } => texts.clone(),
        Canned::Plain(text) => vec![text.clone()],
    };
    Can {
        record: CannedFile {
            filename: BucketFile::new(bucket(), name(&members)),
            file: sums,
            canned: end.canned,
        },
        bytes,
        reports,
    }
}

/// An open can of one kind.
pub(crate) fn open_can(kind: &Kind, codec: FrameCodec, reports: Vec<(TextName, Vec<u8>)>) -> Can {
    can(
        |members| FileName::open(kind, members, codec),
        true,
        codec,
        reports,
    )
}

/// Reports by their names.
pub(crate) type Reports = Vec<(TextName, Vec<u8>)>;

/// Reports like those of OONI, by kind, and what is in them.
pub(crate) fn by_kind(options: Options) -> (BTreeMap<Kind, Reports>, reports::Expected) {
    let mut kinds: BTreeMap<Kind, Vec<_>> = BTreeMap::new();
    let mut expected = reports::Expected::default();
    for report in reports::bucket(options) {
        let kind = ReportName::kind_of(&report.name);
        let name = TextName::of_report_file(bucket(), &report.name).unwrap();
        kinds.entry(kind).or_default().push((name, report.content));
        expected += report.expected;
    }
    (kinds, expected)
}

/// What the measurements of a report become, by uid: computed without any of the stages.
pub(crate) fn sanitised(
    rules: &Rules,
    name: &TextName,
    content: &[u8],
) -> BTreeMap<String, Vec<u8>> {
    let report = ReportName::parse(name.file_name());
    let kind = ReportName::kind_of(name.file_name()).to_string();
    let bucket = bucket().to_string();
    let context = Context {
        bucket: &bucket,
        textname: name.as_str(),
        kind: &kind,
        report_id: report.as_ref().map(|report| report.report_id.as_str()),
        time_ms: report.as_ref().map(|report| report.time.as_millisecond()),
    };
    let format = if name.as_str().ends_with(".yaml") {
        Format::Yaml
    } else {
        Format::Json
    };
    let sanitiser = Sanitiser::new(rules, LakeKey::new(KEY));
    let mut measurements = Measurements::of(content, format);
    let mut lines = BTreeMap::new();
    while let Some(measurement) = measurements.next().unwrap() {
        let mut line = Vec::new();
        let Ok(raw) = measurement.raw else { continue };
        if let Ok(clean) = sanitiser.measurement(raw, &context, &mut line) {
            assert_eq!(line.pop(), Some(b'\n'));
            lines.insert(clean.uid.to_string(), line);
        }
    }
    lines
}
