//! The catalog: what lies where in the archives, and the tables made of it.
//!
//! It can be dropped and made again from the lake. It stands in a file (SQLite) or in a database (PostgreSQL), through
//! `cannery-database`.
//!
//! | look here | for |
//! |---|---|
//! | [`Catalog`] | what a program calls |
//! | [`decide`] | what is to be done with a file: pure |
//! | `load.rs` | how a file gets in: staged in bounded memory, then one transaction |
//! | `load/place.rs` | which file holds a measurement that stands in several |
//! | `feature.rs`, `aggregate.rs` | declared tables |
//! | `coverage.rs` | what came of each feed and node in each hour, and what did not |
//! | `query.rs`, `trace.rs`, `compare.rs`, `view.rs` | questions |
//! | `dump.rs` | comparing two catalogs |
//! | `duckdb.rs` | a script of views for DuckDB |
//! | `beside.rs` | a catalog that is made anew takes the place of the old one |
//! | `migrations/` | the schema; `docs/catalog.md` explains it |
#![deny(missing_docs)]

mod aggregate;
mod beside;
mod catalog;
mod check;
mod compare;
mod coverage;
pub mod decide;
mod duckdb;
mod dump;
mod error;
mod feature;
mod fit;
mod load;
mod name;
mod query;
mod trace;
mod view;

pub use aggregate::Aggregate;
pub use beside::Beside;
pub use cannery_database::{Column, ColumnType, Value};
pub use catalog::Catalog;
pub use coverage::{Coverage, CoverageFilter, CoverageState};
pub use decide::{Decision, FeatureVersion, FileFacts, FileState, KnownFile};
pub use duckdb::{Attached, DuckDb};
pub use dump::{Difference, Dump, TableDump};
pub use error::{Error, ErrorKind};
pub use feature::Feature;
pub use load::{
    Committed, Load, LoadPlan, NewBadBlob, NewBadRow, NewMeasurement, NewReport, NewRow, Place,
    Residual, Sent,
};
pub use query::{
    BadBlob, BadRow, Count, Cursor, FileInfo, Filter, Found, Page, ReportInfo, ResidualCount,
};
pub use trace::{Duplicate, Trace};
pub use view::{BadCount, BadExample, FeatureRows};
