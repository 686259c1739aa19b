//! One suite for the contract of the state, run on both engines.
//!
//! An engine joins with a module of one line, `crate::conformance::suite!(open)`, where `open` is an
//! `async fn(Clock) -> Subject`.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod conformance;
#[cfg(feature = "real-servers")]
mod postgres;
mod sqlite;
mod subject;
