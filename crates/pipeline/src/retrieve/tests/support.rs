//! A lake, archives for it, and a look at the tree that comes out.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::feed::{
    ArchiveName, Codec, ContentSet, DownloadName, FeedId, Holding, Hour, Member,
};
use cannery_formats::hour_archive::{ArchiveWriter, Compression};
use cannery_formats::{Digest, Key};
use cannery_lake::{Lake, LakeMetrics, Parts, RetryPolicy};
use cannery_runtime::Rng;
use cannery_runtime::clock::SimulatedClock;
use object_store::ObjectStore;
use object_store::memory::InMemory;
use tempfile::TempDir;

use super::disk::TestDisk;
use crate::retrieve::{Error, RetrieveOptions, Retrieved, Workplace, plan, run};
use crate::scratch::Scratch;

/// A member's name and body.
pub(super) type Body = (String, Vec<u8>);

/// Paths below the target with their content; a link is shown as one.
pub(super) type Tree = BTreeMap<String, String>;

pub(super) fn feed(id: &str) -> FeedId {
    FeedId::new(id).unwrap()
}

/// An hour of 15 November 2026.
pub(super) fn hour(of_day: u8) -> Hour {
    format!("20261115T{of_day:02}Z").parse().unwrap()
}

pub(super) fn body(name: &str, content: &str) -> Body {
    (name.to_owned(), content.as_bytes().to_vec())
}

/// A body as a collector stores it.
pub(super) fn download(id: &str, of_day: u8, minute: u8, content: &str) -> Body {
    let time = format!("2026-11-15T{of_day:02}:{minute:02}:00.250Z");
    let digest = Digest::of(content.as_bytes());
    let name = DownloadName::new(feed(id), time.parse().unwrap(), &digest, ".json");
    body(&name.to_string(), content)
}

fn member((name, content): &Body) -> Member {
    Member::new(name.as_str(), content.len() as u64, Digest::of(content)).unwrap()
}

pub(super) fn set_of(bodies: &[Body]) -> ContentSet {
    bodies.iter().map(member).collect()
}

/// The content of an archive of ours.
pub(super) fn packed(id: &str, hour: Hour, bodies: &[Body], codec: Codec) -> Vec<u8> {
    let set = set_of(bodies);
    let compression = Compression::of(codec);
    let mut writer = ArchiveWriter::new(Vec::new(), &feed(id), hour, &set, &compression).unwrap();
    while let Some(next) = writer.next_member() {
        let body = bodies.iter().find(|body| member(body) == *next).unwrap();
        writer.append(body.1.as_slice()).unwrap();
    }
    writer.finish().unwrap()
}

pub(super) fn primary(id: &str, hour: Hour) -> Key {
    named(id, hour, Holding::Primary)
}

pub(super) fn secondary(id: &str, hour: Hour, bodies: &[Body], codec: Codec) -> Key {
    named(id, hour, Holding::Set(set_of(bodies).hash(), codec))
}

fn named(id: &str, hour: Hour, holding: Holding) -> Key {
    let feed = feed(id);
    Key::feed_archive(&ArchiveName {
        feed,
        hour,
        holding,
    })
}

/// A key with a name that Hoard gives to archives.
pub(super) fn foreign_key(id: &str, hour: Hour, hash: &str) -> Key {
    let folder = Key::feed_hour(&feed(id), hour);
    Key::new(format!("{folder}/{id}_{hour}_{hash}.tar.gz")).unwrap()
}

/// A tar of anything. Nothing is checked.
#[derive(Clone, Default)]
pub(super) struct Blocks(Vec<u8>);

impl Blocks {
    pub(super) fn file(self, name: &str, content: &[u8]) -> Self {
        self.entry(b'0', name, content, "")
    }

    pub(super) fn entry(self, kind: u8, name: &str, content: &[u8], link: &str) -> Self {
        self.raw(kind, name, content, link, content.len() as u64, 0o600)
    }

    pub(super) fn raw(
        mut self,
        kind: u8,
        name: &str,
        content: &[u8],
        link: &str,
        size: u64,
        mode: u32,
    ) -> Self {
        let mut header = [0_u8; 512];
        let mut put = |at: usize, text: &[u8]| header[at..at + text.len()].copy_from_slice(text);
        put(0, name.as_bytes());
        put(100, format!("{mode:07o}").as_bytes());
        put(124, format!("{size:011o}").as_bytes());
        put(136, b"00000000000");
        put(148, b"        ");
        put(156, &[kind]);
        put(157, link.as_bytes());
        put(257, b"ustar\x0000");
        let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub(super) fn gzip(mut self) -> Vec<u8> {
        self.0.extend_from_slice(&[0; 1024]);
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&self.0).unwrap();
        gzip.finish().unwrap()
    }
}

pub(super) fn foreign(bodies: &[Body]) -> Vec<u8> {
    let tar = Blocks::default().file(".hoard_manifest.json", b"{}");
    let tar = bodies
        .iter()
        .fold(tar, |tar, (name, content)| tar.file(name, content));
    tar.gzip()
}

pub(super) fn lake_over(store: Arc<dyn ObjectStore>) -> Lake {
    let clock = SimulatedClock::impatient("2026-11-15T20:00:00Z".parse().unwrap()).clock();
    let retry = RetryPolicy {
        deadline: Duration::from_secs(5),
        ..RetryPolicy::default()
    };
    Lake::new(Parts {
        id: "main".into(),
        url: "memory:".into(),
        store,
        prefix: "some/prefix".into(),
        clock,
        rng: Rng::seeded(1),
        retry,
        metrics: LakeMetrics::default(),
    })
    .unwrap()
}

/// A lake and a folder to retrieve to, which is in a folder of its own so that what escapes is seen.
pub(super) struct Bench {
    pub(super) raw: Arc<InMemory>,
    pub(super) lake: Lake,
    pub(super) workplace: Workplace,
    pub(super) scratch: TempDir,
    pub(super) around: TempDir,
}

impl Bench {
    pub(super) fn new() -> Self {
        let raw = Arc::new(InMemory::new());
        let scratch = tempfile::tempdir().unwrap();
        let rng = Rng::seeded(7);
        let opened = Scratch::open(scratch.path(), rng.clone()).unwrap();
        let mut workplace = Workplace::new(opened, rng);
        workplace.disk = Arc::new(TestDisk::sound());
        Self {
            lake: lake_over(raw.clone()),
            raw,
            workplace,
            scratch,
            around: tempfile::tempdir().unwrap(),
        }
    }

    pub(super) fn target(&self) -> PathBuf {
        self.around.path().join("target")
    }

    /// A new target; what is in the old one is gone.
    pub(super) fn clear_target(&mut self) {
        self.around = tempfile::tempdir().unwrap();
    }

    /// All feeds of 15 November 2026.
    pub(super) fn options(&self) -> RetrieveOptions {
        let (start, end) = ("2026-11-15T00:00:00Z", "2026-11-16T00:00:00Z");
        RetrieveOptions::new(self.target(), start.parse().unwrap(), end.parse().unwrap())
    }

    pub(super) async fn put(&self, key: &Key, content: impl Into<Vec<u8>>) {
        self.lake.put_new(key, content.into()).await.unwrap();
    }

    /// Puts an archive of ours, named for its content.
    pub(super) async fn upload(&self, id: &str, of_day: u8, bodies: &[Body]) -> Key {
        let (hour, codec) = (hour(of_day), Codec::Gzip);
        let key = secondary(id, hour, bodies, codec);
        self.put(&key, packed(id, hour, bodies, codec)).await;
        key
    }

    pub(super) async fn retrieve(&self, options: &RetrieveOptions) -> Result<Retrieved, Error> {
        let plan = plan(&self.lake, options).await?;
        run(&self.lake, &plan, &self.workplace, &()).await
    }

    pub(super) fn tree(&self) -> Tree {
        tree_of(&self.target())
    }

    /// Nothing was written beside the target.
    pub(super) fn assert_contained(&self, context: &str) {
        let names = std::fs::read_dir(self.around.path()).unwrap();
        let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names, ["target"], "{context}");
    }
}

pub(super) fn tree_of(root: &Path) -> Tree {
    let mut tree = Tree::new();
    walk(root, "", &mut tree);
    tree
}

fn walk(folder: &Path, above: &str, tree: &mut Tree) {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return;
    };
    for entry in entries {
        let entry = entry.unwrap();
        let path = format!("{above}{}", entry.file_name().into_string().unwrap());
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            walk(&entry.path(), &format!("{path}/"), tree);
        } else if kind.is_file() {
            let content = std::fs::read(entry.path()).unwrap();
            tree.insert(path, String::from_utf8_lossy(&content).into_owned());
        } else {
            tree.insert(path, "no file".to_owned());
        }
    }
}

/// A tree of bodies below a folder.
pub(super) fn tree<'a>(files: impl IntoIterator<Item = (&'a str, &'a Body)>) -> Tree {
    let files = files.into_iter().map(|(folder, (name, content))| {
        let content = String::from_utf8_lossy(content).into_owned();
        (format!("{folder}{name}"), content)
    });
    files.collect()
}
