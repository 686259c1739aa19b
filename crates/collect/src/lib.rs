//! Collecting: from a folder of small files to the lake, each of them exactly once.
//!
//! | look here | for |
//! |---|---|
//! | `spool.rs` | the path of a file: found, taken, bundled, sealed, shipped, removed |
#![deny(missing_docs)]

pub mod spool;
