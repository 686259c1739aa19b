//! Starts the real programs. `cargo xtask setup` installs them; `--features real-servers` runs these tests.
#![cfg(feature = "real-servers")]
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what is wrong by failing"
)]

mod beanstalkd;
mod browser;
mod long_stores;
mod postgres;
mod postgres_cluster;
mod stores;
