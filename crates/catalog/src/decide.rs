//! What is to be done with a file, from what it is and what the catalog knows of it. Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// A file of the lake, as its index describes it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileFacts {
    /// `<date>/<file>`.
    pub name: String,
    /// The folder of its rules, `r<8 hex>`.
    pub generation: String,
    /// The date before the slash.
    pub bucket: String,
    /// What it holds: a test name, `spool-<datatype>`, `feed-<id>`, `unknown`.
    pub kind: String,
    /// Of the object's bytes, padded base64.
    pub file_sha1: String,
    /// Of the whole decompressed stream, padded base64.
    pub text_sha1: String,
    /// The object's bytes.
    pub file_size: u64,
    /// Those of the decompressed stream.
    pub text_size: u64,
    /// The hash of the sanitiser's rules and lookup tables.
    pub rules_hash: String,
}

impl FileFacts {
    /// What tells it from another state of the same file.
    #[must_use]
    pub fn state(&self) -> FileState {
        FileState {
            generation: self.generation.clone(),
            file_sha1: self.file_sha1.clone(),
        }
    }
}

/// A state of a file: what a load was decided on, and what must still be so when it commits.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct FileState {
    /// The generation that the catalog points at.
    pub generation: String,
    /// The object's checksum.
    pub file_sha1: String,
}

/// What the catalog knows of a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct KnownFile {
    /// The file as it was loaded.
    pub facts: FileFacts,
    /// The version by which each feature's rows were made.
    pub versions: BTreeMap<String, u64>,
}

/// The version of a feature that this program has.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FeatureVersion {
    /// The feature.
    pub name: String,
    /// Its version, from 1.
    pub version: u64,
    /// Rows made by this version or a later one are as good as new.
    pub min_compatible: u64,
}

/// What is to be done. After everything but [`Decision::Skip`] and [`Decision::NewerThanCode`], decide again: a file may need a
/// second step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// All is as it should be; the file need not be read.
    Skip,
    /// The catalog does not have it.
    Ingest,
    /// The same text in other frames or another place: only offsets change.
    Repoint,
    /// Another text or kind: everything anew; the uids of unchanged measurements survive.
    Reingest,
    /// These features have rows of a version that is too old, or none: their tables only.
    Reprocess {
        /// Their names.
        features: Vec<String>,
    },
    /// These features have rows of an older version that is as good: only the version is written.
    MarkCurrent {
        /// Their names.
        features: Vec<String>,
    },
    /// A newer program has loaded it: reported, never guessed.
    NewerThanCode {
        /// The first feature of which that is so.
        feature: String,
        /// The version in the catalog.
        known: u64,
        /// The version of this program.
        declared: u64,
    },
}

/// Decides. `features` are those that read files of this kind.
#[must_use]
pub fn decide(
    facts: &FileFacts,
    known: Option<&KnownFile>,
    features: &[FeatureVersion],
) -> Decision {
    let Some(known) = known else {
        return Decision::Ingest;
    };
    if let Some(newer) = newer_than_code(known, features) {
        return newer;
    }
    if facts.text_sha1 != known.facts.text_sha1 || facts.kind != known.facts.kind {
        return Decision::Reingest;
    }
    if facts != &known.facts {
        return Decision::Repoint;
    }
    outdated(known, features)
}

fn newer_than_code(known: &KnownFile, features: &[FeatureVersion]) -> Option<Decision> {
    features.iter().find_map(|feature| {
        let version = *known.versions.get(&feature.name)?;
        (version > feature.version).then(|| Decision::NewerThanCode {
            feature: feature.name.clone(),
            known: version,
            declared: feature.version,
        })
    })
}

fn outdated(known: &KnownFile, features: &[FeatureVersion]) -> Decision {
    let (mut reprocess, mut mark) = (Vec::new(), Vec::new());
    for feature in features {
        match known.versions.get(&feature.name) {
            Some(version) if *version == feature.version => {}
            Some(version) if *version >= feature.min_compatible => mark.push(feature.name.clone()),
            Some(_) | None => reprocess.push(feature.name.clone()),
        }
    }
    if !reprocess.is_empty() {
        return Decision::Reprocess {
            features: reprocess,
        };
    }
    if !mark.is_empty() {
        return Decision::MarkCurrent { features: mark };
    }
    Decision::Skip
}

/// The files that the catalog has of a bucket and the lake has not: reported, never forgotten by themselves. `listing` is
/// the whole list of the bucket's files.
#[must_use]
pub fn vanished<'a>(known: &'a [String], listing: &BTreeSet<String>) -> Vec<&'a str> {
    let gone = known.iter().filter(|name| !listing.contains(*name));
    gone.map(String::as_str).collect()
}

#[cfg(test)]
mod tests;
