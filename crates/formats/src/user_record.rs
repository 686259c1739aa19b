//! A user as the lake knows it: so that a new database gives the same id to the same name.
//!
//! The record is written before the user has an object, and stays. When the user is removed, a second one says so.

use serde::{Deserialize, Serialize};

use crate::UserName;

/// The version of the format.
const FORMAT: u32 = 1;

/// The id and the name of a user; also of one who was removed, under another key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct UserRecord {
    format: u32,
    /// The id, which is never used again.
    pub id: String,
    /// The name.
    pub name: UserName,
}

impl UserRecord {
    /// A record.
    #[must_use]
    pub fn new(id: impl Into<String>, name: UserName) -> Self {
        Self {
            format: FORMAT,
            id: id.into(),
            name,
        }
    }

    /// The JSON, with the end of the line.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("names and numbers are JSON");
        text.push(b'\n');
        text
    }

    /// Reads it.
    ///
    /// # Errors
    /// As serde_json says, or that the format is a newer one.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, serde_json::Error> {
        let record: Self = serde_json::from_slice(bytes)?;
        if record.format == FORMAT {
            Ok(record)
        } else {
            let message = format!("format {} is not known to this version", record.format);
            Err(serde::de::Error::custom(message))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_is_what_the_document_says_and_reads_back() {
        let id = "u".repeat(26);
        let record = UserRecord::new(&id, UserName::new("ann").unwrap());
        let text = format!("{{\"format\":1,\"id\":\"{id}\",\"name\":\"ann\"}}\n");
        assert_eq!(record.to_bytes(), text.as_bytes());
        assert_eq!(UserRecord::from_bytes(text.as_bytes()).unwrap(), record);
    }

    #[test]
    fn what_is_not_a_record_is_refused() {
        for text in [
            "",
            "{}",
            r#"{"format":2,"id":"u","name":"ann"}"#,
            r#"{"format":1,"id":"u","name":"Ann"}"#,
            r#"{"format":1,"id":"u","name":"ann","more":1}"#,
        ] {
            assert!(UserRecord::from_bytes(text.as_bytes()).is_err(), "{text}");
        }
    }
}
