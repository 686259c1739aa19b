//! A bucket of reports like those of OONI: JSON and YAML, several tests, and all that goes wrong with them. The same
//! options give the same bytes, and beside the bytes what is in them.

mod draw;
mod harm;
mod html;
mod json;
mod names;
mod web;
mod yaml;

use std::io;
use std::ops::AddAssign;
use std::path::Path;

use cannery_runtime::disk::{Open, create_dir_all};
use cannery_runtime::{Disk as _, RealDisk};

use draw::Draw;
use names::Head;

pub use web::{WebConnectivity, web_connectivity_json};

/// What a bucket is made of.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Another seed, another bucket.
    pub seed: u64,
    /// How many JSON reports there are, of the tests in turn.
    pub json_reports: usize,
    /// How many YAML reports there are.
    pub yaml_reports: usize,
    /// How many good measurements a report has.
    pub measurements: usize,
    /// Whether there is one more report, of more than 64 MiB.
    pub large: bool,
    /// How many lines stand twice in their report.
    pub duplicates: usize,
    /// How many lines are cut off.
    pub truncated: usize,
    /// How many lines are no measurement for another reason.
    pub malformed: usize,
    /// How many measurements have a data format version that nobody knows.
    pub unknown_versions: usize,
    /// How many YAML entries have strings that are not UTF-8.
    pub not_utf8: usize,
}

impl Default for Options {
    /// A small bucket with a little of everything but the large report.
    fn default() -> Self {
        Self {
            seed: 1,
            json_reports: 9,
            yaml_reports: 3,
            measurements: 5,
            large: false,
            duplicates: 3,
            truncated: 2,
            malformed: 8,
            unknown_versions: 2,
            not_utf8: 2,
        }
    }
}

/// What reports hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    /// How many reports.
    pub reports: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Lines and documents that are good, with those that stand there again.
    pub measurements: usize,
    /// Those that stand there again.
    pub duplicates: usize,
    /// Lines that are bad, whatever the reason.
    pub bad: usize,
    /// Good ones with an unknown data format version.
    pub unknown_versions: usize,
    /// Good ones with strings that are not UTF-8.
    pub not_utf8: usize,
}

impl AddAssign for Expected {
    fn add_assign(&mut self, other: Self) {
        self.reports += other.reports;
        self.bytes += other.bytes;
        self.measurements += other.measurements;
        self.duplicates += other.duplicates;
        self.bad += other.bad;
        self.unknown_versions += other.unknown_versions;
        self.not_utf8 += other.not_utf8;
    }
}

/// A report and what it holds.
#[derive(Clone, Debug)]
pub struct Report {
    /// As collectors name it.
    pub name: String,
    /// Its bytes.
    pub content: Vec<u8>,
    /// What is in them.
    pub expected: Expected,
}

/// The reports of a bucket, one after the other: only one is held.
pub fn bucket(options: Options) -> impl Iterator<Item = Report> {
    let json = (0..options.json_reports).map(move |number| json_report(&options, number));
    let yaml = (0..options.yaml_reports).map(move |number| yaml_report(&options, number));
    let large = options.large.then(|| large_report(&options));
    json.chain(yaml).chain(large)
}

/// Writes a bucket as `<folder>/<date>/<report>` and says what is in it.
pub fn write_bucket(folder: &Path, date: &str, options: Options) -> io::Result<Expected> {
    let folder = folder.join(date);
    create_dir_all(&RealDisk, &folder)?;
    let mut all = Expected::default();
    for report in bucket(options) {
        let file = RealDisk.open(&folder.join(&report.name), Open::CreateNew)?;
        file.write_all_at(0, &report.content)?;
        all += report.expected;
    }
    Ok(all)
}

/// How many of `total` fall to report `number` of `count`.
fn share(total: usize, number: usize, count: usize) -> usize {
    total * (number + 1) / count - total * number / count
}

fn draw(options: &Options, stream: u64, number: usize) -> Draw {
    let number = u64::try_from(number).expect("a count of reports");
    Draw::seeded(options.seed.wrapping_mul(1_000_003) ^ stream << 32 ^ number)
}

fn json_report(options: &Options, number: usize) -> Report {
    let mut draw = draw(options, 1, number);
    let head = Head::new(
        &mut draw,
        names::JSON_TESTS[number % names::JSON_TESTS.len()],
        "0.2.0",
    );
    let share = |total| share(total, number, options.json_reports);
    let mut lines = harm::Lines::default();
    for _ in 0..options.measurements {
        lines.good(&json::measurement(&mut draw, &head, "0.2.0"));
    }
    for _ in 0..share(options.unknown_versions) {
        lines.good(&json::measurement(&mut draw, &head, "9.9.0"));
        lines.expected.unknown_versions += 1;
    }
    for _ in 0..share(options.malformed) {
        let line = json::measurement(&mut draw, &head, "0.2.0");
        lines.malformed(&mut draw, &line);
    }
    for _ in 0..share(options.truncated) {
        let line = json::measurement(&mut draw, &head, "0.2.0");
        lines.truncated(&mut draw, &line);
    }
    for _ in 0..share(options.duplicates) {
        lines.again(&mut draw);
    }
    lines.into_report(head.file_name("json"))
}

fn yaml_report(options: &Options, number: usize) -> Report {
    let mut draw = draw(options, 2, number);
    let test = names::YAML_TESTS[number % names::YAML_TESTS.len()];
    let head = Head::new(&mut draw, test.file, "0.1.0");
    let odd = share(options.not_utf8, number, options.yaml_reports).min(options.measurements);
    let content = yaml::report(&mut draw, &head, test.name, options.measurements, odd);
    Report {
        name: head.file_name("yaml"),
        expected: Expected {
            reports: 1,
            bytes: content.len() as u64,
            measurements: options.measurements,
            not_utf8: odd,
            ..Expected::default()
        },
        content,
    }
}

fn large_report(options: &Options) -> Report {
    const BYTES: u64 = 65 * 1024 * 1024;
    let mut draw = draw(options, 3, 0);
    let head = Head::new(&mut draw, "web_connectivity", "0.2.0");
    let mut lines = harm::Lines::default();
    while lines.expected.bytes < BYTES {
        lines.good(&json::measurement(&mut draw, &head, "0.2.0"));
    }
    lines.into_report(head.file_name("json"))
}

#[cfg(test)]
mod tests;
