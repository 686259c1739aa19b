//! Dev only: what the tests of the other crates stand on. Nothing that ships depends on this crate.
//!
//! | module | what it gives |
//! |---|---|
//! | [`records`] | seeded records and report files: same seed, same bytes |
//! | [`reports`] | a bucket of reports like OONI's, good and bad, with what is in it |
//! | [`feed_server`] | an HTTP server that misbehaves on request |
//! | [`sim_disk`] | a disk that forgets what was not synced |
//! | [`proxy`] | a TCP proxy that delays, cuts, refuses and swallows answers |
//! | [`tools`] | where `cargo xtask setup` put the programs below |
//! | [`server`] | a child process that never outlives the test |
//! | [`postgres`] | a temporary PostgreSQL: one server, or a primary with two standbys |
//! | [`beanstalkd`] | the work queue that benchmarks compare with |
//! | [`s3`], [`ceph`] | S3 servers: an honest one, a liar, and Ceph |
//! | [`azurite`] | the Azure emulator |
//! | [`gcs`] | an in-process double of the GCS XML API |
//! | [`browser`] | a headless Chromium |
//!
//! A program that is not installed is an error, never a skipped test.

pub mod azurite;
pub mod beanstalkd;
pub mod browser;
pub mod ceph;
mod error;
pub mod feed_server;
pub mod gcs;
pub mod postgres;
pub mod proxy;
pub mod records;
pub mod reports;
pub mod s3;
pub mod server;
pub mod sim_disk;
pub mod tools;
pub mod usage;

pub use error::{Error, Result};

/// Whether this is the long run, which has more servers and the full counts. Says so where a test ends early without it.
#[must_use]
#[allow(
    clippy::print_stdout,
    reason = "whoever reads the output of a test should know"
)]
pub fn long_run() -> bool {
    let long = std::env::var_os("CANNERY_TEST_LONG").is_some();
    if !long {
        println!("not the long run: `cargo xtask test --long` does this in full");
    }
    long
}

/// Chance for the scenario of this name. Its seed is fixed, so that today's run is yesterday's, except in the long run, which
/// draws a new one; `CANNERY_TEST_SEED` sets it, and a failed test has printed it.
///
/// # Panics
///
/// If `CANNERY_TEST_SEED` is not a number.
#[must_use]
#[allow(clippy::print_stdout, reason = "a failure must say how it is repeated")]
pub fn scenario_rng(name: &str) -> cannery_runtime::Rng {
    let seed = std::env::var("CANNERY_TEST_SEED").map_or(1, |seed| {
        seed.parse::<u64>()
            .expect("`CANNERY_TEST_SEED` is a number")
    });
    println!("chance of `{name}`: CANNERY_TEST_SEED={seed}");
    let of_name = name
        .bytes()
        .fold(seed, |sum, byte| sum.rotate_left(5) ^ u64::from(byte));
    cannery_runtime::Rng::seeded(of_name)
}
