//! How fast a journal is beside what the disk allows and beside its peers, how late a wake-up comes, and what an entry
//! costs in memory and on the disk.
//!
//! Everything is durable, on the disk of cargo's output, with data of 200 bytes. All sides of a comparison are measured in
//! the same run, in turns. `CANNERY_BENCH_QUICK=1` shows that the bench works, not how fast anything is.
//! `CANNERY_BENCH_ONLY` names parts, separated by commas: `embedded`, `postgres`, `sqlite`, `beanstalkd`, `pgbench` (sides
//! of the comparisons), `wake`, `space`, `held`.
#![allow(
    clippy::unwrap_used,
    reason = "a bench that meets an error has no numbers to give"
)]

mod beanstalkd;
mod bench;
mod fdatasync;
mod held;
mod ours;
mod pgbench;
mod race;
mod report;
mod server;
mod space;
mod sqlite;
mod wake;
mod work;

use bench::Bench;
use report::Report;

fn main() {
    let bench = Bench::new();
    let mut report = Report::begin();
    // First, while the process has no memory that it could use again.
    if bench.wants("space") {
        space::measure(&bench, &mut report);
    }
    race::run(&bench, &mut report);
    if bench.wants("wake") {
        wake::measure(&bench, &mut report);
    }
    if bench.wants("held") {
        held::measure(&bench, &mut report);
    }
    report.end();
}
