use std::io::{Read as _, Write as _};
use std::path::Path;
use std::time::Duration;

use cannery_formats::NodeName;
use cannery_formats::spool::{BundleTime, Datatype, Experiment, ObjectHome, Part, json_line};
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_lake::{ErrorKind, Lake, LakeMetrics, Parts, RetryPolicy};
use cannery_runtime::disk::{Open, RealDisk, create_dir_all, read, write_durably};
use cannery_runtime::{Clock, Rng};
use cannery_testkit::sim_disk::SimDisk;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use object_store::memory::InMemory;

use super::super::bundle::{OpenBundle, RowStyle, id_of};
use super::super::outbox::{FileRecord, Outbox, Sealed, Stored};
use super::super::place::FilePlace;
use super::super::remove::Remover;
use super::super::settings::{BadFiles, DatatypeSettings, SpoolFull};
use super::super::take::{Mark, Taken};
use super::orphan::Left;
use super::*;

mod indexes;
mod mirrors;
mod orphans;
mod pieces;
mod removals;

const DATE: &str = "2026/11/15";
const MIB: u64 = 1 << 20;

/// A node with its spool and its mirrors.
struct World {
    known: Known,
    /// One each for a mirror.
    faults: Vec<Faults>,
    /// Not of this world: only for sealing what is then put into the lake by hand.
    outbox: Outbox,
}

/// The two objects of a bundle, not in any lake yet.
struct Bundle {
    name: BundleName,
    data: Bytes,
    index: Bytes,
}

type Bytes = bytes::Bytes;

fn date() -> SpoolDate {
    SpoolDate::from_path(DATE).unwrap()
}

fn settings(home: &Path, node: &str) -> SpoolSettings {
    let datatype = |name| DatatypeSettings {
        name: Datatype::new(name).unwrap(),
        fields: Vec::new(),
    };
    SpoolSettings {
        experiment: Experiment::new("ndt").unwrap(),
        home: home.to_owned(),
        object_home: ObjectHome::new("autoload/v1", None).unwrap(),
        node: NodeName::parse(node).unwrap(),
        datatypes: vec![datatype("foo1"), datatype("bar1")],
        extensions: vec![String::new()],
        bundle_bytes_max: MIB,
        bundle_age_max: Duration::from_secs(3_600),
        min_file_age: Duration::ZERO,
        scan_interval: Duration::from_secs(300),
        settle: Duration::ZERO,
        bad_files: BadFiles::Keep,
        quarantine_bytes_max: MIB,
        spool_bytes_max: None,
        spool_full: SpoolFull::Refuse,
        id_column: true,
        index_loadable: false,
        version: "cannery@0.1.0".to_owned(),
        git_commit: "0".repeat(40),
    }
}

fn lake(id: &str, faults: &Faults) -> Lake {
    let store = FaultStore::new(Arc::new(InMemory::new()), faults.clone(), Clock::real());
    let parts = Parts {
        id: id.to_owned(),
        url: format!("memory:///{id}/"),
        store: Arc::new(store),
        prefix: String::new(),
        clock: Clock::real(),
        rng: Rng::seeded(3),
        retry: RetryPolicy {
            deadline: Duration::ZERO,
            ..RetryPolicy::default()
        },
        metrics: LakeMetrics::default(),
    };
    Lake::new(parts).unwrap()
}

impl World {
    fn new(mirrors: usize) -> Self {
        Self::on(Arc::new(SimDisk::new(7)), Path::new("/"), mirrors)
    }

    fn on(disk: Arc<dyn Disk>, base: &Path, mirrors: usize) -> Self {
        let faults: Vec<_> = (0..mirrors).map(|_| Faults::none()).collect();
        let lakes = ["a", "b", "c"].iter().zip(&faults);
        let lakes = lakes.map(|(id, faults)| lake(id, faults)).collect();
        let home = base.join("spool");
        for folder in ["foo1", "bar1"] {
            create_dir_all(&*disk, &home.join("ndt").join(folder).join(DATE)).unwrap();
        }
        Self {
            outbox: Outbox::open(Arc::clone(&disk), &base.join("bench")).unwrap(),
            faults,
            known: Known {
                mirrors: Mirrors::new(lakes).unwrap(),
                disk,
                settings: Arc::new(settings(&home, "mlab1-lga01")),
                in_outbox: BTreeSet::new(),
            },
        }
    }

    fn set(&mut self, change: impl FnOnce(&mut SpoolSettings)) {
        change(Arc::make_mut(&mut self.known.settings));
    }

    fn lake(&self, mirror: usize) -> &Lake {
        self.known.mirrors.iter().nth(mirror).unwrap()
    }

    fn path(&self, name: &str) -> PathBuf {
        self.known.folder(0).join(DATE).join(name)
    }

    /// A file of the first datatype.
    fn write(&self, name: &str, content: &str) {
        let (disk, path) = (&self.known.disk, self.path(name));
        disk.remove_file(&path).ok();
        let file = disk.open(&path, Open::CreateNew).unwrap();
        file.write_all_at(0, content.as_bytes()).unwrap();
        file.sync().unwrap();
        disk.sync_dir(path.parent().unwrap()).unwrap();
    }

    fn files(&self) -> Vec<String> {
        let folder = self.known.folder(0).join(DATE);
        let mut names: Vec<_> = self
            .known
            .disk
            .read_dir(&folder)
            .unwrap()
            .into_iter()
            .map(|entry| entry.name.into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    fn remove(&self, name: &str) {
        self.known.disk.remove_file(&self.path(name)).unwrap();
    }

    /// As a file is taken, but whatever its JSON is.
    fn take(&self, name: &str) -> Taken {
        let path = self.path(name);
        let content = read(&*self.known.disk, &path, MIB).unwrap();
        Taken {
            place: FilePlace {
                datatype: 0,
                date: date(),
                name: name.into(),
            },
            mark: Mark::from(&self.known.disk.metadata(&path).unwrap()),
            read: "2026-11-15T12:00:30Z".parse().unwrap(),
            sha256: Digest::of(&content),
            raw: json_line(&content).unwrap().into_owned(),
        }
    }

    fn name(&self, second: u8) -> BundleName {
        let settings = &self.known.settings;
        let opened = format!("20261115T1200{second:02}.000000Z");
        BundleName {
            home: settings.object_home.clone(),
            experiment: settings.experiment.clone(),
            datatype: settings.datatypes[0].name.clone(),
            date: date(),
            opened: opened.parse::<BundleTime>().unwrap(),
            node: settings.node.clone(),
        }
    }

    /// Bundles files of the spool as they are, in the way in which it is always done.
    fn bundle(&self, second: u8, files: &[&str]) -> Bundle {
        let settings = &self.known.settings;
        let style = RowStyle {
            version: settings.version.clone(),
            git_commit: settings.git_commit.clone(),
            lake_url: self.known.mirrors.first().url().to_owned(),
            id_column: settings.id_column,
            index_loadable: settings.index_loadable,
        };
        let name = self.name(second);
        let mut open = OpenBundle::begin(&self.outbox, name.clone(), &style).unwrap();
        for file in files {
            let taken = self.take(file);
            open.add(&taken, taken.read).unwrap();
        }
        let sealed = open.seal(&self.outbox).unwrap();
        let object = |part| {
            let path = self.outbox.object(&sealed.id, part);
            Bytes::from(read(&**self.outbox.disk(), &path, 64 * MIB).unwrap())
        };
        Bundle {
            data: object(Part::Data),
            index: object(Part::Index),
            name,
        }
    }

    async fn put(&self, mirror: usize, key: &Key, content: &Bytes) {
        let put = self.lake(mirror).put_new(key, content.clone()).await;
        assert_eq!(put.unwrap(), cannery_lake::PutNew::Created);
    }

    async fn put_data(&self, mirror: usize, bundle: &Bundle) {
        self.put(mirror, &bundle.name.data_key(), &bundle.data)
            .await;
    }

    async fn put_index(&self, mirror: usize, bundle: &Bundle) {
        self.put(mirror, &bundle.name.index_key(), &bundle.index)
            .await;
    }

    async fn get(&self, mirror: usize, key: &Key) -> Option<Bytes> {
        match self.lake(mirror).get(key, 64 * MIB).await {
            Ok(object) => Some(object.bytes),
            Err(error) if error.kind == ErrorKind::Absent => None,
            Err(error) => panic!("{error}"),
        }
    }

    async fn recall(&self) -> DateKnown {
        self.known.recall(0, date()).await.unwrap()
    }

    /// Whether a file of the spool is known as it is now.
    fn knows(&self, known: &DateKnown, name: &str) -> bool {
        let content = read(&*self.known.disk, &self.path(name), MIB).unwrap();
        known.has(name, &Digest::of(&content))
    }
}

fn gzip(text: &[u8]) -> Bytes {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::fast());
    gzip.write_all(text).unwrap();
    gzip.finish().unwrap().into()
}

fn text_of(gzip: &Bytes) -> String {
    let mut text = String::new();
    MultiGzDecoder::new(&gzip[..])
        .read_to_string(&mut text)
        .unwrap();
    text
}

/// The lines of an index without the time, which a mended one does not know so well.
fn entries(index: &Bytes) -> Vec<(String, u64, Digest)> {
    text_of(index)
        .lines()
        .map(|line| IndexLine::parse(line.as_bytes()).unwrap())
        .map(|line| (line.filename, line.size, line.sha256))
        .collect()
}
