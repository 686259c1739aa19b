//! What the lake has of a bucket, counted for people: looked at again and again, and nothing is read twice that never changes.

use std::collections::BTreeSet;

use cannery_formats::archive::Generation;
use cannery_formats::can::FileName;
use cannery_formats::key::AutoclavedObject;
use cannery_formats::{BucketDate, Key};
use cannery_lake::Lake;
use serde::Serialize;

use crate::cans::{BucketState, Indexes};
use crate::error::Error;
use crate::generation::in_force_at;

/// Whether reports are still added to a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Seal {
    /// They are.
    Open,
    /// Not any more, and it is being sealed.
    Closing,
    /// Its files have their final names.
    Sealed,
}

/// What the lake has of a bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Look {
    /// Whether it is open.
    pub seal: Seal,
    /// The reports in its cans.
    pub reports: u64,
    /// The cans that count.
    pub cans: u64,
    /// Their bytes.
    pub can_bytes: u64,
    /// The archives of these cans, in the generation that was asked for.
    pub archives: u64,
}

/// Looks at buckets. It remembers the indexes that it read: they never change.
#[derive(Clone, Debug)]
pub struct Looker {
    raw: Lake,
    public: Lake,
    indexes: Indexes,
}

impl Looker {
    /// Of cans in one lake, and archives in another, which may be the same.
    #[must_use]
    pub fn new(raw: Lake, public: Lake) -> Self {
        Self {
            indexes: Indexes::new(raw.clone()),
            raw,
            public,
        }
    }

    /// The generation in force; nothing before the first archive.
    ///
    /// # Errors
    /// Those of the lake.
    pub async fn generation(&self) -> Result<Option<Generation>, Error> {
        in_force_at(&self.public).await
    }

    /// Counts what a bucket has: two listings, and the indexes that were not read before.
    ///
    /// # Errors
    /// Those of the lakes; [`Error::Unusable`] for an index that cannot be read.
    pub async fn look(
        &self,
        bucket: BucketDate,
        generation: Option<Generation>,
    ) -> Result<Look, Error> {
        let folder = Key::canned_folder(Some(bucket));
        let entries = self.raw.list_all(Some(&folder)).await?;
        let state = BucketState::of(bucket, entries);
        let mut look = Look {
            seal: match (state.is_sealed, state.is_open()) {
                (true, _) => Seal::Sealed,
                (false, false) => Seal::Closing,
                (false, true) => Seal::Open,
            },
            reports: 0,
            cans: 0,
            can_bytes: 0,
            archives: 0,
        };
        let mut cans = BTreeSet::new();
        for key in self.indexes.counting(&state, None).await? {
            let names = self.indexes.names(&key).await?;
            look.reports += names.reports();
            look.can_bytes += names.bytes;
            cans.extend(names.files.iter().cloned());
        }
        look.cans = u64::try_from(cans.len()).unwrap_or(u64::MAX);
        if let Some(generation) = generation {
            look.archives = self.archives(bucket, generation, &cans).await?;
        }
        Ok(look)
    }

    /// Archives of these cans; those of replaced ones may still be there.
    async fn archives(
        &self,
        bucket: BucketDate,
        generation: Generation,
        cans: &BTreeSet<FileName>,
    ) -> Result<u64, Error> {
        let folder = Key::autoclaved_generation(generation, Some(bucket));
        let mut archives = 0;
        for entry in self.public.list_all(Some(&folder)).await? {
            match entry.key.as_autoclaved() {
                Some((_, _, AutoclavedObject::File(name))) if cans.contains(&name) => archives += 1,
                Some(_) | None => {}
            }
        }
        Ok(archives)
    }
}
