//! One suite for the contract of a lake, run on every store, and what goes wrong around it.

mod conformance;
mod crash;
mod engines;
mod faults;
mod identity;
mod processes;
#[cfg(feature = "real-servers")]
mod servers;
