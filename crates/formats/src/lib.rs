//! What lies on disk and in objects; pure: no async, no clock, no I/O.
//!
//! `docs/formats.md` describes the same things for somebody who writes a reader without this crate.
#![deny(missing_docs)]

pub mod digest;
pub mod feed;
pub mod hour_archive;
pub mod inventory;
pub mod journal_segment;
mod json_scan;
pub mod key;
pub mod lake_manifest;
pub mod large_object;
pub mod node_name;
pub mod spool;
pub mod table_schema;

pub use digest::{Digest, Hasher};
pub use inventory::InventoryLine;
pub use json_scan::{JSON_DEPTH_MAX, JsonFault};
pub use key::{InvalidKey, Key};
pub use lake_manifest::LakeManifest;
pub use large_object::LargeObject;
pub use node_name::NodeName;
pub use table_schema::TableSchema;
