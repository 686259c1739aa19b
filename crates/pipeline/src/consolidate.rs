//! The archives of an hour, uploaded by several replicas at any time, become one.
//!
//! | file | what it holds |
//! |---|---|
//! | `plan.rs` | what is to be done, from keys and sets alone |
//! | `hashed.rs` | the archive that is left is named for its content |
//! | `primary.rs` | it has a name that everybody knows, and is replaced by compare-and-swap |
//! | `projection.rs` | the same name on a store that cannot compare and swap |
//! | `visit.rs` | what they share: reading, putting, reading back, deleting |
//! | `step.rs` | what was done, for a log |
//!
//! Any number of replicas may do it at once, each may die at any step, and answers may be lost: nothing is deleted unless
//! everything in it was read elsewhere, in an order in which nothing is above itself.

use cannery_formats::Key;
use cannery_formats::feed::{FeedId, Hour};
use cannery_formats::hour_archive::Limits;
use cannery_formats::large_object::LARGE_BYTES_MIN;

use crate::error::Error;
use crate::fetched::{Fetcher, Subject};
use crate::hour_folder::HourFolder;
use crate::scratch::Scratch;
use crate::store::{Store, Way};

mod hashed;
mod plan;
mod primary;
mod projection;
mod step;
mod visit;

pub use step::{Report, Step};
use visit::Round;
pub(crate) use visit::Visit;

/// Each round ends with something done by us or by somebody else; more than this many is a crowd that should disperse.
const ROUNDS_MAX: u32 = 16;

/// Consolidates hours. It holds nothing between two calls; clones are the same.
#[derive(Clone, Debug)]
pub struct Consolidator {
    pub(crate) fetcher: Fetcher,
}

impl Consolidator {
    /// One that works in this folder, with the usual limits for archives.
    #[must_use]
    pub fn new(scratch: Scratch) -> Self {
        Self {
            fetcher: Fetcher::new(scratch),
        }
    }

    /// What an archive may have at most; one that has more is left alone.
    #[must_use]
    pub fn limits(mut self, limits: Limits) -> Self {
        self.fetcher.limits = limits;
        self
    }

    /// How long a primary may become when it is replaced, which takes as much memory; at most what a lake can replace. What
    /// a longer one would hold stays in one archive beside it.
    #[must_use]
    pub fn swap_bytes_max(mut self, bytes: u64) -> Self {
        self.fetcher.swap_bytes_max = bytes.min(LARGE_BYTES_MIN);
        self
    }

    /// Makes the archives of an hour one, in one store. It may be called at any time, twice, and by anybody; afterwards
    /// the hour holds at least what it held before, unless somebody deleted it.
    ///
    /// # Errors
    /// [`Error`]; the hour holds everything it held, and the next call goes on.
    pub async fn consolidate(
        &self,
        store: &Store,
        feed: &FeedId,
        hour: Hour,
    ) -> Result<Report, Error> {
        let mut steps = Vec::new();
        self.run(store, feed, hour, &mut steps).await?;
        Ok(Report {
            store: store.id().to_owned(),
            feed: feed.clone(),
            hour,
            steps,
        })
    }

    /// The same; `steps` says what was done also when it ends with an error.
    pub(crate) async fn run(
        &self,
        store: &Store,
        feed: &FeedId,
        hour: Hour,
        steps: &mut Vec<Step>,
    ) -> Result<(), Error> {
        store.lake.ensure_probed().await?;
        if !store.lake.honours().create {
            let store = store.id().to_owned();
            return Err(Error::Refused { store });
        }
        let feed = feed.clone();
        let subject = Subject { feed, hour };
        let mut visit = Visit::new(&self.fetcher, &store.lake, &subject, steps);
        for _ in 0..ROUNDS_MAX {
            if let Round::Settled(_) = round(&mut visit, store).await? {
                if !visit.steps.iter().any(Step::is_change) {
                    visit.note(Step::NothingToDo);
                }
                return Ok(());
            }
        }
        Err(Error::Restless {
            store: store.id().to_owned(),
            feed: subject.feed,
            hour,
            rounds: ROUNDS_MAX,
        })
    }
}

async fn round(visit: &mut Visit<'_>, store: &Store) -> Result<Round, Error> {
    let Subject { feed, hour } = visit.subject;
    let folder = HourFolder::list(visit.lake, feed, *hour).await?;
    let archives = folder.archives().len();
    visit.note(Step::Listed { archives });
    if folder.tombstone {
        return bury(visit, &folder).await;
    }
    visit.avoid(&folder);
    let parts: Vec<Key> = folder.parts().iter().map(|part| part.key.clone()).collect();
    let has_primary = folder.primary.is_some();
    if store.way().of(has_primary).writes_primary() {
        store.agree().await?;
    }
    match store.way().of(has_primary) {
        Way::Hashed(_) => hashed::round(visit, &parts, None).await,
        // Nobody looks at its key until the mark is gone: what is put there would not be found.
        Way::Swapped | Way::Projected if folder.is_primary_lost => {
            hashed::round(visit, &parts, None).await
        }
        Way::Swapped => primary::round(visit, &parts).await,
        Way::Projected => projection::round(visit, &parts).await,
    }
}

/// Removes what came after the hour was deleted, for as long as nobody wants it back.
async fn bury(visit: &mut Visit<'_>, folder: &HourFolder) -> Result<Round, Error> {
    visit.note(Step::Tombstoned);
    for key in folder.removable() {
        if !visit.is_deleted().await? {
            return Ok(Round::Again);
        }
        visit.delete(&[key]).await?;
    }
    Ok(Round::Settled(None))
}
