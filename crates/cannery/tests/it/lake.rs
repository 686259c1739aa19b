//! `cannery lake`, `config`, `doctor`, `completions` and `man` on the embedded defaults.

use serde_json::json;

use crate::program::Place;

#[test]
fn an_object_goes_in_is_seen_and_goes_out() {
    let place = Place::new();
    place.write("b.json", "{\"a\": 1}\n");
    let put = place.run(&["lake", "put", "a/b.json", "b.json", "--json"]);
    assert_eq!(
        put.json(),
        [json!({ "key": "a/b.json", "storage": "main", "outcome": "created", "bytes": 9 })]
    );
    assert_eq!(
        place
            .run(&["lake", "put", "a/b.json", "b.json", "--json"])
            .json()[0]["outcome"],
        "same"
    );
    assert_eq!(
        place.run(&["lake", "cat", "a/b.json"]).stdout,
        "{\"a\": 1}\n"
    );
    assert_eq!(
        place
            .run(&["lake", "cat", "--range", "1-3", "a/b.json"])
            .stdout,
        "\"a\""
    );
    let listed = place.run(&["lake", "ls", "a", "--json"]).json();
    assert_eq!(
        (listed.len(), &listed[0]["key"], &listed[0]["stored_bytes"]),
        (1, &json!("a/b.json"), &json!(9))
    );
    assert_eq!(place.run(&["lake", "rm", "a/b.json"]).code, 0);
    assert_eq!(place.run(&["lake", "rm", "a/b.json"]).code, 0);
    assert_eq!(place.run(&["lake", "cat", "a/b.json"]).code, 10);
}

#[test]
fn every_mirror_gets_what_is_put_and_loses_what_is_removed() {
    let place = Place::new();
    place.write("two.yml", "object_storage:\n- {id: one, url: 'file:one'}\n- {id: two, url: 'file:two', prefix: deep/er}\n");
    place.write("x", "x");
    assert_eq!(
        place
            .run(&["lake", "put", "k", "x", "--config-file", "two.yml"])
            .code,
        0
    );
    assert!(place.path("one/k").exists() && place.path("two/deep/er/k").exists());
    assert_eq!(
        place
            .run(&[
                "lake",
                "cat",
                "k",
                "--storage",
                "two",
                "--config-file",
                "two.yml"
            ])
            .stdout,
        "x"
    );
    assert_eq!(
        place
            .run(&["lake", "rm", "k", "--config-file", "two.yml"])
            .code,
        0
    );
    assert!(!place.path("one/k").exists() && !place.path("two/deep/er/k").exists());
    let unknown = place.run(&[
        "lake",
        "ls",
        "--storage",
        "three",
        "--config-file",
        "two.yml",
    ]);
    assert_eq!(unknown.code, 2);
    assert!(
        unknown.stderr.contains("choose one of: one, two"),
        "{}",
        unknown.stderr
    );
}

#[test]
fn what_belongs_to_the_lake_is_not_written_by_hand() {
    let place = Place::new();
    place.write("x", "x");
    for key in ["cannery.json", ".cannery/large/x"] {
        assert_eq!(place.run(&["lake", "put", key, "x"]).code, 2, "{key}");
        assert_eq!(place.run(&["lake", "rm", key]).code, 2, "{key}");
    }
}

#[test]
fn a_listing_ends_quietly_when_nobody_reads_on() {
    let place = Place::new();
    place.write("x", "x");
    place.run(&["lake", "put", "k", "x"]);
    let mut command = place.command(&["lake", "ls"]);
    let mut child = command
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stderr).unwrap(), "");
}

#[test]
fn a_name_with_escapes_does_not_reach_the_terminal() {
    let place = Place::new();
    place.write("x", "x");
    place.run(&["lake", "put", "k", "x"]);
    place.write("cannery-data/lake/\u{202e}evil", "x");
    let listed = place.run(&["lake", "ls"]);
    assert!(!listed.stdout.contains('\u{202e}'), "{:?}", listed.stdout);
}

#[test]
fn the_probe_and_the_doctor_find_a_local_lake_sound() {
    let place = Place::new();
    let probe = place.run(&["lake", "probe", "--json"]);
    assert_eq!((probe.code, &probe.json()[0]["sound"]), (0, &json!(true)));
    let doctor = place.run(&["doctor", "--json"]);
    assert_eq!(doctor.code, 0, "{}", doctor.all());
    assert!(
        doctor
            .json()
            .iter()
            .all(|finding| finding["verdict"] != "fail"),
        "{}",
        doctor.stdout
    );
    let strict = place.run(&["doctor", "--min-free", "900TiB"]);
    assert!(
        strict.stdout.contains("warn  workspace"),
        "{}",
        strict.stdout
    );
}

#[test]
fn the_doctor_measures_reads_and_leaves_nothing_behind() {
    let place = Place::new();
    let none = place.run(&["doctor", "--frames"]);
    assert_eq!(none.code, 10, "{}", none.all());
    assert!(!place.path("cannery-data/lake").exists());
    place.write("x", "x");
    place.run(&["lake", "put", "k", "x"]);
    let ran = place.run(&["doctor", "--frames", "--json"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let lines = ran.json();
    let events: Vec<_> = lines.iter().map(|line| &line["event"]).collect();
    assert_eq!(events.len(), 7, "{}", ran.stdout);
    assert_eq!(lines[0]["probed"]["object"], "temporary");
    assert!(lines[1..6].iter().all(|line| line["event"] == "measured"));
    let found = &lines[6];
    assert_eq!(found["frame_bytes_now"], 256 << 10);
    let best = found["frame_bytes"].as_u64().unwrap();
    assert!(best.is_power_of_two(), "{found}");
    let left = std::fs::read_dir(place.path("cannery-data/lake/.cannery/probe"));
    assert_eq!(left.map_or(0, Iterator::count), 0);
    let shown = place.run(&["doctor", "--frames"]).stdout;
    assert!(shown.contains("pipeline.frame_bytes: "), "{shown}");
    assert_eq!(shown.lines().count(), 9, "{shown}");
}

#[test]
fn the_doctor_looks_and_does_not_make() {
    let place = Place::new();
    assert_eq!(place.run(&["doctor"]).code, 0);
    assert!(!place.path("cannery-data").exists());
}

#[test]
fn the_doctor_reports_a_bad_configuration_and_goes_on() {
    let place = Place::new();
    place.write("bad.yml", "nodee: x\n");
    let doctor = place.run(&["doctor", "--config-file", "bad.yml"]);
    assert_eq!(doctor.code, 20);
    assert!(
        doctor.stdout.contains("did you mean `node`?") && doctor.stdout.contains("open files"),
        "{}",
        doctor.stdout
    );
}

#[test]
fn the_configuration_is_shown_as_it_can_be_read_again() {
    let place = Place::new();
    let shown = place.run(&["config", "show"]).stdout;
    place.write("again.yml", &shown);
    assert_eq!(
        place
            .run(&["config", "show", "--config-file", "again.yml"])
            .stdout,
        shown
    );
    let schema: serde_json::Value =
        serde_json::from_str(&place.run(&["config", "schema"]).stdout).unwrap();
    assert_eq!(schema["title"], "Cannery configuration");
    assert_eq!(place.run(&["config", "check"]).code, 0);
}

#[test]
fn completions_and_manual_pages_are_made() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish"] {
        assert!(
            place
                .run(&["completions", shell])
                .stdout
                .contains("cannery"),
            "{shell}"
        );
    }
    assert!(place.run(&["man"]).stdout.contains(".TH cannery"));
    assert_eq!(place.run(&["man", "--dir", "man1"]).code, 0);
    assert!(place.path("man1/cannery-lake-put.1").exists());
}

#[test]
fn a_large_object_is_checked_when_it_is_read() {
    let place = Place::new();
    place.write("large", vec![7; 70 << 20]);
    assert_eq!(place.run(&["lake", "put", "large.bin", "large"]).code, 0);
    let mut command = place.command(&["lake", "cat", "large.bin"]);
    let whole = command.output().unwrap();
    assert_eq!(
        (whole.status.code(), whole.stdout.len()),
        (Some(0), 70 << 20)
    );
    let data = std::fs::read_dir(place.path("cannery-data/lake/.cannery/large"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let mut content = std::fs::read(&data).unwrap();
    content[69 << 20] ^= 1;
    #[allow(clippy::disallowed_methods, reason = "damage on purpose")]
    std::fs::write(&data, content).unwrap();
    let damaged = command.output().unwrap();
    assert_eq!(damaged.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&damaged.stderr).contains("is not what was committed"));
    std::fs::remove_file(data).unwrap();
    let again = place.run(&["lake", "put", "large.bin", "large"]);
    assert_eq!(again.code, 1, "{}", again.all());
}

#[test]
fn one_mirror_that_fails_is_a_partial_success() {
    let place = Place::new();
    place.write(
        "two.yml",
        "object_storage:\n- {id: one, url: 'file:one'}\n- {id: two, url: 'file:two'}\n",
    );
    place.write("x", "x");
    place.write("y", "y");
    assert_eq!(
        place
            .run(&["lake", "put", "a", "x", "--config-file", "two.yml"])
            .code,
        0
    );
    assert_eq!(
        place
            .run(&[
                "lake",
                "put",
                "k",
                "y",
                "--storage",
                "two",
                "--config-file",
                "two.yml"
            ])
            .code,
        0
    );
    let put = place.run(&["lake", "put", "k", "x", "--config-file", "two.yml"]);
    assert_eq!(put.code, 3, "{}", put.all());
    assert!(
        put.stdout.contains("created k in one") && put.stderr.contains("1 of 2 mirrors have it"),
        "{}",
        put.all()
    );
}

#[test]
fn a_damaged_note_is_set_aside_and_not_fatal() {
    let place = Place::new();
    place.up(&[]).stop();
    place.write("cannery-data/lake.json", "{\"la");
    assert_eq!(place.up(&[]).stop().0, 0);
    assert!(place.path("cannery-data/lake.json.damaged").exists());
}

#[test]
fn a_full_output_is_an_error() {
    let place = Place::new();
    place.write("x", "no newline at the end");
    place.run(&["lake", "put", "k", "x"]);
    let full = std::fs::OpenOptions::new()
        .write(true)
        .open("/dev/full")
        .unwrap();
    let output = place
        .command(&["lake", "cat", "k"])
        .stdout(full)
        .output()
        .unwrap();
    assert_eq!(
        output.status.code(),
        Some(13),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn wrong_use_is_json_for_who_asked_for_it() {
    let ran = Place::new().run(&["--json", "lkae"]);
    let error: serde_json::Value = serde_json::from_str(ran.stderr.trim()).unwrap();
    assert_eq!(
        (ran.code, error["error"]["kind"].as_str()),
        (2, Some("usage"))
    );
}
