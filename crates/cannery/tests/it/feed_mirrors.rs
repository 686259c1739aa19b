//! Feeds with several object storages by the real binary: one that is dead, one that was emptied.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::{Child, Stdio};

use cannery_testkit::feed_server::FeedServer;
use rustix::process::{Pid, Signal, kill_process};

use crate::feed_commands::{config, files, place, with};
use crate::program::{Place, http_get, pause};

/// Takes connections, and says nothing.
fn silent() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    (listener, url)
}

/// The feed `a`, the storage `main` in a folder, and `two` as it is said.
fn with_second(place: &Place, server: &FeedServer, two: &str) {
    let text = format!(
        "{}flush_timeout: 5s\nobject_storage:\n  - {{id: main, url: 'file:cannery-data/lake'}}\n  - {{id: two, {two}}}\n",
        config(server, &["a"])
    );
    place.write("c.yml", text);
}

fn dead(url: &str) -> String {
    format!(
        "url: 's3://silent', endpoint_url: '{url}', aws_access_key_id: x, aws_secret_access_key: y"
    )
}

const FOLDER: &str = "url: 'file:cannery-data/two'";

fn wait_for(what: &str, mut is: impl FnMut() -> bool) {
    for _ in 0..1_200 {
        if is() {
            return;
        }
        pause();
    }
    panic!("waited in vain: {what}");
}

fn stopped(mut child: Child) -> i32 {
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    child.wait().unwrap().code().unwrap_or(-1)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mirror_that_is_dead_from_the_start_keeps_nothing_from_the_other() {
    let (place, server) = place().await;
    with_second(&place, &server, FOLDER);
    assert_eq!(
        place.run(&with(&["lake", "put", "k", "c.yml"], &[])).code,
        0
    );
    assert_eq!(place.up(&["--config-file", "c.yml"]).stop().0, 0);
    let shipped = files(&place.path("cannery-data/two/a")).len();

    let (_listener, url) = silent();
    with_second(&place, &server, &dead(&url));
    let asked = server.requests("/a").len();
    let mut command = place.command(&with(&["collect"], &[]));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null());
    let child = child.spawn().unwrap();
    wait_for("polls", || server.requests("/a").len() >= asked + 3);
    let before = files(&place.path("cannery-data/lake/a")).len();
    assert_eq!(stopped(child), 3, "the dead one did not get it");
    let after = files(&place.path("cannery-data/lake/a")).len();
    assert!(after > before, "the healthy one did");
    assert!(!files(&place.path("cannery-data/archives")).is_empty());

    with_second(&place, &server, FOLDER);
    let cleaned = place.run(&with(&["clean"], &[]));
    assert_eq!(cleaned.code, 0, "{}", cleaned.all());
    assert_eq!(files(&place.path("cannery-data/archives")).len(), 0);
    assert!(files(&place.path("cannery-data/two/a")).len() > shipped);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_was_emptied_is_not_made_anew_until_a_person_says_so() {
    let (place, server) = place().await;
    with_second(&place, &server, FOLDER);
    let up = place.up(&["--config-file", "c.yml"]);
    let asked = server.requests("/a").len();
    wait_for("polls", || server.requests("/a").len() >= asked + 3);
    assert_eq!(up.stop().0, 0);
    std::fs::remove_dir_all(place.path("cannery-data/two")).unwrap();
    for command in [
        &["up", "--listen", "127.0.0.1:0"][..],
        &["collect"],
        &["clean"],
        &["audit"],
        &["lake", "put", "k", "c.yml"],
    ] {
        let refused = place.run(&with(command, &[]));
        assert_eq!(refused.code, 1, "{command:?}: {}", refused.all());
        for part in ["lake `two`", "or was emptied", "`cannery lake join two`"] {
            assert!(
                refused.stderr.contains(part),
                "{command:?}: {}",
                refused.all()
            );
        }
    }
    let made = place.path("cannery-data/two/cannery.json");
    assert!(!made.exists());
    // What does not need it works. At most there is an hour to merge, of which `up` and `collect` have shipped a part each.
    let audited = place.run(&with(
        &["audit", "--json"],
        &["--object-storage-ids", "main"],
    ));
    let findings = audited.json().into_iter();
    let findings =
        findings.filter(|line| line["event"] == "found" && line["finding"] != "unmerged");
    assert_eq!(findings.collect::<Vec<_>>(), [0; 0], "{}", audited.all());
    assert!([0, 20].contains(&audited.code), "{}", audited.all());

    let joined = place.run(&with(&["lake", "join", "two"], &[]));
    assert_eq!(joined.code, 0, "{}", joined.all());
    assert!(made.exists());
    let fixed = place.run(&with(&["audit", "--fix"], &[]));
    assert_eq!(fixed.code, 0, "{}", fixed.all());
    assert!(!files(&place.path("cannery-data/two/a")).is_empty());
    let again = place.run(&with(&["lake", "join", "two"], &[]));
    assert!(again.stdout.contains("already"), "{}", again.all());
    assert_eq!(place.run(&with(&["clean"], &[])).code, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delete_that_one_store_refuses_changes_none() {
    let (place, server) = place().await;
    with_second(&place, &server, FOLDER);
    let made = place.run(&with(&["lake", "put", "k", "c.yml"], &[]));
    assert_eq!(made.code, 0, "{}", made.all());
    let delete = |stores: &str, end: &str| {
        let range = ["--start-time", "2020-01-01T00", "--end-time", end];
        let which = ["--feed-ids", "a", "--object-storage-ids", stores];
        place.run(&with(&["delete"], &[range, which].concat()))
    };
    let one = delete("main", "2020-01-01T01");
    assert_eq!(one.code, 0, "{}", one.all());
    let marks = |folder: &str| files(&place.path(folder)).len();
    assert_eq!(marks("cannery-data/lake/a"), 1);
    // 10,001 hours: one too many for `two`, while `main` has a mark in the first of them and could take the others.
    let refused = delete("main,two", "2021-02-20T17");
    assert_eq!(refused.code, 2, "{}", refused.all());
    assert!(refused.stderr.contains("10001 hours"), "{}", refused.all());
    let both = ["cannery-data/lake/a", "cannery-data/two/a"].map(marks);
    assert_eq!(both, [1, 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_ports_are_open_while_a_store_does_not_answer() {
    let (place, server) = place().await;
    let (_listener, url) = silent();
    with_second(&place, &server, &dead(&url));
    let text = std::fs::read_to_string(place.path("c.yml")).unwrap();
    let monitoring = "serve: {monitoring_listen: '127.0.0.1:0', ";
    place.write("c.yml", text.replace("serve: {", monitoring));
    let mut command = place.command(&with(&["collect", "--json"], &[]));
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let first: serde_json::Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(first["event"], "listening", "{first}");
    let address = first["address"].as_str().unwrap();
    let ready = http_get(&format!("http://{address}/readyz"));
    assert!(ready.contains("503"), "{ready}");
    assert!(
        ready.contains("not reached yet"),
        "before the first look was over: {ready}"
    );
    assert!(http_get(&format!("http://{address}/metrics")).contains("200 OK"));
    child.kill().unwrap();
    child.wait().unwrap();

    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = free.local_addr().unwrap().to_string();
    drop(free);
    let mut command = place.command(&with(&["up", "--listen", &address], &[]));
    let child = command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = child.spawn().unwrap();
    wait_for("the port", || {
        std::net::TcpStream::connect(&address).is_ok()
    });
    let ready = http_get(&format!("http://{address}/readyz"));
    assert!(
        ready.contains("503") && ready.contains("not reached yet"),
        "{ready}"
    );
    child.kill().unwrap();
    child.wait().unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_status_of_a_running_process_is_fresh() {
    let (place, server) = place().await;
    let up = place.up(&["--config-file", "c.yml"]);
    wait_for("polls", || server.requests("/a").len() >= 3);
    let stored = || {
        let status = place.run(&with(&["feed", "status", "a", "--json"], &[]));
        status.json()[0]["totals"]["stored"].as_u64().unwrap()
    };
    for _ in 0..100 {
        if stored() > 0 {
            break;
        }
        pause();
    }
    assert!(stored() > 0, "{}", up.log());
    up.kill();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_only_reads_needs_no_workspace_to_write_to() {
    let (mut place, server) = place().await;
    crate::feed_commands::collect(&place, &server);
    // As good as read-only, also for who may write everywhere.
    std::fs::remove_dir_all(place.path("cannery-data/feeds")).unwrap();
    place.write("cannery-data/feeds", "in the way");
    std::fs::create_dir(place.path("tmp")).unwrap();
    let tmp = place.path("tmp").display().to_string();
    place.set("TMPDIR", &tmp);
    let range = crate::feed_commands::RANGE;
    let target = [&range[..], &["--target-directory", "out"]].concat();
    let got = place.run(&with(&["retrieve"], &target));
    assert_eq!(got.code, 0, "{}", got.all());
    assert!(files(&place.path("out")).len() >= 8);
    let audited = place.run(&with(&["audit"], &[]));
    assert_eq!(audited.code, 0, "{}", audited.all());
    let gaps = place.run(&with(&["gaps"], &[]));
    assert_eq!(gaps.code, 20, "{}", gaps.all());
    assert_eq!(
        std::fs::read_dir(&tmp).unwrap().count(),
        0,
        "nothing is left"
    );

    // Of a feed that never answered there is only what became of its polls.
    let down = [&target[..], &["--feed-ids", "down"]].concat();
    let nothing = place.run(&with(&["retrieve"], &down));
    assert_eq!(nothing.code, 10, "{}", nothing.all());
}
