//! What the databases of the product share: addresses, connections, what a fault means, and one SQL for two engines.
//!
//! | look here | for |
//! |---|---|
//! | [`Database`], [`Schema`] | a database on SQLite or PostgreSQL, opened and brought up to date |
//! | [`Session`], [`Value`], [`Row`] | how statements are made and answered |
//! | [`Address`] | a file, or a server whose password nobody sees |
//! | [`postgres`] | the server alone, for who speaks to it in his own way: the journal |
//! | `migrate.rs` | numbered SQL files, only ever added |
//! | `sqlite.rs`, `postgres.rs` | the engines |
//!
//! It knows no table but that of the migrations; the SQL of the product stands in `journal`, `catalog` and `state`.
#![deny(missing_docs)]

mod address;
mod database;
mod error;
mod migrate;
pub mod postgres;
mod session;
mod sqlite;
mod value;

pub use address::Address;
pub use database::{Database, Schema, settle};
pub use error::{Error, ErrorKind};
pub use session::{Dialect, Session, Statement};
pub use value::{Column, ColumnType, Row, Value, date_text, is_expressible, stored, time_text};
