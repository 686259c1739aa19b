//! A spool: producers put files into date folders; they are bundled, shipped, and removed once the lake has them.
//!
//! | look here | for |
//! |---|---|
//! | `find.rs` | which files there are: events and scans |
//! | `intake.rs`, `take.rs`, `fault.rs` | reading one, and everything that can be wrong with it |
//! | `bad.rs` | what becomes of those |
//! | `bundler.rs`, `bundle.rs`, `gzip_file.rs` | rows and index lines, written as files come |
//! | `outbox.rs` | sealed bundles on the disk, and their receipts |
//! | `../schedule.rs`, `shipper.rs`, `ship.rs` | getting them into every mirror, and into the inventory |
//! | `remove.rs` | removing what is provably there |
//! | `known.rs`, `recall.rs` | what the lake has already, after the outbox was lost |
//! | `status.rs` | what lies on the disk, for who only looks |
//! | `line.rs`, `room.rs`, `foreman.rs`, `upkeep.rs`, `drain.rs` | the threads and tasks that do all this, and when there is nothing left to do |
//! | `guard.rs` | how much room all this takes |
//! | `progress.rs`, `metrics.rs` | what is told of it |

mod bad;
mod budget;
mod bundle;
mod bundler;
mod drain;
mod fault;
mod find;
mod foreman;
mod guard;
mod gzip_file;
mod held;
mod intake;
mod known;
mod line;
mod metrics;
mod outbox;
mod place;
mod progress;
mod recall;
mod remove;
mod room;
mod settings;
mod ship;
mod shipper;
mod status;
mod take;
mod upkeep;

#[cfg(test)]
mod crash_tests;

pub use line::{Flushed, Spool, SpoolParts};
pub use metrics::SpoolMetrics;
pub use progress::{
    DatatypeSnapshot, OpenSnapshot, Passed, Progress, SealedSnapshot, ShipSnapshot, SpoolSnapshot,
};
pub use settings::{BadFiles, DatatypeSettings, SpoolFull, SpoolSettings};
pub use status::{BundleStatus, DatatypeStatus, SpoolStatus, status};

/// A thread that died by a mistake leaves what it held in order: it is counts and lists.
fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
