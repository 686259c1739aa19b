//! The names of users' objects: rows for speed. The truth is the log in the lake, which the crate `objects` writes; here is the
//! SQL of it, which decides nothing.
//!
//! | look here | for |
//! |---|---|
//! | `objects/transaction.rs` | what one transaction reads and writes, under a lock of its own |
//! | `objects/lookup.rs` | one entry, and the pages of a directory |
//! | `objects/outbox.rs` | changes that are not in the log yet |
//! | `objects/garbage.rs` | bytes that no name may need any more |
//! | `objects/all_rows.rs` | everything, for snapshots |
//! | `objects/rebuild.rs` | all rows anew, from the lake |

mod all_rows;
mod entry_row;
mod garbage;
mod lookup;
mod outbox;
mod rebuild;
mod transaction;

use cannery_formats::{ObjectEntry, ObjectPath};

pub use garbage::GarbageCandidate;
pub use lookup::{DirectoryPage, ListedEntry, PageStart, SortKey, SortOrder};
pub use outbox::OutboxLine;
pub use rebuild::UserFix;
pub use transaction::{AccountUsage, NeededRows, ObjectRows, ObjectTransaction, ObjectWrites};

/// A path of a user.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EntryKey {
    /// The id of the user.
    pub account: String,
    /// The path.
    pub path: ObjectPath,
}

/// What is at a path, and since which change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VersionedEntry {
    /// The version of the change.
    pub version: u64,
    /// The attempt that made it.
    pub attempt: String,
    /// What is there.
    pub entry: ObjectEntry,
}
