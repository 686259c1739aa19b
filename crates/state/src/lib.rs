//! What is not in the lake and therefore has to be backed up: the history of executions, and who may do what.
//!
//! It stands in a file (SQLite) or in a database (PostgreSQL), through `cannery-database`.
//!
//! | look here | for |
//! |---|---|
//! | [`State`] | what a program opens |
//! | [`Recorder`] | telling of executions, without ever waiting for the database |
//! | `history/queue.rs` | what waits to be written, and what is dropped |
//! | `history/write.rs` | the task that writes it, and the signs of life of a worker |
//! | `history/query.rs`, `history/summary.rs` | questions |
//! | `history/forget.rs` | how long it is kept |
//! | [`identity`] | users, SSH public keys and tokens |
//! | [`objects`] | the names of users' objects |
//! | `migrations/` | the tables; `docs/history.md` explains them |
#![deny(missing_docs)]

mod history;
pub mod identity;
pub mod objects;
mod state;

pub use cannery_database::{Error, ErrorKind};
pub use history::{
    Begin, Cursor, End, Execution, Filter, KEEP, Outcome, Page, Recorder, RecorderOptions, SILENCE,
    StageSummary, Ticket, UnknownOutcome,
};
pub use state::State;
