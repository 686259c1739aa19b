//! The database, the lake, and what they say.

use std::collections::{BTreeMap, BTreeSet};

pub(crate) type Path = u8;
pub(crate) type Version = u8;
/// Bytes, by their key.
pub(crate) type Data = u8;

/// What is at a path since a version; nothing after a deletion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Change {
    pub(crate) path: Path,
    pub(crate) data: Option<Data>,
}

pub(crate) type Rows = BTreeMap<Path, (Version, Data)>;

/// What one transaction sees.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Database {
    pub(crate) counter: Version,
    pub(crate) rows: Rows,
    pub(crate) outbox: BTreeMap<Version, Change>,
    pub(crate) garbage: BTreeSet<Data>,
    pub(crate) doomed: BTreeSet<Data>,
}

impl Database {
    pub(crate) fn names(&self, data: Data) -> bool {
        self.rows.values().any(|(_, of)| *of == data)
    }

    /// Makes a change; its version.
    pub(crate) fn commit(&mut self, change: Change) -> Version {
        self.counter += 1;
        let before = match change.data {
            Some(data) => self.rows.insert(change.path, (self.counter, data)),
            None => self.rows.remove(&change.path),
        };
        if let Some((_, left)) = before.filter(|(_, left)| Some(*left) != change.data) {
            self.garbage.insert(left);
        }
        self.outbox.insert(self.counter, change);
        self.counter
    }
}

/// What survives everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Lake {
    pub(crate) data: BTreeSet<Data>,
    pub(crate) log: BTreeMap<Version, Change>,
    pub(crate) snapshots: BTreeMap<Version, Rows>,
}

impl Lake {
    pub(crate) fn newest(&self) -> Version {
        let log = self.log.keys().next_back();
        let snapshot = self.snapshots.keys().next_back();
        log.max(snapshot).copied().unwrap_or(0)
    }

    fn snapshot(&self) -> Version {
        self.snapshots.keys().next_back().copied().unwrap_or(0)
    }

    /// Whether a change is in the log, or a snapshot stands for it.
    pub(crate) fn knows(&self, version: Version) -> bool {
        version <= self.snapshot() || self.log.contains_key(&version)
    }

    /// What a rebuild makes of it: for each path the version that it speaks of, and what is there.
    pub(crate) fn says(&self, path: Path) -> (Version, Option<Data>) {
        let snapshot = self.snapshot();
        let row = self
            .snapshots
            .get(&snapshot)
            .and_then(|rows| rows.get(&path));
        let mut said = match row {
            Some((version, data)) => ((*version).max(snapshot), *version, Some(*data)),
            None => (snapshot, snapshot, None),
        };
        for (version, change) in self.log.range(snapshot + 1..) {
            if change.path == path && *version >= said.1 {
                said = (*version, *version, change.data);
            }
        }
        (said.0, said.2)
    }

    pub(crate) fn rows(&self, paths: Path) -> Rows {
        let mut rows = Rows::new();
        for path in 0..paths {
            if let (version, Some(data)) = self.says(path) {
                rows.insert(path, (version, data));
            }
        }
        rows
    }
}
