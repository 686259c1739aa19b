//! What an error of a stage means for its work.

use cannery_catalog::ErrorKind as CatalogKind;
use cannery_lake::ErrorKind as LakeKind;

use crate::error::Error;

/// Whose fault it is, and therefore what helps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trouble {
    /// A store, a disk or a database: it is tried again without blame, however long that takes.
    Others,
    /// Perhaps the work's own: another attempt may help, a few more will not.
    Doubtful,
    /// What the work is to be done on cannot be used: a person has to look.
    Unusable,
}

impl Trouble {
    pub(super) fn of(error: &Error) -> Self {
        match error {
            Error::Lake(error) => match error.kind {
                LakeKind::StoreMissing
                | LakeKind::Denied
                | LakeKind::Unavailable
                | LakeKind::Conflict
                | LakeKind::Full
                | LakeKind::Failed => Self::Others,
                LakeKind::Absent | LakeKind::Invalid | LakeKind::Corrupt | LakeKind::NotOurs => {
                    Self::Doubtful
                }
            },
            Error::Catalog(error) => match error.kind {
                // A worker that is new enough may come by.
                CatalogKind::Newer
                | CatalogKind::Conflict
                | CatalogKind::Unavailable
                | CatalogKind::Denied
                | CatalogKind::Full => Self::Others,
                CatalogKind::Invalid | CatalogKind::Corrupt => Self::Doubtful,
            },
            Error::Journal(_)
            | Error::Scratch { .. }
            | Error::Restless { .. }
            | Error::Crowded { .. }
            | Error::Uncommitted { .. }
            | Error::BeingSealed { .. }
            | Error::Report { .. }
            | Error::StillWritten { .. }
            // A worker with the newer rules may come by.
            | Error::Outdated { .. }
            | Error::Unsettled { .. }
            | Error::GivenUp => Self::Others,
            Error::Merge { .. }
            | Error::ReadBack { .. }
            | Error::NamesTaken { .. }
            | Error::NoIndex { .. } => Self::Doubtful,
            Error::Unusable { .. }
            | Error::WithoutCan { .. }
            | Error::NotAsLoaded { .. }
            | Error::NoArchive { .. }
            | Error::Refused { .. }
            | Error::Disagreed { .. }
            | Error::TooManyHours { .. } => Self::Unusable,
        }
    }
}
