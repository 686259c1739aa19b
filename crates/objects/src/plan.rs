//! Every decision about a change, pure: what is there, what is asked for, and what becomes of it.

use cannery_formats::object_log::StoredObject;
use cannery_formats::{ObjectChange, ObjectEntry};
use cannery_state::objects::{EntryKey, NeededRows, ObjectRows, ObjectWrites, VersionedEntry};

use crate::change::{Committed, ObjectRequest, RequestedChange};
use crate::error::{ObjectError, ObjectErrorKind};

/// What to do, and what to answer to each request.
#[derive(Debug)]
pub(crate) struct BatchPlan {
    pub(crate) writes: ObjectWrites,
    pub(crate) answers: Vec<Result<Committed, ObjectError>>,
}

fn parent_of(key: &EntryKey) -> Option<EntryKey> {
    key.path.parent().map(|path| EntryKey {
        account: key.account.clone(),
        path,
    })
}

/// What must be known for these requests.
pub(crate) fn wanted(requests: &[ObjectRequest]) -> NeededRows {
    let mut wanted = NeededRows::default();
    for request in requests {
        wanted.entries.insert(request.at.clone());
        wanted.entries.extend(parent_of(&request.at));
        wanted.accounts.insert(request.at.account.clone());
        match &request.change {
            RequestedChange::Link { source } => {
                wanted.entries.insert(source.clone());
            }
            RequestedChange::Delete => {
                wanted.directories.insert(request.at.clone());
            }
            RequestedChange::Put { .. }
            | RequestedChange::MakeDirectory
            | RequestedChange::SetHeaders { .. } => {}
        }
    }
    wanted
}

/// Decides the requests one after the other; each sees what those before it have done.
pub(crate) fn plan(known: ObjectRows, now_us: i64, requests: &[ObjectRequest]) -> BatchPlan {
    let mut planner = Planner {
        writes: ObjectWrites {
            version: known.version,
            ..ObjectWrites::default()
        },
        known,
        now_us,
    };
    let answers = requests
        .iter()
        .map(|request| {
            let answer = planner.decide(request);
            if answer.is_err() {
                planner.give_up_bytes(request);
            }
            answer
        })
        .collect();
    BatchPlan {
        writes: planner.writes,
        answers,
    }
}

struct Planner {
    known: ObjectRows,
    now_us: i64,
    writes: ObjectWrites,
}

/// How many bytes an object at that path may have, if the user is limited: what is left to the user, and what the object has
/// that is there now.
pub(crate) fn bytes_left(known: &ObjectRows, at: &EntryKey) -> Option<u64> {
    let usage = known.usage.get(&at.account)?;
    let there = known.entries.get(at).map(|there| &there.entry);
    let replaced = size_of_entry(there);
    let others = usage.bytes.saturating_sub(replaced);
    // An object may always be replaced by one that is not longer.
    usage
        .bytes_max
        .map(|limit| limit.saturating_sub(others).max(replaced))
}

fn size_of_entry(entry: Option<&ObjectEntry>) -> u64 {
    entry
        .and_then(ObjectEntry::as_object)
        .map_or(0, |object| object.bytes)
}

impl Planner {
    /// The bytes of a request that was refused are in the lake, and nobody will ever name them.
    fn give_up_bytes(&mut self, request: &ObjectRequest) {
        if let RequestedChange::Put { bytes, .. } = &request.change {
            self.writes.garbage.insert(bytes.data.to_string());
        }
    }

    fn decide(&mut self, request: &ObjectRequest) -> Result<Committed, ObjectError> {
        let at = &request.at;
        if !self.known.usage.contains_key(&at.account) {
            let message = format!("cannot change `{}`: its user was removed", at.path);
            return Err(ObjectError::new(ObjectErrorKind::ParentAbsent, message));
        }
        if at.path.is_root() {
            return self.decide_root(request);
        }
        self.check_parent(at)?;
        let there = self.known.entries.get(at).cloned();
        let entry = there.as_ref().map(|there| &there.entry);
        request.conditions.check(&at.path, entry)?;
        // A clock that was set back must not make an entry older than the one that it replaces.
        let before_us = entry.map_or(i64::MIN, ObjectEntry::mtime_us);
        let mtime_us = self.now_us.max(before_us);
        // No two changes have the same moment: clients that list by time tell entries apart by it.
        self.now_us += 1;
        match (&request.change, there) {
            (RequestedChange::MakeDirectory, None) => {
                self.set(request, Some(ObjectEntry::Directory { mtime_us }))
            }
            (RequestedChange::MakeDirectory, Some(there)) => match there.entry {
                ObjectEntry::Directory { .. } => Ok(Committed {
                    version: there.version,
                    entry: Some(there.entry),
                }),
                ObjectEntry::Object(_) => Err(is_object(at, "make the directory")),
            },
            (RequestedChange::Put { bytes, headers }, there) => {
                refuse_directory(at, there.as_ref(), "put")?;
                let object = StoredObject {
                    etag: bytes.etag.clone(),
                    bytes: bytes.bytes,
                    md5: bytes.md5.clone(),
                    sha256: bytes.sha256,
                    data: bytes.data.clone(),
                    offset: None,
                    headers: headers.clone(),
                    mtime_us,
                };
                self.set(request, Some(ObjectEntry::Object(object)))
            }
            (RequestedChange::Link { source }, there) => {
                refuse_directory(at, there.as_ref(), "link")?;
                let object = StoredObject {
                    mtime_us,
                    ..self.object(source, "link to")?
                };
                self.set(request, Some(ObjectEntry::Object(object)))
            }
            (RequestedChange::SetHeaders { headers }, _) => {
                let object = StoredObject {
                    headers: headers.clone(),
                    ..self.object(at, "change the headers of")?
                };
                self.set(request, Some(ObjectEntry::Object(object)))
            }
            (RequestedChange::Delete, Some(_)) => {
                let children = self.known.children.get(at).copied().unwrap_or(0);
                if children > 0 {
                    let message = format!(
                        "cannot delete the directory `{}`: it is not empty; delete its {children} entries first",
                        at.path
                    );
                    return Err(ObjectError::new(ObjectErrorKind::NotEmpty, message));
                }
                self.set(request, None)
            }
            (RequestedChange::Delete, None) => Err(absent(at, "delete")),
        }
    }

    /// The directory of an area is always there.
    fn decide_root(&self, request: &ObjectRequest) -> Result<Committed, ObjectError> {
        let at = &request.at;
        match request.change {
            RequestedChange::MakeDirectory => Ok(Committed {
                version: self.writes.version,
                entry: Some(ObjectEntry::Directory { mtime_us: 0 }),
            }),
            RequestedChange::Put { .. }
            | RequestedChange::Link { .. }
            | RequestedChange::SetHeaders { .. } => Err(is_directory(at, "put")),
            RequestedChange::Delete => Err(ObjectError::new(
                ObjectErrorKind::Invalid,
                format!("cannot delete `{}`: it is there for every user", at.path),
            )),
        }
    }

    fn check_parent(&self, at: &EntryKey) -> Result<(), ObjectError> {
        let Some(parent) = parent_of(at).filter(|parent| !parent.path.is_root()) else {
            return Ok(());
        };
        match self.known.entries.get(&parent).map(|there| &there.entry) {
            Some(ObjectEntry::Directory { .. }) => Ok(()),
            Some(ObjectEntry::Object(_)) => Err(ObjectError::new(
                ObjectErrorKind::ParentNotDirectory,
                format!("`{}` is an object, and cannot have children", parent.path),
            )),
            None => Err(ObjectError::new(
                ObjectErrorKind::ParentAbsent,
                format!(
                    "the directory `{}` does not exist; make it first",
                    parent.path
                ),
            )),
        }
    }

    fn object(&self, at: &EntryKey, doing: &str) -> Result<StoredObject, ObjectError> {
        match self.known.entries.get(at).map(|there| &there.entry) {
            Some(ObjectEntry::Object(object)) => Ok(object.clone()),
            Some(ObjectEntry::Directory { .. }) => Err(is_directory(at, doing)),
            None => Err(absent(at, doing)),
        }
    }

    /// The one place where an entry changes.
    fn set(
        &mut self,
        request: &ObjectRequest,
        entry: Option<ObjectEntry>,
    ) -> Result<Committed, ObjectError> {
        let at = &request.at;
        let before = self.known.entries.get(at).map(|there| there.entry.clone());
        self.count_bytes(at, before.as_ref(), entry.as_ref())?;
        self.count_children(at, before.is_some(), entry.is_some());
        let data = |entry: Option<&ObjectEntry>| {
            let object = entry.and_then(ObjectEntry::as_object);
            object.map(|object| object.data.to_string())
        };
        if let Some(left) = data(before.as_ref())
            && data(entry.as_ref()) != Some(left.clone())
        {
            self.writes.garbage.insert(left);
        }
        self.writes.version += 1;
        let version = self.writes.version;
        self.writes.changes.push(ObjectChange {
            version,
            attempt: request.attempt.clone(),
            user: at.account.clone(),
            path: at.path.clone(),
            entry: entry.clone(),
        });
        let row = entry.clone().map(|entry| VersionedEntry {
            version,
            attempt: request.attempt.clone(),
            entry,
        });
        match &row {
            Some(row) => self.known.entries.insert(at.clone(), row.clone()),
            None => self.known.entries.remove(at),
        };
        self.writes.entries.insert(at.clone(), row);
        Ok(Committed { version, entry })
    }

    fn count_bytes(
        &mut self,
        at: &EntryKey,
        before: Option<&ObjectEntry>,
        after: Option<&ObjectEntry>,
    ) -> Result<(), ObjectError> {
        let (old, new) = (size_of_entry(before), size_of_entry(after));
        let usage = self.known.usage.entry(at.account.clone()).or_default();
        let total = usage.bytes.saturating_sub(old).saturating_add(new);
        if let Some(limit) = usage.bytes_max.filter(|limit| new > old && total > *limit) {
            let message = format!(
                "`{}` would make {total} bytes of objects, and this user may have {limit}; delete some, or ask for more (`cannery user set`)",
                at.path
            );
            return Err(ObjectError::new(ObjectErrorKind::QuotaExceeded, message));
        }
        usage.bytes = total;
        let more = signed(new) - signed(old);
        if more != 0 {
            *self.writes.bytes.entry(at.account.clone()).or_default() += more;
        }
        Ok(())
    }

    fn count_children(&mut self, at: &EntryKey, before: bool, after: bool) {
        let Some(parent) = parent_of(at).filter(|_| before != after) else {
            return;
        };
        let more = if after { 1 } else { -1 };
        if let Some(children) = self.known.children.get_mut(&parent) {
            *children = children.saturating_add_signed(more);
        }
        *self.writes.children.entry(parent).or_default() += more;
    }
}

fn signed(size: u64) -> i64 {
    i64::try_from(size).unwrap_or(i64::MAX)
}

fn refuse_directory(
    at: &EntryKey,
    there: Option<&VersionedEntry>,
    doing: &str,
) -> Result<(), ObjectError> {
    match there.map(|there| &there.entry) {
        Some(ObjectEntry::Directory { .. }) => Err(is_directory(at, doing)),
        Some(ObjectEntry::Object(_)) | None => Ok(()),
    }
}

fn absent(at: &EntryKey, doing: &str) -> ObjectError {
    let message = format!("cannot {doing} `{}`: it does not exist", at.path);
    ObjectError::new(ObjectErrorKind::Absent, message)
}

fn is_directory(at: &EntryKey, doing: &str) -> ObjectError {
    let message = format!("cannot {doing} `{}`: it is a directory", at.path);
    ObjectError::new(ObjectErrorKind::IsDirectory, message)
}

fn is_object(at: &EntryKey, doing: &str) -> ObjectError {
    let message = format!("cannot {doing} `{}`: it is an object", at.path);
    ObjectError::new(ObjectErrorKind::IsObject, message)
}

#[cfg(test)]
mod tests;
