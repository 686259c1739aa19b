//! A thousand feeds, each asked every second: whether every poll begins at its time, and what it takes.
//!
//! The server is a process of its own on the same machine; every body differs from every other, so that each is stored, durably.
//! After every fifth of the run an hour ends: all feeds begin new folders while what they had is packed and shipped. Everything is
//! on the disk of cargo's output. `CANNERY_BENCH_QUICK=1` shows that the bench works, not how fast anything is.
//! `CANNERY_BENCH_SECONDS=600` measures for so long.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench prints its numbers, and has none to give when it meets an error"
)]

mod clock;
mod polling;
mod server;
mod usage;

use std::time::Duration;

use serde_json::json;

use polling::Polled;
use usage::Used;

const BODY_BYTES: usize = 10 * 1_024;

/// The end of the bucket of the lateness that 99 of 100 polls have to be in.
const JITTER_GOAL: Duration = Duration::from_millis(50);

/// What the memory may grow by between the middle of a run and its end.
const GROWTH_GOAL: f64 = 1.1;

/// That of the program.
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() {
    if server::is_meant() {
        return server::serve();
    }
    let quick = std::env::var_os("CANNERY_BENCH_QUICK").is_some_and(|value| value == "1");
    let (feeds, seconds) = if quick { (20, 6) } else { (1_000, 60) };
    let seconds =
        std::env::var("CANNERY_BENCH_SECONDS").map_or(seconds, |seconds| seconds.parse().unwrap());
    println!("{feeds} feeds asked every second for {seconds} s, {BODY_BYTES} bytes a body");
    let polled = polling::run(feeds, Duration::from_secs(seconds));
    show(&polled);
    judge(&polled, feeds);
}

fn show(polled: &Polled) {
    let totals = &polled.totals;
    println!(
        "polls: {} stored, {} unchanged, {} failed, {} missed; {} hours packed, {} archives shipped",
        totals.stored,
        totals.unchanged,
        totals.failed,
        totals.missed,
        totals.archives,
        totals.uploads
    );
    println!(
        "{:<10} {:>9} {:>12} {:>9} {:>9}",
        "process", "CPU s", "CPU of one", "RSS MB", "then MB"
    );
    for (name, used) in [("cannery", &polled.ours), ("server", &polled.server)] {
        let Used {
            seconds,
            cpu_seconds,
            rss_first,
            rss_last,
        } = used;
        println!(
            "{name:<10} {cpu_seconds:>9.2} {:>10.0} % {:>9.0} {:>9.0}",
            100.0 * cpu_seconds / seconds,
            *rss_first as f64 / 1e6,
            *rss_last as f64 / 1e6,
        );
    }
    let wanted = [
        ("half", 0.5),
        ("99 of 100", 0.99),
        ("999 of 1000", 0.999),
        ("all", 1.0),
    ];
    let late = wanted.map(|(word, share)| {
        let end = polled.lateness.quantile(share);
        end.map_or(format!("{word} later than a minute"), |end| {
            format!("{word} within {end:?}")
        })
    });
    println!(
        "missed by each tenth of the time, an hour ends with every second: {:?}",
        polled.missed
    );
    println!("begin after their time: {}", late.join(", "));
    println!(
        "asked to answered {:.1} ms on average; other processes used {:.0} % of this machine's CPU",
        polled.latency_ms, polled.others_percent
    );
}

fn judge(polled: &Polled, feeds: usize) {
    let jitter = polled.lateness.quantile(0.99).unwrap_or(Duration::MAX);
    let growth = polled.ours.rss_last as f64 / polled.ours.rss_first as f64;
    let lost = polled.totals.missed + polled.totals.failed;
    for (what, value, unit, goal) in [
        ("missed or failed polls", lost as f64, "polls", 0.0),
        (
            "jitter of 99 of 100",
            jitter.as_secs_f64() * 1e3,
            "ms",
            JITTER_GOAL.as_secs_f64() * 1e3,
        ),
        (
            "memory at the end by that in the middle",
            growth,
            "x",
            GROWTH_GOAL,
        ),
    ] {
        let met = if value <= goal { "met" } else { "NOT MET" };
        println!("{what}: {value:.2} {unit}, goal <= {goal} {met}");
        let line = json!({
            "name": format!("poll {feeds} feeds, {what}"), "side": "cannery", "value": value,
            "unit": unit, "goal": goal,
        });
        println!("{line}");
    }
    for (side, used) in [("cannery", &polled.ours), ("server", &polled.server)] {
        let cores = used.cpu_seconds / used.seconds;
        for (what, value, unit) in [("CPU", cores, "cores"), ("RSS", used.rss_last as f64, "B")] {
            let name = format!("poll {feeds} feeds, {what}");
            let line = json!({ "name": name, "side": side, "value": value, "unit": unit });
            println!("{line}");
        }
    }
}
