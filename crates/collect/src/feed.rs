//! Feeds: URLs that are asked again and again, packed by the hour, and shipped.
//!
//! | file | what it holds |
//! |---|---|
//! | `collector.rs` | all feeds of a process: what the binary calls |
//! | `settings.rs`, `shared.rs` | what a feed is, and what all have in common |
//! | `pollers.rs`, `poll.rs`, `grid.rs` | when and how a feed is asked |
//! | `fetch.rs` | one download, within its limits |
//! | `writer.rs`, `slots.rs`, `depot.rs` | bodies and lines on the local disk |
//! | `works.rs`, `busy.rs` | what is done behind the polls |
//! | `pack.rs`, `disk_stream.rs` | from an hour's folder to its archive |
//! | `docks.rs`, `ship.rs`, `sound.rs` | from the archive to each mirror, if it is what it was |
//! | `monitor.rs`, `metrics.rs` | what people and machines want to know |

mod busy;
mod collector;
mod depot;
mod disk_stream;
mod docks;
mod fetch;
mod grid;
mod metrics;
pub mod monitor;
mod pack;
mod poll;
mod pollers;
mod settings;
mod shared;
mod ship;
mod slots;
mod sound;
mod wall_clock;
mod works;
mod writer;

pub use collector::{Feeds, FeedsParts};
pub use depot::{Depot, Unpacked};
pub use docks::Cleared;
pub use fetch::{Ask, DOWNLOADS_MAX, FetchError, FetchErrorKind, Fetched, Fetcher, Validators};
pub use metrics::FeedMetrics;
pub use monitor::Monitor;
pub use settings::FeedSettings;
pub use ship::Uploads;
pub use works::Left;

#[cfg(test)]
mod crash_tests;
#[cfg(test)]
mod damage_tests;
