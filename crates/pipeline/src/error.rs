//! Why a stage stopped. Nothing is lost by it: every step may be repeated.

use std::io;
use std::path::{Path, PathBuf};

use cannery_formats::Key;
use cannery_formats::feed::{FeedId, Hour};

/// A stage could not do what it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store failed.
    #[error(transparent)]
    Lake(#[from] cannery_lake::Error),
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
}

impl Error {
    pub(crate) fn scratch(folder: &Path, why: io::Error) -> Self {
        Self::Scratch {
            folder: folder.to_owned(),
            why,
        }
    }
}
