//! A lake, and how the archives of an hour are brought together in it.

use std::sync::{Arc, OnceLock};

use cannery_formats::Key;
use cannery_formats::feed::{Primaries, Replaced};
use cannery_lake::{Lake, PutNew, present};
use serde::{Deserialize, Serialize};

use crate::error::Error;

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

/// One object storage. Mirrors are several of them, each consolidated by itself. Clones are the same.
#[derive(Clone, Debug)]
pub struct Store {
    /// Where the archives are.
    pub lake: Lake,
    /// How they become one.
    pub algorithm: Algorithm,
    /// How primaries are replaced by everybody, once that is known.
    agreed: Arc<OnceLock<WithPrimary>>,
}

/// What [`Algorithm`] means on a store that honours what it honours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// Archives named for their content; the largest is left. An hour that has a primary from before goes on with it: somebody may
    /// still rely on nobody deleting that.
    Hashed(WithPrimary),
    /// One primary, replaced by compare-and-swap.
    Swapped,
    /// As hashed, and the primary is a copy of what is left.
    Projected,
}

/// How an hour that has a primary is brought together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WithPrimary {
    Swapped,
    Projected,
}

impl From<Replaced> for WithPrimary {
    fn from(replaced: Replaced) -> Self {
        match replaced {
            Replaced::Swapped => Self::Swapped,
            Replaced::Copied => Self::Projected,
        }
    }
}

impl From<WithPrimary> for Replaced {
    fn from(with_primary: WithPrimary) -> Self {
        match with_primary {
            WithPrimary::Swapped => Self::Swapped,
            WithPrimary::Projected => Self::Copied,
        }
    }
}

impl From<WithPrimary> for Way {
    fn from(with_primary: WithPrimary) -> Self {
        match with_primary {
            WithPrimary::Swapped => Self::Swapped,
            WithPrimary::Projected => Self::Projected,
        }
    }
}

impl Way {
    /// That of an hour, which may have a primary.
    pub(crate) fn of(self, has_primary: bool) -> Self {
        match self {
            Self::Hashed(with_primary) if has_primary => with_primary.into(),
            Self::Hashed(_) | Self::Swapped | Self::Projected => self,
        }
    }

    /// Whether a primary is written.
    pub(crate) fn writes_primary(self) -> bool {
        match self {
            Self::Swapped | Self::Projected => true,
            Self::Hashed(_) => false,
        }
    }
}

impl Store {
    /// A lake whose archives become one in this way.
    #[must_use]
    pub fn new(lake: Lake, algorithm: Algorithm) -> Self {
        Self {
            lake,
            algorithm,
            agreed: Arc::default(),
        }
    }

    /// The id of the object storage.
    #[must_use]
    pub fn id(&self) -> &str {
        self.lake.id()
    }

    /// Finds out what the store honours, where the algorithm depends on it: that writes to the store, and a look at an
    /// hour should not.
    pub(crate) async fn know_way(&self) -> Result<(), Error> {
        if self.algorithm == Algorithm::Primary {
            self.lake.ensure_probed().await?;
        }
        self.recall().await?;
        Ok(())
    }

    pub(crate) fn way(&self) -> Way {
        match self.algorithm {
            Algorithm::Hashed => Way::Hashed(self.with_primary()),
            Algorithm::Primary => self.with_primary().into(),
        }
    }

    /// Makes sure, before a primary is written, that everybody replaces primaries in the same way: who swaps relies on nobody
    /// deleting them. A probe may say one thing to one replica and another to the next, when the store was changed in between;
    /// what the first of them wrote down is what counts.
    ///
    /// # Errors
    /// Any failure of the store; [`Error::Disagreed`] where the others do what cannot be done from here.
    pub(crate) async fn agree(&self) -> Result<(), Error> {
        while self.recall().await?.is_none() {
            let own = self.by_probe();
            let primaries = Primaries {
                primaries: own.into(),
            };
            let key = Key::primaries();
            match self.lake.put_new(&key, primaries.to_json()).await? {
                // Another task of this process may have been first, with the same.
                PutNew::Created | PutNew::Same => self.agreed.set(own).unwrap_or(()),
                PutNew::Different => {}
            }
        }
        match (self.with_primary(), self.by_probe()) {
            (WithPrimary::Swapped, WithPrimary::Projected) => Err(Error::Disagreed {
                store: self.id().to_owned(),
                key: Key::primaries(),
            }),
            // Whoever could swap can copy as well.
            (WithPrimary::Projected, _) | (WithPrimary::Swapped, WithPrimary::Swapped) => Ok(()),
        }
    }

    /// What was written down before, if anything was.
    async fn recall(&self) -> Result<Option<WithPrimary>, Error> {
        if let Some(agreed) = self.agreed.get() {
            return Ok(Some(*agreed));
        }
        let key = Key::primaries();
        let Some(object) = present(self.lake.get(&key, Primaries::BYTES_MAX).await)? else {
            return Ok(None);
        };
        let said = Primaries::parse(&object.bytes).map_err(|why| Error::Unusable {
            store: self.id().to_owned(),
            key,
            why,
        })?;
        Ok(Some(*self.agreed.get_or_init(|| said.primaries.into())))
    }

    fn with_primary(&self) -> WithPrimary {
        let agreed = self.agreed.get().copied();
        agreed.unwrap_or_else(|| self.by_probe())
    }

    fn by_probe(&self) -> WithPrimary {
        match self.lake.honours().update {
            true => WithPrimary::Swapped,
            false => WithPrimary::Projected,
        }
    }
}
