//! The user's data: JSON, immutable, kept as the very text that was given.

use bytes::Bytes;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use crate::error::Error;

/// The data of an entry: one JSON value of at most 1 MiB.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Data(Bytes);

impl Data {
    /// The longest data.
    pub const BYTES_MAX: usize = 1024 * 1024;

    /// Checks data given as JSON text. White space around it is dropped.
    ///
    /// # Errors
    /// `Invalid` when it is not one JSON value, or longer than [`Data::BYTES_MAX`].
    pub fn from_json(text: impl Into<Bytes>) -> Result<Self, Error> {
        let text: Bytes = text.into();
        if text.len() > Self::BYTES_MAX {
            return Err(Error::invalid(format!(
                "the data has {} bytes; at most {} are allowed",
                text.len(),
                Self::BYTES_MAX
            )));
        }
        let checked = std::str::from_utf8(&text)
            .map_err(|error| Error::invalid(format!("the data is not UTF-8: {error}")))?;
        serde_json::from_str::<IgnoredAny>(checked)
            .map_err(|error| Error::invalid(format!("the data is not JSON: {error}")))?;
        Ok(Self(text.slice_ref(text.trim_ascii())))
    }

    /// Data from anything that becomes JSON.
    ///
    /// # Errors
    /// `Invalid` when it does not, or is too long.
    pub fn from_value(value: &impl Serialize) -> Result<Self, Error> {
        let text = serde_json::to_vec(value)
            .map_err(|error| Error::invalid(format!("the data does not become JSON: {error}")))?;
        Self::from_json(text)
    }

    /// Text that was checked when it was stored.
    #[must_use]
    pub fn from_stored(text: Bytes) -> Self {
        Self(text)
    }

    /// JSON `null`: no data.
    #[must_use]
    pub fn null() -> Self {
        Self(Bytes::from_static(b"null"))
    }

    /// The JSON text.
    #[must_use]
    pub fn as_bytes(&self) -> &Bytes {
        &self.0
    }

    /// Reads it as something.
    ///
    /// # Errors
    /// `Invalid` when it is something else.
    pub fn to<T: serde::de::DeserializeOwned>(&self) -> Result<T, Error> {
        serde_json::from_slice(&self.0)
            .map_err(|error| Error::invalid(format!("the data is not what was expected: {error}")))
    }
}

impl Serialize for Data {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serde_json::from_slice::<&RawValue>(&self.0)
            .map_err(serde::ser::Error::custom)?
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        Self::from_json(String::from(Box::<str>::from(raw))).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_kept_and_checked() {
        let data = Data::from_json(" {\"b\": 1.0, \"a\":2}\n").unwrap();
        assert_eq!(&data.as_bytes()[..], b"{\"b\": 1.0, \"a\":2}");
        let line = serde_json::to_string(&data).unwrap();
        assert_eq!(line, "{\"b\": 1.0, \"a\":2}");
        assert_eq!(serde_json::from_str::<Data>(&line).unwrap(), data);
        for text in ["", "{", "1 2", "\u{0}", "{\"a\":}"] {
            assert!(Data::from_json(text.to_owned()).is_err(), "{text}");
        }
        let long = format!("\"{}\"", "x".repeat(Data::BYTES_MAX));
        assert!(Data::from_json(long).is_err());
    }
}
