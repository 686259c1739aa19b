//! What others make of our cans and archives: `lz4`, `tar`, and auditors in Python that share no code with us.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use cannery_testkit::reports::{Options, write_bucket};
use cannery_testkit::tools;
use serde_json::Value;

use crate::program::{Place, Ran, ran};

const DATE: &str = "2017-01-02";
const EXAMPLES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ooni");

fn place() -> Place {
    place_with("")
}

/// With more keys of the pipeline.
fn place_with(keys: &str) -> Place {
    let place = Place::new();
    let config = format!(
        "pipeline: {{rules: '{EXAMPLES}/rules.yml', features: '{EXAMPLES}/features.yml'{keys}}}\n"
    );
    place.write("c.yml", config);
    place
}

fn well(place: &Place, words: &[&str]) -> Ran {
    let ran = place.run(&[words, &["--config-file", "c.yml"]].concat());
    assert_eq!(ran.code, 0, "{words:?}: {}", ran.all());
    ran
}

fn script(name: &str, words: &[&Path]) -> Ran {
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/audit");
    let mut python = Command::new(tools::python("python").unwrap());
    ran(python.arg(scripts.join(name)).args(words))
}

fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_str().unwrap().ends_with(ending) {
            found.push(path);
        }
    }
    found
}

/// Every can and archive, as the programs of others see it.
fn try_tools(lake: &Path, ending: &str, tester: &str, unpacker: &[&str]) {
    for folder in ["canned", "autoclaved"] {
        let files = files(&lake.join(folder), ending);
        assert!(files.len() > 5, "{files:?}");
        for file in files {
            let tested = ran(Command::new(tester).args(["-t", "-q"]).arg(&file));
            assert_eq!(tested.code, 0, "{}: {}", file.display(), tested.all());
            if file.to_str().unwrap().ends_with(&format!(".tar{ending}")) {
                let listed = ran(Command::new("tar").args(unpacker).arg("-tf").arg(&file));
                assert_eq!(listed.code, 0, "{}: {}", file.display(), listed.all());
                assert!(listed.stdout.lines().count() > 0, "{}", listed.all());
            }
        }
    }
}

/// JSON and YAML, a report over 64 MiB, duplicates, what is cut off, malformed, of an unknown version or not UTF-8: all of it,
/// by one command, from the folder to the catalog, with the seal and the first sweep, which leaves the files to who reads them.
#[test]
fn others_can_read_every_file_and_find_what_its_index_says() {
    let place = place_with(", grace: 0s");
    let everything = Options {
        json_reports: 20,
        yaml_reports: 6,
        large: true,
        ..Options::default()
    };
    let reports = place.path("cannery-data/reports-raw");
    let expected = write_bucket(&reports, DATE, everything).unwrap();
    assert!(expected.duplicates > 0 && expected.bad > 9 && expected.bytes > 64 << 20);
    assert!(expected.unknown_versions > 0 && expected.not_utf8 > 0);
    let worked = well(&place, &["work", "--once", "--json"]).json();
    let ended = worked.iter().find(|event| event["event"] == "ended");
    let done = &ended.unwrap()["done"];
    for stage in [
        "can",
        "seal",
        "autoclave",
        "centrifuge",
        "aggregate",
        "sweep",
    ] {
        assert!(done[stage].as_u64() > Some(0), "no {stage} in {worked:?}");
    }
    let lake = place.path("cannery-data/lake");
    try_tools(&lake, ".lz4", "lz4", &["-I", "lz4"]);
    let audited = script("archive_audit.py", &[&lake, Path::new(DATE)]);
    assert_eq!(audited.code, 0, "{}", audited.all());
    let counts: Value = serde_json::from_str(&audited.stdout).unwrap();
    assert_eq!(counts["reports"], expected.reports);
    assert_eq!(counts["measurements"], expected.measurements);
    assert_eq!(counts["badblobs"], expected.bad);
    assert_eq!(counts["private"], counts["cans"]);
    assert!(
        counts["open"].as_u64() > Some(5),
        "those before the seal are judged too"
    );
    let files = well(&place, &["ls", "--files", "--json"]).json();
    assert_eq!(counts["archives"], files.len());
    let total = |name: &str| {
        files
            .iter()
            .filter_map(|file| file[name].as_u64())
            .sum::<u64>()
    };
    assert_eq!(
        total("measurements"),
        expected.measurements as u64,
        "{files:?}"
    );
    let known = well(&place, &["ls", "--measurements", "--json"]).json();
    assert_eq!(known.len(), expected.measurements - expected.duplicates);
    println!(
        "result: archive, {} files of {} reports by one command, each judged by others",
        files.len(),
        expected.reports
    );

    // One byte of one archive: the auditor is not blind.
    let archive = self::files(&lake.join("autoclaved"), ".tar.lz4")
        .pop()
        .unwrap();
    let mut bytes = std::fs::read(&archive).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    #[allow(
        clippy::disallowed_methods,
        reason = "what damages a file is not careful"
    )]
    std::fs::write(&archive, bytes).unwrap();
    let audited = script("archive_audit.py", &[&lake, Path::new(DATE)]);
    assert_ne!(audited.code, 0, "{}", audited.all());
}

#[test]
fn others_can_read_every_file_of_zstd_too() {
    let place = place_with(", grace: 0s, frame_bytes: 8KiB, codec: {name: zstd}");
    let reports = place.path("cannery-data/reports-raw");
    let options = Options {
        json_reports: 20,
        ..Options::default()
    };
    write_bucket(&reports, DATE, options).unwrap();
    well(&place, &["work", "--once"]);
    let lake = place.path("cannery-data/lake");
    assert_eq!(files(&lake, ".lz4"), Vec::<PathBuf>::new());
    try_tools(&lake, ".zst", "zstd", &["--zstd"]);
    let mut compared = 0;
    for archive in files(&lake.join("autoclaved"), ".tar.zst") {
        let members = ran(Command::new("tar").args(["--zstd", "-xOf"]).arg(&archive));
        for line in members.stdout.lines().step_by(5) {
            let line_of: Value = serde_json::from_str(line).unwrap();
            let got = well(&place, &["get", line_of["id"].as_str().unwrap()]);
            assert_eq!(got.stdout, format!("{line}\n"));
            compared += 1;
        }
    }
    assert!(compared > 5, "{compared}");
}

#[test]
fn a_measurement_is_the_same_bytes_that_tar_finds_at_its_place() {
    let place = place();
    write_bucket(
        &place.path("cannery-data/reports-raw"),
        DATE,
        Options {
            json_reports: 18,
            ..Options::default()
        },
    )
    .unwrap();
    for stage in ["can", "autoclave", "centrifuge"] {
        well(&place, &[stage, DATE]);
    }
    let lake = place.path("cannery-data/lake");
    let mut compared = 0;
    for archive in files(&lake.join("autoclaved"), ".tar.lz4") {
        let members = ran(Command::new("tar")
            .args(["-I", "lz4", "-xOf"])
            .arg(&archive));
        assert_eq!(members.code, 0, "{}", members.all());
        for line in members.stdout.lines() {
            let Some(uid) = serde_json::from_str::<Value>(line)
                .ok()
                .and_then(|value| value["id"].as_str().map(str::to_owned))
            else {
                continue;
            };
            let got = well(&place, &["get", &uid]);
            assert_eq!(got.stdout, format!("{line}\n"), "{uid}");
            compared += 1;
        }
    }
    assert!(compared > 20, "{compared}");
}

#[test]
fn a_bucket_in_the_layout_of_the_original_is_read_and_loaded() {
    let place = place();
    // Its reports only tell the generation of the rules.
    let reports = place.path("cannery-data/reports-raw");
    write_bucket(&reports, DATE, Options::default()).unwrap();
    well(&place, &["can", DATE]);
    let cooked = well(&place, &["autoclave", DATE, "--json"]).json();
    let generation = cooked[0]["generation"].as_str().unwrap();

    let (lake, date) = (place.path("cannery-data/lake"), "2016-12-31");
    let words = [&lake, Path::new(date), Path::new(generation)];
    let written = script("original_layout.py", &words);
    assert_eq!(written.code, 0, "{}", written.all());
    let texts: BTreeSet<String> = written
        .json()
        .iter()
        .map(|line| line["text"].as_str().unwrap().to_owned())
        .collect();
    // 84 small ones, and 8 in frames of several blocks; one index has both files.
    assert_eq!(texts.len(), 92);
    let cooked = lake.join("autoclaved").join(generation).join(date);
    assert_eq!(files(&cooked, ".index.json.gz"), Vec::<PathBuf>::new());

    well(&place, &["centrifuge", DATE, date]);
    let listed = well(&place, &["ls", "--bucket", date, "--json"]).json();
    let read: BTreeSet<String> = listed
        .iter()
        .map(|line| {
            let got = well(&place, &["get", line["uid"].as_str().unwrap()]);
            got.stdout.trim_end().to_owned()
        })
        .collect();
    assert_eq!(read, texts);

    // It is taken as it is: nothing is made again, and it can be verified and rebuilt.
    let again = well(&place, &["autoclave", date, "--json"]).json();
    assert!(
        again.iter().all(|file| file["was_there"] == true),
        "{again:?}"
    );
    well(&place, &["rebuild", "--verify"]);

    // Its cans are as good as ours: the same measurements come out of them again.
    for file in files(&lake.join("autoclaved").join(generation).join(date), "") {
        std::fs::remove_file(file).unwrap();
    }
    let again = well(&place, &["autoclave", date, "--json"]).json();
    let sum = |field: &str| -> u64 {
        let counts = again.iter().map(|file| file[field].as_u64().unwrap());
        counts.sum()
    };
    assert_eq!(
        (sum("measurements"), sum("bad_blobs")),
        (92, 0),
        "{again:?}"
    );
}
