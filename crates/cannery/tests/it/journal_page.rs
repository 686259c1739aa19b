//! Journals in a running `cannery up`: its page, its metrics, its readiness, and commands beside it.

use std::io::{BufRead as _, Write as _};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::program::{Place, Up, http_get, pause};

const HOSTILE: &str = "\"><script>alert(1)</script>\u{1b}]0;x\u{7}\u{202e}evil'; rm -rf ~\n";

/// Runs `cannery journal …`, which has to go well; the JSON lines.
pub(crate) fn journal(place: &Place, arguments: &[&str]) -> Vec<Value> {
    let ran = place.run(&[&["journal"], arguments, &["--json"]].concat());
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.all());
    ran.json()
}

/// Adds entries, each a JSON object.
pub(crate) fn add(place: &Place, journal: &str, entries: &[Value]) {
    let mut command = place.command(&["journal", "add", journal]);
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for entry in entries {
        writeln!(stdin, "{entry}").unwrap();
    }
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

/// Claims one entry and gives it up.
pub(crate) fn give_up(place: &Place, journal_name: &str, reason: &str) {
    let claimed = journal(place, &["claim", journal_name]);
    let token = claimed[0]["token"].as_str().unwrap();
    journal(
        place,
        &["fail", journal_name, token, "--reason", reason, "--dead"],
    );
}

fn page(up: &Up) -> String {
    let answer = http_get(&up.url("journals"));
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    answer
}

/// Waits until the page holds `text`: its numbers may be a second old.
fn page_with(up: &Up, text: &str) -> String {
    for _ in 0..200 {
        let page = page(up);
        if page.contains(text) {
            return page;
        }
        pause();
    }
    panic!("`{text}` never came: {}", page(up));
}

#[test]
fn an_empty_journal_says_what_to_do_next() {
    let place = Place::new();
    let up = place.up(&[]);
    assert_eq!(
        up.started["journals"],
        json!([
            { "name": "default", "engine": "embedded", "open": true },
            { "name": "pipeline", "engine": "embedded", "open": true },
        ])
    );
    let page = page_with(&up, "Nothing was ever added");
    assert_eq!(page.matches("Nothing was ever added").count(), 2, "{page}");
    let command = "cannery journal add default --key a.png --data '{&quot;width&quot;:200}'";
    assert!(page.contains(command), "{page}");
    assert!(http_get(&up.url("")).contains(r#"<a href="/journals">"#));
    // What the page says is what works.
    journal(
        &place,
        &[
            "add",
            "default",
            "--key",
            "a.png",
            "--data",
            "{\"width\":200}",
        ],
    );
    let page = page_with(&up, "20 new");
    assert!(
        page.contains("1, 1 due") && page.contains("0 now"),
        "{page}"
    );
    // That of the pipeline is still empty.
    assert_eq!(page.matches("Nothing was ever added").count(), 1, "{page}");
    assert_eq!(up.stop().0, 0);
    assert_eq!(journal(&place, &["ls", "default"]).len(), 1);
}

#[test]
fn keys_and_reasons_from_anybody_stay_text() {
    let place = Place::new();
    let up = place.up(&[]);
    let long = "k".repeat(4_000);
    let entries = [
        json!({ "key": HOSTILE, "priority": 0 }),
        json!({ "key": long, "priority": 1 }),
        json!({ "key": "in work" }),
    ];
    add(&place, "default", &entries);
    give_up(&place, "default", &format!("why {HOSTILE}"));
    give_up(&place, "default", "too long");
    journal(&place, &["claim", "default", "--worker", HOSTILE]);
    page_with(&up, "2 entries were given up");
    let page = page_with(&up, "in work");
    assert_eq!(
        page.matches("<script").count(),
        1,
        "only the one of the dashboard: {page}"
    );
    assert!(page.contains("&lt;script&gt;alert(1)"), "{page}");
    let body = page.split_once("\r\n\r\n").unwrap().1;
    let harmful = |c: char| c.is_control() || ('\u{202a}'..='\u{202e}').contains(&c);
    assert!(!body.trim_end().contains(harmful), "{body:?}");
    assert!(
        page.contains(r"rm -rf ~\n'"),
        "the command is one word for the shell: {page}"
    );
    assert!(page.contains(&format!("{}…", "k".repeat(240))) && !page.contains(&"k".repeat(241)));
    for text in [
        "Being processed",
        "2 entries were given up",
        "cannery journal dead ls default",
        "too long",
    ] {
        assert!(page.contains(text), "no `{text}` in {page}");
    }
    let home = http_get(&up.url(""));
    assert!(home.contains("1 thing needs attention"), "{home}");
    assert!(
        http_get(&up.url("readyz")).contains("200 OK"),
        "a warning is no reason to send work elsewhere"
    );
}

#[test]
fn a_long_table_is_cut_and_says_so() {
    let place = Place::new();
    let up = place.up(&[]);
    let entries: Vec<Value> = (0..70)
        .map(|number| json!({ "key": format!("entry-{number}") }))
        .collect();
    add(&place, "default", &entries);
    journal(&place, &["claim", "default", "-n", "65"]);
    let page = page_with(&up, "and 15 more");
    assert_eq!(page.matches("<code>entry-").count(), 50);
    assert!(
        page.contains("cannery journal ls --status processing default"),
        "{page}"
    );
}

#[test]
fn metrics_tell_of_every_operation_and_of_what_is_there() {
    let place = Place::new();
    place.write("c.yml", "journals:\n  work: {lease: 30s}\n");
    let up = place.up(&["--config-file", "c.yml"]);
    add(
        &place,
        "default",
        &[
            json!({ "key": "a" }),
            json!({ "key": "b", "priority": 200 }),
        ],
    );
    give_up(&place, "default", "why");
    // Numbers are at most a second old.
    let wanted = r#"cannery_journal_dead{journal="default"} 1"#;
    let mut metrics = String::new();
    for _ in 0..200 {
        metrics = http_get(&up.url("metrics"));
        if metrics.contains(wanted) {
            break;
        }
        pause();
    }
    for line in [
        wanted,
        r#"cannery_journal_waiting{journal="default",priority="200"} 1"#,
        r#"cannery_journal_waiting{journal="work",priority="20"} 0"#,
        r#"cannery_journal_up{journal="work"} 1"#,
        r#"cannery_journal_adds_total{journal="default"} 2"#,
        r#"cannery_journal_died_total{journal="default"} 1"#,
        r#"cannery_journal_operations_total{journal="default",operation="claim",result="ok"} 1"#,
        r#"cannery_journal_operation_seconds_count{journal="default",operation="fail"} 1"#,
        r#"cannery_journal_segments{journal="default"} 1"#,
        "# TYPE cannery_journal_done counter",
        "# UNIT cannery_journal_oldest_due_age_seconds seconds",
    ] {
        assert!(
            metrics.contains(&format!("{line}\n")),
            "no `{line}` in {metrics}"
        );
    }
}

/// A database that is down: the process runs, says what is wrong, and keeps trying.
#[test]
fn it_is_not_ready_while_a_database_does_not_answer() {
    let place = Place::new();
    let port = cannery_testkit::server::free_port().unwrap();
    let config =
        format!("journals:\n  far: {{engine: 'postgres://u:canary-pw@127.0.0.1:{port}/d'}}\n");
    place.write("c.yml", config);
    let up = place.up(&["--config-file", "c.yml"]);
    assert_eq!(up.started["journals"][1]["open"], false);
    let ready = http_get(&up.url("readyz"));
    assert!(
        ready.contains("503") && ready.contains("journal far: "),
        "{ready}"
    );
    assert!(
        ready.contains(&format!("127.0.0.1:{port}")),
        "it names the place: {ready}"
    );
    let page = page(&up);
    assert!(
        page.contains("journal-far") && page.contains("postgres://u:***@"),
        "{page}"
    );
    let metrics = http_get(&up.url("metrics"));
    assert!(
        metrics.contains("cannery_journal_up{journal=\"far\"} 0\n"),
        "{metrics}"
    );
    for text in [
        &ready,
        &page,
        &metrics,
        &http_get(&up.url("status.json")),
        &up.log(),
    ] {
        assert!(!text.contains("canary-pw"), "{text}");
    }
    journal(&place, &["add", "default", "--key", "still works"]);
    page_with(&up, "1, 1 due");
    assert_eq!(up.stop().0, 0);
}

fn wait_for_metric(up: &Up, line: &str) {
    let there = (0..200).any(|_| {
        pause();
        http_get(&up.url("metrics")).contains(line)
    });
    assert!(
        there,
        "`{line}` never came: {}",
        http_get(&up.url("metrics"))
    );
}

/// A worker that was there first owns the journal: the process goes through it, and takes over when it ends.
#[test]
fn it_goes_through_another_owner_until_that_one_ends() {
    let place = Place::new();
    let mut owner = place.command(&["journal", "watch", "default", "--json"]);
    let mut owner = owner.stdout(Stdio::piped()).spawn().unwrap();
    journal(&place, &["add", "default", "--key", "a"]);
    let mut lines = std::io::BufReader::new(owner.stdout.take().unwrap()).lines();
    lines.next().unwrap().unwrap();
    let up = place.up(&[]);
    let waiting =
        |count| format!("cannery_journal_waiting{{journal=\"default\",priority=\"20\"}} {count}");
    wait_for_metric(&up, &waiting(1));
    owner.kill().unwrap();
    owner.wait().unwrap();
    journal(&place, &["add", "default", "--key", "b"]);
    wait_for_metric(&up, &waiting(2));
    let in_one_file = page_with(&up, "in 1 file");
    assert!(!in_one_file.contains("not ready"), "{in_one_file}");
    assert_eq!(up.stop().0, 0);
    assert_eq!(journal(&place, &["ls", "default"]).len(), 2);
}

/// Commands go through the running process, and it leaves the journal to them when it ends, well or not.
#[test]
fn commands_work_beside_it_and_after_it() {
    let place = Place::new();
    let socket = place.path("cannery-data/journals/default/socket");
    for (round, kill) in [(1, false), (2, true), (3, false)] {
        let up = place.up(&[]);
        assert!(socket.exists());
        add(
            &place,
            "default",
            &[json!({ "key": format!("entry-{round}") })],
        );
        let refused = place.run(&["up", "--listen", "127.0.0.1:0"]);
        assert_eq!(refused.code, 11, "{}", refused.all());
        if kill {
            up.kill();
        } else {
            assert_eq!(up.stop().0, 0);
            assert!(!socket.exists());
        }
        assert_eq!(journal(&place, &["ls", "default"]).len(), round);
    }
}

#[cfg(feature = "real-servers")]
mod database {
    use cannery_testkit::postgres::Postgres;
    use cannery_testkit::proxy::{Fault, FaultProxy};

    use super::*;

    fn ready_is(up: &Up, status: &str) -> bool {
        (0..600).any(|_| {
            pause();
            http_get(&up.url("readyz")).contains(status)
        })
    }

    /// The database comes up later, goes away, and comes back.
    #[tokio::test(flavor = "multi_thread")]
    async fn it_becomes_ready_with_its_database_and_notices_when_it_is_gone() {
        let server = Postgres::start().await.unwrap();
        let proxy = FaultProxy::start(([127, 0, 0, 1], server.port()).into())
            .await
            .unwrap();
        proxy.set(Fault::Refuse).await;
        let port = |port: u16| format!(":{port}/");
        let url = server
            .url()
            .replace(&port(server.port()), &port(proxy.address().port()));
        let place = Place::new();
        place.write("c.yml", format!("journals:\n  far: {{engine: '{url}'}}\n"));
        let up = place.up(&["--config-file", "c.yml"]);
        assert!(http_get(&up.url("readyz")).contains("503"));
        proxy.set(Fault::None).await;
        assert!(ready_is(&up, "200 OK"), "{}", up.log());
        let add = ["add", "far", "--key", "x", "--config-file", "c.yml"];
        journal(&place, &add);
        page_with(&up, "1, 1 due");
        proxy.set(Fault::Refuse).await;
        assert!(ready_is(&up, "503"), "{}", up.log());
        page_with(&up, "journal-far");
        proxy.set(Fault::None).await;
        assert!(ready_is(&up, "200 OK"), "{}", up.log());
        assert_eq!(up.stop().0, 0);
    }
}
