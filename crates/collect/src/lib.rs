//! Collecting: from a folder of small files, or from URLs, to the lake.
//!
//! | look here | for |
//! |---|---|
//! | `schema.rs` | schema files, and the table schemas in the lake that nodes share |
//! | `feed.rs` | the path of a feed: asked, stored, packed by the hour, shipped |
//! | `spool.rs` | the path of a file: found, taken, bundled, sealed, shipped, removed |
//! | `inventory.rs` | what a node put into the lake, chained, and whether it is still there |
//! | `quarantine.rs` | files that cannot be collected, kept with the reason |
//! | `records.rs` | what is in the lake: listing and reading records |
#![deny(missing_docs)]

mod blocking;
pub mod feed;
mod gzip_lines;
pub mod inventory;
pub mod quarantine;
pub mod records;
mod row;
mod schedule;
pub mod schema;
pub mod spool;
mod turns;
