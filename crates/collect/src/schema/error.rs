//! Why the table schemas of a lake and of a node do not come together.

use cannery_formats::table_schema::{Conflict, SchemaFault};
use cannery_lake::{Error as LakeError, ErrorKind};

/// A table schema could not be settled. What was in the lake still is, or more: no field was taken away.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SchemaError {
    /// A field has another type or mode here than there, or is `REQUIRED` in only one of them.
    #[error(
        "cannot settle the table schema: field `{}` is {} in `{ours}` and {} in `{theirs}`; \
         the type and mode of a field stay for ever: undo the change, or give the field a new name",
        .conflict.path, .conflict.ours, .conflict.theirs
    )]
    Changed {
        /// Which field, and what it is on each side.
        conflict: Box<Conflict>,
        /// Our schema file.
        ours: String,
        /// The URL of the object.
        theirs: String,
    },
    /// Two mirrors hold tables that cannot be one.
    #[error(
        "cannot settle the table schema: field `{}` is {} in `{one}` and {} in `{other}`; \
         two mirrors must hold the same table: correct the one that is wrong",
        .conflict.path, .conflict.ours, .conflict.theirs
    )]
    MirrorsDisagree {
        /// Which field, and what it is on each side: `one` stands for ours, `other` for theirs.
        conflict: Box<Conflict>,
        /// The URL of one object.
        one: String,
        /// The URL of the other.
        other: String,
    },
    /// What is there is no table schema, and was left alone.
    #[error(
        "cannot read the table schema `{url}`: {fault}; it was left alone: correct or remove it"
    )]
    Unreadable {
        /// The URL of the object.
        url: String,
        /// What is wrong with it.
        fault: SchemaFault,
    },
    /// The store would let two nodes overwrite each other's fields.
    #[error(
        "cannot settle the table schema `{url}`: the store of lake `{lake}` does not honour versions (see `cannery lake probe`), \
         so nodes could take each other's fields; upload the schema yourself and set `upload_schema: false`"
    )]
    NoVersions {
        /// The id of the lake.
        lake: String,
        /// The URL of the object.
        url: String,
    },
    /// All fields together are more than any node would read again.
    #[error(
        "cannot settle the table schema `{url}`: all fields together take {bytes} bytes, more than the {bytes_max} allowed; \
         begin a new datatype"
    )]
    TooLarge {
        /// The URL of the object.
        url: String,
        /// How long it would be.
        bytes: u64,
        /// How long it may be.
        bytes_max: u64,
    },
    /// Each time it was to be written somebody else had just done so.
    #[error(
        "cannot settle the table schema `{key}`: somebody else changed it {rounds} times meanwhile; \
         find out who keeps writing it, then start again"
    )]
    Contended {
        /// The key of the object.
        key: String,
        /// How often it was tried.
        rounds: u32,
    },
    /// The lake failed.
    #[error(transparent)]
    Lake(#[from] LakeError),
}

impl SchemaError {
    /// Whether the same call may succeed a little later without anybody doing anything.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Lake(error) => error.kind == ErrorKind::Unavailable,
            Self::Contended { .. } => true,
            Self::Changed { .. }
            | Self::MirrorsDisagree { .. }
            | Self::Unreadable { .. }
            | Self::NoVersions { .. }
            | Self::TooLarge { .. } => false,
        }
    }
}
