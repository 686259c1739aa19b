//! Reports become cans, archives and rows of the catalog, one bucket at a time, by the commands of the real binary.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cannery_formats::archive::{Entry, IndexReader};
use cannery_testkit::reports::{Options, write_bucket};

use crate::program::Place;

const DATE: &str = "2017-01-02";
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ooni/rules.yml");
const FEATURES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/ooni/features.yml"
);

fn place() -> Place {
    let place = Place::new();
    place.write(
        "c.yml",
        format!("pipeline: {{rules: '{RULES}', features: '{FEATURES}', can_bytes: 1MiB}}\n"),
    );
    place
}

fn sum(lines: &[serde_json::Value], field: &str) -> u64 {
    lines.iter().map(|line| line[field].as_u64().unwrap()).sum()
}

/// The uids that the indexes of the archives name.
fn uids(lake: &Path) -> Vec<String> {
    let mut uids = Vec::new();
    let generations = std::fs::read_dir(lake.join("autoclaved")).unwrap();
    for generation in generations {
        let folder = generation.unwrap().path().join(DATE);
        // Beside the generations, `current.json` says which one is in force.
        if !folder.exists() {
            continue;
        }
        for file in std::fs::read_dir(folder).unwrap() {
            let path = file.unwrap().path();
            if !path.to_str().unwrap().ends_with(".index.json.gz") {
                continue;
            }
            let index = std::fs::read(path).unwrap();
            let mut reader = IndexReader::new(&*index, Default::default());
            while let Some(entry) = reader.next().unwrap() {
                if let Entry::Datum { datum, .. } = entry {
                    uids.extend(datum.id.map(|id| id.to_string()));
                }
            }
        }
    }
    uids
}

#[test]
fn a_bucket_goes_through_every_stage_and_each_measurement_can_be_read() {
    let place = place();
    let folder = place.path("cannery-data/reports-raw");
    let expected = write_bucket(&folder, DATE, Options::default()).unwrap();
    let run = |command: &str| {
        let ran = place.run(&[command, DATE, "--json", "--config-file", "c.yml"]);
        assert_eq!(ran.code, 0, "{command}: {}", ran.all());
        ran.json()
    };
    let canned = run("can");
    assert_eq!(sum(&canned, "reports"), expected.reports as u64);
    let cooked = run("autoclave");
    assert_eq!(sum(&cooked, "measurements"), expected.measurements as u64);
    assert_eq!(sum(&cooked, "bad_blobs"), expected.bad as u64);
    let loaded = run("centrifuge");
    let added: u64 = loaded
        .iter()
        .map(|line| line["committed"]["added"].as_u64().unwrap())
        .sum();
    let once = expected.measurements - expected.duplicates;
    assert_eq!(added, once as u64);

    let uids = uids(&place.path("cannery-data/lake"));
    assert_eq!(uids.len(), expected.measurements);
    for uid in uids.iter().step_by(7) {
        let got = place.run(&["get", uid, "--config-file", "c.yml"]);
        assert_eq!(got.code, 0, "{}", got.all());
        let text: serde_json::Value = serde_json::from_str(&got.stdout).unwrap();
        assert_eq!(text["id"], uid.as_str());
        assert_eq!(text["bucket_date"], DATE);
    }

    let listed = place.run(&["ls", "--bucket", DATE, "--json", "--config-file", "c.yml"]);
    assert_eq!(listed.code, 0, "{}", listed.all());
    let listed = listed.json();
    assert_eq!(listed.len(), once);
    for line in &listed {
        assert!(uids.iter().any(|uid| line["uid"] == uid.as_str()), "{line}");
    }

    // Once more: nothing is done again.
    assert_eq!(run("can")[0]["was_sealed"], true);
    assert!(
        run("autoclave")
            .iter()
            .all(|line| line["was_there"] == true)
    );
    let again = run("centrifuge");
    assert!(again.iter().all(|line| line["bytes_in"] == 0), "{again:?}");
}

#[test]
fn a_measurement_that_is_redacted_is_said_to_be_and_the_others_are_read() {
    let place = place();
    let folder = place.path("cannery-data/reports-raw");
    write_bucket(&folder, DATE, Options::default()).unwrap();
    let run = |arguments: &[&str]| place.run(&[arguments, &["--config-file", "c.yml"]].concat());
    for command in ["can", "autoclave", "centrifuge"] {
        let ran = run(&[command, DATE]);
        assert_eq!(ran.code, 0, "{}", ran.all());
    }
    let lake = place.path("cannery-data/lake");
    let before = uids(&lake);
    let uid = before[0].as_str();
    let dry = run(&["redact", uid, "--dry-run", "--json"]);
    assert_eq!(dry.json()[0]["event"], "holds", "{}", dry.all());
    assert_eq!(run(&["get", uid]).code, 0);
    let ran = run(&["redact", uid, "--reason", "asked by the person", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let done = &ran.json()[0];
    assert_eq!(done["event"], "redacted");
    assert_eq!(done["redaction"]["reason"], "asked by the person");
    for command in [
        &["get", uid][..],
        &["trace", uid],
        &["redact", uid, "--dry-run"],
    ] {
        let ran = run(command);
        assert_eq!(ran.code, 10, "{command:?}: {}", ran.all());
        assert!(ran.stderr.contains("asked by the person"), "{}", ran.all());
    }
    let after = uids(&lake);
    let left: Vec<&String> = before.iter().filter(|other| *other != uid).collect();
    assert_eq!(after.iter().collect::<Vec<_>>(), left);
    for other in after.iter().step_by(11) {
        assert_eq!(run(&["get", other]).code, 0, "{other}");
    }
    for command in [&["check"][..], &["rebuild", "--verify"]] {
        let ran = run(command);
        assert_eq!(ran.code, 0, "{command:?}: {}", ran.all());
    }
    let unknown = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    assert_eq!(run(&["redact", unknown]).code, 10);
    let wrong = run(&["redact", uid, "--reason", "two\nlines"]);
    assert_eq!(wrong.code, 2, "{}", wrong.all());
}

/// Every public object, and every mark of a redaction.
fn public(lake: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut folders = vec![lake.join("autoclaved"), lake.join(".cannery/redactions")];
    let mut objects = BTreeMap::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten() {
            let path = entry.unwrap().path();
            match path.is_dir() {
                true => folders.push(path),
                false => drop(objects.insert(path.clone(), std::fs::read(path).unwrap())),
            }
        }
    }
    objects
}

/// Of two machines, only one has the newer rules, which drop what the older ones let pass.
#[test]
fn a_redaction_by_older_rules_or_by_none_is_refused_and_changes_nothing() {
    let place = place();
    let rules = std::fs::read_to_string(RULES).unwrap();
    let newer = rules.replacen("version: 2026-11-16", "version: 2026-11-17", 1);
    place.write(
        "newer.rules",
        newer + "\n  - op: drop\n    at: [probe_asn]\n",
    );
    let bridges = Path::new(RULES).with_file_name("bridges.yml");
    place.write("bridges.yml", std::fs::read_to_string(bridges).unwrap());
    for (name, rules) in [("new.yml", "rules: newer.rules, "), ("none.yml", "")] {
        let config = format!("pipeline: {{{rules}features: '{FEATURES}', can_bytes: 1MiB}}\n");
        place.write(name, config);
    }
    let folder = place.path("cannery-data/reports-raw");
    write_bucket(&folder, DATE, Options::default()).unwrap();
    let run = |arguments: &[&str], config: &str| {
        place.run(&[arguments, &["--config-file", config]].concat())
    };
    let stages = |stages: &[&str], config: &str| {
        for stage in stages {
            let ran = run(&[stage, DATE], config);
            assert_eq!(ran.code, 0, "{stage} {config}: {}", ran.all());
        }
    };
    let lake = place.path("cannery-data/lake");
    let is_shown = |uid: &str| {
        run(&["get", uid], "new.yml")
            .stdout
            .contains("\"probe_asn\"")
    };
    stages(&["can", "autoclave", "centrifuge"], "c.yml");
    let uids = uids(&lake);
    let uid = uids.iter().find(|uid| is_shown(uid));
    let uid = uid.expect("the older rules let it pass").as_str();
    stages(&["autoclave", "centrifuge"], "new.yml");
    assert!(!is_shown(uid));
    let before = public(&lake);
    for (config, by) in [
        ("c.yml", "by rules of version `2026-11-16`"),
        ("none.yml", "without rules"),
    ] {
        for more in [&["--dry-run"][..], &["--reason", "asked"]] {
            let command = [&["redact", uid], more].concat();
            let refused = run(&command, config);
            assert_eq!(refused.code, 2, "{command:?} {config}: {}", refused.all());
            let said = &refused.stderr;
            for part in [
                uid,
                by,
                "the lake has rules of version `2026-11-17`",
                "here as well",
            ] {
                assert!(said.contains(part), "{part}: {said}");
            }
            assert!(public(&lake) == before, "{command:?} {config}");
        }
    }
    let unknown = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    for more in [&["--dry-run"][..], &["--reason", "asked"]] {
        let absent = run(&[&["redact", unknown], more].concat(), "c.yml");
        assert_eq!(absent.code, 10, "{}", absent.all());
    }
    let ran = run(&["redact", uid, "--reason", "asked"], "new.yml");
    assert_eq!(ran.code, 0, "{}", ran.all());
    assert_eq!(run(&["get", uid], "new.yml").code, 10);
    for other in uids.iter().step_by(11) {
        assert!(!is_shown(other), "{other}");
    }
    let checked = run(&["check"], "new.yml");
    assert_eq!(checked.code, 0, "{}", checked.all());
}

#[test]
fn what_is_not_there_is_said_with_what_to_do() {
    let place = place();
    for (command, next) in [
        (&["can", DATE][..], "put report files into"),
        (&["autoclave", DATE], "cannery can 2017-01-02"),
        (&["centrifuge", DATE], "cannery can 2017-01-02"),
        (
            &["get", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"],
            "cannery centrifuge",
        ),
    ] {
        let ran = place.run(&[command, &["--config-file", "c.yml"]].concat());
        assert_eq!(ran.code, 10, "{command:?}: {}", ran.all());
        assert!(ran.stderr.contains(next), "{command:?}: {}", ran.all());
    }
    let ran = place.run(&["can", "2017-13-42"]);
    assert_eq!(ran.code, 2, "{}", ran.all());
    write_bucket(
        &place.path("cannery-data/reports-raw"),
        DATE,
        Options::default(),
    )
    .unwrap();
    assert_eq!(place.run(&["can", DATE, "--config-file", "c.yml"]).code, 0);
    place.write("bad.yml", "rules: [{op: forget_everything}]\n");
    place.write("c.yml", "pipeline: {rules: bad.yml}\n");
    let ran = place.run(&["autoclave", DATE, "--config-file", "c.yml"]);
    assert_eq!(ran.code, 2, "{}", ran.all());
    assert!(ran.stderr.contains("bad.yml"), "{}", ran.all());
}
