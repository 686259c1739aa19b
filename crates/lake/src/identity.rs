//! Whose lake this is: `cannery.json` at its root, the same in every mirror.

use std::collections::BTreeSet;

use cannery_formats::{Key, LakeManifest};

use crate::error::{ErrorKind, Failure, Operation, Result};
use crate::lake::Lake;
use crate::mirrors::Mirrors;
use crate::put::PutNew;

const MANIFEST_BYTES_MAX: u64 = 64 * 1024;

/// How often a race for a new lake is run again; each round somebody has won.
const ROUNDS_MAX: usize = 5;

/// The lake that was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The id of the lake.
    pub lake: String,
    /// Whether it was made just now, in at least one mirror.
    pub created: bool,
}

/// What somebody knows of a lake from before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Remembered {
    /// The id of the lake.
    pub lake: String,
    /// The ids of the mirrors that had it: they are never made anew by themselves.
    pub stores: BTreeSet<String>,
}

impl Lake {
    /// Reads `cannery.json`; `None` when nobody has made a lake here yet.
    ///
    /// # Errors
    /// `NotOurs` with the reason when the lake is foreign or newer.
    pub async fn manifest(&self) -> Result<Option<LakeManifest>> {
        let object = match self.get(&Key::lake_manifest(), MANIFEST_BYTES_MAX).await {
            Ok(object) => object,
            Err(error) if error.kind == ErrorKind::Absent => return Ok(None),
            Err(error) if error.kind == ErrorKind::Invalid => {
                return Err(self.not_ours(error.detail));
            }
            Err(error) => return Err(error),
        };
        LakeManifest::parse(&object.bytes)
            .map(Some)
            .map_err(|reason| self.not_ours(reason.to_string()))
    }

    /// Whether it is the lake that is known; not when it is empty and never had it.
    async fn is_there(&self, known: &Remembered) -> Result<bool> {
        match self.manifest().await? {
            Some(manifest) if manifest.lake == known.lake => Ok(true),
            Some(manifest) => Err(self.not_ours(format!(
                "it is lake `{}`, but this workspace belongs to lake `{}`",
                manifest.lake, known.lake
            ))),
            None if known.stores.contains(self.id()) => Err(self.gone(known)),
            None => Ok(false),
        }
    }

    fn gone(&self, known: &Remembered) -> crate::Error {
        self.not_ours(format!(
            "it has no `cannery.json`, but this workspace belongs to lake `{}`: it is another place, or was emptied; if that is meant, run \
             `cannery lake join {}`",
            known.lake,
            self.id()
        ))
    }

    /// Puts the manifest of a lake where there is none.
    async fn become_part(&self, manifest: LakeManifest) -> Result<()> {
        self.ensure_probed().await?;
        let key = Key::lake_manifest();
        let manifest = LakeManifest {
            joined: Some(self.clock().now()),
            ..manifest
        };
        match self.put_new(&key, manifest.to_bytes()).await? {
            PutNew::Created | PutNew::Same => Ok(()),
            // Somebody else was first, perhaps with the same lake.
            PutNew::Different => match self.manifest().await? {
                Some(there) if there.lake == manifest.lake => Ok(()),
                Some(_) | None => Err(self.not_ours("another process is making a lake here")),
            },
        }
    }

    fn not_ours(&self, reason: impl Into<String>) -> crate::Error {
        self.error(
            Operation::Open,
            "",
            Failure::new(ErrorKind::NotOurs, reason),
        )
    }
}

impl Mirrors {
    /// Makes sure that every mirror is the same lake, and the one that is `known`; a new lake is made where there is
    /// none, and a new mirror joins the lake. Safe to repeat and to race.
    ///
    /// # Errors
    /// `NotOurs` when a mirror is another lake or a foreign one, when it is empty although it had the lake, or when all are
    /// empty although a lake is known.
    pub async fn establish(
        &self,
        known: Option<&Remembered>,
        created_by: &str,
    ) -> Result<Identity> {
        match known {
            Some(known) => {
                let mut created = false;
                for lake in self.iter() {
                    created |= self.establish_one(lake, known).await?;
                }
                let lake = known.lake.clone();
                Ok(Identity { lake, created })
            }
            None => self.establish_new(created_by).await,
        }
    }

    /// Makes sure of one mirror, of a lake that is known; whether it was made just now. The others are asked only when it
    /// is new.
    ///
    /// # Errors
    /// As [`Mirrors::establish`]; and that of another mirror when only that could tell.
    pub async fn establish_one(&self, lake: &Lake, known: &Remembered) -> Result<bool> {
        if lake.is_there(known).await? {
            return Ok(false);
        }
        let manifest = self.manifest_elsewhere(known).await?;
        let manifest = manifest.ok_or_else(|| lake.gone(known))?;
        lake.become_part(manifest).await?;
        Ok(true)
    }

    /// Makes a mirror part of a lake that is known although it is empty, because a person says so; whether it was made just now.
    ///
    /// # Errors
    /// `NotOurs` when it is another lake or a foreign one.
    pub async fn join(&self, lake: &Lake, known: &Remembered, created_by: &str) -> Result<bool> {
        let by_order = Remembered {
            lake: known.lake.clone(),
            stores: BTreeSet::new(),
        };
        if lake.is_there(&by_order).await? {
            return Ok(false);
        }
        let manifest = self.manifest_elsewhere(known).await?;
        let manifest = manifest.unwrap_or_else(|| {
            let (id, now) = (known.lake.clone(), lake.clock().now());
            LakeManifest::new(id, now, created_by.to_owned())
        });
        lake.become_part(manifest).await?;
        Ok(true)
    }

    /// The manifest of the lake, from any mirror; nothing when none of them has one.
    async fn manifest_elsewhere(&self, known: &Remembered) -> Result<Option<LakeManifest>> {
        let mut failed = None;
        for other in self.iter() {
            match other.manifest().await {
                Ok(Some(manifest)) if manifest.lake == known.lake => return Ok(Some(manifest)),
                // What is wrong with the other is said where it is about the other.
                Ok(_) => {}
                Err(error) => failed = failed.or(Some(error)),
            }
        }
        failed.map_or(Ok(None), Err)
    }

    /// Makes a lake where there is none, or joins the one that is there.
    async fn establish_new(&self, created_by: &str) -> Result<Identity> {
        let mut created = false;
        for _ in 0..ROUNDS_MAX {
            let found = self.manifests().await?;
            let manifest = match self.agree(&found)? {
                Some(manifest) => manifest,
                None => self.new_manifest(created_by),
            };
            let mut raced = false;
            for (lake, found) in self.iter().zip(&found) {
                if found.is_some() {
                    continue;
                }
                lake.ensure_probed().await?;
                match lake
                    .put_new(&Key::lake_manifest(), manifest.to_bytes())
                    .await?
                {
                    PutNew::Created | PutNew::Same => created = true,
                    // Somebody else is making this lake: join them before anything is written to another mirror.
                    PutNew::Different => {
                        raced = true;
                        break;
                    }
                }
            }
            if !raced {
                return Ok(Identity {
                    lake: manifest.lake,
                    created,
                });
            }
        }
        Err(self
            .first()
            .not_ours("several processes keep making new lakes here"))
    }

    /// Checks the same as [`Mirrors::establish`] without making anything.
    ///
    /// # Errors
    /// As [`Mirrors::establish`].
    pub async fn verify(&self, known: Option<&Remembered>) -> Result<()> {
        let Some(known) = known else {
            let found = self.manifests().await?;
            return self.agree(&found).map(drop);
        };
        let mut is_anywhere = false;
        for lake in self.iter() {
            is_anywhere |= lake.is_there(known).await?;
        }
        match is_anywhere {
            true => Ok(()),
            false => Err(self.first().gone(known)),
        }
    }

    async fn manifests(&self) -> Result<Vec<Option<LakeManifest>>> {
        let mut found = Vec::new();
        for lake in self.iter() {
            found.push(lake.manifest().await?);
        }
        Ok(found)
    }

    /// The one manifest of all mirrors, if there is any. Pure.
    fn agree(&self, found: &[Option<LakeManifest>]) -> Result<Option<LakeManifest>> {
        let mut agreed: Option<(&Lake, &LakeManifest)> = None;
        for (lake, manifest) in self.iter().zip(found) {
            let Some(manifest) = manifest else { continue };
            match agreed {
                Some((other, first)) if first.lake != manifest.lake => {
                    let reason = format!(
                        "it is lake `{}`, but its mirror `{}` is lake `{}`",
                        manifest.lake,
                        other.id(),
                        first.lake
                    );
                    return Err(lake.not_ours(reason));
                }
                _ => agreed = agreed.or(Some((lake, manifest))),
            }
        }
        Ok(agreed.map(|(_, manifest)| manifest.clone()))
    }

    fn new_manifest(&self, created_by: &str) -> LakeManifest {
        let lake = self.first();
        LakeManifest::new(lake.rng().id(), lake.clock().now(), created_by.to_owned())
    }
}
