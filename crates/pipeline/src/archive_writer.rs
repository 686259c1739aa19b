//! The one way to write below `autoclaved/<generation>/`.
//!
//! There is a writer only for the newest rules of the lake: opening one refuses all others, whoever asks for it. Newer rules
//! may come while archives are being made, so a writer looks before the first object and again after the last.

use std::collections::BTreeMap;

use bytes::Bytes;
use cannery_formats::Key;
use cannery_formats::archive::{Current, Edition, Generation};
use cannery_lake::{Body, Lake, PutNew, Swap, Version};

use crate::error::Error;
use crate::generation::{claim, claimed, current};
use crate::stage::Plant;

/// Writes archives and indexes of one generation. Whoever has written something calls [`ArchiveWriter::close`].
#[derive(Debug)]
pub(crate) struct ArchiveWriter<'p> {
    lake: &'p Lake,
    rules: Edition,
    /// What the lake said when the writer was opened; nothing where no rules were ever in force.
    opened_at: Option<Current>,
    /// The objects that did not exist before, in the order in which they were put.
    created: Vec<Key>,
}

impl<'p> ArchiveWriter<'p> {
    /// A writer for archives that are made by these rules, which are the newest from now on.
    ///
    /// # Errors
    /// [`Error::Outdated`] when the lake has newer rules, or others that are called the same; those of the lake.
    pub(crate) async fn open(plant: &'p Plant, rules: Edition) -> Result<Self, Error> {
        let current = claim(plant, &rules).await?;
        Ok(Self {
            lake: &plant.public,
            rules,
            opened_at: Some(current),
            created: Vec::new(),
        })
    }

    /// A writer for what follows from the archives of a generation alone, whatever the rules of this machine. Nothing if it is not
    /// that of the newest rules.
    ///
    /// # Errors
    /// Those of the lake.
    pub(crate) async fn of_generation(
        plant: &'p Plant,
        generation: Generation,
    ) -> Result<Option<Self>, Error> {
        let current = current(&plant.public).await?;
        let newest = current.as_ref().map(|current| current.newest().clone());
        let rules = newest.unwrap_or_else(|| Edition {
            generation,
            version: None,
            tables: BTreeMap::new(),
        });
        let is_newest = rules.generation == generation;
        Ok(is_newest.then(|| Self {
            lake: &plant.public,
            rules,
            opened_at: current,
            created: Vec::new(),
        }))
    }

    /// Puts an object if there is none.
    pub(crate) async fn put_new(
        &mut self,
        key: &Key,
        body: impl Into<Body>,
    ) -> Result<PutNew, Error> {
        self.expect_own(key);
        let put = self.lake.put_new(key, body).await?;
        if put == PutNew::Created {
            self.created.push(key.clone());
        }
        Ok(put)
    }

    /// Puts an object in the place of a version of it.
    pub(crate) async fn put_if_version(
        &mut self,
        key: &Key,
        version: &Version,
        content: Bytes,
    ) -> Result<Swap, Error> {
        self.expect_own(key);
        Ok(self.lake.put_if_version(key, version, content).await?)
    }

    fn expect_own(&self, key: &Key) {
        let generation = key.as_autoclaved().map(|(generation, _, _)| generation);
        debug_assert_eq!(generation, Some(self.rules.generation), "{key}");
    }

    /// Looks again. Newer rules that came meanwhile refuse what was written; and once they are in force, it is removed: what
    /// older rules made may have been swept by then, and nobody would come for this. Until they are, it goes with all
    /// else that older rules made.
    ///
    /// # Errors
    /// [`Error::Outdated`] when newer rules came meanwhile; those of the lake.
    pub(crate) async fn close(self) -> Result<(), Error> {
        let Some(now) = current(self.lake).await? else {
            return Ok(());
        };
        let Err(outdated) = claimed(&now, &self.rules) else {
            return Ok(());
        };
        let in_force = |current: &Current| (current.in_force.generation, current.since);
        let is_as_before = self.opened_at.as_ref().map(in_force) == Some(in_force(&now));
        if now.in_force.generation != self.rules.generation && !is_as_before {
            // The index was put last and goes first.
            for key in self.created.iter().rev() {
                tracing::warn!(%key, "removing what was made while newer rules came into force");
                self.lake.delete(key).await?;
            }
        }
        Err(outdated)
    }
}
