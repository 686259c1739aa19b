//! The shell as a client sees it, over real connections.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod client;
mod content;
mod demo;
mod guard;
mod limits;
