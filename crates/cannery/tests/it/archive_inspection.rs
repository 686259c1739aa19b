//! Archives are looked at, checked and loaded anew by the commands of the real binary.

use std::path::{Path, PathBuf};
use std::process::Stdio;

use cannery_testkit::reports::{Expected, Options, write_bucket};
use serde_json::Value;

use crate::program::{Place, Ran, pause};

pub(crate) const DATE: &str = "2017-01-02";
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ooni/rules.yml");
const FEATURES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/ooni/features.yml"
);

/// A bucket that went through all stages.
pub(crate) struct Bucket {
    pub(crate) place: Place,
    pub(crate) expected: Expected,
}

impl Bucket {
    pub(crate) fn new(more: &str) -> Self {
        let place = Place::new();
        place.write(
            "c.yml",
            format!(
                "pipeline: {{rules: '{RULES}', features: '{FEATURES}', can_bytes: 1MiB{more}}}\n"
            ),
        );
        let reports = place.path("cannery-data/reports-raw");
        let expected = write_bucket(&reports, DATE, Options::default()).unwrap();
        let bucket = Self { place, expected };
        for command in ["can", "autoclave", "centrifuge"] {
            assert_eq!(bucket.run(&[command, DATE]).code, 0);
        }
        bucket
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let rest = ["--json", "--config-file", "c.yml"];
        self.place.run(&[arguments, &rest].concat())
    }

    fn well(&self, arguments: &[&str]) -> Vec<Value> {
        let ran = self.run(arguments);
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.all());
        ran.json()
    }

    fn text(&self, arguments: &[&str]) -> String {
        let ran = self
            .place
            .run(&[arguments, &["--config-file", "c.yml"]].concat());
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.all());
        ran.stdout
    }

    pub(crate) fn lake(&self, below: &str) -> PathBuf {
        self.place.path("cannery-data/lake").join(below)
    }

    /// The archives and their indexes.
    fn archives(&self) -> Vec<PathBuf> {
        let mut generations = std::fs::read_dir(self.lake("autoclaved")).unwrap();
        let generation = generations.find_map(|entry| {
            let path = entry.unwrap().path();
            path.is_dir().then_some(path)
        });
        let files = std::fs::read_dir(generation.unwrap().join(DATE)).unwrap();
        let mut files: Vec<PathBuf> = files.map(|entry| entry.unwrap().path()).collect();
        files.sort();
        files
    }
}

fn of_event<'v>(lines: &'v [Value], event: &str) -> Vec<&'v Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

#[allow(
    clippy::disallowed_methods,
    reason = "the damage of a test need not be durable"
)]
fn damage(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::remove_file(path).unwrap();
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn ls_has_files_reports_and_measurements_with_the_same_filters() {
    let bucket = Bucket::new("");
    let files = bucket.well(&["ls", "--files"]);
    let sum: u64 = files
        .iter()
        .map(|line| line["measurements"].as_u64().unwrap())
        .sum();
    assert_eq!(sum, bucket.expected.measurements as u64);
    let reports = bucket.well(&["ls", "--reports", "--bucket", DATE]);
    assert_eq!(reports.len(), bucket.expected.reports);
    let all = bucket.well(&["ls", "--measurements"]);
    let once = bucket.expected.measurements - bucket.expected.duplicates;
    assert_eq!(all.len(), once);
    assert_eq!(bucket.well(&["ls", "--bucket", DATE]).len(), once);

    let kind = all[0]["kind"].as_str().unwrap();
    let report = all[0]["report"].as_str().unwrap();
    let of_kind = bucket.well(&["ls", "--kind", kind]);
    assert!(of_kind.len() < once && of_kind.iter().all(|line| line["kind"] == kind));
    let files = bucket.well(&["ls", "--files", "--kind", kind, "--report", report]);
    assert_eq!(files.len(), 1, "{files:?}");
    assert_eq!(files[0]["facts"]["name"], all[0]["file"]);
    let of_report = bucket.well(&["ls", "--report", report]);
    assert!(!of_report.is_empty() && of_report.iter().all(|line| line["report"] == report));

    let times: Vec<i64> = all
        .iter()
        .filter_map(|line| line["time_ms"].as_i64())
        .collect();
    let middle = times[times.len() / 2];
    let middle_text = jiff::Timestamp::from_millisecond(middle)
        .unwrap()
        .to_string();
    let later = bucket.well(&["ls", "--from", &middle_text]);
    let expected = times.iter().filter(|time| **time >= middle).count();
    assert_eq!(later.len(), expected);
    let earlier = bucket.well(&["ls", "--to", &middle_text]);
    assert_eq!(earlier.len() + later.len(), times.len());
    let reports = bucket.well(&["ls", "--reports", "--from", &middle_text]);
    assert!(!reports.is_empty() && reports.len() <= bucket.expected.reports);
    assert!(
        bucket
            .well(&["ls", "--files", "--bucket", "2017-01-03"])
            .is_empty()
    );

    for wrong in [
        &["ls", "--files", "--reports"][..],
        &["ls", "ndt", "--files"],
        &["ls", "--kind", "a/b"],
        &["ls", "--from", "soon"],
    ] {
        assert_eq!(bucket.run(wrong).code, 2, "{wrong:?}");
    }
    let text = bucket.text(&["ls", "--files"]);
    assert!(
        text.lines().all(|line| line.contains("measurement")),
        "{text}"
    );
}

/// Every offset that a trace says leads to the bytes that it says.
#[test]
fn a_trace_leads_from_the_report_file_to_the_rows() {
    let bucket = Bucket::new("");
    let all = bucket.well(&["ls", "--measurements"]);
    for line in all.iter().step_by(17) {
        let uid = line["uid"].as_str().unwrap();
        let traced = bucket.well(&["trace", uid]);
        let trace = &traced[0];
        let source = &trace["source"];
        assert_eq!(
            (&source["kind"], &source["is_there"]),
            (&"report".into(), &true.into())
        );
        let raw = std::fs::read(bucket.place.path(source["places"][0].as_str().unwrap())).unwrap();
        let at = |value: &Value| usize::try_from(value.as_u64().unwrap()).unwrap();
        let (from, size) = (at(&source["src_off"]), at(&source["src_size"]));
        let sha1 = cannery_formats::Sha1::of(&raw[from..from + size]).to_string();
        assert_eq!(source["orig_sha1"], sha1);
        let can = &trace["can"];
        assert_eq!(at(&can["text_size"]), raw.len());
        assert_eq!(
            can["text_sha1"],
            cannery_formats::Sha1::of(&raw).to_string()
        );
        let can_file = std::fs::read(bucket.lake(can["file"].as_str().unwrap())).unwrap();
        let text = text_of(&can_file);
        let from = at(&can["text_off"]);
        assert_eq!(&text[from..from + raw.len()], &raw[..], "{trace}");
        let archive = &trace["archive"];
        assert_eq!(archive["trouble"], Value::Null);
        let file = std::fs::read(bucket.lake(archive["file"].as_str().unwrap())).unwrap();
        let text = text_of(&file);
        let from = at(&archive["text_off"]);
        let datum = &text[from..from + at(&archive["text_size"])];
        let got = bucket.text(&["get", uid]);
        assert_eq!(got.trim_end().as_bytes(), datum);
        assert_eq!(trace["catalog"]["found"]["uid"], uid);
        assert!(!trace["catalog"]["rows"].as_object().unwrap().is_empty());
    }
    let duplicated = all.iter().find_map(|line| {
        let trace = bucket
            .well(&["trace", line["uid"].as_str().unwrap()])
            .remove(0);
        (trace["catalog"]["duplicates_all"] != 0).then_some(trace)
    });
    assert!(duplicated.is_some(), "the generator makes some");

    // What is gone is said, and is no error until it cannot be read.
    let uid = all[0]["uid"].as_str().unwrap();
    let text = bucket.text(&["trace", uid]);
    for word in [
        "source   report file",
        "can      canned/",
        "archive  autoclaved/",
        "catalog  ",
        "feature  ",
    ] {
        assert!(text.contains(word), "{text}");
    }
    let trace = bucket.well(&["trace", uid]).remove(0);
    let report = bucket
        .place
        .path(trace["source"]["places"][0].as_str().unwrap());
    std::fs::remove_file(report).unwrap();
    assert!(
        bucket
            .text(&["trace", uid])
            .contains("it is not there any more")
    );
    std::fs::remove_file(bucket.lake(trace["archive"]["file"].as_str().unwrap())).unwrap();
    let ran = bucket.run(&["trace", uid]);
    assert_eq!(ran.code, 20, "{}", ran.all());
    assert!(ran.json()[0]["archive"]["trouble"].is_string());
    let nobody = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    assert_eq!(bucket.run(&["trace", nobody]).code, 10);
    assert_eq!(bucket.run(&["trace", "x"]).code, 2);
}

/// What the frames of a file hold.
fn text_of(file: &[u8]) -> Vec<u8> {
    let codec = cannery_formats::frames::FrameCodec::Lz4;
    let mut reader = cannery_formats::frames::FrameReader::new(file, codec, 1 << 30).unwrap();
    let mut text = Vec::new();
    std::io::Read::read_to_end(&mut reader, &mut text).unwrap();
    text
}

#[test]
fn a_check_finds_what_is_missing_damaged_or_not_loaded() {
    let bucket = Bucket::new("");
    let check = |more: &[&str]| bucket.run(&[&["check", "--grace", "0s"], more].concat());
    let sound = check(&["--read-data-subset", "100%"]);
    assert_eq!(sound.code, 0, "{}", sound.all());
    let report = sound.json().pop().unwrap();
    assert_eq!(
        report["files_read"].as_u64().unwrap(),
        report["cans"].as_u64().unwrap() * 2
    );
    let parts = (1..=3).map(|part| {
        let share = format!("{part}/3");
        let ran = check(&["--read-data-subset", &share]);
        ran.json().pop().unwrap()["files_read"].as_u64().unwrap()
    });
    assert_eq!(parts.sum::<u64>(), report["files_read"].as_u64().unwrap());

    let problems = |ran: &Ran| -> Vec<String> {
        assert_eq!(ran.code, 20, "{}", ran.all());
        let lines = ran.json();
        let findings = of_event(&lines, "finding");
        assert!(
            findings
                .iter()
                .all(|found| !found["next"].as_str().unwrap().is_empty())
        );
        let problems = findings
            .iter()
            .map(|found| found["problem"].as_str().unwrap().to_owned());
        problems.collect()
    };
    // A byte that changed is found by reading only.
    let archives = bucket.archives();
    let is_index = |path: &&PathBuf| path.to_str().unwrap().ends_with(".index.json.gz");
    let archive = archives.iter().find(|path| !is_index(path)).unwrap();
    damage(archive, |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    });
    assert_eq!(check(&[]).code, 0);
    assert_eq!(
        problems(&check(&["--read-data-subset", "100%"])),
        ["damaged"]
    );
    // All else by looking.
    damage(archive, |bytes| bytes.truncate(bytes.len() - 1));
    assert_eq!(problems(&check(&[])), ["wrong_size"]);
    std::fs::remove_file(archive).unwrap();
    assert_eq!(problems(&check(&[])), ["missing", "vanished"]);
    let index = archives.iter().find(is_index).unwrap();
    std::fs::remove_file(index).unwrap();
    assert_eq!(problems(&check(&[])), ["not_autoclaved", "vanished"]);
    assert_eq!(bucket.run(&["autoclave", DATE]).code, 0);
    assert_eq!(
        check(&["--read-data-subset", "100%"]).code,
        0,
        "made again, byte for byte"
    );

    damage(index, |bytes| bytes.truncate(20));
    assert_eq!(problems(&check(&[])), ["damaged_index"]);
    std::fs::remove_file(index).unwrap();
    assert_eq!(check(&[]).code, 0, "the index of the bucket has its lines");
    std::fs::remove_file(index.with_file_name("index.json.gz")).unwrap();
    assert_eq!(
        problems(&check(&[])),
        ["orphan", "not_autoclaved", "vanished"]
    );
    assert_eq!(bucket.run(&["check"]).code, 20, "vanished, however young");
    assert_eq!(bucket.run(&["autoclave", DATE]).code, 0);

    std::fs::remove_file(bucket.place.path("cannery-data/catalog.db")).unwrap();
    for end in ["-wal", "-shm"] {
        std::fs::remove_file(bucket.place.path(&format!("cannery-data/catalog.db{end}"))).ok();
    }
    let ran = check(&[]);
    let lost = problems(&ran);
    assert!(
        lost.iter().all(|problem| problem == "not_loaded"),
        "{lost:?}"
    );
    assert_eq!(lost.len() as u64, report["archives"].as_u64().unwrap());
    assert_eq!(bucket.run(&["check"]).code, 0, "it may still be under way");
    assert!(ran.stdout.contains("run `cannery centrifuge 2017-01-02`"));
    assert_eq!(check(&["--read-data-subset", "0%"]).code, 2);
}

#[test]
fn a_rebuilt_catalog_is_equal_and_damage_leaves_the_old_one() {
    let bucket = Bucket::new("");
    let before = bucket.well(&["ls", "--measurements"]);
    let verified = bucket.well(&["rebuild", "--verify"]);
    assert_eq!(of_event(&verified, "verified")[0]["equal"], true);
    // Everything local is gone.
    let data = bucket.place.path("cannery-data");
    for entry in std::fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        match name.as_str() {
            "lake" | "reports-raw" => {}
            _ if path.is_dir() => std::fs::remove_dir_all(path).unwrap(),
            _ => std::fs::remove_file(path).unwrap(),
        }
    }
    let rebuilt = bucket.well(&["rebuild", "--verify"]);
    assert_eq!(of_event(&rebuilt, "rebuilt")[0]["replaced"], true);
    assert_eq!(of_event(&rebuilt, "verified")[0]["equal"], true);
    assert_eq!(bucket.well(&["ls", "--measurements"]), before);
    assert_eq!(
        bucket.well(&["centrifuge", DATE])[0]["bytes_in"],
        0,
        "all is known"
    );

    // A row that is not what the lake says.
    let archives = bucket.archives();
    let first = archives
        .iter()
        .find(|path| path.to_str().unwrap().ends_with(".lz4"))
        .unwrap();
    let good = std::fs::read(first).unwrap();
    damage(first, |bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
    });
    let ran = bucket.run(&["rebuild"]);
    assert_eq!(ran.code, 20, "{}", ran.all());
    let lines = ran.json();
    assert_eq!(of_event(&lines, "left_out").len(), 1);
    assert_eq!(of_event(&lines, "rebuilt")[0]["replaced"], false);
    assert_eq!(
        bucket.well(&["ls", "--measurements"]),
        before,
        "the old one stays"
    );
    let ran = bucket.run(&["rebuild", "--leave-out-damaged"]);
    assert_eq!(ran.code, 20, "{}", ran.all());
    assert!(bucket.well(&["ls", "--measurements"]).len() < before.len());
    damage(first, |bytes| *bytes = good);
    let ran = bucket.run(&["rebuild", "--verify"]);
    assert_eq!(ran.code, 20, "{}", ran.all());
    assert!(!of_event(&ran.json(), "difference").is_empty());
    assert_eq!(bucket.run(&["rebuild"]).code, 0);
    assert_eq!(bucket.run(&["rebuild", "--verify"]).code, 0);
    assert_eq!(bucket.well(&["ls", "--measurements"]), before);
}

#[test]
fn where_there_is_no_lake_nothing_is_made() {
    let place = Place::new();
    for command in [&["check"][..], &["rebuild"], &["export", "duckdb"]] {
        let ran = place.run(command);
        assert_eq!(ran.code, 10, "{command:?}: {}", ran.all());
        assert!(!place.path("cannery-data/lake").exists(), "{command:?}");
    }
}

/// Killed while the new catalog grows, a rebuild has changed nothing, and is no hindrance for the next.
#[test]
fn a_rebuild_that_is_killed_leaves_the_old_catalog() {
    let bucket = Bucket::new("");
    let before = bucket.well(&["ls", "--measurements"]);
    let folder = bucket.place.path("cannery-data/catalog.db.rebuild");
    let size = || -> u64 {
        let files = ["catalog.db", "catalog.db-wal"].map(|name| folder.join(name));
        let sizes = files.map(|file| std::fs::metadata(file).map_or(0, |found| found.len()));
        sizes.iter().sum()
    };
    let mut killed = 0;
    for bytes in [1, 100_000, 200_000, 400_000, 800_000] {
        // What the one before left would be taken for this one's.
        std::fs::remove_dir_all(&folder).ok();
        let mut command = bucket.place.command(&["rebuild", "--config-file", "c.yml"]);
        let mut child = command.stdout(Stdio::null()).spawn().unwrap();
        let ended = loop {
            if size() >= bytes {
                child.kill().unwrap();
            }
            match child.try_wait().unwrap() {
                Some(ended) => break ended,
                None => pause(),
            }
        };
        killed += u32::from(ended.code().is_none());
        assert!(matches!(ended.code(), None | Some(0)), "{bytes}");
        assert_eq!(bucket.well(&["ls", "--measurements"]), before, "{bytes}");
    }
    assert!(killed > 1, "{killed}");
    let verified = bucket.well(&["rebuild", "--verify"]);
    assert_eq!(of_event(&verified, "verified")[0]["equal"], true);
    assert_eq!(size(), 0, "nothing is left of it");
}
