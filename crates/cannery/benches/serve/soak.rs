//! The server under slow clients while it collects and works: whether its memory grows, and whether a poll, a file or a report is missed.
//!
//! The program runs with feeds that are polled every second, a spool and reports. Slow clients hold as many connections as they can; two
//! that behave put and get small objects beside them. At the end everything that was produced is looked for.
#![allow(clippy::print_stdout, reason = "a bench prints its numbers")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cannery_testkit::feed_server::{Behaviour, FeedServer};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::sleep;

use crate::servers::{Ours, resident_bytes};

const FEEDS: usize = 20;
const SLOW_CONNECTIONS: usize = 2_000;
const MEASUREMENTS_IN_A_REPORT: usize = 10;
/// The bytes of an object that a slow client reads, more than fits into the buffers of a connection.
const SLOW_OBJECT_BYTES: usize = 32 * 1024 * 1024;
/// What the memory of the last third may be, by that of the second.
const GROWTH_GOAL: f64 = 1.1;

/// What was produced, and what came of the requests of those who behave.
#[derive(Default)]
struct Counts {
    files: AtomicU64,
    reports: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
    slow_opened: AtomicU64,
    slow_open: AtomicU64,
}

/// One run, for so long.
pub(crate) fn run(run_time: Duration) {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let feeds = runtime.block_on(FeedServer::start()).unwrap();
    for number in 0..FEEDS {
        let bodies =
            (0..2 * run_time.as_secs()).map(|body| format!("feed {number}, body {body}").into());
        feeds.on(&format!("/{number}"), Behaviour::Bodies(bodies.collect()));
    }
    let folder =
        tempfile::TempDir::with_prefix_in("bench-soak-", env!("CARGO_TARGET_TMPDIR")).unwrap();
    let config = write_config(folder.path(), &feeds);
    let ours = Ours::start(folder.path(), &["--config-file", config.to_str().unwrap()]);
    ours.put("/local/public/slow", &vec![7; SLOW_OBJECT_BYTES]);
    ours.put("/local/public/small", &[7; 10 * 1024]);

    let (counts, stop) = (
        Arc::new(Counts::default()),
        Arc::new(AtomicBool::new(false)),
    );
    for number in 0..SLOW_CONNECTIONS {
        runtime.spawn(slow_client(
            number,
            ours.address.clone(),
            ours.token.clone(),
            Arc::clone(&counts),
        ));
    }
    let memory = std::thread::scope(|scope| {
        for work in [produce_files, produce_reports] {
            let (stop, counts, workspace) = (&*stop, &*counts, ours.workspace.as_path());
            scope.spawn(move || work(workspace, stop, counts));
        }
        for _ in 0..2 {
            scope.spawn(|| behave(&ours, &stop, &counts));
        }
        let start = Instant::now();
        let mut memory = Vec::new();
        while start.elapsed() < run_time {
            std::thread::sleep(Duration::from_secs(1));
            memory.push(resident_bytes(ours.pid()));
        }
        stop.store(true, Ordering::Relaxed);
        memory
    });
    runtime.shutdown_background();
    drop(feeds);
    ours.stop();
    report(folder.path(), &config, run_time, &memory, &counts);
}

fn write_config(folder: &Path, feeds: &FeedServer) -> PathBuf {
    let mut config =
        "node: bench1-soak\nspools: [{experiment: ndt, datatypes: [{name: foo1}]}]\nfeeds:\n"
            .to_owned();
    for number in 0..FEEDS {
        let url = feeds.url(&format!("/{number}"));
        writeln!(
            config,
            "  - {{id: f{number}, url: \"{url}\", periodicity: 1s, allow_private: true}}"
        )
        .unwrap();
    }
    let file = folder.join("soak.yml");
    std::fs::write(&file, config).unwrap();
    let workspace = folder.join("workspace");
    std::fs::create_dir_all(workspace.join("spool/datatypes")).unwrap();
    std::fs::create_dir_all(workspace.join("spool/ndt/foo1/2026/11/15")).unwrap();
    std::fs::create_dir_all(workspace.join("reports-raw/2026-11-15")).unwrap();
    let schema = r#"[{"name":"UUID","type":"STRING"}]"#;
    std::fs::write(workspace.join("spool/datatypes/foo1.json"), schema).unwrap();
    file
}

/// Ten files a second, each written beside its place and renamed.
fn produce_files(workspace: &Path, stop: &AtomicBool, counts: &Counts) {
    let folder = workspace.join("spool/ndt/foo1/2026/11/15");
    while !stop.load(Ordering::Relaxed) {
        let number = counts.files.fetch_add(1, Ordering::Relaxed);
        let temp = folder.join(format!(".{number}.json"));
        std::fs::write(&temp, json!({ "UUID": number.to_string() }).to_string()).unwrap();
        std::fs::rename(&temp, folder.join(format!("{number}.json"))).unwrap();
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// A report every two seconds.
fn produce_reports(workspace: &Path, stop: &AtomicBool, counts: &Counts) {
    let folder = workspace.join("reports-raw/2026-11-15");
    while !stop.load(Ordering::Relaxed) {
        let number = counts.reports.fetch_add(1, Ordering::Relaxed);
        let line = |measurement| {
            json!({ "test_name": "ndt", "report": number, "measurement": measurement }).to_string()
                + "\n"
        };
        let text: String = (0..MEASUREMENTS_IN_A_REPORT).map(line).collect();
        let name = format!("20261115T120000Z-US-AS7922-ndt-r{number}-0.2.0-probe.json");
        let temp = workspace.join(&name);
        std::fs::write(&temp, text).unwrap();
        std::fs::rename(&temp, folder.join(&name)).unwrap();
        std::thread::sleep(Duration::from_secs(2));
    }
}

/// A user who puts and gets small objects, and waits a little after each.
fn behave(ours: &Ours, stop: &AtomicBool, counts: &Counts) {
    let body = [7; 4 * 1024];
    while !stop.load(Ordering::Relaxed) {
        let number = counts.answered.load(Ordering::Relaxed);
        for request in ["PUT", "GET"] {
            let path = format!("/local/stor/behaved{}", number % 1_000);
            let status = ours.request(request, &path, if request == "PUT" { &body } else { &[] });
            match status {
                200 | 204 => counts.answered.fetch_add(1, Ordering::Relaxed),
                503 => counts.refused.fetch_add(1, Ordering::Relaxed),
                other => panic!("{request} {path}: {other}"),
            };
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Connects again and again, and is as slow as its kind is for as long as the server bears it.
async fn slow_client(number: usize, address: String, token: String, counts: Arc<Counts>) {
    loop {
        if let Ok(stream) = TcpStream::connect(&address).await {
            counts.slow_opened.fetch_add(1, Ordering::Relaxed);
            counts.slow_open.fetch_add(1, Ordering::Relaxed);
            // How the server ends it is what it is there for.
            be_slow(number, stream, &address, &token).await.ok();
            counts.slow_open.fetch_sub(1, Ordering::Relaxed);
        }
        sleep(Duration::from_secs(1)).await;
    }
}

async fn be_slow(
    number: usize,
    mut stream: TcpStream,
    host: &str,
    token: &str,
) -> std::io::Result<()> {
    let mut buffer = [0; 1024];
    match number % 20 {
        // Puts a large body, bit by bit.
        0 => {
            let head = format!(
                "PUT /local/stor/slow{number} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Length: 1000000\r\n\r\n"
            );
            stream.write_all(head.as_bytes()).await?;
            loop {
                stream.write_all(&[7; 100]).await?;
                sleep(Duration::from_secs(1)).await;
            }
        }
        // Reads a large object, bit by bit.
        1..=9 => {
            let head = format!("GET /local/public/slow HTTP/1.1\r\nHost: {host}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            while stream.read(&mut buffer).await? > 0 {
                sleep(Duration::from_secs(1)).await;
            }
            Ok(())
        }
        // Never gets to the end of its first header.
        10..=14 => loop {
            stream.write_all(b"G").await?;
            sleep(Duration::from_secs(2)).await;
        },
        // Says nothing after its first answer.
        _ => {
            let head = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n\r\n");
            stream.write_all(head.as_bytes()).await?;
            while stream.read(&mut buffer).await? > 0 {}
            Ok(())
        }
    }
}

/// Runs a command of the program on the workspace of the run; the lines of JSON that it prints.
fn cannery(folder: &Path, config: &Path, arguments: &[&str]) -> Vec<Value> {
    let output = Command::new(env!("CARGO_BIN_EXE_cannery"))
        .args(arguments)
        .arg("--json")
        .arg("--config-file")
        .arg(config)
        .arg("--workspace")
        .arg(folder.join("workspace"))
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{arguments:?}: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn report(folder: &Path, config: &Path, run_time: Duration, memory: &[u64], counts: &Counts) {
    let cannery = |arguments: &[&str]| cannery(folder, config, arguments);
    let total = |name: &str, lines: &[Value]| -> u64 {
        lines
            .iter()
            .filter_map(|line| line["totals"][name].as_u64())
            .sum()
    };
    let polled = cannery(&["feed", "status"]);
    cannery(&["collect", "--once"]);
    cannery(&["work", "--once"]);
    let rows = cannery(&["ls", "ndt/foo1/2026/11/15"]).len() as u64;
    let measurements = cannery(&["ls", "--bucket", "2026-11-15"]).len() as u64;
    let (files, reports) = (
        counts.files.load(Ordering::Relaxed),
        counts.reports.load(Ordering::Relaxed),
    );
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{} s with {SLOW_CONNECTIONS} slow clients, who connected {} times",
        run_time.as_secs(),
        count(&counts.slow_opened)
    );
    println!(
        "who behaved beside them: {} requests answered, {} told to come back",
        count(&counts.answered),
        count(&counts.refused)
    );
    println!(
        "feeds: {} polls stored, {} failed, {} missed; files: {rows} of {files} in the lake; measurements: {measurements} of {} in the catalog",
        total("stored", &polled),
        total("failed", &polled),
        total("missed", &polled),
        reports * MEASUREMENTS_IN_A_REPORT as u64,
    );
    let third = memory.len() / 3;
    let (middle, last) = (
        median(&memory[third..2 * third]),
        median(&memory[2 * third..]),
    );
    let growth = last as f64 / middle as f64;
    println!(
        "memory: {} MiB in the second third, {} MiB in the last, most {} MiB; growth {growth:.2} (goal: at most {GROWTH_GOAL})",
        middle >> 20,
        last >> 20,
        memory.iter().max().unwrap() >> 20,
    );
    let missed = total("failed", &polled)
        + total("missed", &polled)
        + (files - rows)
        + (reports * MEASUREMENTS_IN_A_REPORT as u64 - measurements);
    println!(
        "{}",
        json!({ "name": "soak", "growth": growth, "missed": missed, "answered": count(&counts.answered), "refused": count(&counts.refused) })
    );
}

fn median(values: &[u64]) -> u64 {
    let mut values = values.to_vec();
    values.sort_unstable();
    values[values.len() / 2]
}
