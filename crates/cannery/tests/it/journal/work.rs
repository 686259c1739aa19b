//! `cannery journal work`: a program for each entry.

use std::os::unix::fs::PermissionsExt as _;

use rustix::process::Signal;
use serde_json::{Value, json};

use super::sharing::{Going, wait_for_socket};
use super::{add, count, journal, journal_fed, lines};
use crate::program::{Place, pause};

fn script(place: &Place, text: &str) {
    let path = place.write("handle.sh", format!("#!/bin/sh\n{text}\n"));
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn place(text: &str) -> Place {
    let mut place = Place::new();
    place.set("PATH", "/usr/bin:/bin");
    script(&place, text);
    place
}

fn work(place: &Place, more: &[&str]) -> Vec<Value> {
    let ran = journal(
        place,
        &[
            &[
                "work",
                "default",
                "--exec",
                "./handle.sh",
                "--once",
                "--json",
            ],
            more,
        ]
        .concat(),
    );
    ran.json()
}

/// Adds `a` under a configuration with a short lease: an entry keeps the lease that it was added under.
fn add_with_lease(place: &Place, lease: &str) {
    place.write(
        "c.yml",
        format!("journals:\n  default: {{lease: {lease}}}\n"),
    );
    let added = journal(
        place,
        &["add", "default", "--key", "a", "--config-file", "c.yml"],
    );
    assert_eq!(added.code, 0, "{}", added.all());
}

fn wait_for(place: &Place, file: &str) -> String {
    for _ in 0..600 {
        if let Ok(text) = std::fs::read_to_string(place.path(file))
            && text.ends_with('\n')
        {
            return text;
        }
        pause();
    }
    panic!("`{file}` never came");
}

/// A process whose end nobody asked for yet is not alive.
fn is_alive(pid: &str) -> bool {
    let stat = std::path::Path::new("/proc").join(pid.trim()).join("stat");
    std::fs::read_to_string(stat).is_ok_and(|text| {
        let state = text.rsplit_once(") ").map_or("", |(_, rest)| rest);
        !state.starts_with('Z')
    })
}

/// Who asks twice does not wait for the program, which ends with the worker.
#[test]
fn a_second_request_to_stop_ends_the_program_too() {
    let place = place("trap '' TERM\necho $$ > pid\nwhile :; do sleep 0.1; done");
    add(&place, "a");
    let worker = Going::start(&place, &["work", "default", "--exec", "./handle.sh"]);
    let pid = wait_for(&place, "pid");
    worker.signal(Signal::INT);
    for _ in 0..20 {
        pause();
    }
    assert!(is_alive(&pid), "it is asked first");
    worker.signal(Signal::INT);
    assert_eq!(worker.end(), 130);
    wait_for_end(&pid);
}

fn wait_for_end(pid: &str) {
    for _ in 0..600 {
        if !is_alive(pid) {
            return;
        }
        pause();
    }
    panic!("process {pid} goes on");
}

#[test]
fn the_exit_code_decides() {
    let place = place(
        "case $CANNERY_KEY in\n done) exit 0;;\n later) exit 75;;\n dead) echo gone >&2; exit 100;;\n fail) echo first >&2; echo \
         'last words' >&2; exit 3;;\n signal) kill -9 $$;;\nesac",
    );
    for key in ["done", "later", "dead", "fail", "signal"] {
        add(&place, key);
    }
    let printed = work(&place, &["--release-in", "1d"]);
    let ended = printed.last().unwrap();
    assert_eq!(
        (
            &ended["done"],
            &ended["released"],
            &ended["dead"],
            &ended["lost"]
        ),
        (&json!(1), &json!(1), &json!(1), &json!(0)),
        "{printed:?}"
    );
    // On a slow machine the second attempt may come before the end.
    assert!(ended["failed"].as_u64().unwrap() >= 2, "{printed:?}");
    let entry = |key: &str| lines(&place, &["get", "default", key])[0].clone();
    assert_eq!(journal(&place, &["get", "default", "done"]).code, 10);
    assert_eq!(
        (&entry("dead")["status"], &entry("dead")["reason"]),
        (&json!("dead"), &json!("gone"))
    );
    let later = entry("later");
    assert_eq!(
        (&later["strikes"], &later["status"]),
        (&json!(0), &json!("waiting"))
    );
    assert!(
        later["process_date"].as_i64().unwrap()
            > later["insertion_date"].as_i64().unwrap() + 86_000_000
    );
    let failed = entry("fail");
    assert!(
        failed["strikes"].as_u64().unwrap() >= 1 && failed["status"] == "waiting",
        "{failed}"
    );
    let event = |key: &str| {
        let found = printed
            .iter()
            .find(|line| line["key"] == key && line["event"] == "failed");
        found.unwrap()["reason"].clone()
    };
    assert_eq!(
        (event("fail"), event("signal")),
        (json!("last words"), json!("it was killed by signal 9"))
    );
}

#[test]
fn the_program_gets_the_entry_and_no_shell_comes_near_it() {
    let place = place(
        "cat > stdin; printf '%s|' \"$@\" > arguments; env > environment; echo \"out $CANNERY_KEY\"",
    );
    let key = "$(touch owned);`touch owned` 'x' \"y\"";
    let entry = json!({ "key": key, "data": { "a": [1, "z"] } }).to_string();
    assert_eq!(
        journal_fed(&place, &["add", "default"], entry.as_bytes()).code,
        0
    );
    let printed = work(&place, &["--worker", "w", "--", "one", "two $HOME", "-x"]);
    assert_eq!(
        printed[0],
        json!({ "event": "output", "key": key, "line": format!("out {key}") }),
        "{printed:?}"
    );
    assert_eq!(printed[1]["event"], "done");
    let stdin = std::fs::read_to_string(place.path("stdin")).unwrap();
    assert_eq!(stdin.lines().count(), 1);
    let given: Value = serde_json::from_str(&stdin).unwrap();
    assert_eq!(
        (&given["key"], &given["data"]),
        (&json!(key), &json!({ "a": [1, "z"] }))
    );
    let arguments = std::fs::read_to_string(place.path("arguments")).unwrap();
    assert_eq!(arguments, "one|two $HOME|-x|");
    let environment = std::fs::read_to_string(place.path("environment")).unwrap();
    for expected in [
        "CANNERY_JOURNAL=default",
        "CANNERY_ATTEMPT=1",
        &format!("CANNERY_KEY={key}"),
    ] {
        assert!(
            environment.lines().any(|line| line == expected),
            "{expected}: {environment}"
        );
    }
    let token = given["token"].as_str().unwrap();
    assert!(
        environment.contains(&format!("CANNERY_TOKEN={token}")),
        "{environment}"
    );
    assert!(!place.path("owned").exists());
}

#[test]
fn a_program_that_reads_nothing_and_says_too_much_is_no_trouble() {
    let place = place("head -c 300000 /dev/zero | tr '\\0' 'e' >&2; exit 1");
    let data = format!("\"{}\"", "x".repeat(1_000_000));
    let entry = format!("{{\"key\":\"big\",\"data\":{data}}}");
    assert_eq!(
        journal_fed(&place, &["add", "default"], entry.as_bytes()).code,
        0
    );
    let printed = work(&place, &[]);
    let failed = printed
        .iter()
        .find(|line| line["event"] == "failed")
        .unwrap();
    assert!(failed["reason"].as_str().unwrap().len() <= 1_024);
}

#[test]
fn handlers_add_work_beside_their_worker_and_once_does_that_too() {
    let mut place = Place::new();
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_cannery"));
    place.set(
        "PATH",
        &format!("{}:/usr/bin:/bin", binary.parent().unwrap().display()),
    );
    script(
        &place,
        "case $CANNERY_KEY in\n aaaa) ;;\n *) cannery journal add default --key \"a$CANNERY_KEY\";;\nesac",
    );
    add(&place, "a");
    let printed = work(&place, &["--concurrency", "3"]);
    assert_eq!(printed.last().unwrap()["done"], 4, "{printed:?}");
    assert_eq!(lines(&place, &["ls", "default"]), Vec::<Value>::new());
}

#[test]
fn several_run_at_once() {
    // Each waits for the other.
    let place = place(
        "touch \"$CANNERY_KEY.here\"; for i in $(seq 600); do [ -e a.here ] && [ -e b.here ] && exit 0; sleep 0.05; done; exit 1",
    );
    add(&place, "a");
    add(&place, "b");
    assert_eq!(
        work(&place, &["--concurrency", "2"]).last().unwrap()["done"],
        2
    );
}

#[test]
fn a_stop_ends_the_program_and_gives_the_entry_back() {
    let place = place("sleep 600 & echo $! > child; trap 'exit 0' TERM; wait; exit 0");
    add(&place, "a");
    let working = Going::start(&place, &["work", "default", "--exec", "./handle.sh"]);
    let child = wait_for(&place, "child");
    working.signal(Signal::TERM);
    assert_eq!(working.end(), 0);
    wait_for_end(&child);
    let entry = &lines(&place, &["get", "default", "a"])[0];
    assert_eq!(
        (&entry["status"], &entry["strikes"]),
        (&json!("waiting"), &json!(0)),
        "without blame, and not done"
    );
    assert_eq!(count(&place, "done"), 0);
}

#[test]
fn a_lost_lease_ends_the_program() {
    let place = place("echo $$ > child; exec sleep 600");
    add_with_lease(&place, "1s");
    let mut working = Going::start(
        &place,
        &[
            "work",
            "default",
            "--exec",
            "./handle.sh",
            "--config-file",
            "c.yml",
        ],
    );
    let child = wait_for(&place, "child");
    assert_eq!(journal(&place, &["cancel", "default", "a"]).code, 0);
    assert_eq!(working.next().unwrap()["event"], "stopped");
    wait_for_end(&child);
    working.signal(Signal::TERM);
    assert_eq!(working.end(), 0);
}

#[test]
fn heartbeats_keep_an_entry_that_takes_longer_than_its_lease() {
    let place = place("sleep 2; echo $CANNERY_ATTEMPT >> attempts");
    add_with_lease(&place, "500ms");
    let printed = work(&place, &["--config-file", "c.yml"]);
    assert_eq!(printed.last().unwrap()["done"], 1, "{printed:?}");
    assert_eq!(
        std::fs::read_to_string(place.path("attempts")).unwrap(),
        "1\n"
    );
}

/// The worker is killed while it works; after the lease another one does it, and nothing is lost.
#[test]
fn a_worker_that_was_killed_loses_nothing() {
    let place =
        place("echo \"$CANNERY_KEY $CANNERY_ATTEMPT\" >> seen; [ -e go ] || exec sleep 600");
    place.write(
        "c.yml",
        "journals:\n  default: {lease: 1s, timeouts_max: 50}\n",
    );
    let entries: String = (0..20)
        .map(|number| format!("{{\"key\":\"{number:02}\"}}\n"))
        .collect();
    let with = ["--config-file", "c.yml"];
    assert_eq!(
        journal_fed(
            &place,
            &[&["add", "default"], &with[..]].concat(),
            entries.as_bytes()
        )
        .code,
        0
    );
    let arguments = [
        &[
            "work",
            "default",
            "--exec",
            "./handle.sh",
            "--concurrency",
            "4",
        ],
        &with[..],
    ]
    .concat();
    for _ in 0..3 {
        let mut working = Going::start(&place, &arguments);
        wait_for_socket(&place);
        wait_for(&place, "seen");
        working.child.kill().unwrap();
        working.child.wait().unwrap();
        std::fs::remove_file(place.path("seen")).unwrap();
    }
    place.write("go", "");
    let mut working = Going::start(&place, &arguments);
    let mut done = std::collections::BTreeSet::new();
    while done.len() < 20 {
        let line = working.next().unwrap();
        if line["event"] == "done" {
            assert!(
                done.insert(line["key"].as_str().unwrap().to_owned()),
                "done twice: {line}"
            );
        }
    }
    working.signal(Signal::TERM);
    assert_eq!(working.end(), 0);
    assert_eq!((count(&place, "done"), count(&place, "adds")), (20, 20));
    assert!(count(&place, "timeouts") >= 4);
    let attempts = std::fs::read_to_string(place.path("seen")).unwrap();
    assert!(
        attempts.lines().any(|line| !line.ends_with(" 1")),
        "{attempts}"
    );
}
