//! A durable work list: keyed, prioritised, dated; a claim is a lease, and nobody has to poll.
//!
//! | look here | for |
//! |---|---|
//! | [`Journal`] | what a program calls |
//! | [`Declaration`] | what a journal holds and how it behaves |
//! | `rules.rs` | how entries merge, come back, and die: the only place that decides |
//! | [`state`] | the rules as a state machine in memory, which is also the model that the engines are tested against |
//! | [`Memory`] | the engine of tests and of programs that need no durability |
#![warn(missing_docs)]

mod add;
mod data;
mod date;
mod declaration;
pub mod embedded;
mod engine;
mod entry;
mod error;
mod journal;
mod key;
mod memory;
pub mod metrics;
mod op;
pub mod postgres;
mod priority;
pub mod remote;
pub mod rules;
pub mod state;
mod token;
mod wake;
pub mod worker;

pub use add::{Add, NewEntry};
pub use data::Data;
pub use date::{Date, Expiration};
pub use declaration::{Declaration, FieldType, OnEmpty, Period};
pub use engine::{Engine, Health, Usage};
pub use entry::{Cursor, Death, Entry, Lease, Meta, Page, Query, Standing, Status};
pub use error::{Error, ErrorKind};
pub use journal::Journal;
pub use key::Key;
pub use memory::Memory;
pub use op::{Added, Beat, Cancelled, Claimed, Counts, Depth, Fate, Op, Reply, Retry, Stats};
pub use priority::Priority;
pub use token::{Token, TokenSource};
pub use wake::{Alarm, Wakes};
