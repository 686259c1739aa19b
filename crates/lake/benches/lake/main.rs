//! How fast a `file:` lake is beside what the disk and the file system allow.
//!
//! Ours and the reference are measured in the same run, in turns and in the same folder. Rates: higher is better, and a
//! ratio of 1 means as fast as the reference. `CANNERY_BENCH_QUICK=1` shows that the bench works, not how fast anything is.
#![allow(
    clippy::unwrap_used,
    reason = "a bench that meets an error has no numbers to give"
)]
#![allow(
    clippy::disallowed_methods,
    reason = "the reference is the plain call itself"
)]

mod bench;
mod large;
mod list;
mod plain;
mod put;
mod read;
mod row;

use bench::Bench;
use row::{Row, Table};

const ROWS: &[fn(&Bench) -> Row] = &[
    put::one_client,
    put::sixteen_clients,
    put::beside_durable_peer,
    put::beside_undurable_peer,
    read::whole,
    read::whole_beside_async,
    read::range,
    list::all,
    large::put,
];

fn main() {
    let bench = Bench::new();
    let mut table = Table::begin();
    for measure in ROWS {
        table.add(measure(&bench));
    }
    table.end();
}
