//! `cannery work --once` does what is there now, beside `up` as well, and says until when the rest waits and why.

use std::fs::{File, FileTimes};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::program::{Place, Ran, Up, pause};

const BUCKET: &str = "2026-11-15";

/// A place with a configuration; `keys` are those of `pipeline`.
fn place(keys: &str) -> Place {
    let place = Place::new();
    place.write("c.yml", format!("node: n1\npipeline: {{{keys}}}\n"));
    std::fs::create_dir_all(place.path(&format!("cannery-data/reports-raw/{BUCKET}"))).unwrap();
    place
}

fn run(place: &Place, arguments: &[&str]) -> Ran {
    place.run(&[arguments, &["--json", "--config-file", "c.yml"]].concat())
}

fn once(place: &Place) -> Vec<Value> {
    let ran = run(place, &["work", "--once"]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    ran.json()
}

fn of_event<'v>(lines: &'v [Value], event: &str) -> Vec<&'v Value> {
    lines.iter().filter(|line| line["event"] == event).collect()
}

fn key(id: &str) -> String {
    format!("reports-raw/{BUCKET}/20261115T120000Z-US-AS7922-ndt-{id}-0.2.0-probe.json")
}

fn report(place: &Place, id: &str) -> File {
    let text = format!("{{\"test_name\":\"ndt\",\"id\":\"{id}\"}}\n");
    let path = place.write(&format!("cannery-data/{}", key(id)), text);
    File::options().write(true).open(path).unwrap()
}

fn set_modified(file: &File, at: SystemTime) {
    file.set_times(FileTimes::new().set_modified(at)).unwrap();
}

/// The ids of the reports whose measurements the catalog has.
fn readable(place: &Place) -> Vec<String> {
    let ran = run(place, &["ls", "--bucket", BUCKET]);
    assert_eq!(ran.code, 0, "{}", ran.all());
    let uids = ran.json().into_iter();
    let uids = uids.map(|line| line["uid"].as_str().unwrap().to_owned());
    let mut ids: Vec<String> = uids
        .map(|uid| {
            let got = place.run(&["get", &uid, "--config-file", "c.yml"]);
            assert_eq!(got.code, 0, "{}", got.all());
            let text: Value = serde_json::from_str(&got.stdout).unwrap();
            text["id"].as_str().unwrap().to_owned()
        })
        .collect();
    ids.sort();
    ids
}

fn wait_for(place: &Place, up: &Up, ids: &[&str]) {
    for _ in 0..600 {
        if readable(place) == ids {
            return;
        }
        pause();
    }
    panic!("never {ids:?}: {:?}: {}", readable(place), up.log());
}

/// With nothing configured but a name, one report after the other: no look waits for minutes.
#[test]
fn by_default_a_report_can_be_read_soon_after_it_was_put_while_up_runs() {
    let place = place("");
    let up = place.up(&["--config-file", "c.yml"]);
    report(&place, "a");
    wait_for(&place, &up, &["a"]);
    assert_eq!(up.stop().0, 0);
}

/// Work that another worker has put off is done now, by whoever comes first.
#[test]
fn what_up_has_put_off_is_done_at_once() {
    let place = place("debounce: 4m");
    let up = place.up(&["--config-file", "c.yml"]);
    report(&place, "a");
    let soon = cannery_runtime::Clock::real().now() + jiff::SignedDuration::from_mins(3);
    let work = json!({ "inputs": [key("a")] }).to_string();
    let put_off = [
        "journal",
        "add",
        "pipeline",
        "--key",
        &format!("can/{BUCKET}/ndt/open"),
        "--data",
        &work,
        "--process-date",
        &soon.to_string(),
    ];
    let added = run(&place, &put_off);
    assert_eq!(added.code, 0, "{}", added.all());
    let lines = once(&place);
    assert_eq!(readable(&place), ["a"], "{lines:?}");
    // The bucket is long over, so it was sealed; what that replaced is kept for a day.
    let waiting = of_event(&lines, "waiting");
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    let sweep = waiting[0];
    assert_eq!(
        (&sweep["stage"], &sweep["bucket"], &sweep["setting"]),
        (&"sweep".into(), &BUCKET.into(), &"pipeline.grace".into())
    );
    let until: jiff::Timestamp = sweep["until"].as_str().unwrap().parse().unwrap();
    assert!(until > soon, "{sweep}");
    assert!(
        sweep["why"].as_str().unwrap().contains("reading"),
        "{sweep}"
    );
    assert_eq!(up.stop().0, 0);
}

#[test]
fn what_is_still_being_written_is_left_and_said() {
    let place = place("reports_settle: 10m");
    let old = Duration::from_secs(3_600);
    let now = SystemTime::from(cannery_runtime::Clock::real().now());
    set_modified(&report(&place, "old"), now - old);
    // Changed after the command has begun, as far as it can tell.
    let writer = report(&place, "new");
    set_modified(&writer, now + Duration::from_secs(300));
    let lines = once(&place);
    assert_eq!(readable(&place), ["old"], "{lines:?}");
    let waiting = of_event(&lines, "waiting");
    let left = waiting.iter().find(|line| line.get("stage").is_none());
    let left = left.unwrap_or_else(|| panic!("{waiting:?}"));
    assert_eq!(
        (&left["reports"], &left["bucket"], &left["setting"]),
        (&1.into(), &BUCKET.into(), &"pipeline.reports_settle".into())
    );
    left["until"]
        .as_str()
        .unwrap()
        .parse::<jiff::Timestamp>()
        .unwrap();
    let text = place.run(&["work", "--once", "--config-file", "c.yml"]);
    let expected = format!("waiting: 1 report of {BUCKET} until ");
    assert!(text.stdout.contains(&expected), "{}", text.all());
    set_modified(&writer, now - old);
    once(&place);
    assert_eq!(readable(&place), ["new", "old"]);
}
