//! What lies on disk and in objects; pure: no async, no clock, no I/O.
//!
//! `docs/formats.md` describes the same things for somebody who writes a reader without this crate.
#![deny(missing_docs)]

pub mod archive;
pub mod bucket_date;
pub mod can;
pub mod checksum;
pub mod digest;
pub mod feed;
pub mod frames;
pub mod gz_lines;
pub mod hour_archive;
pub mod inventory;
pub mod journal_segment;
mod json_scan;
pub mod key;
pub mod kind;
pub mod lake_manifest;
pub mod large_object;
pub mod namespace_owner;
pub mod node_name;
pub mod object_log;
pub mod object_path;
pub mod redaction;
pub mod report_name;
pub mod spool;
pub mod table_schema;
pub mod uid;
pub mod user_name;
pub mod user_record;

pub use bucket_date::BucketDate;
pub use checksum::{Sha1, Summer, Sums};
pub use digest::{Digest, Hasher};
pub use inventory::InventoryLine;
pub use json_scan::{JSON_DEPTH_MAX, JsonFault};
pub use key::{InvalidKey, Key, is_id};
pub use kind::Kind;
pub use lake_manifest::LakeManifest;
pub use large_object::LargeObject;
pub use namespace_owner::NamespaceOwner;
pub use node_name::NodeName;
pub use object_log::{ObjectChange, ObjectEntry, StoredObject};
pub use object_path::ObjectPath;
pub use report_name::ReportName;
pub use table_schema::TableSchema;
pub use uid::{LakeKey, Uid};
pub use user_name::UserName;
pub use user_record::UserRecord;
