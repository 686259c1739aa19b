//! `cannery journal`, command by command.

#[cfg(feature = "real-servers")]
mod database;
mod errors;
mod secrets;
mod sharing;
mod tutorial;
mod work;

use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::program::{Place, Ran};

/// Runs `cannery journal …`.
fn journal(place: &Place, arguments: &[&str]) -> Ran {
    place.run(&[&["journal"], arguments].concat())
}

/// The same with `--json`; the lines of standard output.
fn lines(place: &Place, arguments: &[&str]) -> Vec<Value> {
    let ran = journal(place, &[arguments, &["--json"]].concat());
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.all());
    ran.json()
}

/// Runs `cannery journal …` with something on standard input.
fn journal_fed(place: &Place, arguments: &[&str], input: &[u8]) -> Ran {
    let mut command = place.command(&[&["journal"], arguments].concat());
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // A command that ends early reads no more.
    stdin.write_all(input).ok();
    drop(stdin);
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn add(place: &Place, key: &str) {
    let ran = journal(place, &["add", "default", "--key", key]);
    assert_eq!(ran.code, 0, "{}", ran.all());
}

/// Claims one entry; its token.
fn claim(place: &Place) -> String {
    let claimed = lines(place, &["claim", "default"]);
    claimed[0]["token"].as_str().unwrap().to_owned()
}

fn count(place: &Place, name: &str) -> u64 {
    lines(place, &["stats", "default"])[0]["counts"][name]
        .as_u64()
        .unwrap()
}

#[test]
fn an_entry_is_added_claimed_and_done() {
    let place = Place::new();
    let add = [
        "add",
        "default",
        "--key",
        "a",
        "--data",
        "{\"x\": 1.0}",
        "--priority",
        "slow",
    ];
    assert_eq!(
        lines(&place, &add),
        [json!({ "key": "a", "outcome": "inserted" })]
    );
    assert_eq!(lines(&place, &add)[0]["outcome"], "merged");
    let listed = lines(&place, &["ls", "default"]);
    assert_eq!(listed.len(), 1);
    assert_eq!(
        (&listed[0]["status"], &listed[0]["priority"]),
        (&json!("waiting"), &json!(200))
    );
    let claimed = lines(&place, &["claim", "default", "-n", "5", "--worker", "me"]);
    let entry = &claimed[0];
    assert_eq!(
        (claimed.len(), &entry["key"], &entry["worker"]),
        (1, &json!("a"), &json!("me"))
    );
    assert_eq!(
        (&entry["data"], &entry["attempt"]),
        (&json!({ "x": 1.0 }), &json!(1))
    );
    assert!(entry["process_date"].is_i64() && entry["expiration_date"].is_null());
    let token = entry["token"].as_str().unwrap();
    let held = lines(&place, &["heartbeat", "default", token]);
    assert!(held[0]["deadline"].as_i64() >= entry["deadline"].as_i64());
    assert_eq!(
        lines(&place, &["done", "default", token])[0]["outcome"],
        "done"
    );
    assert_eq!(journal(&place, &["done", "default", token]).code, 1);
    assert_eq!(journal(&place, &["claim", "default"]).code, 10);
    assert_eq!(lines(&place, &["ls", "default"]), Vec::<Value>::new());
}

#[test]
fn what_a_second_declaration_does_not_say_stays() {
    let place = Place::new();
    let first = [
        "declare",
        "sizes",
        "--key-field",
        "path",
        "--field",
        "path:string",
        "--field",
        "size:u64",
        "--lease",
        "90s",
        "--merge",
        "off",
    ];
    assert_eq!(lines(&place, &first)[0]["version"], 1);
    let second = &lines(&place, &["declare", "sizes", "--expiry", "1h"])[0];
    assert_eq!(second["version"], 2);
    let declared = &second["declaration"];
    assert_eq!(
        (&declared["lease"], &declared["merge"], &declared["key"]),
        (&json!("1m30s"), &json!(false), &json!(["path"]))
    );
    assert_eq!(lines(&place, &["declare", "sizes"])[0]["version"], 2);
}

#[test]
fn flags_and_lines_are_told_apart() {
    let place = Place::new();
    let ran = journal_fed(
        &place,
        &["add", "default", "--priority", "slow"],
        b"{\"key\":\"a\"}\n",
    );
    assert_eq!(ran.code, 2, "{}", ran.all());
    assert!(ran.stderr.contains("--key"), "{}", ran.stderr);
    assert!(ran.stderr.contains("standard input"), "{}", ran.stderr);
}

#[test]
fn a_wrong_use_is_told_with_its_names_in_json_too() {
    let place = Place::new();
    let ran = journal(&place, &["add", "--json"]);
    assert_eq!(ran.code, 2, "{}", ran.all());
    assert!(ran.all().contains("<JOURNAL>"), "{}", ran.all());
}

#[test]
fn the_doctor_looks_at_journals() {
    let place = Place::new();
    let check = |place: &Place| {
        let ran = place.run(&["doctor", "--json"]);
        let found = ran.json().into_iter();
        let mut found = found.filter(|line| line["check"] == "journal default");
        found.next().unwrap()
    };
    assert!(
        check(&place)["text"]
            .as_str()
            .unwrap()
            .contains("not exist")
    );
    assert!(
        !place.path("cannery-data").exists(),
        "looking makes nothing"
    );
    add(&place, "a");
    assert_eq!(check(&place)["verdict"], "ok");
    let token = claim(&place);
    journal(
        &place,
        &["fail", "default", &token, "--reason", "x", "--dead"],
    );
    let dead = check(&place);
    assert_eq!(dead["verdict"], "warn");
    assert!(dead["next"].as_str().unwrap().contains("dead ls default"));
    assert_eq!(journal(&place, &["dead", "rm", "default", "b"]).code, 10);
    assert_eq!(journal(&place, &["dead", "rm", "default", "a"]).code, 0);
    assert_eq!(check(&place)["verdict"], "ok");
}

#[test]
fn an_entry_is_given_back_fails_dies_and_comes_back() {
    let place = Place::new();
    add(&place, "a");
    let token = claim(&place);
    let later = ["release", "default", &token, "--at", "2099-01-01T00:00:00Z"];
    assert_eq!(lines(&place, &later)[0]["outcome"], "waiting");
    let entry = &lines(&place, &["get", "default", "a"])[0];
    assert_eq!(
        (&entry["process_date"], &entry["strikes"]),
        (&json!(4_070_908_800_000_i64), &json!(0))
    );
    assert_eq!(journal(&place, &["claim", "default"]).code, 10);
    assert_eq!(lines(&place, &["cancel", "default", "a"])[0]["waiting"], 1);
    assert_eq!(journal(&place, &["cancel", "default", "a"]).code, 10);

    add(&place, "b");
    let token = claim(&place);
    let failed = lines(&place, &["fail", "default", &token, "--reason", "busy"]);
    assert_eq!(failed[0]["outcome"], "waiting");
    let token = claim(&place);
    assert_eq!(lines(&place, &["get", "default", "b"])[0]["attempt"], 2);
    let failed = lines(
        &place,
        &["fail", "default", &token, "--reason", "no\nuse", "--dead"],
    );
    assert_eq!(failed[0]["outcome"], "dead");
    let dead = lines(&place, &["dead", "ls", "default"]);
    assert_eq!(
        (dead.len(), &dead[0]["reason"], &dead[0]["status"]),
        (1, &json!("no\nuse"), &json!("dead"))
    );
    assert_eq!(lines(&place, &["requeue", "default", "b"])[0]["entries"], 1);
    assert_eq!(journal(&place, &["requeue", "default", "b"]).code, 10);
    let token = claim(&place);
    let in_a_day = [
        "fail",
        "default",
        &token,
        "--reason",
        "x",
        "--retry-in",
        "1d",
    ];
    assert_eq!(lines(&place, &in_a_day)[0]["outcome"], "waiting");
    assert_eq!(journal(&place, &["claim", "default"]).code, 10);
    assert_eq!(journal(&place, &["dead", "rm", "default", "b"]).code, 10);
}

#[test]
fn numbers_are_shown() {
    let place = Place::new();
    add(&place, "a");
    add(&place, "b");
    claim(&place);
    let stats = &lines(&place, &["stats", "default"])[0];
    assert_eq!(
        (
            &stats["waiting"],
            &stats["due"],
            &stats["processing"],
            &stats["counts"]["adds"]
        ),
        (&json!(1), &json!(1), &json!(1), &json!(2))
    );
    let text = journal(&place, &["stats", "default"]).stdout;
    assert!(
        text.contains("waiting 1, due 1, processing 1, dead 0"),
        "{text}"
    );
    assert!(text.contains("so far: adds 2, claims 1"), "{text}");
}

#[test]
fn listings_are_filtered_and_whole() {
    let place = Place::new();
    let entries: String = (0..2_500)
        .map(|number| {
            format!(
                "{{\"key\":\"{}/{number}\",\"priority\":{}}}\n",
                number % 2,
                number % 3
            )
        })
        .collect();
    let added = journal_fed(&place, &["add", "default"], entries.as_bytes());
    assert_eq!(
        added.stdout,
        "added 2500: 2500 inserted, 0 merged, 0 stale\n"
    );
    assert_eq!(lines(&place, &["ls", "default"]).len(), 2_500);
    assert_eq!(
        lines(&place, &["ls", "default", "--prefix", "1/"]).len(),
        1_250
    );
    let few = lines(
        &place,
        &["ls", "default", "--priority", "2", "--limit", "7"],
    );
    assert!(few.len() == 7 && few.iter().all(|entry| entry["priority"] == 2));
    assert_eq!(
        lines(&place, &["ls", "default", "--status", "dead,processing"]).len(),
        0
    );
    assert_eq!(
        lines(&place, &["ls", "default", "--limit", "1001"]).len(),
        1_001
    );
}

#[test]
fn lines_are_added_with_names_and_dates_as_people_write_them() {
    let place = Place::new();
    let input = "{\"key\":\"a\",\"priority\":\"now\",\"process_date\":\"2099-01-01T00:00:00+01:00\",\"data\":[1, 2]}\n\n\
                 {\"key\":\"a\",\"insertion_date\":5}\n{\"key\":\"b\",\"expiration_date\":1}";
    let added = journal_fed(&place, &["add", "default", "--json"], input.as_bytes());
    assert_eq!(added.code, 0, "{}", added.all());
    assert_eq!(
        added.json(),
        [
            json!({ "line": 1, "key": "a", "outcome": "inserted" }),
            json!({ "line": 3, "key": "a", "outcome": "stale" }),
            json!({ "line": 4, "key": "b", "outcome": "inserted" }),
        ]
    );
    let listed = lines(&place, &["ls", "default"]);
    assert_eq!(listed.len(), 1, "what has expired is gone: {listed:?}");
    assert_eq!(
        (&listed[0]["process_date"], &listed[0]["data"]),
        (&json!(4_070_905_200_000_i64), &json!([1, 2]))
    );
    let nothing = journal_fed(&place, &["add", "default"], b"");
    assert_eq!(
        (nothing.code, nothing.stdout.as_str()),
        (0, "added 0: 0 inserted, 0 merged, 0 stale\n")
    );
}

#[test]
fn a_wrong_line_ends_it_and_what_was_before_stays() {
    let place = Place::new();
    let mut input = "{\"key\":\"x\"}\n".repeat(1_500);
    input += "{\"key\":\"y\",\"process_date\":1}\n{\"key\":\"z\"}\n";
    let ran = journal_fed(&place, &["add", "default"], input.as_bytes());
    assert_eq!(ran.code, 3, "{}", ran.all());
    assert!(
        ran.stderr.contains("line 1501") && ran.stderr.contains("before its insertion date"),
        "{}",
        ran.stderr
    );
    assert_eq!(count(&place, "adds"), 1_500);
    assert_eq!(journal(&place, &["get", "default", "z"]).code, 10);
    let mut long = b"{\"key\":\"".to_vec();
    long.resize(3 << 20, b'x');
    let ran = journal_fed(&place, &["add", "default", "--json"], &long);
    assert_eq!(ran.code, 2, "{}", ran.all());
    assert!(
        ran.stderr.contains("line 1 ") && ran.stderr.contains("more than"),
        "{}",
        ran.stderr
    );
}

/// A producer that writes a line now and then sees it acknowledged at once, not when a batch is full.
#[test]
fn a_line_is_added_without_waiting_for_the_next() {
    use std::io::BufRead as _;
    let place = Place::new();
    let mut command = place.command(&["journal", "add", "default", "--json"]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let mut answers = std::io::BufReader::new(child.stdout.take().unwrap()).lines();
    for number in 0..3 {
        writeln!(stdin, "{{\"key\":\"{number}\"}}").unwrap();
        let answer: Value = serde_json::from_str(&answers.next().unwrap().unwrap()).unwrap();
        assert_eq!(answer["line"], number + 1);
    }
    drop(stdin);
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn journals_are_declared_and_listed() {
    let place = Place::new();
    let declare = |more: &[&str]| lines(&place, &[&["declare", "files"], more].concat())[0].clone();
    let fields = [
        "--field",
        "path:string",
        "--field",
        "size:u64",
        "--key-field",
        "path",
    ];
    let first = declare(&fields);
    assert_eq!(
        (&first["version"], &first["declaration"]["key"]),
        (&json!(1), &json!(["path"]))
    );
    assert_eq!(
        declare(&fields)["version"],
        1,
        "the same again changes nothing"
    );
    let second = declare(
        &[
            &fields[..],
            &["--lease", "1m", "--merge", "off", "--expiry", "none"],
        ]
        .concat(),
    );
    assert_eq!(
        (&second["version"], &second["declaration"]["lease"]),
        (&json!(2), &json!("1m"))
    );
    let names: Vec<_> = lines(&place, &["names"])
        .into_iter()
        .map(|name| {
            (
                name["journal"].as_str().unwrap().to_owned(),
                name["origin"].as_str().unwrap().to_owned(),
            )
        })
        .collect();
    assert_eq!(
        names,
        [
            ("default", "configured"),
            ("files", "declared"),
            ("pipeline", "configured")
        ]
        .map(|(a, b)| (a.to_owned(), b.to_owned()))
    );
    let add = |data: &str| journal(&place, &["add", "files", "--data", data]);
    assert_eq!(
        add("{\"path\":\"a/b\",\"size\":5}").stdout,
        "inserted a/b\n"
    );
    assert_eq!(add("{\"path\":\"a/b\",\"size\":-5}").code, 2);
    assert_eq!(add("{\"size\":5}").code, 2);
    assert_eq!(lines(&place, &["ls", "files"]).len(), 1);
}

#[test]
fn journals_of_the_configuration_are_there() {
    let place = Place::new();
    place.write(
        "c.yml",
        "journals:\n  default: {lease: 30s}\n  work: {merge: off, key: [id], fields: {id: u64}}\n",
    );
    let with =
        |arguments: &[&str]| journal(&place, &[arguments, &["--config-file", "c.yml"]].concat());
    for _ in 0..2 {
        assert_eq!(
            with(&["add", "work", "--data", "{\"id\":7}"]).stdout,
            "inserted [7]\n"
        );
    }
    assert_eq!(with(&["ls", "work"]).stdout.lines().count(), 2);
    assert_eq!(with(&["declare", "work"]).code, 2);
    let names = with(&["names"]).stdout;
    assert!(
        names.contains("default ") && names.contains("work "),
        "{names}"
    );
    // Without the configuration it is one that was declared.
    assert_eq!(lines(&place, &["ls", "work"]).len(), 2);
    let shown = place
        .run(&["config", "show", "--json", "--config-file", "c.yml"])
        .json();
    assert_eq!(shown[0]["journals"]["work"]["lease"], "30s");
}

/// Keys and data come from anybody; what they hold must not command a terminal, and a program must get it unchanged.
#[test]
fn hostile_keys_and_data_do_not_reach_the_terminal() {
    let place = Place::new();
    let key = "\u{1b}]0;owned\u{7}\u{202e}evil\nwaiting   0  fake\r\u{9b}31m";
    let data = json!({ "a": "\u{1b}[31m\u{202e}\u{9b}" });
    let line = json!({ "key": key, "data": data }).to_string();
    assert_eq!(
        journal_fed(&place, &["add", "default"], line.as_bytes()).code,
        0
    );
    let token = claim(&place);
    let failed = ["fail", "default", &token, "--reason", "\u{1b}[2Jwhy\nnot"];
    assert_eq!(journal(&place, &failed).code, 0);
    let harmful = |c: char| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c);
    for arguments in [
        &["ls", "default"][..],
        &["get", "default", key],
        &["claim", "default"],
        &["ls", "default", "--status", "processing"],
        &["ls", "default", "--json"],
        &["get", "default", key, "--json"],
        &["cancel", "default", key],
        &["cancel", "default", key],
        &["requeue", "default", key],
        &["ls", key],
    ] {
        let ran = journal(&place, arguments);
        let all = ran.all();
        assert!(
            !all.is_empty() && !all.contains(harmful),
            "{arguments:?}: {all:?}"
        );
        assert!(!all.contains("\nwaiting   0"), "{arguments:?}: {all}");
        if arguments.last() == Some(&"--json") {
            assert_eq!(
                (&ran.json()[0]["key"], &ran.json()[0]["data"]),
                (&json!(key), &data)
            );
        }
    }
}

#[test]
fn a_journal_survives_what_is_written_between_its_parts() {
    let place = Place::new();
    let data = "{\n  \"a\":\t[1,\r\n 2]\n}";
    assert_eq!(
        journal(&place, &["add", "default", "--key", "k", "--data", data]).code,
        0
    );
    let listed = journal(&place, &["ls", "default", "--json"]);
    assert_eq!(listed.stdout.lines().count(), 1, "{}", listed.stdout);
    assert_eq!(listed.json()[0]["data"], json!({ "a": [1, 2] }));
}
