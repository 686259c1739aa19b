//! What is printed: for people a table and verdicts, for programs lines of JSON.

use std::collections::BTreeMap;

use cannery_testkit::usage::Used;
use serde_json::{Value, json};

/// What a part took.
#[derive(Clone)]
pub(crate) struct Taken {
    name: String,
    pub(crate) seconds: f64,
    pub(crate) cpu_seconds: f64,
    peak_bytes: u64,
    p50_seconds: f64,
}

/// What a number should be.
#[derive(Clone, Copy)]
pub(crate) enum Goal {
    AtLeast(f64),
    AtMost(f64),
    Below(f64),
}

impl Taken {
    pub(crate) fn of(name: String, printed: &Value) -> Self {
        let number = |field: &str| printed[field].as_f64().unwrap_or_default();
        Self {
            name,
            seconds: number("seconds"),
            cpu_seconds: number("cpu_seconds"),
            peak_bytes: printed["peak_bytes"].as_u64().unwrap(),
            p50_seconds: number("p50_seconds"),
        }
    }

    pub(crate) fn mb_per_cpu(&self, bytes: u64) -> f64 {
        bytes as f64 / 1e6 / self.cpu_seconds
    }

    pub(crate) fn peak_mb(&self) -> f64 {
        self.peak_bytes as f64 / 1e6
    }

    pub(crate) fn p50_ms(&self) -> f64 {
        self.p50_seconds * 1e3
    }

    /// Compares a number with its goal.
    pub(crate) fn against(&self, what: &str, value: f64, goal: Goal) {
        let (met, goal) = match goal {
            Goal::AtLeast(goal) => (value >= goal, format!(">= {goal}")),
            Goal::AtMost(goal) => (value <= goal, format!("<= {goal}")),
            Goal::Below(goal) => (value < goal, format!("< {goal}")),
        };
        let verdict = if met { "met" } else { "NOT MET" };
        println!(
            "    {}: {what} {value:.2}, goal {goal} {verdict}",
            self.name
        );
        println!(
            "{}",
            json!({ "name": format!("{}, {what}", self.name), "value": value, "goal": goal, "met": met })
        );
    }
}

/// What was measured so far.
#[derive(Default)]
pub(crate) struct Table {
    /// By part: bytes of text, CPU seconds for each, peak of the memory.
    by_part: BTreeMap<String, Vec<(u64, f64, u64)>>,
}

impl Table {
    pub(crate) fn head(&self) {
        println!(
            "{:<24} {:>9} {:>9} {:>9} {:>9} {:>8}",
            "part", "seconds", "MB/s", "CPU s", "MB/CPU s", "peak MB"
        );
    }

    pub(crate) fn floor(&self, name: &str, bytes: u64, used: Used) {
        let mb = bytes as f64 / 1e6;
        println!(
            "{name:<24} {:>9.2} {:>9.1} {:>9.2} {:>9.1}",
            used.seconds,
            mb / used.seconds,
            used.cpu_seconds,
            mb / used.cpu_seconds
        );
    }

    /// Shows a part, and remembers it when it has to do with all the text.
    pub(crate) fn part(&mut self, taken: Taken, bytes: u64) -> Taken {
        let mb = bytes as f64 / 1e6;
        println!(
            "{:<24} {:>9.3} {:>9.1} {:>9.2} {:>9.1} {:>8.0}",
            taken.name,
            taken.seconds,
            mb / taken.seconds,
            taken.cpu_seconds,
            mb / taken.cpu_seconds,
            taken.peak_mb()
        );
        println!(
            "{}",
            json!({ "name": taken.name, "bytes": bytes, "seconds": taken.seconds, "cpu_seconds": taken.cpu_seconds,
                "peak_bytes": taken.peak_bytes, "p50_seconds": taken.p50_seconds })
        );
        if bytes > 0 {
            let one = (bytes, taken.cpu_seconds / bytes as f64, taken.peak_bytes);
            self.by_part
                .entry(taken.name.clone())
                .or_default()
                .push(one);
        }
        taken
    }

    /// How the cost of a byte and the memory grew from the first size to the last.
    pub(crate) fn growth(&self) {
        println!(
            "\n{:<24} {:>7} {:>18} {:>12}",
            "growth", "text", "CPU s of a byte", "memory"
        );
        for (name, all) in &self.by_part {
            let [(bytes, cost, peak), .., (bytes_last, cost_last, peak_last)] = all[..] else {
                continue;
            };
            let (text, cpu) = (bytes_last as f64 / bytes as f64, cost_last / cost);
            let memory = peak_last as f64 / peak as f64;
            println!("{name:<24} {text:>6.1}x {cpu:>17.2}x {memory:>11.2}x");
            println!(
                "{}",
                json!({ "name": format!("{name}, growth"), "text": text, "cpu_of_a_byte": cpu, "memory": memory })
            );
        }
    }
}
