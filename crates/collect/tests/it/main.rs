//! Collecting, on a real file system and real lakes.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

mod drain;
mod feeds;
mod kill;
mod line;
mod node;
mod polls;
mod schema;
