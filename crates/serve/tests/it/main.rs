//! The shell as a client sees it, over real connections.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod admin;
mod browser;
mod client;
mod content;
mod demo;
mod feeds_page;
mod guard;
mod limits;
mod subpage;
