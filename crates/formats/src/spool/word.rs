//! The words that object names of a spool are made of. None contains a separator.

use std::fmt;

/// No word is longer, so that the name of a bundle always fits into one component of a key.
pub const WORD_BYTES_MAX: usize = 64;

/// The datatype of the indexes, which no producer may take.
pub(crate) const INDEX: &str = "index1";

/// The folder of the table schemas, which stands where experiments and organizations stand.
pub(crate) const TABLES: &str = "tables";

/// Why a text is no such word.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid {what} `{}`: {reason}", .word.escape_debug())]
pub struct InvalidWord {
    /// What it was to be: `experiment`, `datatype` or `organization`.
    pub what: &'static str,
    /// The text, shortened.
    pub word: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

/// The measurement service, such as `ndt`: `^[a-z][a-z0-9]*$`, and not `tables`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Experiment(String);

/// What an experiment produces, such as `scamper1`: `^[a-z][a-z0-9]*$`, and neither `index1` nor `tables`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Datatype(String);

/// Whose data it is, such as `mlab`: `^[a-z0-9]+$`, and not `tables`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Organization(String);

const BEGINS_WITH_LETTER: &str =
    "it must be a lower-case letter followed by lower-case letters and digits";
const LETTERS_AND_DIGITS: &str = "it must be lower-case letters and digits";

impl Experiment {
    /// Checks `text`.
    ///
    /// # Errors
    /// [`InvalidWord`] says which rule it breaks.
    pub fn new(text: &str) -> Result<Self, InvalidWord> {
        checked("experiment", text, &[TABLES], BEGINS_WITH_LETTER).map(Self)
    }
}

impl Datatype {
    /// Checks `text`.
    ///
    /// # Errors
    /// [`InvalidWord`] says which rule it breaks.
    pub fn new(text: &str) -> Result<Self, InvalidWord> {
        checked("datatype", text, &[INDEX, TABLES], BEGINS_WITH_LETTER).map(Self)
    }
}

impl Organization {
    /// Checks `text`.
    ///
    /// # Errors
    /// [`InvalidWord`] says which rule it breaks.
    pub fn new(text: &str) -> Result<Self, InvalidWord> {
        checked("organization", text, &[TABLES], LETTERS_AND_DIGITS).map(Self)
    }
}

fn checked(
    what: &'static str,
    text: &str,
    reserved: &[&str],
    rule: &'static str,
) -> Result<String, InvalidWord> {
    let begins = |byte: &u8| {
        byte.is_ascii_lowercase() || (rule == LETTERS_AND_DIGITS && byte.is_ascii_digit())
    };
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let reason = if !text.as_bytes().first().is_some_and(begins) || !text.bytes().all(fits) {
        rule
    } else if text.len() > WORD_BYTES_MAX {
        "it must not be longer than 64 bytes"
    } else if reserved.contains(&text) {
        "the name is reserved"
    } else {
        return Ok(text.to_owned());
    };
    Err(InvalidWord {
        what,
        word: text.chars().take(80).collect(),
        reason,
    })
}

macro_rules! text_of {
    ($($word:ident)*) => {$(
        impl $word {
            /// The text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $word {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

text_of!(Experiment Datatype Organization);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_checked_with_the_reason() {
        assert_eq!(Datatype::new("scamper1").unwrap().as_str(), "scamper1");
        assert_eq!(Experiment::new("index1").unwrap().as_str(), "index1");
        assert_eq!(Organization::new("3com").unwrap().as_str(), "3com");
        for (error, reason) in [
            (Datatype::new("index1").unwrap_err(), "reserved"),
            (Datatype::new("tables").unwrap_err(), "reserved"),
            (Experiment::new("tables").unwrap_err(), "reserved"),
            (Organization::new("tables").unwrap_err(), "reserved"),
            (Datatype::new("").unwrap_err(), "lower-case letter followed"),
            (Datatype::new("1foo").unwrap_err(), "letter followed"),
            (Datatype::new("foo-1").unwrap_err(), "letter followed"),
            (Datatype::new("Foo").unwrap_err(), "letter followed"),
            (Experiment::new("../x").unwrap_err(), "letter followed"),
            (Organization::new("").unwrap_err(), "letters and digits"),
            (Organization::new("a_b").unwrap_err(), "letters and digits"),
            (Datatype::new(&"a".repeat(65)).unwrap_err(), "64 bytes"),
        ] {
            assert!(error.to_string().contains(reason), "{error}");
        }
        assert!(Datatype::new(&"a".repeat(64)).is_ok());
    }
}
