//! Object keys: the only place that spells one.
//!
//! A key is relative to a lake's prefix. Every name below the top level belongs to the part that owns the top-level name.

mod archive;

pub use archive::AutoclavedObject;

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize};

use crate::Uid;
use crate::feed::set_aside::mark_of;
use crate::feed::{ArchiveName, FeedId, Hour, SET_ASIDE_FOLDER, TOMBSTONE_NAME};
use crate::inventory::InventoryHome;
use crate::spool::{BundleName, Datatype, Experiment, ObjectHome, Part, SpoolDate};

/// What S3 allows for a whole key. A lake's prefix comes on top: a store refuses what is too long together.
pub const KEY_BYTES_MAX: usize = 1024;

/// What file systems allow for one component.
pub const COMPONENT_BYTES_MAX: usize = 255;

/// Top-level names that no feed may take.
pub const RESERVED: [&str; 7] = [
    "autoload",
    "reports-raw",
    "canned",
    "autoclaved",
    USERS,
    INTERNAL,
    LAKE_MANIFEST,
];

const INTERNAL: &str = ".cannery";
const LAKE_MANIFEST: &str = "cannery.json";
const SPOOL_INDEX: &str = "index1";
const REDACTIONS: &str = "redactions";
const USERS: &str = "users";
const USER_RECORDS: &str = "users/.accounts";
const OBJECT_LOG: &str = "users/.log";
const OBJECT_SNAPSHOTS: &str = "users/.snapshot";
const NAMESPACE_OWNERS: &str = "users/.owners";

/// The name of an object in a lake.
///
/// It never contains an empty, `.` or `..` component or a control character, so it is a safe relative path as well.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(transparent)]
pub struct Key(String);

/// Why a text is no key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid object key `{}`: {reason}", .key.escape_debug())]
pub struct InvalidKey {
    /// The text, shortened.
    pub key: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl Key {
    /// Checks `text`.
    ///
    /// # Errors
    /// [`InvalidKey`] says which rule it breaks.
    pub fn new(text: impl Into<String>) -> Result<Self, InvalidKey> {
        let text = text.into();
        match fault_of(&text) {
            None => Ok(Self(text)),
            Some(reason) => Err(InvalidKey {
                key: text.chars().take(80).collect(),
                reason,
            }),
        }
    }

    /// The text of the key.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last component.
    #[must_use]
    pub fn file_name(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// Whether the key belongs to the lake itself and not to anything stored in it.
    #[must_use]
    pub fn is_internal(&self) -> bool {
        self.0 == LAKE_MANIFEST || self.0.split('/').next() == Some(INTERNAL)
    }

    /// Whether it is of the archives that may be shown to others, or of what says which of them counts.
    #[must_use]
    pub fn is_of_archives(&self) -> bool {
        self.0.split('/').next() == Some("autoclaved")
    }

    /// Whether it is of the objects of users.
    #[must_use]
    pub fn is_of_users(&self) -> bool {
        self.0.split('/').next() == Some(USERS)
    }

    /// `cannery.json`: says what lake this is; see [`crate::LakeManifest`].
    #[must_use]
    pub fn lake_manifest() -> Self {
        Self(LAKE_MANIFEST.to_owned())
    }

    /// How the primaries of feeds are replaced; see [`crate::feed::Primaries`].
    #[must_use]
    pub fn primaries() -> Self {
        Self(format!("{INTERNAL}/primaries.json"))
    }

    /// An object that a probe writes and removes.
    #[must_use]
    pub fn probe(attempt: &str, check: &str) -> Self {
        Self(format!("{INTERNAL}/probe/{attempt}-{check}"))
    }

    /// The folder of everything a probe may have left behind.
    #[must_use]
    pub fn probes() -> Self {
        Self(format!("{INTERNAL}/probe"))
    }

    /// Where the bytes of a large object lie: unique to one attempt, ending in the object's own name so that a download
    /// has its extension; see [`crate::LargeObject`].
    #[must_use]
    pub fn large_data(attempt: &str, object: &Self) -> Self {
        let name = object.file_name();
        let room = COMPONENT_BYTES_MAX - attempt.len() - 1;
        let mut start = name.len().saturating_sub(room);
        while !name.is_char_boundary(start) {
            start += 1;
        }
        Self(format!("{INTERNAL}/large/{attempt}-{}", &name[start..]))
    }

    /// Whether this is a key of the form that [`Key::large_data`] makes.
    #[must_use]
    pub fn is_large_data(&self) -> bool {
        self.0
            .strip_prefix(INTERNAL)
            .is_some_and(|rest| rest.starts_with("/large/"))
    }

    /// The secret of the lake; see [`crate::LakeKey`]. It lies outside of everything that is ever public.
    #[must_use]
    pub fn lake_key() -> Self {
        Self(format!("{INTERNAL}/lake-key"))
    }

    /// The mark of a measurement that no archive may hold; see [`crate::redaction`]. It lies beside the lake's secret.
    #[must_use]
    pub fn redaction(uid: &Uid) -> Self {
        Self(format!("{INTERNAL}/{REDACTIONS}/{uid}.json"))
    }

    /// The folder of such marks.
    #[must_use]
    pub fn redactions() -> Self {
        Self(format!("{INTERNAL}/{REDACTIONS}"))
    }

    /// The measurement that this is the mark of; nothing for any other key.
    #[must_use]
    pub fn as_redaction(&self) -> Option<Uid> {
        let below = self.0.strip_prefix(INTERNAL)?.strip_prefix('/')?;
        let name = below.strip_prefix(REDACTIONS)?.strip_prefix('/')?;
        name.strip_suffix(".json")?.parse().ok()
    }

    /// An object of a bundle; see [`BundleName`].
    #[must_use]
    pub fn spool_object(name: &BundleName, part: Part) -> Self {
        let BundleName {
            home,
            experiment,
            datatype,
            date,
            opened,
            node,
        } = name;
        let (folder, end) = match part {
            Part::Data => (datatype.as_str(), "data"),
            Part::Index => (SPOOL_INDEX, SPOOL_INDEX),
        };
        Self(format!(
            "{home}/{experiment}/{folder}/{date}/{opened}-{datatype}-{node}-{experiment}-{end}.jsonl.gz"
        ))
    }

    /// The folder of everything that was collected, of one experiment or of all.
    #[must_use]
    pub fn spool_folder_of(home: &ObjectHome, experiment: Option<&Experiment>) -> Self {
        Self(match experiment {
            None => home.to_string(),
            Some(experiment) => format!("{home}/{experiment}"),
        })
    }

    /// The folder of the rows of a datatype, of one date or of all.
    #[must_use]
    pub fn spool_data_folder(
        home: &ObjectHome,
        experiment: &Experiment,
        datatype: &Datatype,
        date: Option<SpoolDate>,
    ) -> Self {
        Self::spool_folder(home, experiment, datatype.as_str(), date)
    }

    /// The folder of the indexes of all datatypes of an experiment, of one date or of all.
    #[must_use]
    pub fn spool_index_folder(
        home: &ObjectHome,
        experiment: &Experiment,
        date: Option<SpoolDate>,
    ) -> Self {
        Self::spool_folder(home, experiment, SPOOL_INDEX, date)
    }

    fn spool_folder(
        home: &ObjectHome,
        experiment: &Experiment,
        folder: &str,
        date: Option<SpoolDate>,
    ) -> Self {
        Self(match date {
            None => format!("{home}/{experiment}/{folder}"),
            Some(date) => format!("{home}/{experiment}/{folder}/{date}"),
        })
    }

    /// A table schema; see [`crate::spool::table_key`]. Organizations share them.
    #[must_use]
    pub(crate) fn spool_table(home: &ObjectHome, experiment: &Experiment, table: &str) -> Self {
        let version = home.version();
        Self(format!("{version}/tables/{experiment}/{table}.table.json"))
    }

    /// The folder of everything of a feed.
    #[must_use]
    pub fn feed_folder(feed: &FeedId) -> Self {
        Self(feed.to_string())
    }

    /// The folder of an hour of a feed.
    #[must_use]
    pub fn feed_hour(feed: &FeedId, hour: Hour) -> Self {
        Self(format!("{feed}/{}", hour.folder()))
    }

    /// An archive of an hour.
    #[must_use]
    pub fn feed_archive(name: &ArchiveName) -> Self {
        Self::in_hour(&name.feed, name.hour, &name.to_string())
    }

    /// The mark of an hour that was deleted; see [`crate::feed::Tombstone`].
    #[must_use]
    pub fn feed_tombstone(feed: &FeedId, hour: Hour) -> Self {
        Self::in_hour(feed, hour, TOMBSTONE_NAME)
    }

    /// The mark of an archive that cannot be read; see [`crate::feed::SetAside`]. Nothing when the key is no object of a feed.
    #[must_use]
    pub fn feed_set_aside(archive: &Self) -> Option<Self> {
        let (feed, hour, name) = archive.as_feed_object()?;
        Some(Self::in_hour(&feed, hour, &mark_of(name)))
    }

    fn in_hour(feed: &FeedId, hour: Hour, name: &str) -> Self {
        Self(format!("{feed}/{}/{name}", hour.folder()))
    }

    /// The feed, the hour and the name of an object of a feed, which for the mark of an archive has a folder; nothing when it is
    /// none.
    #[must_use]
    pub fn as_feed_object(&self) -> Option<(FeedId, Hour, &str)> {
        let (feed, rest) = self.0.split_once('/')?;
        let (folder, name) = rest.rsplit_once('/')?;
        let (hour, name) = match folder.strip_suffix(SET_ASIDE_FOLDER) {
            Some(hour) => (hour.strip_suffix('/')?, &rest[hour.len()..]),
            None => (folder, name),
        };
        Some((FeedId::new(feed).ok()?, Hour::from_folder(hour).ok()?, name))
    }

    /// The bytes of an object of a user: under a name of their own, so that an object is replaced by naming other bytes. `None`
    /// unless both ids are what `Rng::id` makes.
    #[must_use]
    pub fn user_data(user: &str, id: &str) -> Option<Self> {
        (is_id(user) && is_id(id)).then(|| Self(format!("{USERS}/{user}/data/{id}")))
    }

    /// The user and the id of bytes that [`Key::user_data`] named; nothing for any other key.
    #[must_use]
    pub fn as_user_data(&self) -> Option<(&str, &str)> {
        let rest = self.0.strip_prefix(USERS)?.strip_prefix('/')?;
        let (user, rest) = rest.split_once('/')?;
        let id = rest.strip_prefix("data/")?;
        (is_id(user) && is_id(id)).then_some((user, id))
    }

    /// The folder of everything of users.
    #[must_use]
    pub fn users() -> Self {
        Self(USERS.to_owned())
    }

    /// The record of a user; see [`crate::user_record`]. `None` unless the id is what `Rng::id` makes.
    #[must_use]
    pub fn user_record(user: &str) -> Option<Self> {
        is_id(user).then(|| Self(format!("{USER_RECORDS}/{user}.json")))
    }

    /// The record that a user was removed.
    #[must_use]
    pub fn user_removal(user: &str) -> Option<Self> {
        is_id(user).then(|| Self(format!("{USER_RECORDS}/{user}.removed.json")))
    }

    /// The folder of such records.
    #[must_use]
    pub fn user_records() -> Self {
        Self(USER_RECORDS.to_owned())
    }

    /// The id of the user whose record this is; nothing for any other key.
    #[must_use]
    pub fn as_user_record(&self) -> Option<&str> {
        let name = self.0.strip_prefix(USER_RECORDS)?.strip_prefix('/')?;
        name.strip_suffix(".json").filter(|id| is_id(id))
    }

    /// The id of the user whose removal this records; nothing for any other key.
    #[must_use]
    pub fn as_user_removal(&self) -> Option<&str> {
        let name = self.0.strip_prefix(USER_RECORDS)?.strip_prefix('/')?;
        name.strip_suffix(".removed.json").filter(|id| is_id(id))
    }

    /// A part of the log of changes to users' objects, up to this version; see [`crate::object_log`].
    #[must_use]
    pub fn object_log(last_version: u64, id: &str) -> Self {
        Self(format!("{OBJECT_LOG}/{last_version:020}-{id}.jsonl"))
    }

    /// The folder of that log.
    #[must_use]
    pub fn object_logs() -> Self {
        Self(OBJECT_LOG.to_owned())
    }

    /// The version that a part of the log ends with; nothing for any other key.
    #[must_use]
    pub fn as_object_log(&self) -> Option<u64> {
        versioned(self.0.strip_prefix(OBJECT_LOG)?, ".jsonl")
    }

    /// All objects of users as they were at a version; see [`crate::object_log`].
    #[must_use]
    pub fn object_snapshot(version: u64, id: &str) -> Self {
        Self(format!("{OBJECT_SNAPSHOTS}/{version:020}-{id}.jsonl.gz"))
    }

    /// The folder of such snapshots.
    #[must_use]
    pub fn object_snapshots() -> Self {
        Self(OBJECT_SNAPSHOTS.to_owned())
    }

    /// The version that a snapshot is of; nothing for any other key.
    #[must_use]
    pub fn as_object_snapshot(&self) -> Option<u64> {
        versioned(self.0.strip_prefix(OBJECT_SNAPSHOTS)?, ".jsonl.gz")
    }

    /// A record of which database has the names of users' objects; see [`crate::NamespaceOwner`].
    #[must_use]
    pub fn namespace_owner(number: u64) -> Self {
        Self(format!("{NAMESPACE_OWNERS}/{number:020}.json"))
    }

    /// The folder of such records.
    #[must_use]
    pub fn namespace_owners() -> Self {
        Self(NAMESPACE_OWNERS.to_owned())
    }

    /// The number of such a record; nothing for any other key.
    #[must_use]
    pub fn as_namespace_owner(&self) -> Option<u64> {
        let name = self.0.strip_prefix(NAMESPACE_OWNERS)?.strip_prefix('/')?;
        let digits = name.strip_suffix(".json").filter(|name| name.len() == 20)?;
        digits.parse().ok()
    }

    /// What was put into the lake on one day; see [`crate::inventory`].
    #[must_use]
    pub fn inventory(home: &InventoryHome, date: SpoolDate) -> Self {
        let date = date.dashed();
        Self(format!("{INTERNAL}/inventory/{home}/{date}.jsonl.gz"))
    }

    /// The folder of such inventories.
    #[must_use]
    pub fn inventories(home: &InventoryHome) -> Self {
        Self(format!("{INTERNAL}/inventory/{home}"))
    }
}

/// Whether a text is 128 bits in lower-case base32, as `Rng::id` makes them.
#[must_use]
pub fn is_id(text: &str) -> bool {
    text.len() == 26
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || (b'2'..=b'7').contains(&b))
}

/// The number in `/<20 digits>-<id><extension>`.
fn versioned(name: &str, extension: &str) -> Option<u64> {
    let name = name.strip_prefix('/')?.strip_suffix(extension)?;
    let (version, id) = name.split_once('-')?;
    let is_number = version.len() == 20 && version.bytes().all(|b| b.is_ascii_digit());
    (is_number && is_id(id)).then(|| version.parse().ok())?
}

fn fault_of(text: &str) -> Option<&'static str> {
    if text.is_empty() {
        return Some("it is empty");
    }
    if text.len() > KEY_BYTES_MAX {
        return Some("it is longer than 1024 bytes");
    }
    if text.chars().any(char::is_control) {
        return Some("it contains a control character");
    }
    for component in text.split('/') {
        match component {
            "" => return Some("it has an empty component (a leading, trailing or double `/`)"),
            "." | ".." => return Some("it has a `.` or `..` component"),
            long if long.len() > COMPONENT_BYTES_MAX => {
                return Some("a component is longer than 255 bytes");
            }
            _ => {}
        }
    }
    None
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}

impl<'de> Deserialize<'de> for Key {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::new(String::deserialize(deserializer)?).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn hostile_names_are_refused_with_the_reason() {
        for (text, reason) in [
            ("", "empty"),
            ("/etc/passwd", "empty component"),
            ("a//b", "empty component"),
            ("a/", "empty component"),
            ("a/../b", "`..` component"),
            ("./a", "`..` component"),
            ("a\nb", "control"),
            ("a\0b", "control"),
        ] {
            let error = Key::new(text).unwrap_err();
            assert!(error.reason.contains(reason), "{text:?}: {error}");
        }
        assert!(Key::new("x".repeat(256)).is_err());
        assert!(Key::new("x/".repeat(513) + "x").is_err());
    }

    #[test]
    fn odd_but_harmless_names_are_kept() {
        for text in [
            "a b",
            "%41",
            "ü/ß",
            "-rf",
            "a=b",
            "..a",
            "a.",
            &"x".repeat(255),
        ] {
            assert_eq!(Key::new(text).unwrap().as_str(), text);
        }
    }

    #[test]
    fn keys_of_users_read_back() {
        let (user, id) = ("a".repeat(26), "2".repeat(26));
        let data = Key::user_data(&user, &id).unwrap();
        assert_eq!(data.as_str(), format!("users/{user}/data/{id}"));
        assert_eq!(data.as_user_data(), Some((user.as_str(), id.as_str())));
        for odd in ["", "..", "a/b", &"a".repeat(25), &"A".repeat(26)] {
            assert_eq!(Key::user_data(odd, &id), None);
            assert_eq!(Key::user_data(&user, odd), None);
        }
        let record = Key::user_record(&user).unwrap();
        assert_eq!(record.as_str(), format!("users/.accounts/{user}.json"));
        assert_eq!(record.as_user_record(), Some(user.as_str()));
        assert_eq!(record.as_user_removal(), None);
        let removal = Key::user_removal(&user).unwrap();
        assert_eq!(removal.as_user_removal(), Some(user.as_str()));
        assert_eq!(removal.as_user_record(), None);
        assert_eq!(
            (Key::user_record("u"), Key::user_removal("u")),
            (None, None)
        );
        assert_eq!(Key::object_log(7, &id).as_object_log(), Some(7));
        assert_eq!(Key::object_snapshot(7, &id).as_object_snapshot(), Some(7));
        assert_eq!(Key::namespace_owner(7).as_namespace_owner(), Some(7));
        assert_eq!(record.as_namespace_owner(), None);
        for other in ["users/.log/7-x.jsonl", "users/.log/x", "autoload/v1"] {
            let key = Key::new(other).unwrap();
            assert_eq!(
                (
                    key.as_object_log(),
                    key.as_object_snapshot(),
                    key.as_user_data()
                ),
                (None, None, None)
            );
        }
    }

    proptest! {
        #[test]
        fn every_key_made_here_is_valid(name in "\\PC{1,255}", attempt in "[a-z2-7]{26}") {
            if let Ok(object) = Key::new(name) {
                let data = Key::large_data(&attempt, &object);
                prop_assert_eq!(Key::new(data.as_str()), Ok(data.clone()));
                prop_assert!(data.is_large_data() && data.is_internal());
            }
            let probe = Key::probe(&attempt, "create");
            prop_assert_eq!(Key::new(probe.as_str()), Ok(probe));
        }
    }
}
