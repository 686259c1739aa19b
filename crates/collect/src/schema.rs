//! Schemas: what the rows of a datatype are, and the tables in the lake that nodes of different versions share.
//!
//! | look here | for |
//! |---|---|
//! | `file.rs` | a datatype's own schema file, and the local copy of its table schema |
//! | `unite.rs` | what several schemas are together; decides, and touches nothing |
//! | `settle.rs` | the table schema in every mirror: read, united, replaced by version |
//! | `error.rs` | why a daemon does not start |

mod error;
mod file;
mod settle;
mod unite;

pub use error::SchemaError;
pub use file::{DATATYPE_BYTES_MAX, SchemaFile, SchemaFileError, write_local, write_local_index};
pub use settle::{Done, MirrorDone, Settled, TABLE_BYTES_MAX, settle, settle_index};
