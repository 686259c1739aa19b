//! What can be asked for.

use std::collections::BTreeMap;

use cannery_formats::object_log::StoredObject;
use cannery_formats::{ObjectEntry, ObjectPath};
use cannery_state::objects::EntryKey;

use crate::error::{ObjectError, ObjectErrorKind};
use crate::upload::UploadedBytes;

/// A change that somebody asks for.
#[derive(Clone, Debug)]
pub struct ObjectRequest {
    /// Unique to this attempt.
    pub attempt: String,
    /// Where.
    pub at: EntryKey,
    /// What.
    pub change: RequestedChange,
    /// Only if these hold.
    pub conditions: Conditions,
}

/// What becomes of a path.
#[derive(Clone, Debug)]
pub enum RequestedChange {
    /// An object with these bytes and headers.
    Put {
        /// The bytes, which are in the lake.
        bytes: UploadedBytes,
        /// The headers to answer with.
        headers: BTreeMap<String, String>,
    },
    /// A directory; one that is there stays as it is.
    MakeDirectory,
    /// An object with the bytes and headers that another one has at that moment.
    Link {
        /// The other one.
        source: EntryKey,
    },
    /// The same object with other headers.
    SetHeaders {
        /// All headers.
        headers: BTreeMap<String, String>,
    },
    /// Nothing.
    Delete,
}

/// What must hold when the change is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Conditions {
    /// What is there has one of these.
    pub if_match: Option<EtagMatch>,
    /// What is there has none of these.
    pub if_none_match: Option<EtagMatch>,
}

/// Some tags of contents, or `*`: that anything is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtagMatch {
    /// Any object.
    Any,
    /// One with such a tag.
    OneOf(Vec<String>),
}

impl EtagMatch {
    /// Whether what is there is meant.
    #[must_use]
    pub fn matches(&self, there: Option<&ObjectEntry>) -> bool {
        match (self, there) {
            (_, None) => false,
            (Self::Any, Some(_)) => true,
            (Self::OneOf(tags), Some(entry)) => entry
                .as_object()
                .is_some_and(|object| tags.contains(&object.etag)),
        }
    }
}

impl Conditions {
    /// Whether they hold for what is there.
    #[must_use]
    pub fn hold(&self, there: Option<&ObjectEntry>) -> bool {
        self.if_match
            .as_ref()
            .is_none_or(|wanted| wanted.matches(there))
            && self
                .if_none_match
                .as_ref()
                .is_none_or(|unwanted| !unwanted.matches(there))
    }

    /// # Errors
    /// `ConditionFailed` unless they hold for what is there.
    pub(crate) fn check(
        &self,
        path: &ObjectPath,
        there: Option<&ObjectEntry>,
    ) -> Result<(), ObjectError> {
        if self.hold(there) {
            return Ok(());
        }
        let etag = there.and_then(ObjectEntry::as_object).map_or_else(
            || "it is not there".to_owned(),
            |StoredObject { etag, .. }| format!("its etag is `{etag}`"),
        );
        Err(ObjectError::new(
            ObjectErrorKind::ConditionFailed,
            format!("a condition of the request does not hold for `{path}`: {etag}"),
        ))
    }
}

/// A change that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    /// Its version; that of the entry where nothing had to be changed.
    pub version: u64,
    /// What is there now; nothing after a deletion.
    pub entry: Option<ObjectEntry>,
}
