//! Whose lake this is: `cannery.json` at its root, the same in every mirror.

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

    fn not_ours(&self, reason: impl Into<String>) -> crate::Error {
        self.error(
            Operation::Open,
            "",
            Failure::new(ErrorKind::NotOurs, reason),
        )
    }
}

impl Mirrors {
    /// Makes sure that every mirror is the same lake, and the one that `expected` names; a new lake is made where there is
    /// none. Safe to repeat and to race.
    ///
    /// # Errors
    /// `NotOurs` when a mirror is another lake or a foreign one, or when all are empty although a lake was expected.
    pub async fn establish(&self, expected: Option<&str>, created_by: &str) -> Result<Identity> {
        let mut created = false;
        for _ in 0..ROUNDS_MAX {
            let found = self.manifests().await?;
            let manifest = self.agree(&found, expected, created_by)?;
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
    pub async fn verify(&self, expected: Option<&str>) -> Result<()> {
        let found = self.manifests().await?;
        self.agree(&found, expected, "").map(drop)
    }

    async fn manifests(&self) -> Result<Vec<Option<LakeManifest>>> {
        let mut found = Vec::new();
        for lake in self.iter() {
            found.push(lake.manifest().await?);
        }
        Ok(found)
    }

    /// The one manifest for all mirrors. Pure.
    fn agree(
        &self,
        found: &[Option<LakeManifest>],
        expected: Option<&str>,
        created_by: &str,
    ) -> Result<LakeManifest> {
        let mut agreed: Option<(&Lake, &LakeManifest)> = None;
        for (lake, manifest) in self.iter().zip(found) {
            let Some(manifest) = manifest else { continue };
            match (expected, agreed) {
                (Some(expected), _) if expected != manifest.lake => {
                    let reason = format!(
                        "it is lake `{}`, but this workspace belongs to lake `{expected}`",
                        manifest.lake
                    );
                    return Err(lake.not_ours(reason));
                }
                (_, Some((other, first))) if first.lake != manifest.lake => {
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
        match (agreed, expected) {
            (Some((_, manifest)), _) => Ok(manifest.clone()),
            (None, Some(expected)) => Err(self.first().not_ours(format!(
                "it has no `cannery.json`, but this workspace belongs to lake `{expected}`: it is another place, or was emptied"
            ))),
            (None, None) => {
                let lake = self.first();
                Ok(LakeManifest::new(lake.rng().id(), lake.clock().now(), created_by.to_owned()))
            }
        }
    }
}
