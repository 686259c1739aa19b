//! The binary as a person or a script uses it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test says what is wrong by failing"
)]

#[cfg(feature = "real-servers")]
mod archive_audit;
mod archive_commands;
#[cfg(feature = "real-servers")]
mod archive_duckdb;
mod archive_inspection;
mod archive_keep;
mod archive_page;
#[cfg(feature = "real-servers")]
mod archive_pictures;
#[cfg(feature = "real-servers")]
mod archive_s3;
mod archive_stores;
#[cfg(feature = "real-servers")]
mod browser;
mod collect;
mod errors;
mod feed_commands;
mod feed_config;
mod feed_mirrors;
#[cfg(all(feature = "sim", feature = "real-servers"))]
mod feed_page;
mod feed_retrieve;
mod feed_trouble;
#[cfg(feature = "sim")]
mod feeds;
#[cfg(feature = "sim")]
mod fixtures;
mod history;
mod journal;
mod journal_page;
mod lake;
#[cfg(feature = "real-servers")]
mod manta;
#[cfg(feature = "sim")]
mod objects_kill;
#[cfg(feature = "real-servers")]
mod openapi;
mod program;
mod secrets;
mod stor;
#[cfg(feature = "real-servers")]
mod storage;
mod tour;
mod up;
mod work;
mod work_now;
