//! Which database has the names of users' objects in a lake. Another one must not write to the log, nor delete anything.

use serde::{Deserialize, Serialize};

/// The version of the format.
const FORMAT: u32 = 1;

/// The record of an owner. Records are numbered, and the one with the highest number counts: a rebuild adds one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NamespaceOwner {
    format: u32,
    /// The id of the database.
    pub database: String,
}

impl NamespaceOwner {
    /// A record.
    #[must_use]
    pub fn new(database: impl Into<String>) -> Self {
        Self {
            format: FORMAT,
            database: database.into(),
        }
    }

    /// The JSON, with the end of the line.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("a name and a number are JSON");
        text.push(b'\n');
        text
    }

    /// Reads it. `None` for what is damaged, or of a newer format.
    #[must_use]
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let record: Self = serde_json::from_slice(bytes).ok()?;
        (record.format == FORMAT).then_some(record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_read_again_and_a_newer_one_is_not() {
        let owner = NamespaceOwner::new("abc");
        assert_eq!(owner.to_bytes(), b"{\"format\":1,\"database\":\"abc\"}\n");
        assert_eq!(NamespaceOwner::from_bytes(&owner.to_bytes()), Some(owner));
        assert_eq!(
            NamespaceOwner::from_bytes(b"{\"format\":2,\"database\":\"abc\"}"),
            None
        );
        assert_eq!(NamespaceOwner::from_bytes(b"{"), None);
    }
}
