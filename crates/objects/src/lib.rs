//! The objects of users: names that are put, listed, linked and deleted, over bytes in the lake.
//!
//! Rows in `state` are for speed, a log in the lake is for truth. A change is: the bytes go to the lake under a key of their own;
//! one transaction, shared by the requests that arrive together, decides and writes the rows; the changes go to the log in
//! the lake; only then is anybody answered. `docs/adr/0006-objects.md` says why it is so.
//!
//! | look here | for |
//! |---|---|
//! | [`Namespace`] | what a server calls |
//! | `change.rs`, `plan.rs` | what can be asked for, and every decision, pure |
//! | `upload.rs` | receiving bytes |
//! | `upload_limits.rs`, `disk_room.rs` | how many bytes, and how much memory and disk |
//! | `committer.rs` | requests that arrive together share a transaction |
//! | `log_writer.rs` | committed changes go to the log |
//! | `lake_age.rs` | a database that is older than the lake is refused |
//! | `ownership.rs` | another database than the one that has the objects is refused |
//! | `download.rs`, `bytes_cache.rs` | reading bytes back |
//! | `sweep.rs` | bytes that no name has any more go |
//! | `snapshot.rs` | everything as one object, so that the log before it can go |
//! | `rebuild.rs` | the rows anew, from the lake |
//! | `user_records.rs` | the ids and names of users, in the lake |
#![deny(missing_docs)]

mod bytes_cache;
mod change;
mod committer;
mod disk_room;
mod download;
mod error;
mod everywhere;
mod lake_age;
mod log_writer;
mod namespace;
mod ownership;
mod plan;
mod rebuild;
mod scratch_file;
mod snapshot;
mod sweep;
mod upload;
mod upload_limits;
mod user_records;

pub use change::{Committed, Conditions, EtagMatch, ObjectRequest, RequestedChange};
pub use error::{ObjectError, ObjectErrorKind};
pub use lake_age::is_behind_lake;
pub use namespace::{Namespace, NamespaceParts};
pub use rebuild::{RebuildProgress, RebuildReport, rebuild};
pub use snapshot::SnapshotReport;
pub use sweep::{SweepGrace, SweepReport};
pub use upload::{ObjectUpload, UploadedBytes};
pub use upload_limits::{DISK_RESERVE_BYTES, OBJECT_BYTES_MAX, UploadLimit};
pub use user_records::record_users;
