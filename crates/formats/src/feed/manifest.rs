//! The first member of an archive: which hour it is, and what else is in it.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::content_set::{ContentSet, Member};
use super::feed_id::FeedId;
use super::hour::Hour;
use crate::Digest;
use crate::key::InvalidKey;

const FORMAT: u32 = 1;

/// What an archive says of itself. It follows from the feed, the hour and the set alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Which feed.
    pub feed: FeedId,
    /// Which hour.
    pub hour: Hour,
    /// What is in the archive beside the manifest.
    pub set: ContentSet,
}

/// Why a text is no manifest.
#[derive(Debug, thiserror::Error)]
pub enum ManifestError {
    /// A newer version wrote it.
    #[error("its manifest has format {0}, and this version knows {FORMAT}; use a newer version")]
    Newer(u32),
    /// It is damaged, or something else.
    #[error("its manifest is damaged: {0}")]
    Damaged(String),
}

#[derive(Serialize, Deserialize)]
struct Text {
    format: u32,
    feed: FeedId,
    hour: Hour,
    entries: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
struct Entry {
    name: String,
    size: u64,
    sha256: Digest,
    /// Where it lies, if that is not its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

impl Entry {
    /// Where it lies, and what it is.
    fn place(self) -> Result<(String, Member), ManifestError> {
        let damaged = |error: InvalidKey| ManifestError::Damaged(error.to_string());
        let member = Member::new(self.name, self.size, self.sha256).map_err(damaged)?;
        let Some(path) = self.path else {
            return Ok((member.name().to_owned(), member));
        };
        let behind = path.strip_prefix(member.name());
        if behind.is_none_or(|behind| !behind.starts_with(".~") || behind.contains('/')) {
            let why = format!("member `{}` does not lie beside its name", member.name());
            return Err(ManifestError::Damaged(why));
        }
        Ok((path, member))
    }
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Manifest {
    /// The member.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let entries = self
            .set
            .paths(&self.feed)
            .into_iter()
            .map(|(path, member)| Entry {
                name: member.name().to_owned(),
                size: member.size(),
                sha256: member.sha256(),
                path: (path != member.name()).then_some(path),
            });
        let text = Text {
            format: FORMAT,
            feed: self.feed.clone(),
            hour: self.hour,
            entries: entries.collect(),
        };
        let mut json = serde_json::to_vec(&text).expect("names and numbers are always JSON");
        json.push(b'\n');
        json
    }

    /// Reads a manifest, and where it says that each member lies.
    ///
    /// Which of several members with one name lies under it is told and not computed: an archive that has them the other way
    /// round holds the same set.
    ///
    /// # Errors
    /// [`ManifestError`] when a newer version wrote it, or nobody did.
    pub fn parse(json: &[u8]) -> Result<(Self, HashMap<String, Member>), ManifestError> {
        let damaged = |error: serde_json::Error| ManifestError::Damaged(error.to_string());
        let format: Format = serde_json::from_slice(json).map_err(damaged)?;
        if format.format != FORMAT {
            return Err(ManifestError::Newer(format.format));
        }
        let text: Text = serde_json::from_slice(json).map_err(damaged)?;
        let entries = text.entries.into_iter().map(Entry::place);
        let entries = entries.collect::<Result<Vec<_>, _>>()?;
        let count = entries.len();
        let paths: HashMap<String, Member> = entries.into_iter().collect();
        let set: ContentSet = paths.values().cloned().collect();
        if paths.len() != count || set.len() != count {
            let why = "it lists a member or a path twice";
            return Err(ManifestError::Damaged(why.to_owned()));
        }
        let (feed, hour) = (text.feed, text.hour);
        Ok((Self { feed, hour, set }, paths))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(members: &[(&str, &[u8])]) -> Manifest {
        let members = members.iter();
        Manifest {
            feed: FeedId::new("f").unwrap(),
            hour: "20261115T18Z".parse().unwrap(),
            set: members
                .map(|(name, body)| {
                    Member::new(*name, body.len() as u64, Digest::of(body)).unwrap()
                })
                .collect(),
        }
    }

    #[test]
    fn it_reads_as_it_is_written_also_with_twins() {
        let manifest = manifest(&[("b", b"1"), ("a", b"1"), ("a", b"22")]);
        let json = manifest.to_json();
        let (read, paths) = Manifest::parse(&json).unwrap();
        assert_eq!(read, manifest);
        let written = manifest.set.paths(&manifest.feed).into_iter();
        let written: HashMap<_, _> = written.map(|(path, one)| (path, one.clone())).collect();
        assert_eq!(paths, written);
        let text = String::from_utf8(json).unwrap();
        assert!(
            text.starts_with(
                r#"{"format":1,"feed":"f","hour":"20261115T18Z","entries":[{"name":"a","size":1,"#
            ),
            "{text}"
        );
        assert_eq!(text.matches(r#""path":"a.~"#).count(), 1, "{text}");
    }

    #[test]
    fn a_newer_one_and_a_damaged_one_are_told_apart() {
        let newer = br#"{"format":2,"anything":[]}"#;
        assert!(matches!(
            Manifest::parse(newer),
            Err(ManifestError::Newer(2))
        ));
        let hostile = br#"{"format":1,"feed":"f","hour":"20261115T18Z","entries":[{"name":"../x","size":1,"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}]}"#;
        for text in [b"".as_slice(), b"{}", b"[1]", hostile] {
            assert!(matches!(
                Manifest::parse(text),
                Err(ManifestError::Damaged(_))
            ));
        }
    }
}
