//! A journal that another process on this machine owns, through its socket.
//!
//! One process owns the files of a journal; the others go through it. The owner calls [`serve`], they call
//! [`Remote::connect`]. Both sides speak frames: a length of four bytes, little endian, and JSON (`remote/frame.rs`). The
//! server greets with its protocol and the declaration of the journal; then requests and answers carry a number, so that
//! many callers share one connection, and the server adds wake-ups and changed declarations by itself.

mod address;
mod client;
mod frame;
mod server;

pub use client::Remote;
pub use server::{Served, serve};
