//! What no archive may hold.

use std::collections::BTreeMap;

use cannery_formats::redaction::Redaction;
use cannery_formats::{Key, Uid};
use cannery_lake::{Lake, present};
use futures::stream::{self, StreamExt as _, TryStreamExt as _};

use crate::cans::AT_ONCE;
use crate::error::Error;

/// A mark is a line.
const MARK_BYTES_MAX: u64 = 64 << 10;

/// The measurements that no archive may hold, with what stands in their place.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Redactions(BTreeMap<Uid, String>);

impl Redactions {
    /// Reads all of them.
    ///
    /// # Errors
    /// Those of the lake; [`Error::Unusable`] for a mark that cannot be read: an archive could be made with what it is about.
    pub async fn read(raw: &Lake) -> Result<Self, Error> {
        let entries = raw.list_all(Some(&Key::redactions())).await?;
        let uids: Vec<Uid> = entries
            .iter()
            .filter_map(|entry| entry.key.as_redaction())
            .collect();
        let marks = stream::iter(&uids).map(|uid| find(raw, uid));
        let marks: Vec<Option<Redaction>> = marks.buffered(AT_ONCE).boxed().try_collect().await?;
        let marks = marks.into_iter().flatten();
        Ok(Self(marks.map(|mark| (mark.uid, mark.info())).collect()))
    }

    /// What stands in the place of a measurement; nothing when it may be there.
    #[must_use]
    pub fn info_of(&self, uid: &Uid) -> Option<&str> {
        self.0.get(uid).map(String::as_str)
    }

    /// The measurements.
    pub fn uids(&self) -> impl Iterator<Item = &Uid> {
        self.0.keys()
    }
}

/// The mark of a measurement; nothing when it was not redacted.
///
/// # Errors
/// As [`Redactions::read`].
pub async fn find(raw: &Lake, uid: &Uid) -> Result<Option<Redaction>, Error> {
    let key = Key::redaction(uid);
    let Some(object) = present(raw.get(&key, MARK_BYTES_MAX).await)? else {
        return Ok(None);
    };
    let mark = Redaction::from_object(*uid, &object.bytes);
    let mark = mark.map_err(|error| Error::unusable(raw, &key, &error))?;
    Ok(Some(mark))
}
