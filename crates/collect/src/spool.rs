//! A spool: producers put files into date folders; they are bundled, shipped, and removed once the lake has them.
//!
//! | look here | for |
//! |---|---|
//! | `find.rs` | which files there are: events and scans |
//! | `intake.rs`, `take.rs`, `fault.rs` | reading one, and everything that can be wrong with it |
//! | `bad.rs` | what becomes of those |
//! | `bundler.rs`, `bundle.rs`, `gzip_file.rs` | rows and index lines, written as files come |
//! | `outbox.rs` | sealed bundles on the disk, and their receipts |
//! | `shipper.rs`, `ship.rs` | getting them into every mirror, and into the inventory |
//! | `remove.rs` | removing what is provably there |
//! | `known.rs`, `recall.rs` | what the lake has already, after the outbox was lost |
//! | `line.rs` | the threads and tasks that do all this |

mod bad;
mod budget;
mod bundle;
mod bundler;
mod fault;
mod find;
mod gzip_file;
mod held;
mod intake;
mod known;
mod line;
mod outbox;
mod place;
mod progress;
mod recall;
mod remove;
mod settings;
mod ship;
mod shipper;
mod take;

#[cfg(test)]
mod crash_tests;

pub use line::{Flushed, Spool, SpoolParts};
pub use progress::{Passed, Progress};
pub use settings::{BadFiles, DatatypeSettings, SpoolSettings};
