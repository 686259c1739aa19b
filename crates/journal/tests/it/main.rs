//! One suite for the contract of a journal, run on every engine, and every engine against the model.
//!
//! An engine joins with a module of one line, `crate::suites!(open, cases)`, where `open` is an
//! `async fn(Declaration) -> Subject`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what is wrong by failing"
)]

mod conformance;
mod crash;
mod embedded;
#[cfg(feature = "real-servers")]
mod failover;
#[cfg(feature = "real-servers")]
mod fleet;
mod hand_clock;
mod kill;
mod memory;
mod model;
#[cfg(feature = "real-servers")]
mod postgres;
mod remote;
mod subject;
mod worker;

/// All that every engine must pass: the rules one by one, and random histories.
macro_rules! suites {
    ($open:path, $cases:expr) => {
        $crate::conformance::suite!($open);
        $crate::model::suite!($open, $cases);
    };
}
pub(crate) use suites;
