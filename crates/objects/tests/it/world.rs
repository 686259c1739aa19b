//! A lake and a database, and servers that share them.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use cannery_formats::{Key, ObjectChange, ObjectEntry, StoredObject, UserName};
use cannery_lake::fault::{FaultStore, Faults};
use cannery_lake::{Content, Lake, LakeMetrics, Mirrors, Parts, RetryPolicy};
use cannery_objects::{
    Committed, Conditions, Namespace, NamespaceParts, OBJECT_BYTES_MAX, ObjectError, ObjectUpload,
    RebuildReport, RequestedChange, SweepGrace, SweepReport, rebuild,
};
use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::{Clock, RealDisk, Rng};
use cannery_state::State;
use cannery_state::objects::{EntryKey, NeededRows, PageStart, SortKey, SortOrder, VersionedEntry};
use futures::TryStreamExt as _;
use object_store::ObjectStore;
use tempfile::TempDir;

pub(crate) struct World {
    store: Arc<dyn ObjectStore>,
    /// The stores of more mirrors.
    pub(crate) mirrors: Vec<Arc<dyn ObjectStore>>,
    pub(crate) address: String,
    /// The address of another database, which is empty.
    spare: String,
    pub(crate) folder: TempDir,
    /// The clock of all servers.
    pub(crate) hand: SimulatedClock,
    prefix: String,
    /// How long a faulty lake waits for one answer.
    pub(crate) patience: Duration,
    _kept: Box<dyn Any + Send + Sync>,
}

/// A server, and the id of its one user.
pub(crate) struct Server {
    pub(crate) namespace: Namespace,
    pub(crate) state: State,
    pub(crate) account: String,
    pub(crate) lake: Lake,
}

/// See [`Server::dump`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct NamespaceDump {
    pub(crate) version: u64,
    pub(crate) entries: BTreeMap<EntryKey, VersionedEntry>,
    pub(crate) users: BTreeMap<String, String>,
    pub(crate) children: BTreeMap<EntryKey, u64>,
    pub(crate) usage: BTreeMap<String, u64>,
}

impl World {
    /// `addresses` are those of two PostgreSQL databases; files in the world's own folder if `None`.
    pub(crate) fn new(
        store: Arc<dyn ObjectStore>,
        addresses: Option<[String; 2]>,
        kept: impl Any + Send + Sync,
    ) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| format!("sqlite:{}", folder.path().join(name).display());
        let [address, spare] =
            addresses.unwrap_or_else(|| [file("state.sqlite"), file("spare.sqlite")]);
        Self {
            store,
            mirrors: Vec::new(),
            address,
            spare,
            folder,
            hand: SimulatedClock::starting_at("2026-11-18T00:00:00Z".parse().unwrap()),
            prefix: format!("t-{}", Rng::from_os().id()),
            patience: Duration::from_millis(500),
            _kept: Box::new(kept),
        }
    }

    pub(crate) async fn state(&self) -> State {
        State::open(&self.address, self.hand.clock()).await.unwrap()
    }

    /// The same world with a new database; the lake is all that is left.
    pub(crate) fn with_new_database(mut self) -> Self {
        std::mem::swap(&mut self.address, &mut self.spare);
        self
    }

    pub(crate) fn lake(&self, faults: Option<&Faults>) -> Lake {
        self.lake_on("main", &self.store, faults)
    }

    fn lake_on(&self, id: &str, store: &Arc<dyn ObjectStore>, faults: Option<&Faults>) -> Lake {
        let store = match faults {
            None => Arc::clone(store),
            Some(faults) => {
                let inner = Arc::clone(store);
                Arc::new(FaultStore::new(inner, faults.clone(), Clock::real()))
            }
        };
        let clock = SimulatedClock::impatient("2026-11-18T00:00:00Z".parse().unwrap()).clock();
        let retry = RetryPolicy {
            attempt: self.patience,
            deadline: self.patience * 40,
            ..RetryPolicy::default()
        };
        Lake::new(Parts {
            id: id.into(),
            url: "test:".into(),
            store,
            prefix: self.prefix.clone(),
            clock: if faults.is_some() {
                clock
            } else {
                Clock::real()
            },
            rng: Rng::from_os(),
            retry: if faults.is_some() {
                retry
            } else {
                RetryPolicy::default()
            },
            metrics: LakeMetrics::default(),
        })
        .unwrap()
    }

    pub(crate) fn all_lakes(&self, faults: Option<&Faults>) -> Vec<Lake> {
        let mut lakes = vec![self.lake(faults)];
        for (number, store) in self.mirrors.iter().enumerate() {
            lakes.push(self.lake_on(&format!("mirror-{number}"), store, faults));
        }
        lakes
    }

    pub(crate) fn parts(&self, state: &State, faults: Option<&Faults>) -> NamespaceParts {
        let uploads: PathBuf = self
            .folder
            .path()
            .join(format!("uploads-{}", Rng::from_os().id()));
        NamespaceParts {
            disk_reserve: 0,
            object_bytes_max: OBJECT_BYTES_MAX,
            state: state.clone(),
            mirrors: Arc::new(Mirrors::new(self.all_lakes(faults)).unwrap()),
            uploads,
            disk: Arc::new(RealDisk),
            clock: self.hand.clock(),
            rng: Rng::from_os(),
        }
    }

    pub(crate) async fn try_open(&self) -> Result<Server, ObjectError> {
        self.open_with(None).await
    }

    pub(crate) async fn open_with(&self, faults: Option<&Faults>) -> Result<Server, ObjectError> {
        self.open_changed(faults, |_| ()).await
    }

    /// Opens it with parts that the test changes.
    pub(crate) async fn open_changed(
        &self,
        faults: Option<&Faults>,
        change: impl FnOnce(&mut NamespaceParts),
    ) -> Result<Server, ObjectError> {
        let state = self.state().await;
        let lake = self.lake(faults);
        let ann = UserName::new("ann").unwrap();
        let account = match state.user("ann").await.unwrap() {
            Some(user) => user.id,
            None => state.add_user(&ann, &Rng::from_os()).await.unwrap().id,
        };
        let mut parts = self.parts(&state, faults);
        change(&mut parts);
        let namespace = Namespace::open(parts).await?;
        Ok(Server {
            namespace,
            state,
            account,
            lake,
        })
    }

    pub(crate) async fn rebuild(
        &self,
        faults: Option<&Faults>,
    ) -> Result<RebuildReport, ObjectError> {
        let state = self.state().await;
        let parts = self.parts(&state, faults);
        let rebuilt = rebuild(&parts, &|_| ()).await;
        state.close().await;
        rebuilt
    }

    pub(crate) async fn open(&self) -> Server {
        self.try_open().await.unwrap()
    }

    /// All changes in the log of the lake, by their versions.
    pub(crate) async fn log(&self) -> BTreeMap<u64, ObjectChange> {
        let lake = self.lake(None);
        let mut changes = BTreeMap::new();
        for entry in lake.list_all(Some(&Key::object_logs())).await.unwrap() {
            let text = lake.get(&entry.key, 1 << 20).await.unwrap().bytes;
            for line in std::str::from_utf8(&text).unwrap().lines() {
                let change = ObjectChange::from_line(line).unwrap();
                changes.insert(change.version, change);
            }
        }
        changes
    }
}

impl Server {
    pub(crate) fn key(&self, path: &str) -> EntryKey {
        EntryKey {
            account: self.account.clone(),
            path: path.parse().unwrap(),
        }
    }

    pub(crate) async fn upload(
        &self,
        path: &str,
        conditions: &Conditions,
    ) -> Result<ObjectUpload, ObjectError> {
        let at = self.key(path);
        let limit = self.namespace.check_put(&at, conditions, None).await?;
        Ok(self.namespace.upload(limit))
    }

    pub(crate) async fn put_if(
        &self,
        path: &str,
        content: &[u8],
        conditions: Conditions,
    ) -> Result<Committed, ObjectError> {
        let mut upload = self.upload(path, &conditions).await?;
        for piece in content.chunks(100_000) {
            upload.write(Bytes::copy_from_slice(piece)).await?;
        }
        let bytes = self.namespace.store(upload, &self.account, None).await?;
        let change = RequestedChange::Put {
            bytes,
            headers: BTreeMap::new(),
        };
        self.namespace
            .change(self.key(path), change, conditions)
            .await
    }

    pub(crate) async fn put(&self, path: &str, content: &[u8]) -> Result<Committed, ObjectError> {
        self.put_if(path, content, Conditions::default()).await
    }

    pub(crate) async fn change(
        &self,
        path: &str,
        change: RequestedChange,
    ) -> Result<Committed, ObjectError> {
        self.namespace
            .change(self.key(path), change, Conditions::default())
            .await
    }

    pub(crate) async fn make(&self, path: &str) {
        self.change(path, RequestedChange::MakeDirectory)
            .await
            .unwrap();
    }

    pub(crate) async fn object(&self, path: &str) -> Option<StoredObject> {
        let found = self.namespace.find(&self.key(path)).await.unwrap()?;
        match found.entry {
            ObjectEntry::Object(object) => Some(object),
            ObjectEntry::Directory { .. } => None,
        }
    }

    /// The whole content; nothing where no object is.
    pub(crate) async fn get(&self, path: &str) -> Option<Vec<u8>> {
        let object = self.object(path).await?;
        Some(self.read(&object, 0..object.bytes).await.unwrap())
    }

    /// A part of what an object was when it was found.
    pub(crate) async fn read(
        &self,
        object: &StoredObject,
        range: Range<u64>,
    ) -> Result<Vec<u8>, ObjectError> {
        if range.is_empty() {
            return Ok(Vec::new());
        }
        match self.namespace.open_range(object, range).await? {
            Content::File { file, range } => {
                let mut bytes = vec![0; usize::try_from(range.end - range.start).unwrap()];
                file.read_exact_at(&mut bytes, range.start).unwrap();
                Ok(bytes)
            }
            Content::Pieces(pieces) => {
                let pieces: Vec<Bytes> = pieces.try_collect().await?;
                Ok(pieces.concat())
            }
        }
    }

    /// All names in a directory, read by pages of three.
    pub(crate) async fn names(&self, path: &str, sort: (SortKey, SortOrder)) -> Vec<String> {
        let mut names = Vec::new();
        let mut start = PageStart::First;
        loop {
            let page = self
                .namespace
                .list(&self.key(path), sort, &start, None, 3)
                .await
                .unwrap();
            let last = page.entries.last().cloned();
            names.extend(page.entries.into_iter().map(|entry| entry.name));
            match last.filter(|_| page.has_more) {
                Some(last) => {
                    let mtime_us = last.entry.entry.mtime_us();
                    start = PageStart::After {
                        mtime_us,
                        name: last.name,
                    };
                }
                None => return names,
            }
        }
    }

    /// A sweep of what lost its name so long ago; nothing is taken for an orphan.
    pub(crate) async fn sweep(&self, unnamed: Duration) -> Result<SweepReport, ObjectError> {
        let orphaned = Duration::from_secs(86_400);
        let grace = SweepGrace { unnamed, orphaned };
        self.namespace.sweep(grace).await
    }

    /// A sweep of everything that has no name at this moment.
    pub(crate) async fn sweep_now(&self) -> Result<SweepReport, ObjectError> {
        let grace = SweepGrace {
            unnamed: Duration::ZERO,
            orphaned: Duration::ZERO,
        };
        self.namespace.sweep(grace).await
    }

    /// How many bytes of users lie in the lake.
    pub(crate) async fn stored(&self) -> usize {
        let entries = self.lake.list_all(Some(&Key::users())).await.unwrap();
        let data = entries
            .iter()
            .filter(|one| one.key.as_user_data().is_some());
        data.count()
    }

    /// Everything that the database knows of objects.
    pub(crate) async fn dump(&self) -> NamespaceDump {
        let entries = self.state.object_entries_after(None, 10_000).await.unwrap();
        let entries: BTreeMap<EntryKey, VersionedEntry> = entries.into_iter().collect();
        let users = self.state.users().await.unwrap();
        let users: BTreeMap<String, String> =
            users.into_iter().map(|user| (user.id, user.name)).collect();
        let mut look = self.state.look_at_objects().await.unwrap();
        let directories = entries.keys().filter_map(|key| {
            let account = key.account.clone();
            key.path.parent().map(|path| EntryKey { account, path })
        });
        let needed = NeededRows {
            entries: BTreeSet::new(),
            directories: directories.collect(),
            accounts: users.keys().cloned().collect(),
        };
        let rows = look.look(&needed).await.unwrap();
        NamespaceDump {
            version: rows.version,
            usage: rows
                .usage
                .into_iter()
                .map(|(id, usage)| (id, usage.bytes))
                .collect(),
            entries,
            users,
            children: rows.children,
        }
    }

    pub(crate) async fn close(self) {
        self.namespace.close().await;
        self.state.close().await;
    }
}
