//! What is wrong with a file.

use std::fmt;

/// Every reason in a word: of faults, and of things that lie where they do not belong.
pub(super) const WORDS: [&str; 12] = [
    "extension",
    "empty",
    "too_large",
    "link",
    "special",
    "foreign_link",
    "unreadable",
    "json",
    "schema",
    "depth",
    "not_a_date",
    "name",
];

/// Why a file is not bundled, now or ever.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Its name ends otherwise than is collected.
    Extension,
    Empty,
    TooLarge {
        bytes: u64,
    },
    /// It is a symbolic link, or lies behind one.
    Link,
    /// A pipe, a socket, a device.
    Special,
    /// Another name of a file that belongs to somebody else.
    ForeignLink,
    Unreadable(String),
    Json(String),
    /// It does not fit the schema of its datatype.
    Schema(String),
}

impl Fault {
    /// The reason in a word, for metrics.
    pub(crate) fn word(&self) -> &'static str {
        match self {
            Self::Extension => "extension",
            Self::Empty => "empty",
            Self::TooLarge { .. } => "too_large",
            Self::Link => "link",
            Self::Special => "special",
            Self::ForeignLink => "foreign_link",
            Self::Unreadable(_) => "unreadable",
            Self::Json(_) => "json",
            Self::Schema(_) => "schema",
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Extension => f.write_str("its name does not end as the collected ones do"),
            Self::Empty => f.write_str("it is empty"),
            Self::TooLarge { bytes } => write!(f, "its {bytes} bytes do not fit into a bundle"),
            Self::Link => f.write_str("it is a symbolic link or lies behind one"),
            Self::Special => f.write_str("it is no regular file"),
            Self::ForeignLink => f.write_str("it is a hard link to a file of another user"),
            Self::Unreadable(why) => write!(f, "it cannot be read: {why}"),
            Self::Json(why) => write!(f, "it is not one JSON value: {why}"),
            Self::Schema(why) => write!(f, "it does not fit its schema: {why}"),
        }
    }
}
