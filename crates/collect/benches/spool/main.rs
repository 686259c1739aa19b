//! How fast a spool of small files is drained, beside the least that has to be done: a loop that reads each file, compresses
//! it into one stream and unlinks it.
//!
//! Both on the disk of cargo's output. `CANNERY_BENCH_QUICK=1` shows that the bench works, not how fast anything is;
//! `CANNERY_BENCH_FILES=1000000` drains so many files alone, and prints the memory.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a bench prints its numbers, and has none to give when it meets an error"
)]

mod floor;
mod ours;
mod usage;

use std::path::{Path, PathBuf};

use cannery_runtime::disk::{Open, create_dir_all};
use cannery_runtime::{Disk as _, RealDisk};
use serde_json::json;
use tempfile::TempDir;

use usage::Used;

const DATE: &str = "2026/11/15";
const FILE_BYTES: usize = 1_024;

fn main() {
    let quick = std::env::var_os("CANNERY_BENCH_QUICK").is_some_and(|value| value == "1");
    let (files, rounds) = if quick { (2_000, 1) } else { (200_000, 2) };
    if let Ok(files) = std::env::var("CANNERY_BENCH_FILES") {
        return drain_alone(files.parse().unwrap());
    }
    println!("{files} files of {FILE_BYTES} bytes, drained from a cold start");
    println!(
        "{:<10} {:>9} {:>9} {:>9} {:>10} {:>10} {:>8}",
        "side", "seconds", "files/s", "MB/s", "CPU s", "CPU s/GB", "RSS MB"
    );
    let mut floors = Vec::new();
    let mut drains = Vec::new();
    for _ in 0..rounds {
        let folder = spool(files);
        floors.push(show(
            "floor",
            files,
            floor::run(&date_folder(folder.path()), folder.path()),
        ));
        let folder = spool(files);
        drains.push(show("cannery", files, ours::run(folder.path(), files)));
    }
    let best =
        |all: &[Used], of: fn(&Used) -> f64| all.iter().map(of).fold(f64::INFINITY, f64::min);
    for (what, of, goal) in [
        (
            "wall time",
            (|used: &Used| used.seconds) as fn(&Used) -> f64,
            1.0,
        ),
        ("CPU time", |used: &Used| used.cpu_seconds, 1.6),
    ] {
        let (ours, floor) = (best(&drains, of), best(&floors, of));
        let ratio = ours / floor;
        let met = if ratio <= goal { "met" } else { "NOT MET" };
        println!("{what}: {ratio:.2} of the floor, goal <= {goal} {met}");
        let line = json!({
            "name": format!("drain {files}, {what}"), "side": "cannery", "value": ours, "unit": "s",
            "reference": { "name": "floor", "value": floor, "ratio": ratio },
        });
        println!("{line}");
    }
}

/// Many more files, to see how much memory they take.
fn drain_alone(files: usize) {
    println!("{files} files of {FILE_BYTES} bytes, drained from a cold start");
    let folder = spool(files);
    let used = show("cannery", files, ours::run(folder.path(), files));
    let megabytes = used.rss_bytes as f64 / 1e6;
    let met = if megabytes < 200.0 { "met" } else { "NOT MET" };
    println!("memory: {megabytes:.0} MB, goal < 200 {met}");
}

fn show(side: &str, files: usize, used: Used) -> Used {
    let bytes = (files * FILE_BYTES) as f64;
    println!(
        "{side:<10} {:>9.2} {:>9.0} {:>9.1} {:>10.2} {:>10.1} {:>8.0}",
        used.seconds,
        files as f64 / used.seconds,
        bytes / used.seconds / 1e6,
        used.cpu_seconds,
        used.cpu_seconds * 1e9 / bytes,
        used.rss_bytes as f64 / 1e6
    );
    used
}

fn date_folder(folder: &Path) -> PathBuf {
    folder.join("spool/ndt/foo1").join(DATE)
}

/// A spool with files in it, each about as well to compress as measurements are.
fn spool(files: usize) -> TempDir {
    let folder = TempDir::with_prefix_in("bench-spool-", env!("CARGO_TARGET_TMPDIR")).unwrap();
    let date = date_folder(folder.path());
    create_dir_all(&RealDisk, &date).unwrap();
    let mut chance = 1_u64;
    for number in 0..files {
        let mut text = format!("{{\"n\":{number},\"text\":\"");
        while text.len() < FILE_BYTES - 2 {
            chance = chance
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            text += &format!("{:08x} measured ", chance >> 36);
        }
        text.truncate(FILE_BYTES - 2);
        text += "\"}";
        let file = RealDisk
            .open(&date.join(format!("{number:07}.json")), Open::CreateNew)
            .unwrap();
        file.write_all_at(0, text.as_bytes()).unwrap();
    }
    // A backlog lies on the disk. Without this, whoever syncs first pays for the writing of it, and whoever unlinks a file
    // that was never written pays nothing.
    rustix::fs::sync();
    folder
}
