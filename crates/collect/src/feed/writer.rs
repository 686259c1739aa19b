//! The threads that write what was downloaded: many bodies share the waiting for the disk.
//!
//! Temp file, sync, rename, sync of the folder, each of them for all bodies that wait before the next: the first sync of a batch brings
//! the others along. Several threads wait for the disk at once, because a file system makes one commit of what is synced at the same
//! time. A feed belongs to one of them, so that nobody else makes its folders meanwhile.

mod folders;

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use cannery_formats::feed::FeedId;
use cannery_runtime::disk::{Disk, DiskFile, Open, Space, space};
use tokio::sync::{mpsc, oneshot};

use folders::Folders;

/// How many threads wait for the disk at once.
const THREADS: usize = 16;

/// How many files of a thread share the waiting at most.
const BATCH_MAX: usize = 64;

/// How many may wait for a thread.
const QUEUE_MAX: usize = 256;

/// Each is lost only to an hour that was packed in that very moment.
const CREATE_TRIES_MAX: usize = 100;

/// So much of the disk is left for packing and shipping, which make room: at most this, and at most this share of a small disk.
const RESERVE_BYTES: u64 = 64 << 20;
const RESERVE_SHARE: u64 = 20;

/// What a file is called until it is whole.
pub(super) const PART: &str = ".part";

/// Writes files; clones are the same. The threads end with the last of them.
#[derive(Clone, Debug)]
pub(super) struct Writer(Arc<[mpsc::Sender<Job>]>);

#[derive(Debug)]
struct Job {
    kind: Kind,
    path: PathBuf,
    content: Bytes,
    answer: oneshot::Sender<io::Result<()>>,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    /// A new file, durable before the answer.
    Save,
    /// To the end of a file; not synced.
    Append,
}

impl Writer {
    /// Starts the threads. All files will be in folders below `root`, in which nobody else makes any.
    pub(super) fn start(disk: &Arc<dyn Disk>, root: &Path) -> io::Result<Self> {
        let threads = (0..THREADS).map(|_| {
            let (jobs, waiting) = mpsc::channel(QUEUE_MAX);
            let (disk, folders) = (Arc::clone(disk), Folders::below(root));
            let root = root.to_owned();
            std::thread::Builder::new()
                .name("feed-writer".into())
                .spawn(move || run(&*disk, &root, folders, waiting))?;
            Ok(jobs)
        });
        Ok(Self(threads.collect::<io::Result<_>>()?))
    }

    /// Writes a file of a feed durably, in a folder that is made where needed. What is there under its name is replaced.
    pub(super) async fn save(
        &self,
        feed: &FeedId,
        path: PathBuf,
        content: Bytes,
    ) -> io::Result<()> {
        self.ask(feed, Kind::Save, path, content).await
    }

    /// Appends to a file of a feed.
    pub(super) async fn append(
        &self,
        feed: &FeedId,
        path: PathBuf,
        content: Bytes,
    ) -> io::Result<()> {
        self.ask(feed, Kind::Append, path, content).await
    }

    async fn ask(
        &self,
        feed: &FeedId,
        kind: Kind,
        path: PathBuf,
        content: Bytes,
    ) -> io::Result<()> {
        let (answer, answered) = oneshot::channel();
        let job = Job {
            kind,
            path,
            content,
            answer,
        };
        let gone = || io::Error::other("a thread that writes downloads has ended");
        let thread = self.thread_of(feed);
        thread.send(job).await.map_err(|_| gone())?;
        answered.await.map_err(|_| gone())?
    }

    /// Always the same for a feed.
    fn thread_of(&self, feed: &FeedId) -> &mpsc::Sender<Job> {
        let mut hasher = DefaultHasher::new();
        feed.hash(&mut hasher);
        let number = hasher.finish() % self.0.len() as u64;
        &self.0[usize::try_from(number).expect("it is less than the number of threads")]
    }
}

fn run(disk: &dyn Disk, root: &Path, mut folders: Folders, mut waiting: mpsc::Receiver<Job>) {
    let mut jobs = Vec::new();
    while waiting.blocking_recv_many(&mut jobs, BATCH_MAX) > 0 {
        let (saves, appends): (Vec<_>, Vec<_>) = jobs
            .drain(..)
            .partition(|job| matches!(job.kind, Kind::Save));
        for job in appends {
            let done = append(disk, &mut folders, &job.path, &job.content);
            // Who does not wait any more needs no answer.
            job.answer.send(done).ok();
        }
        let saves = saves.into_iter().filter_map(|job| {
            let room = has_room(root);
            unless_failed(job, room)
        });
        let saves = saves.map(|(job, ())| job).collect();
        save_all(disk, &mut folders, saves);
    }
}

/// Whether there is more room than packing and shipping may need. Where nobody knows, the disk itself will say.
fn has_room(root: &Path) -> io::Result<()> {
    let Ok(Space {
        free_bytes,
        total_bytes,
    }) = space(root)
    else {
        return Ok(());
    };
    if free_bytes >= RESERVE_BYTES.min(total_bytes / RESERVE_SHARE) {
        return Ok(());
    }
    let why = format!(
        "only {free_bytes} bytes are left on the disk, for packing and shipping what is there"
    );
    Err(io::Error::new(io::ErrorKind::StorageFull, why))
}

/// Does each step for all jobs before the next step.
fn save_all(disk: &dyn Disk, folders: &mut Folders, jobs: Vec<Job>) {
    let parts = jobs.into_iter().filter_map(|job| {
        let file = write_part(disk, folders, &job);
        unless_failed(job, file)
    });
    let parts: Vec<_> = parts.collect();
    let synced = parts.into_iter().filter_map(|(job, file)| {
        let synced = file.sync();
        unless_failed(job, synced)
    });
    let synced: Vec<_> = synced.collect();
    let renamed = synced.into_iter().filter_map(|(job, ())| {
        let renamed = disk.rename(&part_of(&job.path), &job.path);
        unless_failed(job, renamed)
    });
    let renamed: Vec<_> = renamed.collect();
    let changed: BTreeSet<PathBuf> = renamed
        .iter()
        .map(|(job, ())| folder_of(&job.path).to_owned())
        .collect();
    let synced: BTreeMap<PathBuf, io::Result<()>> = changed
        .into_iter()
        .map(|folder| {
            let synced = disk.sync_dir(&folder);
            (folder, synced)
        })
        .collect();
    for (job, ()) in renamed {
        let done = match &synced[folder_of(&job.path)] {
            Ok(()) => Ok(()),
            Err(error) => Err(io::Error::new(error.kind(), error.to_string())),
        };
        job.answer.send(done).ok();
    }
}

/// The job with what its step gave; nothing once its error was said.
fn unless_failed<T>(job: Job, step: io::Result<T>) -> Option<(Job, T)> {
    match step {
        Ok(done) => Some((job, done)),
        Err(error) => {
            // Who does not wait any more needs no answer.
            job.answer.send(Err(error)).ok();
            None
        }
    }
}

fn write_part(disk: &dyn Disk, folders: &mut Folders, job: &Job) -> io::Result<Box<dyn DiskFile>> {
    let part = part_of(&job.path);
    let file = match create(disk, folders, &part) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            disk.remove_file(&part)?;
            disk.open(&part, Open::CreateNew)?
        }
        opened => opened?,
    };
    file.write_all_at(0, &job.content)?;
    file.begin_sync(0, job.content.len() as u64)?;
    Ok(file)
}

fn append(disk: &dyn Disk, folders: &mut Folders, path: &Path, content: &[u8]) -> io::Result<()> {
    let file = match disk.open(path, Open::ReadWrite) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => create(disk, folders, path)?,
        opened => opened?,
    };
    file.write_all_at(file.len()?, content)
}

/// A new file, in a folder that is made where needed. Whoever packs the hour before removes the folders above as long as they are
/// empty, also between two steps of making one.
fn create(disk: &dyn Disk, folders: &mut Folders, path: &Path) -> io::Result<Box<dyn DiskFile>> {
    for _ in 1..CREATE_TRIES_MAX {
        match disk.open(path, Open::CreateNew) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            opened => return opened,
        }
        match folders.make(disk, folder_of(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
    }
    disk.open(path, Open::CreateNew)
}

fn part_of(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(PART);
    path.with_file_name(name)
}

fn folder_of(path: &Path) -> &Path {
    path.parent().unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cannery_runtime::RealDisk;
    use cannery_runtime::disk::read;
    use cannery_testkit::sim_disk::SimDisk;

    fn feed(number: usize) -> FeedId {
        FeedId::new(format!("f{number}")).unwrap()
    }

    #[tokio::test]
    async fn files_are_whole_and_nothing_else_stays() {
        let dir = tempfile::tempdir().unwrap();
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let writer = Writer::start(&disk, dir.path()).unwrap();
        let feeds: Vec<_> = (0..3).map(feed).collect();
        let saves = (0..300).map(|number| {
            let path = dir.path().join(format!("{}/{number}", number % 3));
            writer.save(&feeds[number % 3], path, Bytes::from(vec![7; number]))
        });
        for saved in futures::future::join_all(saves).await {
            saved.unwrap();
        }
        for number in 0..300_usize {
            let path = dir.path().join(format!("{}/{number}", number % 3));
            assert_eq!(read(&RealDisk, &path, 1_000).unwrap().len(), number);
        }
        let lines = dir.path().join("4/.slots");
        for line in ["a\n", "b\n"] {
            let appended = writer.append(&feeds[0], lines.clone(), line.into());
            appended.await.unwrap();
        }
        assert_eq!(read(&RealDisk, &lines, 10).unwrap(), b"a\nb\n");
        assert_eq!(RealDisk.read_dir(&dir.path().join("0")).unwrap().len(), 100);
    }

    #[tokio::test]
    async fn folders_that_are_removed_while_they_are_empty_are_made_again() {
        let dir = tempfile::tempdir().unwrap();
        let (day, month) = (dir.path().join("11/15"), dir.path().join("11"));
        let disk: Arc<dyn Disk> = Arc::new(RealDisk);
        let (writer, feed) = (Writer::start(&disk, dir.path()).unwrap(), feed(1));
        let (hours, packed) = std::sync::mpsc::channel::<()>();
        let pruning = std::thread::spawn({
            let (day, month) = (day.clone(), month.clone());
            move || {
                for () in packed {
                    for _ in 0..20 {
                        // Mostly something is in them.
                        RealDisk.remove_dir(&day).ok();
                        RealDisk.remove_dir(&month).ok();
                    }
                }
            }
        });
        for number in 0..300 {
            let hour = day.join(number.to_string());
            let content = Bytes::from_static(b"x");
            hours.send(()).unwrap();
            let saved = writer.save(&feed, hour.join("a"), content.clone());
            saved.await.unwrap();
            RealDisk.remove_file(&hour.join("a")).unwrap();
            RealDisk.remove_dir(&hour).unwrap();
            hours.send(()).unwrap();
            let appended = writer.append(&feed, hour.join("b"), content);
            appended.await.unwrap();
            RealDisk.remove_file(&hour.join("b")).unwrap();
            RealDisk.remove_dir(&hour).unwrap();
        }
        drop(hours);
        pruning.join().unwrap();
    }

    #[tokio::test]
    async fn what_was_acknowledged_survives_a_power_cut_at_any_operation() {
        for fails_at in 0.. {
            let disk = SimDisk::new(fails_at);
            disk.create_dir(Path::new("/w")).unwrap();
            disk.sync_dir(Path::new("/w")).unwrap();
            disk.sync_dir(Path::new("/")).unwrap();
            disk.power_off_at(disk.operations() + fails_at);
            let shared: Arc<dyn Disk> = Arc::new(disk.clone());
            let writer = Writer::start(&shared, Path::new("/w/feeds")).unwrap();
            let mut kept = Vec::new();
            for number in 0..4_u8 {
                let path = PathBuf::from(format!("/w/feeds/{}/18/{number}", number % 2));
                let content = Bytes::from(vec![number; 700]);
                let feed = feed(usize::from(number % 2));
                if writer.save(&feed, path.clone(), content).await.is_ok() {
                    kept.push((path, number));
                }
            }
            let whole = kept.len() == 4;
            let after = disk.crash();
            for (path, number) in kept {
                assert_eq!(read(&after, &path, 1_000).unwrap(), [number; 700]);
            }
            if whole {
                assert!(fails_at > 10);
                return;
            }
        }
    }
}
