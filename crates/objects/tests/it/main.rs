//! One suite for the contract of the namespace, run on every pair of lake and database.
//!
//! A pair joins with a module of one line, `crate::conformance::suite!(open)`, where `open` is an `async fn() -> World`.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod conformance;
mod faults;
mod history;
mod linearizability;
mod pairs;
mod recovery;
mod robustness;
mod world;
