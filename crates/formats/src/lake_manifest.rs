//! `cannery.json` at a lake's root: which lake this is, and who may write to it.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// The format this version writes, and the newest it understands.
pub const FORMAT: u32 = 1;

/// Features this version understands. A lake that uses another one is refused.
pub const FEATURES: [&str; 0] = [];

const PRODUCT: &str = "cannery";

/// The content of `cannery.json`. Unknown fields are kept out of the way: a later version may add harmless ones, and
/// announces harmful ones by `format` or `features`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LakeManifest {
    /// Always `cannery`.
    pub product: String,
    /// The version of the lake's layout.
    pub format: u32,
    /// Identifies the lake; the same in all its mirrors.
    pub lake: String,
    /// What a writer must understand beyond `format`.
    #[serde(default)]
    pub features: Vec<String>,
    /// When the lake was made.
    pub created: Timestamp,
    /// The version that made it.
    pub created_by: String,
    /// When this mirror became part of the lake; nothing for one that was there from the beginning.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joined: Option<Timestamp>,
}

/// Why a lake is not ours to use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotOurs {
    /// The file is not a manifest at all.
    #[error("its `cannery.json` was not written by cannery: {0}")]
    Foreign(String),
    /// A later version made it.
    #[error("its format {found} is newer than {FORMAT}, the newest this version understands")]
    NewerFormat {
        /// What the lake says.
        found: u32,
    },
    /// It uses something this version does not know.
    #[error("it uses the feature `{0}`, which this version does not know")]
    UnknownFeature(String),
}

impl LakeManifest {
    /// The manifest of a new lake.
    #[must_use]
    pub fn new(lake: String, created: Timestamp, created_by: String) -> Self {
        Self {
            product: PRODUCT.to_owned(),
            format: FORMAT,
            lake,
            features: Vec::new(),
            created,
            created_by,
            joined: None,
        }
    }

    /// When the mirror began to hold what the lake holds: what it was given before is not in it.
    #[must_use]
    pub fn since(&self) -> Timestamp {
        self.joined.unwrap_or(self.created)
    }

    /// The bytes of `cannery.json`.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec_pretty(self).expect("a manifest is plain data");
        text.push(b'\n');
        text
    }

    /// Reads `cannery.json` and checks that this version may use the lake.
    ///
    /// # Errors
    /// [`NotOurs`] says why not.
    pub fn parse(text: &[u8]) -> Result<Self, NotOurs> {
        // The format comes first: a newer manifest need not fit today's fields.
        let outline: Outline =
            serde_json::from_slice(text).map_err(|error| NotOurs::Foreign(error.to_string()))?;
        if outline.product != PRODUCT {
            return Err(NotOurs::Foreign(format!(
                "it belongs to `{}`",
                outline.product
            )));
        }
        if outline.format > FORMAT {
            return Err(NotOurs::NewerFormat {
                found: outline.format,
            });
        }
        let manifest: Self =
            serde_json::from_slice(text).map_err(|error| NotOurs::Foreign(error.to_string()))?;
        match manifest
            .features
            .iter()
            .find(|feature| !FEATURES.contains(&feature.as_str()))
        {
            Some(unknown) => Err(NotOurs::UnknownFeature(unknown.clone())),
            None => Ok(manifest),
        }
    }
}

#[derive(Deserialize)]
struct Outline {
    product: String,
    format: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lake_made_by_format_1_opens_for_ever() {
        let manifest =
            LakeManifest::parse(include_bytes!("../fixtures/lake_manifest/format-1.json")).unwrap();
        assert_eq!(manifest.lake, "k7q2mwz5x4bnd3yhscv6tjaer4");
        assert_eq!(
            manifest.to_bytes(),
            include_bytes!("../fixtures/lake_manifest/format-1.json")
        );
    }

    #[test]
    fn foreign_and_newer_lakes_are_refused_with_the_reason() {
        for (text, reason) in [
            (
                &include_bytes!("../fixtures/lake_manifest/newer-format.json")[..],
                "format 2 is newer than 1",
            ),
            (
                include_bytes!("../fixtures/lake_manifest/unknown-feature.json"),
                "the feature `encrypted`",
            ),
            (
                include_bytes!("../fixtures/lake_manifest/other-product.json"),
                "it belongs to `brewery`",
            ),
            (b"<html>", "was not written by cannery"),
            (b"", "was not written by cannery"),
            (b"{\"product\":\"cannery\",\"format\":1}", "missing field"),
        ] {
            let error = LakeManifest::parse(text).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
