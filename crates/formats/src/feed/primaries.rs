//! How the primaries of a lake are replaced. All replicas must do it in the same way, so the first one says how for good.

use serde::{Deserialize, Serialize};

/// How a primary is replaced by a fuller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Replaced {
    /// By compare-and-swap. Nobody ever deletes it, so what it holds may be deleted elsewhere.
    Swapped,
    /// It is deleted and created anew: a copy of an archive that stays beside it.
    Copied,
}

/// What the object [`crate::Key::primaries`] says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Primaries {
    /// How they are replaced.
    pub primaries: Replaced,
}

impl Primaries {
    /// No such object is longer.
    pub const BYTES_MAX: u64 = 1_024;

    /// The object.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let mut text = serde_json::to_vec(self).expect("two words are always JSON");
        text.push(b'\n');
        text
    }

    /// What an object says.
    ///
    /// # Errors
    /// A text for whoever looks at it.
    pub fn parse(json: &[u8]) -> Result<Self, String> {
        serde_json::from_slice(json).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_read_as_it_is_written_and_nothing_else_is() {
        for (replaced, text) in [
            (Replaced::Swapped, "{\"primaries\":\"swapped\"}\n"),
            (Replaced::Copied, "{\"primaries\":\"copied\"}\n"),
        ] {
            let primaries = Primaries {
                primaries: replaced,
            };
            assert_eq!(primaries.to_json(), text.as_bytes());
            assert_eq!(Primaries::parse(text.as_bytes()), Ok(primaries));
        }
        for text in ["", "{}", "{\"primaries\":\"both\"}", "swapped"] {
            Primaries::parse(text.as_bytes()).unwrap_err();
        }
    }
}
