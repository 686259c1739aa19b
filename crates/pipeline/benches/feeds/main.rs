//! An hour of a feed that three replicas collected: packed by each, shipped, and merged, beside `tar | gzip` of all its bodies.
//!
//! The floor reads each body once and compresses it once, and proves nothing. Ours compresses everything twice, once on each replica
//! and once merged, reads back what it put, and deletes only what it has read elsewhere. Everything is on the disk of cargo's
//! output. `CANNERY_BENCH_QUICK=1` shows that the bench works, not how fast anything is.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench prints its numbers, and has none to give when it meets an error"
)]

mod bodies;
mod floor;
mod ours;

use serde_json::json;
use tempfile::TempDir;

use cannery_testkit::usage::{Used, rss_bytes};

const REPLICAS: usize = 3;
const BODY_BYTES: usize = 10 * 1_024;

/// Of ours by the floor.
const GOAL: f64 = 1.3;

/// What the memory may grow by from one half of the rounds to the other.
const GROWTH_GOAL: f64 = 1.1;

/// That of the program.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    let quick = std::env::var_os("CANNERY_BENCH_QUICK").is_some_and(|value| value == "1");
    let (polls, rounds) = if quick { (60, 4) } else { (3_600, 12) };
    println!("an hour of {polls} bodies of {BODY_BYTES} bytes from each of {REPLICAS} replicas");
    println!(
        "{:<16} {:>9} {:>9} {:>9} {:>8}",
        "side", "seconds", "MB/s", "CPU s", "RSS MB"
    );
    let mb = (polls * REPLICAS * BODY_BYTES) as f64 / 1e6;
    let mut all: [Vec<Used>; 2] = Default::default();
    let mut rss = Vec::new();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    for _ in 0..rounds {
        let folder = TempDir::with_prefix_in("bench-feeds-", env!("CARGO_TARGET_TMPDIR")).unwrap();
        let replicas = bodies::write(folder.path(), polls);
        all[0].push(show("tar | gzip", mb, floor::run(folder.path(), &replicas)));
        let (packed, merged, bytes) = ours::run(&runtime, folder.path(), &replicas, polls);
        show("pack and ship", mb, packed);
        show("merge", mb, merged);
        all[1].push(show("cannery", mb, packed.and(merged)));
        rss.push(bytes);
    }
    judge(&all);
    // What one round leaves behind depends on which thread ends last; only what all of them add up is growth.
    let (first, second) = rss.split_at(rss.len() / 2);
    let middle = |half: &[u64]| half.iter().sum::<u64>() as f64 / half.len() as f64;
    let growth = middle(second) / middle(first);
    verdict(
        "memory after the second half of the rounds by that after the first",
        growth,
        GROWTH_GOAL,
    );
}

fn show(side: &str, mb: f64, used: Used) -> Used {
    println!(
        "{side:<16} {:>9.2} {:>9.1} {:>9.2} {:>8.0}",
        used.seconds,
        mb / used.seconds,
        used.cpu_seconds,
        rss_bytes() as f64 / 1e6
    );
    used
}

fn judge([floors, ours]: &[Vec<Used>; 2]) {
    let best =
        |all: &[Used], of: fn(&Used) -> f64| all.iter().map(of).fold(f64::INFINITY, f64::min);
    for (what, of) in [
        (
            "wall time",
            (|used: &Used| used.seconds) as fn(&Used) -> f64,
        ),
        ("CPU time", |used: &Used| used.cpu_seconds),
    ] {
        let (ours, floor) = (best(ours, of), best(floors, of));
        let ratio = ours / floor;
        match what {
            "wall time" => verdict("wall time of the floor's", ratio, GOAL),
            _ => println!("{what}: {ratio:.2} of the floor's"),
        }
        let line = json!({
            "name": format!("pack and merge an hour, {what}"), "side": "cannery", "value": ours,
            "unit": "s", "reference": { "name": "tar | gzip", "value": floor, "ratio": ratio },
        });
        println!("{line}");
    }
}

fn verdict(what: &str, value: f64, goal: f64) {
    let met = if value <= goal { "met" } else { "NOT MET" };
    println!("{what}: {value:.2}, goal <= {goal} {met}");
}
