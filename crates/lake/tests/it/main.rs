//! One suite for the contract of a lake, run on every store, and what goes wrong around it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what is wrong by failing"
)]

mod conformance;
mod crash;
mod engines;
mod faults;
mod identity;
mod processes;
#[cfg(feature = "real-servers")]
mod servers;
