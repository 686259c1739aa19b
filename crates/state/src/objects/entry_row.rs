//! An entry as a row, and back.

use cannery_database::{Error, ErrorKind, Row, Value, stored};
use cannery_formats::object_log::StoredObject;
use cannery_formats::{Key, ObjectEntry};

use super::{EntryKey, VersionedEntry};

/// The columns of what is at a path, in the order of [`from_row`].
pub(super) const ENTRY_COLUMNS: &str = "o.version, o.attempt, o.is_directory, o.mtime_us, o.etag, o.bytes, o.md5, o.sha256, o.data, o.data_offset, o.headers";

/// How many they are.
pub(super) const ENTRY_WIDTH: usize = 11;

/// The parent and the name under which a path is stored; nothing for the directory of an area, which has no row.
pub(super) fn place(key: &EntryKey) -> Option<[Value; 3]> {
    let parent = key.path.parent()?;
    Some([
        key.account.as_str().into(),
        parent.as_str().into(),
        key.path.name().into(),
    ])
}

/// Reads the columns from `at` on.
pub(super) fn from_row(row: &Row, at: usize) -> Result<VersionedEntry, Error> {
    let is_directory = match row.0.get(at + 2) {
        Some(Value::Bool(truth)) => *truth,
        Some(Value::Int(number)) => *number != 0,
        _ => return Err(corrupt("an object is neither a directory nor none")),
    };
    let mtime_us = row.int(at + 3)?;
    let entry = if is_directory {
        ObjectEntry::Directory { mtime_us }
    } else {
        ObjectEntry::Object(StoredObject {
            etag: row.text(at + 4)?,
            bytes: row.size(at + 5)?,
            md5: row.text(at + 6)?,
            sha256: row
                .text(at + 7)?
                .parse()
                .map_err(|_| corrupt("a SHA-256 is damaged"))?,
            data: Key::new(row.text(at + 8)?).map_err(|error| corrupt(&error.to_string()))?,
            offset: row
                .maybe_int(at + 9)?
                .and_then(|offset| u64::try_from(offset).ok()),
            headers: serde_json::from_str(&row.text(at + 10)?)
                .map_err(|error| corrupt(&format!("headers of an object: {error}")))?,
            mtime_us,
        })
    };
    Ok(VersionedEntry {
        version: row.size(at)?,
        attempt: row.text(at + 1)?,
        entry,
    })
}

/// The cells of the columns.
pub(super) fn to_cells(entry: &VersionedEntry) -> Result<Vec<Value>, Error> {
    let object = entry.entry.as_object();
    let text = |of: fn(&StoredObject) -> &str| object.map(of).into();
    let headers = object
        .map(|object| serde_json::to_string(&object.headers).expect("a map of texts is JSON"));
    let number = |number: Option<u64>| number.map_or(Ok(Value::Null), stored);
    Ok(vec![
        stored(entry.version)?,
        entry.attempt.as_str().into(),
        Value::Bool(object.is_none()),
        entry.entry.mtime_us().into(),
        text(|object| &object.etag),
        number(object.map(|object| object.bytes))?,
        text(|object| &object.md5),
        object.map(|object| object.sha256.to_string()).into(),
        text(|object| object.data.as_str()),
        number(object.and_then(|object| object.offset))?,
        headers.into(),
    ])
}

fn corrupt(message: &str) -> Error {
    Error::new(
        ErrorKind::Corrupt,
        format!("the state contradicts itself: {message}"),
    )
}
