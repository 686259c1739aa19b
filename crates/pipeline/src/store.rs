//! A lake, and how the archives of an hour are brought together in it.

use cannery_lake::Lake;
use serde::{Deserialize, Serialize};

/// How the archives of an hour become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Algorithm {
    /// The one that is left is named for its content.
    #[default]
    Hashed,
    /// The one that is left has a name that everybody knows.
    Primary,
}

/// One object storage. Mirrors are several of them, each consolidated by itself.
#[derive(Clone, Debug)]
pub struct Store {
    /// Where the archives are.
    pub lake: Lake,
    /// How they become one.
    pub algorithm: Algorithm,
}

/// What [`Algorithm`] means on a store that honours what it honours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Archives named for their content; the largest is left.
    Hashed,
    /// One primary, replaced by compare-and-swap.
    Swapped,
    /// As hashed, and the primary is a copy of what is left.
    Projected,
}

impl Store {
    /// The id of the object storage.
    #[must_use]
    pub fn id(&self) -> &str {
        self.lake.id()
    }

    /// Finds out what the store honours, where the algorithm depends on it: that writes to the store, and a look at an
    /// hour should not.
    pub(crate) async fn know_way(&self) -> cannery_lake::Result<()> {
        match self.algorithm {
            Algorithm::Hashed => Ok(()),
            Algorithm::Primary => self.lake.ensure_probed().await,
        }
    }

    pub(crate) fn way(&self) -> Way {
        match self.algorithm {
            Algorithm::Hashed => Way::Hashed,
            Algorithm::Primary if self.lake.honours().update => Way::Swapped,
            Algorithm::Primary => Way::Projected,
        }
    }
}
