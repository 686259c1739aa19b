//! Getting hours out of the lake: their downloads as a tree of files, or the archives themselves.
//!
//! | file | what it holds |
//! |---|---|
//! | `options.rs` | what is asked for, and the layout of the tree |
//! | `plan.rs` | which archives of which hours |
//! | `bring.rs` | the archives of an hour, brought here and looked through |
//! | `arrange.rs`, `claims.rs` | which file goes where, decided in the order of the hours |
//! | `write.rs`, `target.rs` | writing the files of an hour, safely |
//! | `report.rs`, `error.rs` | what became of it |
//!
//! Archives are untrusted: each is read from end to end before anything of it is written, and one that is damaged, hostile
//! or too large is refused as a whole and reported, while the others go on. Nothing in the target is ever replaced, so a
//! retrieve can be repeated, and several can write to one target.

use std::fmt;
use std::sync::Arc;

use cannery_formats::hour_archive::Limits;
use cannery_lake::Lake;
use cannery_runtime::{Disk, RealDisk, Rng};
use futures::FutureExt as _;
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use tokio_util::sync::CancellationToken;

use crate::blocking::blocking;
use crate::fetched::Fetcher;
use crate::scratch::Scratch;

mod arrange;
mod bring;
mod claims;
mod error;
mod options;
mod plan;
mod report;
mod target;
mod write;

#[cfg(test)]
mod tests;

use arrange::{Arranged, Arranger};
use bring::{Brought, bring};
pub use error::Error;
pub use options::RetrieveOptions;
pub use plan::{HourOf, Plan, PlannedArchive, PlannedHour, plan};
pub use report::{HourDone, InTheWay, Outcome, Progress, Refused, Renamed, Retrieved};
use target::Target;
use write::{Job, write};

/// So many hours are brought here at once, and as many are written.
const HOURS_AT_ONCE: usize = 4;

/// With what a retrieve works.
#[derive(Clone)]
pub struct Workplace {
    /// Where archives lie while they are read: those of up to eight hours.
    pub scratch: Scratch,
    /// The disk of the target.
    pub disk: Arc<dyn Disk>,
    /// Chance, for names that nobody else has.
    pub rng: Rng,
    /// What an archive may have at most; one that has more is refused.
    pub limits: Limits,
}

impl Workplace {
    /// The disk of this machine, and the usual limits.
    #[must_use]
    pub fn new(scratch: Scratch, rng: Rng) -> Self {
        Self {
            scratch,
            disk: Arc::new(RealDisk),
            rng,
            limits: Limits::default(),
        }
    }
}

impl fmt::Debug for Workplace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Workplace")
            .field("scratch", &self.scratch)
            .field("limits", &self.limits)
            .finish_non_exhaustive()
    }
}

/// Does what a plan says. `progress` hears of every hour. It may be repeated: what is there with the same content is left as
/// it is. Nothing is made, not even the target, when the plan has no hours.
///
/// Every file appears whole, also when the process is killed. After `Ok` everything survives a power cut; one before that
/// may leave files short, which a repetition then names.
///
/// Dropping the future stops it: files that were being written are gone a moment later, those that are whole stay.
///
/// # Errors
/// Any failure of the store; [`Error::Full`]; [`Error::Occupied`] when the target is no folder. A bad archive is no error, and neither is
/// something else that has the name of a file, or a link in the way: see [`Retrieved::refused`] and [`Retrieved::in_the_way`].
pub async fn run(
    lake: &Lake,
    plan: &Plan,
    workplace: &Workplace,
    progress: &dyn Progress,
) -> Result<Retrieved, Error> {
    let mut retrieved = Retrieved::of(plan);
    if plan.hours.is_empty() {
        return Ok(retrieved);
    }
    let stop = CancellationToken::new();
    let _stops_writers = stop.clone().drop_guard();
    let target = open(plan, workplace).await?;
    let mut hours = hours(lake, plan, workplace, &target, &stop);
    while let Some(done) = hours.try_next().await? {
        progress.hour_done(&done);
        retrieved.take(done);
    }
    on_disk(move || target.sync()).await?;
    Ok(retrieved)
}

async fn open(plan: &Plan, workplace: &Workplace) -> Result<Target, Error> {
    let (path, rng) = (plan.options.target.clone(), workplace.rng.clone());
    let disk = Arc::clone(&workplace.disk);
    on_disk(move || Target::open(&*disk, path, rng)).await
}

/// The hours in order: brought several at once, arranged one after the other, written several at once.
fn hours(
    lake: &Lake,
    plan: &Plan,
    workplace: &Workplace,
    target: &Target,
    stop: &CancellationToken,
) -> BoxStream<'static, Result<HourDone, Error>> {
    let (lake, target, stop) = (lake.clone(), target.clone(), stop.clone());
    let options = plan.options.clone();
    let limits = workplace.limits;
    let mut fetcher = Fetcher::new(workplace.scratch.clone());
    fetcher.limits = limits;
    let mut arranger = Arranger::new(&options);
    let as_files = options.no_extract;
    stream::iter(plan.hours.clone())
        .map(move |planned| bring(lake.clone(), fetcher.clone(), planned, as_files).boxed())
        .buffered(HOURS_AT_ONCE)
        .map_ok(move |brought| {
            let arranged = arranger.hour(&brought.planned.of, brought.members());
            let folder = options.folder(&brought.planned.of.feed, brought.planned.of.hour);
            (brought, arranged, folder)
        })
        .map(move |ready| {
            let (target, stop) = (target.clone(), stop.clone());
            async move {
                let (brought, arranged, folder) = ready?;
                let ready = Ready {
                    brought,
                    arranged,
                    folder,
                    as_files,
                };
                on_disk(move || ready.write(limits, &target, &stop)).await
            }
            .boxed()
        })
        .buffered(HOURS_AT_ONCE)
        .boxed()
}

/// An hour that only has to be written.
struct Ready {
    brought: Brought,
    arranged: Arranged,
    folder: Vec<String>,
    as_files: bool,
}

impl Ready {
    fn write(
        self,
        limits: Limits,
        target: &Target,
        stop: &CancellationToken,
    ) -> Result<HourDone, Error> {
        let Self {
            brought, arranged, ..
        } = self;
        let job = Job {
            subject: brought.subject(),
            folder: self.folder,
            archives: brought.archives,
            as_files: self.as_files,
            placements: arranged.placements,
            limits,
        };
        let written = write(&job, target, stop)?;
        Ok(HourDone {
            archive_bytes: brought.planned.bytes(),
            of: brought.planned.of,
            archives: job.archives.len() as u64,
            files: written.files,
            bytes: written.bytes,
            present: written.present,
            in_the_way_count: written.in_the_way_count,
            in_the_way: written.in_the_way,
            duplicates: arranged.duplicates,
            renamed: arranged.renamed,
            refused: brought.refused,
            is_deleted: brought.is_deleted,
        })
    }
}

async fn on_disk<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    blocking(work).await.map_err(Error::Worker)?
}
