//! The shell as a client sees it, over real connections.
#![allow(clippy::unwrap_used, reason = "helpers of tests are tests")]

mod admin;
mod api;
mod api_answers;
mod api_browser;
mod api_demo;
mod api_files;
mod api_limits;
mod api_login;
mod api_routes;
mod api_security;
mod api_tls;
mod browser;
mod client;
mod content;
mod demo;
mod feeds_page;
mod guard;
mod limits;
mod objects_page;
mod signer;

mod subpage;
