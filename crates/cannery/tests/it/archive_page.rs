//! The pages of the archive, in the real binary, with a bucket that went through all stages.

use std::net::TcpListener;
use std::process::Stdio;

use cannery_testkit::reports::{Expected, Options, write_bucket};
use serde_json::Value;

use crate::program::{Place, Ran, Up, http_get, pause};

pub(crate) const DATE: &str = "2017-01-02";
const RULES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ooni/rules.yml");
const FEATURES: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../examples/ooni/features.yml"
);
const HOSTILE: &str = "2017-01-02/20170102T000030Z-US-AS7922-ndt-abc-0.2.0-probe.json";
const CANARY: &str = "CANARYOFRAWDATA";

/// An archive with a little of everything, and a report by somebody who means no good.
pub(crate) struct Archive {
    pub(crate) place: Place,
    pub(crate) expected: Expected,
}

impl Archive {
    pub(crate) fn new() -> Self {
        let place = Place::new();
        let keys = format!("rules: '{RULES}', features: '{FEATURES}', can_bytes: 1MiB");
        place.write("c.yml", format!("node: n1\npipeline: {{{keys}}}\n"));
        let folder = place.path("cannery-data/reports-raw");
        let expected = write_bucket(&folder, DATE, Options::default()).unwrap();
        let hostile = format!(
            "{}\n{{\"test_name\":\"ndt\",\"raw\":\"{CANARY}\"\n",
            r#"{"test_name":"ndt","data_format_version":"0.2.0","annotations":{"<script>alert(1)</script>":"</ul><img src=x onerror=alert(2)>TURN"},"n":9007199254740993}"#
        );
        let hostile = hostile.replace("TURN", "\u{202e}");
        place.write(&format!("cannery-data/reports-raw/{HOSTILE}"), hostile);
        let archive = Self { place, expected };
        let worked = archive.run(&["work", "--once"]);
        assert_eq!(worked.code, 0, "{}", worked.all());
        archive
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        let rest = ["--json", "--config-file", "c.yml"];
        self.place.run(&[arguments, &rest].concat())
    }

    /// One measurement of a choice.
    pub(crate) fn one(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[&["ls"], arguments].concat());
        assert_eq!(ran.code, 0, "{}", ran.all());
        ran.json().remove(0)
    }

    pub(crate) fn up(&self) -> Up {
        let up = self.place.up(&["--config-file", "c.yml"]);
        wait_for(&up, "archive", &format!(r#"href="/archive/{DATE}""#));
        up
    }
}

/// The page, once it says so.
pub(crate) fn wait_for(up: &Up, path: &str, text: &str) -> String {
    let mut page = String::new();
    for _ in 0..400 {
        page = http_get(&up.url(path));
        if page.contains(text) {
            return page;
        }
        pause();
    }
    panic!("`{text}` never came: {page}\n{}", up.log());
}

fn get(up: &Up, path: &str) -> String {
    let page = http_get(&up.url(path));
    assert!(page.starts_with("HTTP/1.1 200"), "{path}: {page}");
    page
}

/// What the table has in a column of the first row.
fn cell(page: &str, head: &str) -> String {
    let from = page.find(&format!(r#"data-head="{head}""#)).unwrap();
    let cell = &page[from..];
    let cell = &cell[..cell.find("</td>").unwrap()];
    let inner = cell.split_once('>').unwrap().1;
    let mut text = String::new();
    let mut in_tag = false;
    for c in inner.chars() {
        match c {
            '<' => in_tag = true,
            '>' => in_tag = false,
            c if !in_tag => text.push(c),
            _ => {}
        }
    }
    text
}

#[test]
fn buckets_files_and_bad_data_are_counted_as_they_are() {
    let archive = Archive::new();
    let up = archive.up();
    let page = wait_for(&up, "archive", "sealed");
    let (reports, measurements) = (
        archive.expected.reports + 1,
        archive.expected.measurements + 1,
    );
    assert_eq!(cell(&page, "Reports"), reports.to_string());
    assert_eq!(cell(&page, "Measurements"), measurements.to_string());
    let files = archive.run(&["ls", "--files"]).json();
    for head in ["Cans", "Archives", "Loaded"] {
        assert_eq!(cell(&page, head), files.len().to_string(), "{head}");
    }
    let runs = cell(&page, "Last runs");
    for stage in ["can", "seal", "autoclave", "centrifuge"] {
        assert!(runs.contains(stage), "{runs}");
    }

    let bucket = get(&up, &format!("archive/{DATE}"));
    for file in &files {
        let name = file["facts"]["name"].as_str().unwrap();
        let link = format!(r#"href="/archive/{name}""#);
        assert!(bucket.contains(&link), "no {link} in {bucket}");
        let page = get(&up, &format!("archive/{name}"));
        let listed = page.matches(r#"href="/archive/measurement/"#).count() as u64;
        assert!(listed <= file["measurements"].as_u64().unwrap());
    }
    let bad = wait_for(&up, "archive/bad", "it is not JSON at byte …");
    let blobs: u64 = files
        .iter()
        .map(|file| file["bad_blobs"].as_u64().unwrap())
        .sum();
    assert!(
        blobs > 0 && bad.contains(&format!("{blobs} in the newest 30 buckets")),
        "{bad}"
    );
    for path in [
        "archive",
        "archive/bad",
        &format!("archive/{DATE}"),
        "archive/history",
    ] {
        assert!(!get(&up, path).contains(CANARY), "{path} shows raw data");
    }
    let home = http_get(&up.url(""));
    assert!(home.contains(r#"<a href="/archive">"#), "{home}");
    assert_eq!(up.stop().0, 0);
}

/// How often frames were read.
fn frames_read(up: &Up) -> u64 {
    let metrics = http_get(&up.url("metrics"));
    let lines = metrics.lines();
    let lines =
        lines.filter(|line| line.contains("operations_total") && line.contains("\"get_range\""));
    lines
        .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
        .sum()
}

#[test]
fn a_measurement_is_one_read_shown_as_a_tree_and_downloaded_as_it_is() {
    let archive = Archive::new();
    let up = archive.up();
    let hostile = archive.one(&["--report", HOSTILE]);
    let uid = hostile["uid"].as_str().unwrap();
    let before = frames_read(&up);
    let page = get(&up, &format!("archive/measurement/{uid}"));
    assert_eq!(frames_read(&up) - before, 1, "one frame");
    for expected in [
        "9007199254740993",
        "&lt;script&gt;alert(1)&lt;/script&gt;",
        "<details",
        "data-still",
        "Where it lies",
        HOSTILE,
        "It stands nowhere else",
        &format!(r#"href="/archive/measurement/{uid}/text""#),
        &format!(r#"href="/archive/{DATE}""#),
    ] {
        assert!(page.contains(expected), "no {expected} in {page}");
    }
    assert!(
        !page.contains("<script>") && !page.contains("<img src=x"),
        "{page}"
    );
    assert!(!page.contains('\u{202e}') && !page.contains(CANARY));
    assert!(page.contains("script-src 'self'"), "its policy");

    let text = get(&up, &format!("archive/measurement/{uid}/text"));
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    let head = head.to_ascii_lowercase();
    assert!(
        head.contains(&format!(
            "content-disposition: attachment; filename=\"{uid}.json\""
        )),
        "{head}"
    );
    assert!(
        head.contains("application/octet-stream") && head.contains("nosniff"),
        "{head}"
    );
    let got = archive.place.run(&["get", uid, "--config-file", "c.yml"]);
    assert_eq!(format!("{body}\n"), got.stdout);

    // One that stands twice, with the rows of its features.
    let dup = archive
        .run(&["ls", "--measurements"])
        .json()
        .into_iter()
        .find_map(|line| {
            let uid = line["uid"].as_str().unwrap().to_owned();
            let trace = archive.run(&["trace", &uid]).json().remove(0);
            (trace["catalog"]["duplicates_all"] != 0).then_some(uid)
        });
    let page = get(&up, &format!("archive/measurement/{}", dup.unwrap()));
    assert!(
        page.contains("In the frame at") && page.contains("Rows of features"),
        "{page}"
    );
    assert_eq!(up.stop().0, 0);
}

#[test]
fn history_is_filtered_by_what_can_be_chosen_and_nothing_else_has_a_page() {
    let archive = Archive::new();
    let up = archive.up();
    let all = wait_for(&up, "archive/history", "centrifuge");
    assert!(
        all.contains("Duration") && all.contains("Throughput"),
        "{all}"
    );
    let sealed = get(&up, &format!("archive/history?stage=seal&bucket={DATE}"));
    assert_eq!(cell(&sealed, "Result"), "running: done");
    assert_eq!(cell(&sealed, "Stage"), "seal");
    let none = get(&up, &format!("archive/history?result=failed&bucket={DATE}"));
    assert!(none.contains("There is none of this choice"), "{none}");
    for path in [
        "archive/nothing",
        "archive/history?stage=nothing",
        "archive/history?result=nothing",
        "archive/history?after=x",
        "archive/history?bucket=2017-13-01",
        "archive/2016-01-01",
        "archive/2017-01-02/none.0.tar.lz4",
        "archive/2017-01-02?after=x",
        "archive/measurement/abc",
        "archive/measurement/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        "archive/measurement/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/text",
        "archive/measurement/aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/raw",
        "archive/history?stage=%3Cscript%3E",
        "archive/../etc/passwd",
    ] {
        let page = http_get(&up.url(path));
        assert!(page.starts_with("HTTP/1.1 404"), "{path}: {page}");
        assert!(!page.contains("<script>"), "{path}");
    }
    assert_eq!(up.stop().0, 0);
}

#[test]
fn a_catalog_that_never_answers_holds_up_no_page() {
    // It takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    let place = Place::new();
    place.write(
        "c.yml",
        format!("catalog: postgres://u@127.0.0.1:{port}/d\n"),
    );
    let up = place.up(&["--config-file", "c.yml"]);
    let page = wait_for(&up, "archive", "the catalog cannot be asked");
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    for path in [
        "",
        "archive/history",
        "archive/bad",
        "status.json",
        "metrics",
    ] {
        get(&up, path);
    }
    let uid = "a".repeat(32);
    let page = get(&up, &format!("archive/measurement/{uid}"));
    assert!(page.contains("the catalog cannot be asked"), "{page}");
    assert!(!page.contains("data-still"), "it is tried again");
    up.kill();
}

#[test]
fn a_worker_that_serves_has_the_same_pages_on_the_monitoring_port_too() {
    let archive = Archive::new();
    let arguments = [
        "work",
        "--json",
        "--listen",
        "127.0.0.1:0",
        "--monitoring-port",
        "0",
        "--config-file",
        "c.yml",
    ];
    let mut child = archive
        .place
        .command(&arguments)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stdout.take().unwrap()));
    let mut address = || {
        let line: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        line["address"].as_str().unwrap().to_owned()
    };
    let (main, monitoring) = (address(), address());
    let url = format!("http://{main}/archive");
    let mut page = String::new();
    for _ in 0..400 {
        page = http_get(&url);
        if page.contains("sealed") {
            break;
        }
        pause();
    }
    assert!(page.contains("sealed") && page.contains(DATE), "{page}");
    let uid = archive.one(&["--report", HOSTILE])["uid"].clone();
    let port = monitoring.rsplit(':').next().unwrap();
    for (path, text) in [
        ("archive", DATE),
        ("archive/history", "Throughput"),
        (
            &format!("archive/measurement/{}", uid.as_str().unwrap()),
            "9007199254740993",
        ),
    ] {
        let page = http_get(&format!("http://127.0.0.1:{port}/{path}"));
        assert!(page.contains(text), "{path}: {page}");
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    let rest: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{rest:?}");
}
