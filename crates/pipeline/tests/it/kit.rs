//! Archives to merge, stores to merge them in, and a look at what is really there.

use std::collections::{BTreeSet, HashMap};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cannery_formats::feed::{
    ArchiveName, Codec, ContentSet, FeedId, FoundName, Holding, Hour, Member,
};
use cannery_formats::hour_archive::{ArchiveWriter, Compression, Limits, survey};
use cannery_formats::{Digest, Key};
use cannery_lake::{Honours, Lake, LakeMetrics, Parts, RetryPolicy};
use cannery_pipeline::consolidate::{Consolidator, Report};
use cannery_pipeline::{Algorithm, HourFolder, Scratch, Store};
use cannery_runtime::Rng;
use cannery_runtime::clock::SimulatedClock;
use futures::TryStreamExt as _;
use object_store::memory::InMemory;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt as _};
use tempfile::TempDir;

const PREFIX: &str = "some/prefix";

pub(crate) fn feed() -> FeedId {
    FeedId::new("f").unwrap()
}

pub(crate) fn hour() -> Hour {
    "20261115T18Z".parse().unwrap()
}

/// What a store can do, and what is configured: the three ways in which an hour becomes one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Hashed,
    Swapped,
    Projected,
}

pub(crate) const WAYS: [Way; 3] = [Way::Hashed, Way::Swapped, Way::Projected];

/// An archive as a replica uploads it.
#[derive(Clone, Debug)]
pub(crate) struct Upload {
    pub(crate) key: Key,
    pub(crate) bytes: Vec<u8>,
}

/// A set of members whose names are the words; the content of `name:text` is the text.
pub(crate) fn set(words: &str) -> ContentSet {
    let bodies = bodies(words);
    let member = |(name, body): (String, Vec<u8>)| {
        Member::new(name, body.len() as u64, Digest::of(&body)).unwrap()
    };
    bodies.into_iter().map(member).collect()
}

fn bodies(words: &str) -> Vec<(String, Vec<u8>)> {
    let pair = |word: &str| match word.split_once(':') {
        Some((name, text)) => (name.to_owned(), text.as_bytes().to_vec()),
        None => (word.to_owned(), format!("body of {word}").into_bytes()),
    };
    words.split_whitespace().map(pair).collect()
}

pub(crate) fn upload(words: &str, codec: Codec) -> Upload {
    upload_of(hour(), words, codec)
}

/// An archive of any hour.
pub(crate) fn upload_of(hour: Hour, words: &str, codec: Codec) -> Upload {
    let (set, bodies) = (set(words), bodies(words));
    let compression = Compression { codec, level: None };
    let mut writer = ArchiveWriter::new(Vec::new(), &feed(), hour, &set, &compression).unwrap();
    while let Some(member) = writer.next_member() {
        let is_it = |(name, body): &&(String, Vec<u8>)| {
            name == member.name() && Digest::of(body) == member.sha256()
        };
        let (_, body) = bodies.iter().find(is_it).unwrap();
        writer.append(body.as_slice()).unwrap();
    }
    Upload {
        key: named(hour, Holding::Set(set.hash(), codec)),
        bytes: writer.finish().unwrap(),
    }
}

pub(crate) fn secondary(set: &ContentSet, codec: Codec) -> Key {
    named(hour(), Holding::Set(set.hash(), codec))
}

pub(crate) fn primary() -> Key {
    named(hour(), Holding::Primary)
}

fn named(hour: Hour, holding: Holding) -> Key {
    Key::feed_archive(&ArchiveName {
        feed: feed(),
        hour,
        holding,
    })
}

/// A key with any name in the folder of the hour.
pub(crate) fn in_hour(name: &str) -> Key {
    Key::new(format!("{}/{name}", Key::feed_hour(&feed(), hour()))).unwrap()
}

/// Where an object of such a lake really is.
pub(crate) fn path_of(key: &Key) -> object_store::path::Path {
    object_store::path::Path::from(format!("{PREFIX}/{key}"))
}

/// A lake whose pauses take no time, and that does not wait long for an answer.
pub(crate) fn lake(id: &str, store: Arc<dyn ObjectStore>, way: Way) -> Lake {
    lake_within(Duration::from_millis(100), id, store, way)
}

/// A lake on a store that always answers in the end.
pub(crate) fn patient_lake(id: &str, store: Arc<dyn ObjectStore>, way: Way) -> Lake {
    lake_within(Duration::from_secs(600), id, store, way)
}

fn lake_within(attempt: Duration, id: &str, store: Arc<dyn ObjectStore>, way: Way) -> Lake {
    let clock = SimulatedClock::impatient("2026-11-15T20:00:00Z".parse().unwrap()).clock();
    let lake = Lake::new(Parts {
        id: id.into(),
        url: "memory:".into(),
        store,
        prefix: PREFIX.into(),
        clock,
        rng: Rng::seeded(1),
        retry: RetryPolicy {
            attempt,
            bytes_per_second: u64::MAX,
            deadline: Duration::from_secs(5),
            ..RetryPolicy::default()
        },
        metrics: LakeMetrics::default(),
    });
    let lake = lake.unwrap();
    lake.set_honours(Honours {
        create: true,
        update: way != Way::Projected,
    });
    lake
}

pub(crate) fn store(lake: Lake, way: Way) -> Store {
    let algorithm = match way {
        Way::Hashed => Algorithm::Hashed,
        Way::Swapped | Way::Projected => Algorithm::Primary,
    };
    Store::new(lake, algorithm)
}

/// The path and the version of an object.
type Version = (String, Option<String>);

/// One object storage as it really is, and somebody who consolidates in it without any trouble.
pub(crate) struct Bucket {
    pub(crate) raw: Arc<InMemory>,
    pub(crate) way: Way,
    pub(crate) honest: Store,
    pub(crate) scratch: TempDir,
    consolidator: Consolidator,
    /// What is in the objects that were looked at, by their versions.
    surveyed: Mutex<HashMap<Version, Option<ContentSet>>>,
}

impl Bucket {
    pub(crate) fn new(way: Way) -> Self {
        Self::named("main", way)
    }

    pub(crate) fn named(id: &str, way: Way) -> Self {
        let raw = Arc::new(InMemory::new());
        let honest = store(patient_lake(id, raw.clone(), way), way);
        let scratch = tempfile::tempdir().unwrap();
        let folder = Scratch::open(scratch.path(), Rng::from_os()).unwrap();
        Self {
            raw,
            way,
            honest,
            scratch,
            consolidator: Consolidator::new(folder),
            surveyed: Mutex::default(),
        }
    }

    pub(crate) fn consolidator(&self) -> Consolidator {
        self.consolidator.clone()
    }

    pub(crate) async fn upload(&self, upload: &Upload) {
        let lake = &self.honest.lake;
        lake.put_new(&upload.key, upload.bytes.clone())
            .await
            .unwrap();
    }

    pub(crate) async fn put(&self, key: &Key, bytes: &[u8]) {
        let lake = &self.honest.lake;
        lake.put_new(key, bytes.to_vec()).await.unwrap();
    }

    pub(crate) async fn consolidate(&self) -> Report {
        let consolidator = self.consolidator();
        let feed = feed();
        let report = consolidator.consolidate(&self.honest, &feed, hour());
        report.await.unwrap()
    }

    /// What is there at one moment: on one thread, nothing of this waits for anybody.
    pub(crate) async fn look(&self) -> Look {
        let mut look = Look::default();
        let objects: Vec<_> = self.raw.list(None).try_collect().await.unwrap();
        for object in objects {
            let key = object.location.as_ref().strip_prefix("some/prefix/");
            let key = Key::new(key.unwrap()).unwrap();
            if key.is_internal() {
                continue;
            }
            if let FoundName::Tombstone = FoundName::of(&feed(), hour(), key.file_name()) {
                look.tombstone = true;
                continue;
            }
            match self.surveyed(&object).await {
                Some(set) => look.archives.push((key, set)),
                None => look.other.push(key),
            }
        }
        look
    }

    async fn surveyed(&self, object: &ObjectMeta) -> Option<ContentSet> {
        let version = (object.location.to_string(), object.e_tag.clone());
        if let Some(known) = self.surveyed.lock().unwrap().get(&version) {
            return known.clone();
        }
        let got = self.raw.get(&object.location).await.unwrap();
        let bytes = got.bytes().await.unwrap();
        let found = survey(&bytes[..], &feed(), hour(), &Limits::default()).ok();
        let set = found.map(|found| found.set);
        self.surveyed.lock().unwrap().insert(version, set.clone());
        set
    }

    pub(crate) async fn folder(&self) -> HourFolder {
        let lake = &self.honest.lake;
        HourFolder::list(lake, &feed(), hour()).await.unwrap()
    }

    /// Whether the hour is one archive of exactly this, as the way says.
    pub(crate) async fn assert_one(&self, whole: &ContentSet, context: &str) {
        let look = self.look().await;
        let keys: Vec<_> = look.archives.iter().map(|(key, _)| key.clone()).collect();
        match self.way {
            Way::Hashed => assert_eq!(keys.len(), 1, "{context}: {keys:?}"),
            Way::Swapped => assert_eq!(keys, [primary()], "{context}"),
            Way::Projected => {
                assert_eq!(keys.len(), 2, "{context}: {keys:?}");
                assert!(keys.contains(&primary()), "{context}: {keys:?}");
            }
        }
        for (key, set) in &look.archives {
            assert_eq!(set, whole, "{context}: {key}");
        }
        let folder = self.folder().await;
        let parts = folder.secondaries.len() + folder.foreign.len();
        assert_eq!(parts, usize::from(self.way != Way::Swapped), "{context}");
        no_name_twice(whole, context);
    }
}

/// Every entry that a replica uploaded is there once.
fn no_name_twice(set: &ContentSet, context: &str) {
    let names: BTreeSet<_> = set.iter().map(Member::name).collect();
    assert_eq!(names.len(), set.len(), "{context}");
}

/// The archives of an hour.
#[derive(Debug, Default)]
pub(crate) struct Look {
    pub(crate) archives: Vec<(Key, ContentSet)>,
    pub(crate) other: Vec<Key>,
    pub(crate) tombstone: bool,
}

impl Look {
    pub(crate) fn whole(&self) -> ContentSet {
        let sets = self.archives.iter().map(|(_, set)| set);
        sets.fold(ContentSet::default(), |whole, set| whole.union(set))
    }

    /// What must never become less: where the primary is only a copy, it does not count.
    pub(crate) fn counted(&self, way: Way) -> ContentSet {
        let counts = |key: &Key| way != Way::Projected || *key != primary();
        let archives = self.archives.iter().filter(|(key, _)| counts(key));
        archives.fold(ContentSet::default(), |all, (_, set)| all.union(set))
    }

    pub(crate) fn keys(&self) -> Vec<&Key> {
        self.archives.iter().map(|(key, _)| key).collect()
    }
}
