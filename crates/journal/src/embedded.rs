//! The engine on the local disk: the state machine over a log.
//!
//! | look here | for |
//! |---|---|
//! | `committer.rs` | the thread that does everything: many requests, one write, one sync |
//! | `log.rs`, `segment.rs`, `spare.rs` | the files: filled in order, freed from the front, used again |
//! | `reader.rs` | the data of entries, read back |
//! | `record.rs`, `wire.rs` | what stands in them; the frame around it is `cannery_formats::journal_segment` |
//! | `compaction.rs` | what stays long moves on |
//! | `recovery.rs`, `salvage.rs` | opening after a crash, torn tails and damage |
//! | `timer.rs` | wake-ups |

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use async_trait::async_trait;
use cannery_runtime::disk::Disk;
use cannery_runtime::folder_lock::{FolderLock, FolderLockError};
use cannery_runtime::{Clock, Rng};
use tokio::sync::{mpsc, oneshot};

use crate::data::Data;
use crate::date::Date;
use crate::declaration::Declaration;
use crate::engine::{Engine, Health, Usage};
use crate::error::{Error, ErrorKind};
use crate::op::{Op, Reply};
use crate::token::TokenSource;
use crate::wake::Wakes;

mod about;
mod committer;
mod compaction;
mod home;
mod log;
mod period;
mod reader;
mod record;
mod recovery;
mod salvage;
mod segment;
mod shared;
mod spare;
mod timer;
mod wire;

pub use recovery::Report;
pub use spare::Pace;

use about::About;
use committer::{Committer, Job};
use reader::Reader;
use recovery::{Opening, Recovered};
use shared::Shared;

/// How many requests may wait for the thread; the rest wait for a place.
const QUEUE: usize = 4_096;

/// Where a journal lies.
#[derive(Clone, Debug)]
pub struct Place {
    /// The disk.
    pub disk: Arc<dyn Disk>,
    /// The folder, of this journal alone.
    pub dir: PathBuf,
    /// What this process calls itself to others that find the journal locked, such as `cannery up`.
    pub owner: String,
    /// The time.
    pub clock: Clock,
    /// Chance.
    pub rng: Rng,
}

/// How the files are laid out; the default is for everybody.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    /// The length of a segment; a batch must fit into half of one.
    pub segment_bytes: u64,
    /// What happens without being asked.
    pub pace: Pace,
}

impl Layout {
    const SEGMENT_BYTES: std::ops::RangeInclusive<u64> = 8 * 1024..=1024 * 1024 * 1024;
}

impl Default for Layout {
    fn default() -> Self {
        Self {
            segment_bytes: 32 * 1024 * 1024,
            pace: Pace::Free,
        }
    }
}

/// A journal on the local disk. One process at a time owns its folder.
pub struct Embedded {
    shared: Shared,
    clock: Clock,
    jobs: Mutex<Option<mpsc::Sender<Job>>>,
    thread: tokio::sync::Mutex<Option<JoinHandle<()>>>,
    timer: Option<tokio::task::JoinHandle<()>>,
    report: Report,
}

impl fmt::Debug for Embedded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Embedded").finish_non_exhaustive()
    }
}

impl Embedded {
    /// Opens a journal, or creates it with a declaration. Without one, the journal must be there. A declaration that
    /// differs from the stored one applies to new entries.
    ///
    /// # Errors
    /// `Unknown`: it is not there. `Locked`: another process has it. `Invalid`: the declaration cannot be used.
    pub async fn open(place: Place, declaration: Option<Declaration>) -> Result<Arc<Self>, Error> {
        Self::open_with(place, declaration, Layout::default()).await
    }

    /// Opens a journal with files of another size.
    ///
    /// # Errors
    /// As [`Embedded::open`].
    pub async fn open_with(
        place: Place,
        declaration: Option<Declaration>,
        layout: Layout,
    ) -> Result<Arc<Self>, Error> {
        if let Some(declaration) = &declaration {
            declaration.check()?;
        }
        if !Layout::SEGMENT_BYTES.contains(&layout.segment_bytes) {
            return Err(Error::invalid("a segment has from 8 KiB to 1 GiB"));
        }
        let wanted = declaration.clone();
        let opened =
            tokio::task::spawn_blocking(move || Opened::open(place, wanted.as_ref(), layout))
                .await
                .map_err(|error| Error::new(ErrorKind::Corrupt, error.to_string()))??;
        let engine = Arc::new(opened.start()?);
        if let Some(declaration) = declaration.filter(|wanted| *wanted != engine.declaration()) {
            engine.call(Op::Declare(Box::new(declaration))).await?;
        }
        Ok(engine)
    }

    /// What was found when it was opened.
    #[must_use]
    pub fn report(&self) -> &Report {
        &self.report
    }
}

/// A journal whose files are open and whose thread does not run yet.
struct Opened {
    committer: Committer,
    report: Report,
}

impl Opened {
    fn open(
        place: Place,
        declaration: Option<&Declaration>,
        layout: Layout,
    ) -> Result<Self, Error> {
        if declaration.is_none() && !exists(&place)? {
            return Err(Error::new(
                ErrorKind::Unknown,
                format!("there is no journal in `{}`", place.dir.display()),
            ));
        }
        let lock = FolderLock::acquire(&*place.disk, &place.dir, &place.owner, &place.clock)
            .map_err(|error| locked(&error))?;
        let Recovered {
            state,
            log,
            incarnation,
            report,
            rewrite_through,
        } = recovery::recover(
            &Opening {
                disk: &place.disk,
                dir: &place.dir,
                rng: &place.rng,
                segment_bytes: layout.segment_bytes,
                pace: layout.pace,
                now: Date::from(place.clock.now()),
            },
            declaration,
        )?;
        About::new(&state, incarnation, log.front())
            .write(&*place.disk, &place.dir)
            .failed_to("write `journal.json`")?;
        let shared = Shared::new(state.declaration().1.clone());
        for damage in &report.damaged {
            shared.warn(damage);
        }
        if let Some(torn) = &report.torn {
            tracing::warn!(
                torn,
                "a commit that was cut off, most likely by a crash, was dropped"
            );
        }
        let committer = Committer {
            state,
            log,
            reader: Reader::default(),
            tokens: TokenSource::new(incarnation, place.rng.clone()),
            incarnation,
            clock: place.clock.clone(),
            last_call: place.clock.elapsed(),
            place,
            lock,
            shared,
            rewrite_through,
            moving: (0, Vec::new()),
            stuck: false,
        };
        Ok(Self { committer, report })
    }

    fn start(self) -> Result<Embedded, Error> {
        let Self { committer, report } = self;
        let (sender, receiver) = mpsc::channel(QUEUE);
        let shared = committer.shared.clone();
        let clock = committer.clock.clone();
        let pace = committer.log.habits.pace;
        let thread = std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || {
                let last = LastWords(committer.shared.clone());
                committer.run(receiver);
                drop(last);
            })
            .failed_to("start a thread")?;
        let timer = match pace {
            Pace::Free => Some(tokio::spawn(timer::run(
                clock.clone(),
                shared.clone(),
                sender.clone(),
            ))),
            Pace::Stepwise => None,
        };
        Ok(Embedded {
            shared,
            clock,
            jobs: Mutex::new(Some(sender)),
            thread: tokio::sync::Mutex::new(Some(thread)),
            timer,
            report,
        })
    }
}

/// However the thread ends, everybody hears of it.
struct LastWords(Shared);

impl Drop for LastWords {
    fn drop(&mut self) {
        let why =
            "the journal was ended by a mistake in the program; what was acknowledged is safe";
        self.0.close(&Error::new(ErrorKind::Closed, why));
    }
}

fn exists(place: &Place) -> Result<bool, Error> {
    let is_known = |name: &str| {
        name == about::NAME
            || name
                .parse::<cannery_formats::journal_segment::SegmentId>()
                .is_ok()
    };
    match place.disk.read_dir(&place.dir) {
        Ok(names) => Ok(names
            .iter()
            .any(|entry| entry.name.to_str().is_some_and(is_known))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(io_error(&format!("list `{}`", place.dir.display()), &error)),
    }
}

#[async_trait]
impl Engine for Embedded {
    async fn call(&self, op: Op) -> Result<Reply<Data>, Error> {
        let jobs = lock(&self.jobs).clone();
        let jobs = jobs.ok_or_else(|| self.why_closed())?;
        let (answer, answered) = oneshot::channel();
        jobs.send(Job::Call(op, answer))
            .await
            .map_err(|_| self.why_closed())?;
        match answered.await {
            Ok(answer) => answer,
            Err(_) => Err(self.why_it_closes().await),
        }
    }

    fn now(&self) -> Date {
        Date::from(self.clock.now())
    }

    fn wakes(&self) -> Wakes {
        self.shared.alarm.listen()
    }

    fn declaration(&self) -> Declaration {
        self.shared.declaration()
    }

    fn health(&self) -> Health {
        self.shared.health()
    }

    fn usage(&self) -> Option<Usage> {
        Some(self.shared.usage())
    }

    async fn close(&self) {
        // The thread ends when nobody can ask it any more, even if nobody waits for that here.
        lock(&self.jobs).take();
        self.stop_timer();
        // A second one who closes waits for the first.
        let mut thread = self.thread.lock().await;
        if let Some(thread) = thread.take() {
            let joined = tokio::task::spawn_blocking(move || thread.join()).await;
            if !matches!(joined, Ok(Ok(()))) {
                tracing::error!("the thread of a journal ended by a mistake in the program");
            }
        }
    }
}

impl Embedded {
    fn stop_timer(&self) {
        if let Some(timer) = &self.timer {
            timer.abort();
        }
    }

    /// A request is dropped just before the thread says why it ends.
    async fn why_it_closes(&self) -> Error {
        let mut wakes = self.shared.alarm.listen();
        while wakes.next().await {}
        self.why_closed()
    }

    fn why_closed(&self) -> Error {
        self.shared
            .closed()
            .cloned()
            .unwrap_or_else(|| Error::new(ErrorKind::Closed, "the journal is closed"))
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        // The thread ends when nobody can ask it any more; it finishes what it has begun.
        self.stop_timer();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn locked(error: &FolderLockError) -> Error {
    let kind = match error {
        FolderLockError::Held { .. } => ErrorKind::Locked,
        FolderLockError::Io { source, .. } => kind_of(source),
    };
    Error::new(kind, error.to_string())
}

fn kind_of(error: &io::Error) -> ErrorKind {
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => ErrorKind::Full,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => ErrorKind::Denied,
        _ => ErrorKind::Closed,
    }
}

fn io_error(doing: &str, error: &io::Error) -> Error {
    Error::new(kind_of(error), format!("cannot {doing}: {error}"))
}

/// Says what was being done when the disk failed.
trait FailedTo<T> {
    fn failed_to(self, doing: impl AsRef<str>) -> Result<T, Error>;
}

impl<T> FailedTo<T> for io::Result<T> {
    fn failed_to(self, doing: impl AsRef<str>) -> Result<T, Error> {
        self.map_err(|error| io_error(doing.as_ref(), &error))
    }
}
