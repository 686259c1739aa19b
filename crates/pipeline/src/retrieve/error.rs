//! Why a retrieve stopped. Files that were put stay and are whole; it can be repeated into the same folder.

use std::io;
use std::path::PathBuf;

use cannery_formats::feed::{FeedId, Hour};
use jiff::Timestamp;

/// Retrieving could not go on.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store or the scratch folder failed. A bucket that is not there is one of these, and never "nothing found".
    #[error(transparent)]
    Stage(#[from] crate::Error),
    /// There is no hour between start and end.
    #[error("cannot retrieve from `{start}` to `{end}`: the end is not after the start")]
    Range {
        /// From when.
        start: Timestamp,
        /// To when.
        end: Timestamp,
    },
    /// The disk of the target is full.
    #[error(
        "cannot write `{}`: the disk is full; free some space and retrieve again, what is whole is kept", .path.display()
    )]
    Full {
        /// What could not be written.
        path: PathBuf,
    },
    /// A name is taken by something else.
    #[error(
        "cannot put `{}`: {what}; nothing was overwritten, move it away or choose another target folder", .path.display()
    )]
    Occupied {
        /// What is in the way.
        path: PathBuf,
        /// What is known of it.
        what: String,
    },
    /// The target failed in another way.
    #[error("cannot write `{}`: {why}", .path.display())]
    Target {
        /// What could not be written.
        path: PathBuf,
        /// What the operating system said.
        why: io::Error,
    },
    /// An archive that was sound a moment ago cannot be read again.
    #[error(
        "cannot read the archives of hour `{hour}` of feed `{feed}` again from the scratch folder: {why}; use a folder that nobody else writes to"
    )]
    Scratch {
        /// Which feed.
        feed: FeedId,
        /// Which hour.
        hour: Hour,
        /// What is wrong.
        why: String,
    },
    /// The thread that does the work has ended before the work.
    #[error("the work on the disk ended early: {0}")]
    Worker(io::Error),
    /// Whoever waited for it does not any more.
    #[error("the retrieve was stopped")]
    Stopped,
}

impl Error {
    /// What the operating system said of a place in the target.
    pub(super) fn target(path: PathBuf, why: io::Error) -> Self {
        match why.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::Full { path },
            io::ErrorKind::NotADirectory => {
                let what = "a link, or something else than a folder, is in its way".to_owned();
                Self::Occupied { path, what }
            }
            _ => Self::Target { path, why },
        }
    }
}

impl From<cannery_lake::Error> for Error {
    fn from(error: cannery_lake::Error) -> Self {
        Self::Stage(error.into())
    }
}
