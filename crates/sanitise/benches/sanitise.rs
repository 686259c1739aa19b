//! How much raw text one CPU sanitises in a second: measurements of web pages, 10 to 20 kB each, half of them with spaces
//! between their parts.
//!
//! `CANNERY_BENCH_QUICK=1` shows that the bench works, not how fast anything is; `CANNERY_BENCH_BYTES=1000000000` says how
//! much text there is.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    reason = "a bench prints its numbers, and has none to give when it meets an error"
)]

use cannery_formats::uid::LakeKey;
use cannery_sanitise::{Context, Rules, Sanitiser};
use cannery_testkit::reports::web_connectivity_json;
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;

/// In MB of raw text for each second of CPU time.
const GOAL: f64 = 150.0;

/// What every bucket needs: null-fill, stamps, an id and shorter addresses.
const USUAL: &str = "version: 1
rules:
  - {op: null_fill, at: [input, input_hashes, options, probe_asn, probe_cc, probe_city, backend_version, test_helpers]}
  - {op: stamp, at: [bucket_date], from: bucket_date}
  - {op: stamp, at: [report_filename], from: textname}
  - {op: content_id, at: [id]}
  - {op: truncate_ip, at: [probe_ip, test_keys.client_resolver]}
";

fn main() {
    let quick = std::env::var_os("CANNERY_BENCH_QUICK").is_some_and(|value| value == "1");
    let bytes = match std::env::var("CANNERY_BENCH_BYTES") {
        Ok(bytes) => bytes.parse().unwrap(),
        Err(_) if quick => 10_000_000,
        Err(_) => 1_000_000_000,
    };
    println!("{bytes} bytes of web_connectivity measurements");
    println!(
        "{:<10} {:>10} {:>12} {:>9} {:>10}",
        "rules", "documents", "MB out", "CPU s", "MB/CPU s"
    );
    let example = include_str!("../../../examples/ooni/rules.yml");
    let bridges = include_str!("../../../examples/ooni/bridges.yml");
    let ooni = Rules::parse(example, |_| Ok(bridges.to_owned())).unwrap();
    let usual = Rules::parse(USUAL, |_| Err("no table".to_owned())).unwrap();
    for (name, rules, goal) in [
        ("none", Rules::none(), None),
        ("usual", usual, Some(GOAL)),
        ("ooni", ooni, None),
    ] {
        let rate = run(name, &rules, bytes);
        if let Some(goal) = goal {
            let met = if rate >= goal { "met" } else { "NOT MET" };
            println!("rate: {rate:.0} MB of raw text per CPU second, goal >= {goal} {met}");
        }
        let line = json!({
            "name": format!("sanitise, rules {name}"), "side": "cannery", "value": rate, "unit": "MB/CPU s",
            "reference": goal.map(|goal| json!({ "name": "goal", "value": goal, "ratio": rate / goal })),
        });
        println!("{line}");
    }
}

/// Sanitises so many bytes; the time in which they are made does not count.
fn run(name: &str, rules: &Rules, bytes: u64) -> f64 {
    let sanitiser = Sanitiser::new(rules, LakeKey::new([7; 32]));
    let context = Context {
        bucket: "2017-01-01",
        textname: "2017-01-01/report.json",
        kind: "web_connectivity",
        ..Context::default()
    };
    let mut lines = web_connectivity_json(bytes);
    let (mut documents, mut read, mut written, mut seconds) = (0, 0, 0, 0.0);
    let mut out = Vec::new();
    loop {
        let batch: Vec<Vec<u8>> = lines.by_ref().take(1_000).collect();
        if batch.is_empty() {
            break;
        }
        let begun = cpu_seconds();
        for line in &batch {
            out.clear();
            let raw = line.trim_ascii_end();
            sanitiser.measurement(raw, &context, &mut out).unwrap();
            written += out.len();
        }
        seconds += cpu_seconds() - begun;
        documents += batch.len();
        read += batch.iter().map(Vec::len).sum::<usize>();
    }
    let rate = read as f64 / 1e6 / seconds;
    println!(
        "{name:<10} {documents:>10} {:>12.1} {seconds:>9.2} {rate:>10.0}",
        written as f64 / 1e6
    );
    rate
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
