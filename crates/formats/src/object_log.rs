//! The log of changes to the objects of users, and the snapshots that shorten it. Both are JSON lines.
//!
//! A line of the log says what is at a path since a version, or that nothing is there any more. Versions grow by one with
//! every change to any object. The highest version of a path is what counts, whatever the order of the lines; lines may be
//! there twice. A snapshot is the lines of everything that was there at one version, and stands for all lines up to it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{Digest, Key, ObjectPath};

/// A change: what is at a path from a version on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ObjectChange {
    /// When, in the order of all changes.
    pub version: u64,
    /// Which attempt to change it was: somebody who heard no answer finds out by it.
    pub attempt: String,
    /// The id of the user.
    pub user: String,
    /// Where.
    pub path: ObjectPath,
    /// What is there now; nothing when it was deleted.
    pub entry: Option<ObjectEntry>,
}

/// What is at a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub enum ObjectEntry {
    /// A directory.
    Directory {
        /// When it was made, in microseconds since 1970.
        mtime_us: i64,
    },
    /// An object.
    Object(StoredObject),
}

impl ObjectEntry {
    /// When it was made or last written, in microseconds since 1970.
    #[must_use]
    pub fn mtime_us(&self) -> i64 {
        match self {
            Self::Directory { mtime_us } => *mtime_us,
            Self::Object(object) => object.mtime_us,
        }
    }

    /// The object, unless it is a directory.
    #[must_use]
    pub fn as_object(&self) -> Option<&StoredObject> {
        match self {
            Self::Directory { .. } => None,
            Self::Object(object) => Some(object),
        }
    }
}

/// An object of a user: where its bytes are, and what is known of them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredObject {
    /// Another one for each content that was put.
    pub etag: String,
    /// Its length.
    pub bytes: u64,
    /// The MD5 of its content, in base64 as HTTP spells it.
    pub md5: String,
    /// The SHA-256 of its content.
    pub sha256: Digest,
    /// Where its bytes are.
    pub data: Key,
    /// Where they begin in `data`, which then holds the bytes of many objects.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offset: Option<u64>,
    /// The headers that were put with it and are answered with it, by their lower-case names.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub headers: BTreeMap<String, String>,
    /// When it was written, in microseconds since 1970.
    pub mtime_us: i64,
}

impl ObjectChange {
    /// The line, with its end.
    #[must_use]
    pub fn to_line(&self) -> String {
        let mut line = serde_json::to_string(self).expect("names, numbers and texts are JSON");
        line.push('\n');
        line
    }

    /// Reads a line, without its end.
    ///
    /// # Errors
    /// As serde_json says.
    pub fn from_line(line: &str) -> Result<Self, serde_json::Error> {
        serde_json::from_str(line)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object() -> ObjectChange {
        let data = Key::user_data(&"u".repeat(26), &"d".repeat(26)).unwrap();
        let headers = [("content-type".to_owned(), "text/plain".to_owned())];
        ObjectChange {
            version: 7,
            attempt: "a1".to_owned(),
            user: "u".repeat(26),
            path: "/stor/a b/%41".parse().unwrap(),
            entry: Some(ObjectEntry::Object(StoredObject {
                etag: "e".to_owned(),
                bytes: 3,
                md5: "kAFQmDzST7DWlj99KOF/cg==".to_owned(),
                sha256: Digest::of(b"abc"),
                data,
                offset: None,
                headers: headers.into(),
                mtime_us: 1_794_873_600_000,
            })),
        }
    }

    #[test]
    fn a_line_is_one_line_and_reads_back() {
        let directory = ObjectEntry::Directory { mtime_us: 1 };
        let changes = [
            object(),
            ObjectChange {
                entry: Some(directory),
                ..object()
            },
            ObjectChange {
                entry: None,
                ..object()
            },
        ];
        for change in changes {
            let line = change.to_line();
            assert_eq!(line.matches('\n').count(), 1);
            assert_eq!(ObjectChange::from_line(line.trim_end()).unwrap(), change);
        }
    }

    #[test]
    fn the_lines_are_what_the_document_says() {
        let user = "u".repeat(26);
        let data = "d".repeat(26);
        let sha256 = Digest::of(b"abc");
        assert_eq!(
            object().to_line(),
            format!(
                "{{\"version\":7,\"attempt\":\"a1\",\"user\":\"{user}\",\"path\":\"/stor/a b/%41\",\"entry\":{{\"type\":\"object\",\
                 \"etag\":\"e\",\"bytes\":3,\"md5\":\"kAFQmDzST7DWlj99KOF/cg==\",\"sha256\":\"{sha256}\",\"data\":\"users/{user}/data/{data}\",\
                 \"headers\":{{\"content-type\":\"text/plain\"}},\"mtime_us\":1794873600000}}}}\n"
            )
        );
    }

    #[test]
    fn what_is_not_a_change_is_refused() {
        for line in [
            "",
            "{}",
            r#"{"version":1,"attempt":"a","user":"u","path":"/stor/..","entry":null}"#,
            r#"{"version":1,"attempt":"a","user":"u","path":"/stor/a","entry":{"type":"pipe"}}"#,
            r#"{"version":-1,"attempt":"a","user":"u","path":"/stor/a","entry":null}"#,
        ] {
            assert!(ObjectChange::from_line(line).is_err(), "{line}");
        }
    }
}
