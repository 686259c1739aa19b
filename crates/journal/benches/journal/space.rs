//! What the embedded journal costs: memory for an entry that waits, disk when all is done, time to open.

use std::path::Path;
use std::time::Duration;

use cannery_journal::{Engine as _, Journal};

use crate::bench::Bench;
use crate::ours::{fill, tokens};
use crate::report::{Goal, Report, Row};

const SIDE: &str = "embedded";
const KEY_BYTES: f64 = 12.0;
/// More than what a journal notes beside its segments.
const SMALL_BYTES: u64 = 64 * 1024;
/// Longer than a journal is empty before it gives its files back.
const EMPTY_FOR: Duration = Duration::from_secs(5);

pub(crate) fn measure(bench: &Bench, report: &mut Report) {
    drain(bench, report);
    open(bench, report);
}

fn drain(bench: &Bench, report: &mut Report) {
    let count = bench.effort.drained;
    let folder = bench.folder();
    let engine = bench.embedded(folder.clone());
    let journal = bench.journal(engine.clone());
    // What everything needs that is there once.
    fill(bench, &journal, 1_000);
    empty(bench, &journal);
    let before = resident_bytes();
    let seconds = bench.seconds(|| fill(bench, &journal, count));
    let each = (resident_bytes() - before) / count as f64;
    report.add(Row::new(
        format!("put {count} in batches of 500, 4 clients"),
        SIDE,
        count as f64 / seconds,
        "rows/s",
    ));
    let row = Row::new("memory for a waiting entry, key of 12", SIDE, each, "bytes");
    report.add(row.goal(Some(Goal::AtMost(200.0 + KEY_BYTES))));

    let seconds = bench.seconds(|| empty(bench, &journal));
    report.add(Row::new(
        format!("drain {count} in batches of 1000"),
        SIDE,
        count as f64 / seconds,
        "rows/s",
    ));
    bench.runtime.block_on(bench.clock.sleep(EMPTY_FOR));
    let usage = engine.usage().unwrap_or_default();
    report.add(Row::new(
        "after the drain, segments in use",
        SIDE,
        usage.segments as f64,
        "files",
    ));
    let (files, bytes) = segments_in(&folder);
    let row = Row::new("after the drain, segment files", SIDE, files, "files");
    report.add(row.goal(Some(Goal::AtMost(1.0))));
    report.add(Row::new(
        "after the drain, their size",
        SIDE,
        bytes / 1e6,
        "MB",
    ));
    bench.runtime.block_on(journal.close());
    std::fs::remove_dir_all(folder).unwrap();
}

fn open(bench: &Bench, report: &mut Report) {
    let count = bench.effort.opened;
    let folder = bench.folder();
    let journal = bench.journal(bench.embedded(folder.clone()));
    fill(bench, &journal, count);
    bench.runtime.block_on(journal.close());
    drop(journal);
    let mut journal = None;
    let seconds = bench.seconds(|| {
        journal = Some(bench.journal(bench.embedded(folder.clone())));
    });
    let journal = journal.expect("it was opened");
    let waiting = bench.runtime.block_on(journal.stats()).unwrap().waiting();
    assert_eq!(waiting, count);
    let row = Row::new(format!("open {count} waiting entries"), SIDE, seconds, "s");
    report.add(row.goal(Some(Goal::AtMost(5.0))));
    bench.runtime.block_on(journal.close());
    std::fs::remove_dir_all(folder).unwrap();
}

fn empty(bench: &Bench, journal: &Journal) {
    let journal = journal.clone();
    let draining = bench.runtime.spawn(async move {
        let mut held = Vec::new();
        loop {
            let (_, claimed) = journal.done_and_claim(held, "bench", 1_000).await.unwrap();
            held = tokens(&claimed);
            if held.is_empty() {
                return;
            }
        }
    });
    bench.runtime.block_on(draining).unwrap();
}

/// What this process has in memory.
fn resident_bytes() -> f64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u32 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    f64::from(pages) * rustix::param::page_size() as f64
}

/// The files that are or were segments, which are all that are not small, and their bytes.
fn segments_in(folder: &Path) -> (f64, f64) {
    let lengths: Vec<u64> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().metadata().unwrap().len())
        .filter(|length| *length > SMALL_BYTES)
        .collect();
    (lengths.len() as f64, lengths.iter().sum::<u64>() as f64)
}
