//! What makes a raw measurement fit to be shown: a rules file, and an engine that rewrites spans of JSON text by it.
//!
//! Pure: no async, no I/O, no clock. A crate of its own so that it compiles, fuzzes and benches without a lake.
//!
//! | module | what it gives |
//! |---|---|
//! | [`rules`] | the rules file: parsed, checked, hashed |
//! | [`sanitiser`] | the engine: one raw measurement in, one sanitised line out |
//! | [`measurements`] | the measurements of a report: JSON lines, YAML documents, rows, or the whole |
//!
//! What the rules do, in this order, and to what:
//!
//! 1. `rename_keys` and `nest` arrange the keys of the document itself.
//! 2. `bytes` without `at` looks at every string.
//! 3. Every other rule looks at what stands at its paths after step 1. Rules that meet at one value act in the order of the
//!    file, each on what the one before it left. A value that was replaced or dropped takes along whatever is inside it.
#![deny(missing_docs)]

mod apply;
mod edit;
mod fault;
pub mod measurements;
mod path;
mod plan;
mod restructure;
pub mod rules;
pub mod sanitiser;
mod scan;
mod walk;

pub use fault::Bad;
pub use measurements::{Format, Measurement, Measurements};
pub use rules::{Rules, RulesError};
pub use sanitiser::{Clean, Context, Flags, Sanitiser};
