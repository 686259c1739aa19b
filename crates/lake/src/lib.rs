//! The lake: object storage in our words.
//!
//! A [`Lake`] puts, gets, lists and deletes objects by [`Key`](cannery_formats::Key) with retries, limits and metrics.
//! [`Mirrors`] are several lakes that hold the same objects. [`probe`] finds out what a store really honours, and
//! [`DiskStore`] is the store in a local folder that honours everything.
#![deny(missing_docs)]

mod body;
mod breaker;
mod content;
mod delete;
mod disk_store;
mod error;
#[cfg(feature = "fault")]
pub mod fault;
mod get;
mod identity;
mod lake;
mod large;
mod list;
mod listing_check;
mod metrics;
mod mirrors;
mod open;
pub mod probe;
mod put;
mod retry;
mod stream;

pub use body::Body;
pub use breaker::{Breaker, Pass};
pub use content::Content;
pub use disk_store::DiskStore;
pub use error::{Error, ErrorKind, Operation, Result, present};
pub use get::{Head, Object};

pub use lake::{Honours, Lake, Parts, Version};
pub use large::put_memory_bytes;
pub use list::Entry;
pub use metrics::LakeMetrics;

pub use identity::{Identity, Remembered};
pub use mirrors::{Mirrors, Put};
pub use open::{Address, Credentials, OpenError};
pub use put::{PutNew, Swap};
pub use retry::RetryPolicy;
