//! Feeds by the commands of the real binary, on a lake in a folder.

use std::collections::BTreeSet;
use std::path::Path;

use bytes::Bytes;
use cannery_testkit::feed_server::{Behaviour, FeedServer};
use rustix::process::Signal;

use crate::program::{Place, http_get, pause};

pub(crate) const RANGE: [&str; 4] = ["--start-time", "2020-01-01", "--end-time", "2099-01-01"];

/// The last three hours, that which is not over, and a future that nobody has collected: what is written to `--start-time` and
/// `--end-time`.
pub(crate) fn lately() -> [String; 4] {
    let now = cannery_runtime::Clock::real().now();
    let start = now - jiff::SignedDuration::from_hours(3);
    [
        "--start-time".to_owned(),
        start.to_string(),
        "--end-time".to_owned(),
        "2099-01-01".to_owned(),
    ]
}

pub(crate) fn bodies(count: usize) -> Vec<Bytes> {
    (0..count)
        .map(|number| Bytes::from(format!("body {number}")))
        .collect()
}

/// A place with feeds `a`, `b` and `down`.
pub(crate) async fn place() -> (Place, FeedServer) {
    let server = FeedServer::start().await.unwrap();
    server.on("/a", Behaviour::Bodies(bodies(8)));
    server.on("/b", Behaviour::Bodies(bodies(4)));
    server.on("/down", Behaviour::Status(503));
    let place = Place::new();
    place.write("c.yml", config(&server, &["a", "b", "down"]));
    (place, server)
}

pub(crate) fn config(server: &FeedServer, feeds: &[&str]) -> String {
    let feeds = feeds.iter().map(|id| {
        let url = server.url(&format!("/{id}"));
        format!("  - {{id: {id}, url: '{url}', periodicity: 100ms, postfix: .txt, allow_private: true}}\n")
    });
    let feeds: String = feeds.collect();
    format!("node: node1-lab\nserve: {{admin_listen: '127.0.0.1:0'}}\nfeeds:\n{feeds}")
}

pub(crate) fn with<'a>(command: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    let mut all = command.to_vec();
    all.extend(["--config-file", "c.yml"]);
    all.extend(more);
    all
}

/// Collects until the server was asked often enough, and stops.
pub(crate) fn collect(place: &Place, server: &FeedServer) {
    let up = place.up(&["--config-file", "c.yml"]);
    for _ in 0..2_400 {
        if ["/a", "/b", "/down"]
            .iter()
            .all(|path| server.requests(path).len() >= 12)
        {
            break;
        }
        pause();
    }
    let (code, _) = up.stop();
    assert_eq!(code, 0);
}

pub(crate) fn files(folder: &Path) -> BTreeSet<String> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return BTreeSet::new();
    };
    let entries = entries.map(|entry| entry.unwrap().path());
    entries
        .flat_map(|path| match path.is_dir() {
            true => files(&path),
            false => BTreeSet::from([path.display().to_string()]),
        })
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_collected_is_retrieved_audited_deleted_and_stays_deleted() {
    let (place, server) = place().await;
    collect(&place, &server);
    assert_eq!(place.run(&with(&["audit"], &[])).code, 0);
    assert_eq!(place.run(&with(&["consolidate"], &[])).code, 0);
    let gaps = place.run(&with(&["gaps", "--json"], &[]));
    assert_eq!(gaps.code, 20, "{}", gaps.all());

    let target = ["--target-directory", "out"];
    let plan = place.run(&with(
        &["retrieve", "--dry-run"],
        &[&RANGE[..], &target].concat(),
    ));
    assert_eq!(plan.code, 0, "{}", plan.all());
    assert!(plan.stdout.contains("would fetch"), "{}", plan.all());
    assert!(!place.path("out").exists());
    let got = place.run(&with(&["retrieve"], &[&RANGE[..], &target].concat()));
    assert_eq!(got.code, 0, "{}", got.all());
    let names = files(&place.path("out"));
    let of_a = names
        .iter()
        .filter(|name| name.contains("/a/") && name.ends_with(".txt"));
    assert!(of_a.count() >= 8, "{names:?}");
    let contents: BTreeSet<String> = names
        .iter()
        .filter(|name| name.contains("/a/"))
        .map(|name| std::fs::read_to_string(name).unwrap())
        .collect();
    let expected: BTreeSet<String> = (0..8).map(|number| format!("body {number}")).collect();
    assert_eq!(contents, expected);

    let lately = lately();
    let lately: Vec<&str> = lately.iter().map(String::as_str).collect();
    let stores = ["--object-storage-ids", "main", "--feed-ids", "a"];
    let of_a = [&lately[..], &stores].concat();
    let dry = place.run(&with(&["delete", "--dry-run"], &of_a));
    assert_eq!(dry.code, 0, "{}", dry.all());
    assert!(dry.stdout.contains("would delete 1 hour"), "{}", dry.all());
    assert!(
        dry.stdout.contains("without an archive, to be marked"),
        "{}",
        dry.all()
    );
    let archived = place.run(&with(&["delete", "--dry-run", "--archived-only"], &of_a));
    assert!(
        archived
            .stdout
            .ends_with("and mark 0 hours without an archive\n"),
        "{}",
        archived.all()
    );
    let gone = place.run(&with(&["delete", "--json"], &of_a));
    assert_eq!(gone.code, 0, "{}", gone.all());
    let lines = gone.json();
    let said = lines.last().unwrap();
    assert_eq!(said["hours"], 1, "{said}");
    let empty = said["empty_hours"].as_u64().unwrap();
    assert!((3..=4).contains(&empty), "{said}");
    let marks = usize::try_from(empty + 1).unwrap();
    let again = place.run(&with(
        &["retrieve", "--feed-ids", "a"],
        &[&RANGE[..], &target].concat(),
    ));
    assert_eq!(again.code, 10, "{}", again.all());
    collect(&place, &server);
    let lake = files(&place.path("cannery-data/lake/a"));
    let is_mark = |name: &String| name.ends_with("/.deleted.json");
    assert!(lake.iter().all(is_mark), "only marks: {lake:?}");
    assert_eq!(lake.len(), marks, "{lake:?}");
    let lifted = place.run(&with(
        &["delete", "--lift"],
        &[&RANGE[..], &stores].concat(),
    ));
    assert_eq!(lifted.code, 0, "{}", lifted.all());
    let none = place.run(&with(&["delete", "--archived-only"], &of_a));
    assert_eq!(none.code, 10, "{}", none.all());
    let many = place.run(&with(&["delete"], &[&RANGE[..], &stores].concat()));
    assert_eq!(many.code, 2, "{}", many.all());
    assert!(
        many.stderr.contains("at most 10000 at once"),
        "{}",
        many.all()
    );
    assert!(many.stderr.contains("--archived-only"), "{}", many.all());
    assert_eq!(files(&place.path("cannery-data/lake/a")), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn one_download_is_shown_and_stores_nothing() {
    let (place, _server) = place().await;
    let good = place.run(&with(&["feed", "test", "a"], &[]));
    assert_eq!(good.code, 0, "{}", good.all());
    assert!(good.stdout.contains("status 200, 6 B"), "{}", good.stdout);
    assert!(good.stdout.contains("body 0"), "{}", good.stdout);
    let body = place.run(&with(&["feed", "test", "a", "--body"], &[]));
    assert_eq!(body.stdout, "body 1");
    let down = place.run(&with(&["feed", "test", "down"], &[]));
    assert_eq!(down.code, 1);
    assert!(
        down.stderr.contains("the server answered 503"),
        "{}",
        down.stderr
    );
    assert_eq!(place.run(&with(&["feed", "test", "nope"], &[])).code, 10);
    assert!(!place.path("cannery-data").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_process_left_is_cleaned() {
    let (place, server) = place().await;
    let up = place.up(&["--config-file", "c.yml"]);
    for _ in 0..400 {
        if server.requests("/b").len() >= 8 {
            break;
        }
        pause();
    }
    up.kill();
    assert!(!files(&place.path("cannery-data/downloads")).is_empty());
    let status = place.run(&with(&["feed", "status", "--json"], &[]));
    assert_eq!(status.code, 0, "{}", status.all());
    assert_eq!(status.json()[0]["hours_unpacked"], 1);
    let cleaned = place.run(&with(&["clean"], &[]));
    assert_eq!(cleaned.code, 0, "{}", cleaned.all());
    assert_eq!(
        files(&place.path("cannery-data/downloads")),
        BTreeSet::new()
    );
    assert_eq!(files(&place.path("cannery-data/archives")), BTreeSet::new());
    assert_eq!(files(&place.path("cannery-data/lake/b")).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_shipped_in_time_is_named() {
    let (place, server) = place().await;
    let up = place.up(&["--config-file", "c.yml"]);
    for _ in 0..400 {
        if server.requests("/b").len() >= 8 {
            break;
        }
        pause();
    }
    up.kill();
    let text = format!(
        "{}flush_timeout: 1s\nobject_storage: [{{id: main, url: 's3://nowhere', endpoint_url: 'http://127.0.0.1:9', \
         aws_access_key_id: x, aws_secret_access_key: y}}]\n",
        config(&server, &["a", "b", "down"])
    );
    place.write("c.yml", text);
    let cleaned = place.run(&with(&["clean"], &[]));
    assert_eq!(cleaned.code, 3, "{}", cleaned.all());
    assert!(
        cleaned.stderr.contains("not shipped: `"),
        "{}",
        cleaned.all()
    );
    assert!(!files(&place.path("cannery-data/archives")).is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reload_changes_the_feeds_and_a_bad_one_is_shown_and_not_used() {
    let (place, server) = place().await;
    place.write("c.yml", config(&server, &["a"]));
    let up = place.up(&["--config-file", "c.yml"]);
    let wait = |what: &str, is: &dyn Fn() -> bool| {
        for _ in 0..400 {
            if is() {
                return;
            }
            pause();
        }
        panic!("{what}: {}", up.log());
    };
    wait("a", &|| server.requests("/a").len() > 3);
    assert_eq!(server.requests("/b").len(), 0);
    place.write("c.yml", config(&server, &["a", "b"]));
    up.signal(Signal::HUP);
    wait("b", &|| server.requests("/b").len() > 3);
    place.write(
        "c.yml",
        "feeds: [{id: '../x', url: 'https://example.com/'}]\n",
    );
    up.signal(Signal::HUP);
    wait("notice", &|| {
        http_get(&up.url("status.json")).contains("the new configuration is not used")
    });
    let page = http_get(&up.url("feeds/b"));
    assert!(page.contains("the new configuration is not used"), "{page}");
    let asked = server.requests("/b").len();
    wait("b goes on", &|| server.requests("/b").len() > asked + 3);
    place.write("c.yml", config(&server, &["a", "b"]));
    up.signal(Signal::HUP);
    wait("mended", &|| {
        !http_get(&up.url("status.json")).contains("the new configuration is not used")
    });
    assert_eq!(up.stop().0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_admin_port_stops_the_process_and_flushes_and_no_other_port_does() {
    let (place, server) = place().await;
    let up = place.up(&["--config-file", "c.yml"]);
    for _ in 0..400 {
        if server.requests("/b").len() >= 8 {
            break;
        }
        pause();
    }
    let admin = up.started["admin"].as_str().unwrap().to_owned();
    let post = |host: &str| {
        use std::io::{Read as _, Write as _};
        let mut stream = std::net::TcpStream::connect(host).unwrap();
        write!(stream, "POST /shutdown HTTP/1.1\r\nHost: {host}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n").unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let main = up.url("");
    let main = main.trim_start_matches("http://").trim_end_matches('/');
    assert!(post(main).starts_with("HTTP/1.1 405"), "{}", post(main));
    assert!(post(&admin).starts_with("HTTP/1.1 2"));
    let (code, _) = up.stop();
    assert_eq!(code, 0);
    assert_eq!(files(&place.path("cannery-data/lake/b")).len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_configuration_from_a_url_reads_allowed_variables_and_is_followed() {
    let (mut place, server) = place().await;
    place.set("FEED_KEY", "k3y-canary-12345");
    place.set("OTHER", "not-allowed");
    let with_key = |feeds: &[&str]| {
        config(&server, feeds).replace(
            "allow_private: true",
            "allow_private: true, headers: {x-key: '{{ .FEED_KEY }}'}",
        )
    };
    server.on("/c.yml", Behaviour::body(with_key(&["a"])));
    let url = server.url("/c.yml");
    let allowed = ["--config-env", "FEED_KEY", "--config-allow", "private"];
    let arguments = [&["--config-url", &url], &allowed[..]].concat();
    let up = place.up(&arguments);
    let wait = |what: &str, is: &dyn Fn() -> bool| {
        for _ in 0..400 {
            if is() {
                return;
            }
            pause();
        }
        panic!("{what}: {}", up.log());
    };
    wait("a", &|| server.requests("/a").len() > 3);
    let asked = &server.requests("/a")[0];
    assert_eq!(asked.header("x-key"), Some("k3y-canary-12345"));
    server.on("/c.yml", Behaviour::body(with_key(&["a", "b"])));
    up.signal(Signal::HUP);
    wait("b", &|| server.requests("/b").len() > 3);
    // Its author may not read what was not allowed: the old one stays in force.
    let greedy = with_key(&["a", "b"]).replace(".FEED_KEY", ".OTHER");
    server.on("/c.yml", Behaviour::body(greedy));
    up.signal(Signal::HUP);
    wait("notice", &|| {
        http_get(&up.url("status.json")).contains("the new configuration is not used")
    });
    let metrics = http_get(&up.url("metrics"));
    assert!(
        metrics.contains("cannery_config_reloads_total{outcome=\"failed\"} 1"),
        "{metrics}"
    );
    let asked = server.requests("/b").len();
    wait("b goes on", &|| server.requests("/b").len() > asked + 3);
    for text in [metrics, up.log(), http_get(&up.url("feeds/a"))] {
        assert!(!text.contains("k3y-canary"), "{text}");
    }
    // The URL is down: the last good copy is used.
    assert_eq!(up.stop().0, 0);
    server.on("/c.yml", Behaviour::Status(500));
    let before = server.requests("/b").len();
    let up = place.up(&arguments);
    for _ in 0..400 {
        if server.requests("/b").len() > before {
            break;
        }
        pause();
    }
    assert!(server.requests("/b").len() > before, "{}", up.log());
    assert_eq!(up.stop().0, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_lake_is_refused_and_a_mirror_that_is_down_is_not_asked() {
    let (place, server) = place().await;
    collect(&place, &server);
    let feeds = config(&server, &["a", "b", "down"]);
    let dead = "{id: two, url: 's3://nowhere', endpoint_url: 'http://127.0.0.1:9', aws_access_key_id: x, aws_secret_access_key: y}";
    let storages =
        |main: &str| format!("{feeds}object_storage: [{{id: main, url: '{main}'}}, {dead}]\n");
    place.write("c.yml", storages("file:cannery-data/lake"));
    let target = ["--target-directory", "out"];
    let got = place.run(&with(&["retrieve"], &[&RANGE[..], &target].concat()));
    assert_eq!(got.code, 0, "{}", got.all());
    let audited = place.run(&with(&["audit", "--object-storage-ids", "main"], &[]));
    assert_eq!(audited.code, 0, "{}", audited.all());

    // The lake of another workspace.
    let other = Place::new();
    other.write("c.yml", &feeds);
    let up = other.up(&["--config-file", "c.yml"]);
    assert_eq!(up.stop().0, 0);
    let lake = other.path("cannery-data/lake");
    let before = files(&lake);
    place.write("c.yml", storages(&format!("file:{}", lake.display())));
    let (lately, target) = (lately(), ["--target-directory", "elsewhere"]);
    let lately: Vec<&str> = lately.iter().map(String::as_str).collect();
    for (command, more) in [
        (&["audit", "--fix"][..], vec![]),
        (&["consolidate"], vec![]),
        (&["gaps"], vec![]),
        (&["retrieve"], [&lately[..], &target].concat()),
        (&["delete"], lately.clone()),
        (&["delete", "--dry-run"], lately.clone()),
        (&["delete", "--lift"], lately.clone()),
    ] {
        let main = ["--object-storage-ids", "main"];
        let refused = place.run(&with(command, &[&main[..], &more].concat()));
        assert_eq!(refused.code, 1, "{}", refused.all());
        assert!(
            refused
                .stderr
                .contains("but this workspace belongs to lake"),
            "{}",
            refused.all()
        );
    }
    let archives =
        |names: &BTreeSet<String>| names.iter().filter(|name| name.contains(".tar")).count();
    assert_eq!(
        archives(&files(&lake)),
        archives(&before),
        "nothing was shipped, merged or deleted there"
    );
    let marks = |names: &BTreeSet<String>| names.iter().any(|name| name.contains(".deleted"));
    assert!(!marks(&files(&lake)));
    assert!(!place.path("elsewhere").exists());
}
