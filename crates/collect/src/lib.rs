//! Collecting: from a folder of small files to the lake, each of them exactly once.
//!
//! | look here | for |
//! |---|---|
//! | `schema.rs` | schema files, and the table schemas in the lake that nodes share |
//! | `spool.rs` | the path of a file: found, taken, bundled, sealed, shipped, removed |
//! | `inventory.rs` | what a node put into the lake, chained, and whether it is still there |
//! | `quarantine.rs` | files that cannot be collected, kept with the reason |
//! | `records.rs` | what is in the lake: listing and reading records |
#![deny(missing_docs)]

mod blocking;
mod gzip_lines;
pub mod inventory;
pub mod quarantine;
pub mod records;
mod row;
pub mod schema;
pub mod spool;
