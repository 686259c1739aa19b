//! What a server calls.

use std::ops::Range;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use cannery_formats::{Digest, Key, ObjectEntry, ObjectPath, StoredObject, is_id};
use cannery_lake::{Content, Mirrors};
use cannery_runtime::disk::{Disk, Kind, create_dir_all};
use cannery_runtime::{Clock, Rng};
use cannery_state::State;
use cannery_state::objects::{
    DirectoryPage, EntryKey, PageStart, SortKey, SortOrder, VersionedEntry,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use crate::change::{Committed, Conditions, ObjectRequest, RequestedChange};
use crate::committer::{Committer, WaitingRequest};
use crate::disk_room::DiskRoom;
use crate::download::Downloads;
use crate::error::ObjectError;
use crate::lake_age::check_age;
use crate::log_writer::LogWriter;
use crate::ownership::check_owner;
use crate::snapshot::{SnapshotReport, snapshot};
use crate::sweep::{Sweep, SweepGrace, SweepReport};
use crate::upload::{ObjectUpload, UploadParts, UploadedBytes};
use crate::upload_limits::{SMALL_BYTES_MAX, UploadLimit, UploadMemory};
use crate::user_records::record_users;

/// Requests that wait for the committer.
const QUEUE: usize = 1_024;

/// What a [`Namespace`] is made of.
#[derive(Clone)]
pub struct NamespaceParts {
    /// Where the rows are.
    pub state: State,
    /// Where the bytes and the log are: every mirror of the raw lake, never the public one.
    pub mirrors: Arc<Mirrors>,
    /// Where uploads lie until they are whole.
    pub uploads: PathBuf,
    /// The disk of that folder.
    pub disk: Arc<dyn Disk>,
    /// How many bytes users leave free on that disk and on those of lakes in folders; [`crate::DISK_RESERVE_BYTES`] is a good
    /// number.
    pub disk_reserve: u64,
    /// How many bytes an object has at most; [`crate::OBJECT_BYTES_MAX`] is a good number.
    pub object_bytes_max: u64,
    /// For the dates of objects.
    pub clock: Clock,
    /// For their ids.
    pub rng: Rng,
}

/// The objects of all users. Any number of servers may have the same ones open, on one database and one lake.
pub struct Namespace {
    parts: NamespaceParts,
    downloads: Downloads,
    room: Arc<DiskRoom>,
    memory: UploadMemory,
    /// The highest version that was seen.
    newest: Arc<AtomicU64>,
    /// Nothing once it is closed.
    requests: Mutex<Option<mpsc::Sender<WaitingRequest>>>,
    tasks: tokio::sync::Mutex<Vec<JoinHandle<()>>>,
}

impl Namespace {
    /// Opens it: finishes what a server that died has left behind, and refuses a database that is older than the lake.
    ///
    /// # Errors
    /// `BehindLake`, `Unavailable`.
    pub async fn open(parts: NamespaceParts) -> Result<Self, ObjectError> {
        clear_uploads(&parts)?;
        let known = check_age(&parts.state, &parts.mirrors, &parts.rng).await?;
        let newest = Arc::new(AtomicU64::new(known));
        record_users(&parts.state, &parts.mirrors).await?;
        let (logs, log_queue) = mpsc::channel(1);
        let (requests, request_queue) = mpsc::channel(QUEUE);
        let committer = Committer {
            state: parts.state.clone(),
            mirrors: Arc::clone(&parts.mirrors),
            clock: parts.clock.clone(),
            log: logs,
            newest: Arc::clone(&newest),
        };
        let mut writer = LogWriter::new(&parts);
        // What a server left behind that died. One that runs writes its own later changes itself.
        writer
            .log_through(parts.state.object_version().await?)
            .await?;
        let tasks = vec![
            tokio::spawn(committer.run(request_queue)),
            tokio::spawn(writer.run(log_queue)),
        ];
        let room = DiskRoom::new(
            &parts.uploads,
            &parts.mirrors,
            parts.disk_reserve,
            &parts.clock,
        );
        Ok(Self {
            room: Arc::new(room),
            downloads: Downloads::new(&parts.mirrors),
            parts,
            memory: UploadMemory::default(),
            newest,
            requests: Mutex::new(Some(requests)),
            tasks: tokio::sync::Mutex::new(tasks),
        })
    }

    /// What is at a path; the directory of an area is always there.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    pub async fn find(&self, at: &EntryKey) -> Result<Option<VersionedEntry>, ObjectError> {
        if at.path.is_root() {
            return Ok(Some(area()));
        }
        Ok(self.parts.state.object_entry(at).await?)
    }

    /// The same for a user of that name, with the key of the entry; nothing if there is no such user.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    pub async fn find_of(
        &self,
        user: &str,
        path: &ObjectPath,
    ) -> Result<Option<(EntryKey, Option<VersionedEntry>)>, ObjectError> {
        let found = self.parts.state.object_entry_of(user, path).await?;
        Ok(found.map(|(account, entry)| {
            let path = path.clone();
            let entry = entry.or_else(|| path.is_root().then(area));
            (EntryKey { account, path }, entry)
        }))
    }

    /// A page of a directory.
    ///
    /// # Errors
    /// `Unavailable`, `Corrupt`.
    pub async fn list(
        &self,
        directory: &EntryKey,
        sort: (SortKey, SortOrder),
        start: &PageStart,
        directories: Option<bool>,
        limit: usize,
    ) -> Result<DirectoryPage, ObjectError> {
        let state = &self.parts.state;
        Ok(state
            .list_directory(directory, sort, start, directories, limit)
            .await?)
    }

    /// The bytes `range` of an object that was found, from the first mirror that has them. The range lies within the object and is
    /// not empty.
    ///
    /// # Errors
    /// As the first mirror says, if no other has them.
    pub async fn open_range(
        &self,
        object: &StoredObject,
        range: Range<u64>,
    ) -> Result<Content, ObjectError> {
        self.downloads.open_range(object, range).await
    }

    /// The same in memory.
    ///
    /// # Errors
    /// As [`Namespace::open_range`].
    pub async fn read(
        &self,
        object: &StoredObject,
        range: Range<u64>,
    ) -> Result<Bytes, ObjectError> {
        self.downloads.read(object, range).await
    }

    /// Says whether an object would be refused as things stand, and how many bytes it may have; `announced` is its length if
    /// that is known. A look, not a promise: the transaction decides.
    ///
    /// # Errors
    /// As [`Namespace::change`] would refuse it; `TooLarge`, `QuotaExceeded` and `NoSpace` by the announced length.
    pub async fn check_put(
        &self,
        at: &EntryKey,
        conditions: &Conditions,
        announced: Option<u64>,
    ) -> Result<UploadLimit, ObjectError> {
        let bytes = UploadedBytes {
            data: Key::users(),
            bytes: 0,
            stored_at: Duration::ZERO,
            md5: String::new(),
            sha256: Digest::of(&[]),
            etag: String::new(),
        };
        let request = ObjectRequest {
            attempt: String::new(),
            at: at.clone(),
            change: RequestedChange::Put {
                bytes,
                headers: std::collections::BTreeMap::new(),
            },
            conditions: conditions.clone(),
        };
        let quota = Committer::rehearse(&self.parts.state, request).await?;
        let limit = UploadLimit::new(&at.path, self.parts.object_bytes_max, quota);
        if let Some(announced) = announced {
            limit.check(announced)?;
            let in_file = announced > SMALL_BYTES_MAX as u64;
            self.room
                .look(if in_file { announced } else { 0 }, announced)
                .await?;
        }
        Ok(limit)
    }

    /// How many bytes an upload may have that is so small that looking before costs more than refusing it afterwards; nothing if
    /// it is not. Not for users who may have a limited number of bytes: what is refused takes room until it is swept.
    #[must_use]
    pub fn small_upload(&self, at: &EntryKey, announced: u64) -> Option<UploadLimit> {
        let small = (SMALL_BYTES_MAX as u64).min(self.parts.object_bytes_max);
        (announced <= small).then(|| UploadLimit::new(&at.path, small, None))
    }

    /// Says whether a change would be refused as things stand. A look, not a promise.
    ///
    /// # Errors
    /// As [`Namespace::change`] would refuse it.
    pub async fn check(
        &self,
        at: &EntryKey,
        change: &RequestedChange,
        conditions: &Conditions,
    ) -> Result<(), ObjectError> {
        let request = ObjectRequest {
            attempt: String::new(),
            at: at.clone(),
            change: change.clone(),
            conditions: conditions.clone(),
        };
        Committer::rehearse(&self.parts.state, request).await?;
        Ok(())
    }

    /// Begins to receive the bytes of an object, as many as [`Namespace::check_put`] allows.
    #[must_use]
    pub fn upload(&self, limit: UploadLimit) -> ObjectUpload {
        let parts = UploadParts {
            disk: Arc::clone(&self.parts.disk),
            folder: self.parts.uploads.clone(),
            room: Arc::clone(&self.room),
            memory: self.memory.clone(),
            clock: self.parts.clock.clone(),
            rng: self.parts.rng.clone(),
        };
        ObjectUpload::new(parts, limit)
    }

    /// Puts what was received into the lake, where it has no name yet.
    ///
    /// # Errors
    /// `Mismatch`, `NoSpace`, `Unavailable`.
    pub async fn store(
        &self,
        upload: ObjectUpload,
        account: &str,
        promised_md5: Option<&str>,
    ) -> Result<UploadedBytes, ObjectError> {
        upload
            .finish(&self.parts.mirrors, account, promised_md5)
            .await
    }

    /// Makes a change. After `Ok` it is in the rows and in the log of the lake. After a refusal nothing was changed. After
    /// `Unavailable` it may or may not have been made, whole.
    ///
    /// # Errors
    /// By kind.
    pub async fn change(
        &self,
        at: EntryKey,
        change: RequestedChange,
        conditions: Conditions,
    ) -> Result<Committed, ObjectError> {
        // Whoever deletes makes room.
        if !matches!(change, RequestedChange::Delete) {
            self.room.take(0, 0).await?;
        }
        let request = ObjectRequest {
            attempt: self.parts.rng.id(),
            at,
            change,
            conditions,
        };
        let (answer, answered) = oneshot::channel();
        let stopping = || ObjectError::unavailable("the server is stopping; ask again");
        let requests = self.requests().clone().ok_or_else(stopping)?;
        let waiting = WaitingRequest { request, answer };
        requests.send(waiting).await.map_err(|_| stopping())?;
        drop(requests);
        answered.await.map_err(|_| {
            let message = "the server failed while it made the change, which may have been made; look before asking again";
            ObjectError::unavailable(message)
        })?
    }

    fn requests(&self) -> MutexGuard<'_, Option<mpsc::Sender<WaitingRequest>>> {
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes to the log what anybody has committed and not logged so far. To be called often: it notices when the objects of the
    /// lake have got another owner.
    ///
    /// # Errors
    /// `Unavailable`; `BehindLake` when another database has the objects.
    pub async fn flush_outbox(&self) -> Result<(), ObjectError> {
        check_owner(&self.parts.state, &self.parts.mirrors, &self.parts.rng).await?;
        let mut writer = LogWriter::new(&self.parts);
        let version = self.parts.state.object_version().await?;
        writer.log_through(version).await?;
        writer.forget().await;
        Ok(())
    }

    /// Deletes bytes that have had no name for so long, and what removed users had. To be called from time to time, by any
    /// number of servers.
    ///
    /// # Errors
    /// `Unavailable`; `BehindLake` when the database is not the one that it was.
    pub async fn sweep(&self, grace: SweepGrace) -> Result<SweepReport, ObjectError> {
        self.flush_outbox().await?;
        let parts = &self.parts;
        let version = check_age(&parts.state, &parts.mirrors, &parts.rng).await?;
        let sweep = Sweep {
            state: &self.parts.state,
            mirrors: &self.parts.mirrors,
            rng: &self.parts.rng,
            writer: LogWriter::new(&self.parts),
            now: self.parts.clock.now(),
            grace,
            version: version.max(self.newest.load(Ordering::Relaxed)),
            report: SweepReport::default(),
        };
        sweep.run().await
    }

    /// Writes everything that is there to the lake as one object, and deletes the log before it. To be called from time to
    /// time, by any number of servers, so that the log does not grow for ever.
    ///
    /// # Errors
    /// `Unavailable`, `NoSpace`; `BehindLake` when the database is not the one that it was.
    pub async fn snapshot(&self) -> Result<SnapshotReport, ObjectError> {
        snapshot(&self.parts, &mut LogWriter::new(&self.parts)).await
    }

    /// Answers what was asked before, refuses what comes later, and ends. May be called twice.
    pub async fn close(&self) {
        self.requests().take();
        let mut tasks = self.tasks.lock().await;
        for task in tasks.drain(..) {
            if let Err(error) = task.await {
                tracing::error!(%error, "a task of the objects panicked");
            }
        }
    }
}

/// The directory of an area, which is always there.
fn area() -> VersionedEntry {
    VersionedEntry {
        version: 0,
        attempt: String::new(),
        entry: ObjectEntry::Directory { mtime_us: 0 },
    }
}

/// Uploads of a server that died are worth nothing: nobody was answered. What is no upload is left alone.
fn clear_uploads(parts: &NamespaceParts) -> Result<(), ObjectError> {
    let cleared = create_dir_all(&*parts.disk, &parts.uploads).and_then(|()| {
        for entry in parts.disk.read_dir(&parts.uploads)? {
            let path = parts.uploads.join(&entry.name);
            let is_upload = entry.kind == Kind::File && entry.name.to_str().is_some_and(is_id);
            let removed = if is_upload {
                parts.disk.remove_file(&path)
            } else {
                Err(std::io::Error::other("it is not an upload"))
            };
            if let Err(error) = removed {
                tracing::warn!(path = %path.display(), %error, "left alone in the folder of uploads");
            }
        }
        Ok(())
    });
    cleared.map_err(|error| {
        let folder = parts.uploads.display();
        ObjectError::unavailable(format!(
            "cannot use the folder of uploads `{folder}`: {error}"
        ))
    })
}
