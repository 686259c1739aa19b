//! Objects too large for one conditional put: the bytes lie at a key of their own, and a small object commits them.
//!
//! The commit is created if absent under the object's key, so a large object is as exclusive as a small one, and a reader
//! sees all of it or nothing.

use serde::{Deserialize, Serialize};

use crate::{Digest, Key};

/// Above this, an object is uploaded in parts.
pub const LARGE_BYTES_MIN: u64 = 64 * 1024 * 1024;

/// A commit is never longer than this, so only an object this small has to be looked at.
pub const COMMIT_BYTES_MAX: u64 = 2048;

const MAGIC: &str = "{\"cannery\":\"large-object\",";

/// The commit of a large object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LargeObject {
    cannery: Tag,
    version: u32,
    /// Where the bytes lie.
    pub data: Key,
    /// How many there are.
    pub bytes: u64,
    /// Their digest.
    pub sha256: Digest,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Tag {
    #[serde(rename = "large-object")]
    LargeObject,
}

/// An object that begins like a commit and is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("damaged commit of a large object: {0}")]
pub struct DamagedCommit(String);

impl LargeObject {
    /// The commit of `bytes` bytes at `data`.
    #[must_use]
    pub fn new(data: Key, bytes: u64, sha256: Digest) -> Self {
        Self {
            cannery: Tag::LargeObject,
            version: 1,
            data,
            bytes,
            sha256,
        }
    }

    /// The bytes of the commit object.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("a commit is plain data");
        text.push(b'\n');
        text
    }

    /// Whether `content` begins like a commit. Ordinary content that does is stored as a large object whatever its size,
    /// so nobody can plant a commit by storing one.
    #[must_use]
    pub fn looks_like_commit(content: &[u8]) -> bool {
        content.starts_with(MAGIC.as_bytes())
    }

    /// Whether an object whose first bytes are `beginning` can be a commit; the more there are, the surer is a no.
    #[must_use]
    pub fn may_begin_commit(beginning: &[u8]) -> bool {
        Self::looks_like_commit(beginning) || MAGIC.as_bytes().starts_with(beginning)
    }

    /// Reads an object: `None` when it is ordinary content.
    ///
    /// # Errors
    /// [`DamagedCommit`] when it begins like a commit but does not name data of a large object.
    pub fn parse(content: &[u8]) -> Result<Option<Self>, DamagedCommit> {
        if !Self::looks_like_commit(content) {
            return Ok(None);
        }
        let commit: Self =
            serde_json::from_slice(content).map_err(|error| DamagedCommit(error.to_string()))?;
        if commit.version != 1 {
            return Err(DamagedCommit(format!("its version is {}", commit.version)));
        }
        if !commit.data.is_large_data() {
            return Err(DamagedCommit(format!("it points at `{}`", commit.data)));
        }
        Ok(Some(commit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn commit() -> LargeObject {
        let data = Key::large_data(
            "k7q2mwz5x4bnd3yhscv6tjaer4",
            &Key::new("a/b.tar.gz").unwrap(),
        );
        LargeObject::new(data, 300_000_000, Digest::of(b"x"))
    }

    #[test]
    fn a_commit_round_trips_and_stays_small() {
        let text = commit().to_bytes();
        assert!(LargeObject::looks_like_commit(&text));
        assert_eq!(LargeObject::parse(&text), Ok(Some(commit())));
        let longest = Key::large_data(&"a".repeat(26), &Key::new("\"".repeat(255)).unwrap());
        assert!(
            LargeObject::new(longest, u64::MAX, Digest::of(b""))
                .to_bytes()
                .len() as u64
                <= COMMIT_BYTES_MAX
        );
    }

    #[test]
    fn every_beginning_of_a_commit_can_be_one_and_others_cannot() {
        let text = commit().to_bytes();
        for length in 0..text.len() {
            assert!(LargeObject::may_begin_commit(&text[..length]), "{length}");
        }
        for other in [
            &b"\x04\"M\x18"[..],
            b"{\"a\":1}",
            b"{\"cannery\":\"other\"}",
        ] {
            assert!(!LargeObject::may_begin_commit(other));
        }
    }

    #[test]
    fn a_commit_made_by_version_1_is_read_for_ever() {
        let text = include_bytes!("../fixtures/large_object/version-1.json");
        assert_eq!(LargeObject::parse(text), Ok(Some(commit())));
    }

    #[test]
    fn ordinary_content_is_no_commit_and_a_planted_target_is_damage() {
        assert_eq!(LargeObject::parse(b"{\"cannery\":\"other\"}"), Ok(None));
        assert_eq!(LargeObject::parse(b""), Ok(None));
        let planted = String::from_utf8(commit().to_bytes())
            .unwrap()
            .replace(".cannery/large/", "canned/2026/");
        assert!(LargeObject::parse(planted.as_bytes()).is_err());
        assert!(LargeObject::parse(b"{\"cannery\":\"large-object\",").is_err());
    }
}
