//! Why a stage stopped. Nothing is lost by it: every step may be repeated.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use cannery_formats::can::BucketFile;
use cannery_formats::feed::{FeedId, Hour};
use cannery_formats::{BucketDate, Key};
use cannery_lake::Lake;

/// A stage could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Lake(#[from] cannery_lake::Error),
    /// The catalog failed, or is not as the stage thought.
    #[error(transparent)]
    Catalog(#[from] cannery_catalog::Error),
    /// The journal failed.
    #[error(transparent)]
    Journal(#[from] cannery_journal::Error),
    /// The folder for what is being worked on failed.
    #[error("cannot use scratch folder `{}`: {why}; free some space or choose another folder", .folder.display())]
    Scratch {
        /// The folder.
        folder: PathBuf,
        /// What the operating system said.
        why: io::Error,
    },
    /// The store is too weak for it.
    #[error(
        "cannot consolidate in object storage `{store}`: it does not honour create-if-absent, so replicas could remove each other's archives; see `cannery lake probe`"
    )]
    Refused {
        /// Its id.
        store: String,
    },
    /// Others replace primaries in a way that this replica cannot.
    #[error(
        "cannot consolidate in object storage `{store}`: `{key}` says that its primaries are replaced by compare-and-swap, which the store does not honour from here; mend the way to the store, see `cannery lake probe`, or stop all replicas and delete that object"
    )]
    Disagreed {
        /// Its id.
        store: String,
        /// What says so.
        key: Key,
    },
    /// A delete would put more marks than anybody means.
    #[error(
        "cannot delete in object storage `{store}`: {hours} hours of the range have no archive and would each get a mark, at most {max} at once; choose a shorter range or fewer feeds, or leave such hours alone"
    )]
    TooManyHours {
        /// Its id.
        store: String,
        /// How many.
        hours: u64,
        /// How many may be.
        max: u64,
    },
    /// Others changed the hour all the time.
    #[error(
        "hour `{hour}` of feed `{feed}` in object storage `{store}` changed in each of {rounds} rounds; nothing is lost, try again later"
    )]
    Restless {
        /// The id of the store.
        store: String,
        /// Which feed.
        feed: FeedId,
        /// Which hour.
        hour: Hour,
        /// How often it was looked at.
        rounds: u32,
    },
    /// Archives that were readable before could not be united.
    #[error(
        "cannot unite the archives of hour `{hour}` of feed `{feed}`: {why}; nothing was changed"
    )]
    Merge {
        /// Which feed.
        feed: FeedId,
        /// Which hour.
        hour: Hour,
        /// What is wrong.
        why: String,
    },
    /// What was read back is not what was written.
    #[error(
        "archive `{key}` in object storage `{store}` is not what was put there: {why}; nothing was deleted, run `cannery audit`"
    )]
    ReadBack {
        /// The id of the store.
        store: String,
        /// The archive.
        key: Key,
        /// What is wrong with it.
        why: String,
    },
    /// Every name that an archive could have is taken by something else.
    #[error(
        "cannot put an archive of hour `{hour}` of feed `{feed}` into object storage `{store}`: something else has its name; run `cannery audit`"
    )]
    NamesTaken {
        /// The id of the store.
        store: String,
        /// Which feed.
        feed: FeedId,
        /// Which hour.
        hour: Hour,
    },
    /// An object of a bucket, or one that it is made of, cannot be used.
    #[error(
        "cannot use `{key}` in object storage `{store}`: {why}; it is left alone, put a sound copy in its place"
    )]
    Unusable {
        /// The id of the store.
        store: String,
        /// The object.
        key: Key,
        /// What is wrong with it.
        why: String,
    },
    /// Somebody with other settings has put an archive, and its index is not there yet.
    #[error(
        "archive `{key}` in object storage `{store}` was put by a worker with other settings, which has not committed it; a day after it was put it is made anew"
    )]
    Uncommitted {
        /// The id of the store.
        store: String,
        /// The archive.
        key: Key,
    },
    /// An archive that is to be loaded has no index.
    #[error(
        "archive `{key}` in object storage `{store}` has no index, neither of its own nor in that of its bucket; make it again with `cannery autoclave`"
    )]
    NoIndex {
        /// The id of the store.
        store: String,
        /// The archive.
        key: Key,
    },
    /// The catalog names a file that no archive can have.
    #[error(
        "the catalog names `{file}`, which is no archive: {why}; make it again with `cannery rebuild`"
    )]
    NoArchive {
        /// What it names.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// An archive has another text than it had when it was loaded.
    #[error(
        "what lies in archive `{key}` of object storage `{store}` is not measurement `{uid}` as it was loaded; `cannery check` shows what else was changed: put a sound copy of the archive in its place, or load what is there with `cannery rebuild`"
    )]
    NotAsLoaded {
        /// The id of the store.
        store: String,
        /// The archive.
        key: Key,
        /// The measurement that was asked for.
        uid: String,
    },
    /// A measurement stands in an open can whose sealed successors are not loaded yet.
    #[error(
        "the cans of bucket `{bucket}` are being sealed, and some are not loaded yet; nothing new is made with the measurement: run it again once `cannery journal ls pipeline` shows nothing of that date"
    )]
    BeingSealed {
        /// Which bucket.
        bucket: BucketDate,
    },
    /// A measurement stands in an archive that cannot be made anew.
    #[error(
        "archive `{file}` cannot be made anew without the measurement: its can was removed by `pipeline.keep`; nothing was changed"
    )]
    WithoutCan {
        /// Which.
        file: BucketFile,
    },
    /// Others add cans to the bucket all the time.
    #[error(
        "bucket `{bucket}` changed in each of {rounds} rounds; nothing is lost, try again later"
    )]
    Crowded {
        /// Which bucket.
        bucket: BucketDate,
        /// How often it was looked at.
        rounds: u32,
    },
    /// A folder of report files cannot be read.
    #[error("cannot read report `{}`: {why}", .path.display())]
    Report {
        /// The file or folder.
        path: PathBuf,
        /// What the operating system said.
        why: io::Error,
    },
    /// Somebody goes on writing a report file.
    #[error("cannot take report `{key}`: it is still being written")]
    StillWritten {
        /// The key that it would have in the lake.
        key: Key,
    },
    /// Archives are made by newer rules, or by others that are called the same.
    #[error(
        "cannot {action} {ours}: the lake has {newest}, which are in force or about to be; {next}"
    )]
    Outdated {
        /// What was to be done.
        action: String,
        /// By which rules of this machine.
        ours: String,
        /// The rules in the lake.
        newest: String,
        /// What to do.
        next: &'static str,
    },
    /// Others write a small object all the time.
    #[error(
        "`{key}` in object storage `{store}` changed in each of {rounds} rounds; nothing is lost, try again later"
    )]
    Unsettled {
        /// The id of the store.
        store: String,
        /// The object.
        key: Key,
        /// How often it was looked at.
        rounds: u32,
    },
    /// Nobody waits for the outcome any more.
    #[error("the work was given up; nothing is lost")]
    GivenUp,
}

impl Error {
    pub(crate) fn scratch(folder: &Path, why: io::Error) -> Self {
        Self::Scratch {
            folder: folder.to_owned(),
            why,
        }
    }

    /// The same, with what was to be done by rules that are not the newest.
    pub(crate) fn while_trying_to(self, wanted: String) -> Self {
        match self {
            Self::Outdated {
                ours, newest, next, ..
            } => Self::Outdated {
                action: wanted,
                ours,
                newest,
                next,
            },
            other => other,
        }
    }

    pub(crate) fn unusable(lake: &Lake, key: &Key, why: &dyn fmt::Display) -> Self {
        Self::Unusable {
            store: lake.id().to_owned(),
            key: key.clone(),
            why: why.to_string(),
        }
    }
}
