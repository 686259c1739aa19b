//! One suite for the contract of the catalog, run on both engines, and both engines against a model.
//!
//! An engine joins with a module of one line, `crate::suites!(open, cases)`, where `open` is an `async fn() -> Subject`.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what is wrong by failing"
)]

mod beside;
mod conformance;
mod doc;
mod model;
#[cfg(feature = "real-servers")]
mod postgres;
mod sqlite;
mod subject;

/// All that every engine must pass: the rules one by one, and random histories.
macro_rules! suites {
    ($open:ident, $cases:expr) => {
        $crate::conformance::suite!($open);
        $crate::model::suite!($open, $cases);
    };
}
pub(crate) use suites;
