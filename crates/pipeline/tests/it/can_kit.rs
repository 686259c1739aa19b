//! Reports to can, lakes to can them in, and a look at what is really there.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::can::{CanReader, CannedObject, read_canned_index};
use cannery_formats::frames::{FrameCodec, FrameEncoder};
use cannery_formats::gz_lines::IndexLimits;
use cannery_formats::{BucketDate, Key, Kind, LakeKey, ReportName};
use cannery_journal::{Declaration, Journal, Memory, Query};
use cannery_lake::{DiskStore, Lake, LakeMetrics, Parts, RetryPolicy};
use cannery_pipeline::Scratch;
use cannery_pipeline::canning::Canner;
use cannery_pipeline::discover::{Discovered, Discoverer, Reach};
use cannery_pipeline::inputs::{Choice, Inputs, Reports};
use cannery_pipeline::seal::Sealer;
use cannery_pipeline::stage::Plant;
use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::{Clock, RealDisk, Rng};
use cannery_testkit::reports;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use std::io::Read as _;
use tempfile::TempDir;

pub(crate) const CAN_BYTES: u64 = 100_000;

/// Objects by their keys.
pub(crate) type Objects = BTreeMap<String, Vec<u8>>;

/// The texts of reports by their names.
pub(crate) type Texts = BTreeMap<String, Vec<u8>>;

pub(crate) fn bucket() -> BucketDate {
    "2017-01-01".parse().unwrap()
}

/// A moment in the day after the bucket's.
pub(crate) fn clock() -> Clock {
    SimulatedClock::impatient("2017-01-02T12:00:00Z".parse().unwrap()).clock()
}

/// A place with a lake.
pub(crate) struct Works {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) lake: Lake,
    /// Where archives are, if that is elsewhere.
    pub(crate) apart: Option<Lake>,
    pub(crate) scratch: TempDir,
    pub(crate) codec: FrameCodec,
    pub(crate) level: i32,
}

pub(crate) fn lake_on(store: Arc<dyn ObjectStore>, attempt: Duration) -> Lake {
    Lake::new(Parts {
        id: "main".into(),
        url: "memory:".into(),
        store,
        prefix: "some/prefix".into(),
        clock: clock(),
        rng: Rng::seeded(1),
        retry: RetryPolicy {
            attempt,
            bytes_per_second: u64::MAX,
            deadline: Duration::from_secs(5),
            ..RetryPolicy::default()
        },
        metrics: LakeMetrics::default(),
    })
    .unwrap()
}

impl Works {
    pub(crate) fn in_memory() -> Self {
        Self::on(Arc::new(InMemory::new()))
    }

    /// On a store in a folder of its own.
    pub(crate) fn on_disk() -> Self {
        let mut works = Self::in_memory();
        let root = works.scratch.path().join("lake");
        let store = DiskStore::new(Arc::new(RealDisk), root, Rng::from_os());
        works.store = Arc::new(store);
        works.lake = lake_on(Arc::clone(&works.store), Duration::from_secs(600));
        works
    }

    fn on(store: Arc<dyn ObjectStore>) -> Self {
        Self {
            lake: lake_on(Arc::clone(&store), Duration::from_secs(600)),
            store,
            apart: None,
            scratch: tempfile::tempdir().unwrap(),
            codec: FrameCodec::Lz4,
            level: 5,
        }
    }

    /// Where archives are.
    pub(crate) fn public(&self) -> &Lake {
        self.apart.as_ref().unwrap_or(&self.lake)
    }

    pub(crate) fn plant(&self, lake: &Lake) -> Plant {
        let folder = self.scratch.path().join("scratch");
        Plant {
            raw: lake.clone(),
            public: self.apart.as_ref().unwrap_or(lake).clone(),
            scratch: Scratch::open(&folder, Rng::from_os()).unwrap(),
            clock: clock(),
            encoder: FrameEncoder::new(self.codec, self.level).unwrap(),
            can_bytes: CAN_BYTES,
            frame_bytes: 262_144,
            lake_key: LakeKey::new([1; 32]),
        }
    }

    pub(crate) fn inputs(&self, lake: &Lake) -> Inputs {
        Inputs {
            lake: lake.clone(),
            reports: Some(Reports::Lake),
            spools: Choice::All,
            feeds: Choice::All,
            settle: Duration::ZERO,
        }
    }

    pub(crate) fn canner_on(&self, lake: &Lake, journal: Option<Journal>) -> Canner {
        Canner::new(self.plant(lake), self.inputs(lake), journal)
    }

    pub(crate) fn canner(&self) -> Canner {
        self.canner_on(&self.lake, None)
    }

    pub(crate) fn sealer(&self) -> Sealer {
        Sealer::new(self.plant(&self.lake), self.inputs(&self.lake), None)
    }

    pub(crate) async fn put(&self, key: &Key, content: &[u8]) {
        self.lake.put_new(key, content.to_vec()).await.unwrap();
    }

    pub(crate) async fn fill(&self, texts: &Texts) {
        for (name, text) in texts {
            self.put(&key_of(name), text).await;
        }
    }

    /// Every object below `canned/` of the bucket.
    pub(crate) async fn objects(&self) -> Objects {
        self.objects_of(bucket()).await
    }

    pub(crate) async fn objects_of(&self, bucket: BucketDate) -> Objects {
        let folder = Key::canned_folder(Some(bucket));
        let mut objects = Objects::new();
        for entry in self.lake.list_all(Some(&folder)).await.unwrap() {
            let object = self.lake.get(&entry.key, 1 << 30).await.unwrap();
            objects.insert(entry.key.to_string(), object.bytes.to_vec());
        }
        objects
    }

    /// What is final: the index of the bucket and the cans that it names.
    pub(crate) async fn sealed(&self) -> Objects {
        let mut objects = self.objects().await;
        let key = Key::canned_index(bucket()).to_string();
        let index = objects.remove(&key).expect("the bucket is not sealed");
        let mut sealed: Objects = named(&index)
            .into_iter()
            .map(|can| objects.remove_entry(&can).expect("a can is not there"))
            .collect();
        sealed.insert(key, index);
        sealed
    }

    /// The reports in the cans that indexes name, read and verified. No report may be there twice.
    pub(crate) async fn texts(&self) -> Texts {
        self.texts_of(bucket()).await
    }

    pub(crate) async fn texts_of(&self, bucket: BucketDate) -> Texts {
        let objects = self.objects_of(bucket).await;
        let is_sealed = objects.contains_key(Key::canned_index(bucket).as_str());
        let mut texts = Texts::new();
        for (key, index) in &objects {
            let counts = match Key::new(key.as_str()).unwrap().as_canned().unwrap().1 {
                CannedObject::SealedIndex => true,
                CannedObject::OpenIndex(_) => !is_sealed,
                _ => false,
            };
            if counts {
                read_cans(&objects, index, &mut texts);
            }
        }
        texts
    }

    pub(crate) fn discoverer(&self, journal: Journal) -> Discoverer {
        let grace = Duration::from_secs(3_600);
        let (plant, inputs) = (self.plant(&self.lake), self.inputs(&self.lake));
        Discoverer::new(plant, inputs, journal, Rng::seeded(1), grace)
    }

    /// What a look at everything finds in no can.
    pub(crate) async fn look(&self) -> Discovered {
        let looked = self.discoverer(journal());
        looked.look(Reach::Whole).await.unwrap()
    }

    pub(crate) fn has_no_scratch_left(&self) -> bool {
        let folder = self.scratch.path().join("scratch");
        std::fs::read_dir(folder).unwrap().next().is_none()
    }
}

fn named(index: &[u8]) -> Vec<String> {
    let index = read_canned_index(index, IndexLimits::default()).unwrap();
    let files = index.files.iter();
    files
        .map(|file| Key::canned(&file.filename).to_string())
        .collect()
}

fn read_cans(objects: &Objects, index: &[u8], texts: &mut Texts) {
    let index = read_canned_index(index, IndexLimits::default()).unwrap();
    for record in &index.files {
        let can = &objects[Key::canned(&record.filename).as_str()];
        let mut reader = CanReader::new(&can[..], record).unwrap();
        while let Some(mut entry) = reader.next().unwrap() {
            let name = entry.text().textname.to_string();
            let mut text = Vec::new();
            entry.read_to_end(&mut text).unwrap();
            assert!(texts.insert(name.clone(), text).is_none(), "{name} twice");
        }
    }
}

/// The key of the report file with this name.
pub(crate) fn key_of(name: &str) -> Key {
    Key::new(format!("reports-raw/{name}")).unwrap()
}

/// The reports of a bucket, with some that have odd names.
pub(crate) fn some_reports(seed: u64) -> Texts {
    let options = reports::Options {
        seed,
        json_reports: 18,
        yaml_reports: 3,
        measurements: 2,
        ..reports::Options::default()
    };
    let mut texts: Texts = reports::bucket(options)
        .map(|report| (format!("{}/{}", bucket(), report.name), report.content))
        .collect();
    for (name, text) in [("odd name", "abc"), ("empty", ""), ("a.tar", "x")] {
        texts.insert(format!("{}/{name}", bucket()), text.into());
    }
    let long = b"{\"a\":1}\n".repeat(20_000);
    texts.insert(format!("{}/long", bucket()), long);
    texts
}

/// The keys of reports, by their kinds.
pub(crate) fn by_kind<'n>(names: impl IntoIterator<Item = &'n String>) -> BTreeMap<Kind, Vec<Key>> {
    let mut kinds = BTreeMap::<Kind, Vec<Key>>::new();
    for name in names {
        let (_, file) = name.split_once('/').unwrap();
        let kind = ReportName::kind_of(file);
        kinds.entry(kind).or_default().push(key_of(name));
    }
    kinds
}

/// Adds reports to open cans.
pub(crate) async fn open_all(canner: &Canner, names: &[&String]) {
    for (kind, keys) in by_kind(names.iter().copied()) {
        let report = canner.open(bucket(), &kind, &keys).await.unwrap();
        assert!(!report.is_closed && report.refused.is_empty(), "{report:?}");
    }
}

/// What the bucket is when it is made at once.
pub(crate) async fn expected(texts: &Texts) -> Objects {
    let works = Works::in_memory();
    works.fill(texts).await;
    works.canner().bucket(bucket()).await.unwrap();
    works.sealed().await
}

pub(crate) fn journal() -> Journal {
    let memory = Memory::new(Declaration::default(), clock(), Rng::seeded(1));
    Journal::new("pipeline", Arc::new(memory))
}

pub(crate) async fn entries(journal: &Journal) -> Vec<(String, String)> {
    let page = journal.list(Query::all()).await.unwrap();
    let entries = page.entries.iter().map(|entry| {
        let data = String::from_utf8(entry.data.as_bytes().to_vec()).unwrap();
        (entry.key.to_string(), data)
    });
    let mut entries: Vec<_> = entries.collect();
    entries.sort();
    entries
}
