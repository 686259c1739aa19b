//! What lies on disk and in objects; pure: no async, no clock, no I/O.
//!
//! `docs/formats.md` describes the same things for somebody who writes a reader without this crate.
#![deny(missing_docs)]

pub mod digest;
pub mod journal_segment;
pub mod key;
pub mod lake_manifest;
pub mod large_object;

pub use digest::{Digest, Hasher};
pub use key::{InvalidKey, Key};
pub use lake_manifest::LakeManifest;
pub use large_object::LargeObject;
