//! What a client hands in, and what it becomes once it was checked.

use serde::{Deserialize, Serialize};

use crate::data::Data;
use crate::date::{Date, Expiration};
use crate::key::Key;
use crate::priority::Priority;

/// An entry to add, as a client gives it; what is left out gets its default.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewEntry {
    /// Its key; left out where the declaration says which fields of the data make it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// What is done first; [`Priority::NEW`] when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The client's date, by which the newer of two adds is told; now when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub insertion_date: Option<Date>,
    /// Not before this; at once when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process_date: Option<Date>,
    /// When it expires; as declared when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expiration_date: Option<Date>,
    /// Its data; `null` when left out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data: Option<Data>,
}

impl NewEntry {
    /// An entry that is due at once.
    #[must_use]
    pub fn new(key: impl Into<String>, data: Data) -> Self {
        Self {
            key: Some(key.into()),
            data: Some(data),
            ..Self::default()
        }
    }
}

/// An add that was checked against the declaration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Add {
    /// Its key.
    pub key: Key,
    /// The client's date.
    pub insertion: Date,
    /// When it expires.
    pub expiration: Expiration,
    /// What is done first.
    pub priority: Priority,
    /// Not before this; never before the insertion date.
    pub process: Date,
    /// Its data.
    pub data: Data,
}
