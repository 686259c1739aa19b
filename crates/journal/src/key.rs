//! What work is about: the same key waiting twice is one entry.

use std::fmt;

use compact_str::CompactString;
use serde::{Deserialize, Serialize};

use crate::error::Error;

/// The key of an entry: 1 to 4,096 bytes of UTF-8. Compared whole. A short one needs no memory of its own.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Key(CompactString);

impl Key {
    /// The longest key.
    pub const BYTES_MAX: usize = 4 * 1024;

    /// Checks a key.
    ///
    /// # Errors
    /// `Invalid` when it is empty or longer than [`Key::BYTES_MAX`].
    pub fn new(text: impl AsRef<str>) -> Result<Self, Error> {
        let text = text.as_ref();
        if text.is_empty() {
            return Err(Error::invalid("the key is empty"));
        }
        if text.len() > Self::BYTES_MAX {
            return Err(Error::invalid(format!(
                "the key has {} bytes; at most {} are allowed",
                text.len(),
                Self::BYTES_MAX
            )));
        }
        Ok(Self(text.into()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl TryFrom<String> for Key {
    type Error = Error;

    fn try_from(text: String) -> Result<Self, Error> {
        Self::new(text)
    }
}

impl From<Key> for String {
    fn from(key: Key) -> Self {
        key.0.into()
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}
