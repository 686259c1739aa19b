//! The binary as a person or a script uses it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what is wrong by failing"
)]

#[cfg(feature = "real-servers")]
mod browser;
mod collect;
mod errors;
mod feed_commands;
#[cfg(all(feature = "sim", feature = "real-servers"))]
mod feed_page;
#[cfg(feature = "sim")]
mod feeds;
mod journal;
mod journal_page;
mod lake;
mod program;
mod secrets;
#[cfg(feature = "real-servers")]
mod storage;
mod up;
