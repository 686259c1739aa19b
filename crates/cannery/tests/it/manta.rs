//! The original's own client, unchanged, against a running `cannery up`: what it puts it gets, and what it signs is accepted.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use cannery_testkit::tools;

use crate::program::{Place, Ran, Up, http_get, ran};

const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/manta");

/// The client with one key of the user `ann`.
struct Client<'a> {
    place: &'a Place,
    url: String,
    fingerprint: String,
}

fn node_modules() -> PathBuf {
    let script = tools::node_script("manta", "bin/mput").unwrap();
    script.ancestors().nth(3).unwrap().to_owned()
}

/// A script of Node, with the packages of the client.
fn node(place: &Place, script: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(tools::system("node").unwrap());
    command
        .arg(script)
        .args(arguments)
        .current_dir(place.path(""))
        .env_clear()
        .env("NODE_PATH", node_modules())
        .env("HOME", place.path(""))
        .stdin(Stdio::null());
    command
}

impl Client<'_> {
    fn command(&self, tool: &str, arguments: &[&str]) -> Command {
        let script = tools::node_script("manta", &format!("bin/{tool}")).unwrap();
        let mut command = node(self.place, script.to_str().unwrap(), arguments);
        command
            .env("MANTA_URL", self.url.trim_end_matches('/'))
            .env("MANTA_USER", "ann")
            .env("MANTA_KEY_ID", &self.fingerprint);
        command
    }

    fn try_run(&self, tool: &str, arguments: &[&str]) -> Ran {
        ran(&mut self.command(tool, arguments))
    }

    /// What a command prints, which must succeed.
    fn run(&self, tool: &str, arguments: &[&str]) -> String {
        let done = self.try_run(tool, arguments);
        assert_eq!(done.code, 0, "{tool} {arguments:?}: {}", done.all());
        done.stdout
    }

    /// The same with a file as its standard input.
    fn pipe(&self, file: &str, tool: &str, arguments: &[&str]) {
        let input = std::fs::File::open(self.place.path(file)).unwrap();
        let done = ran(self.command(tool, arguments).stdin(input));
        assert_eq!(done.code, 0, "{tool} {arguments:?}: {}", done.all());
    }
}

/// A server with the user `ann`, who has a key of each kind; the fingerprints by their kinds.
fn with_keys(place: &Place) -> (Up, Vec<(String, String)>) {
    let up = place.up(&[]);
    let folder = place.path(".ssh");
    #[allow(clippy::disallowed_methods, reason = "the input of a test")]
    std::fs::create_dir(&folder).unwrap();
    let script = format!("{SCRIPTS}/keys.js");
    let made = ran(&mut node(place, &script, &[folder.to_str().unwrap()]));
    assert_eq!(made.code, 0, "{}", made.all());
    let added = place.run(&["user", "add", "ann"]);
    assert_eq!(added.code, 0, "{}", added.all());
    let mut keys = Vec::new();
    for line in made.stdout.lines() {
        let (kind, fingerprint) = line.split_once(' ').unwrap();
        let file = format!(".ssh/id_{kind}.pub");
        let added = place.run(&["user", "key", "add", "ann", &file]);
        assert_eq!(added.code, 0, "{}", added.all());
        assert!(added.stdout.contains(fingerprint), "{}", added.all());
        keys.push((kind.to_owned(), fingerprint.to_owned()));
    }
    (up, keys)
}

#[test]
fn each_kind_of_key_puts_lists_gets_and_signs() {
    let place = Place::new();
    let (up, keys) = with_keys(&place);
    let text: String = (0..2_000).map(|n| format!("line {n}\n")).collect();
    place.write("text", &text);
    place.write("empty", "");
    for (kind, fingerprint) in &keys {
        let client = Client {
            place: &place,
            url: up.url(""),
            fingerprint: fingerprint.clone(),
        };
        let at = |name: &str| format!("/ann/stor/{kind}/{name}");
        // Parents are made, and nothing is sent before they are.
        client.run("mput", &["-p", "-f", "text", &at("deep/er/file")]);
        assert_eq!(client.run("mget", &[&at("deep/er/file")]), text);
        client.pipe("text", "mput", &[&at("stdin")]);
        assert_eq!(client.run("mget", &[&at("stdin")]), text);
        client.run("mput", &["-f", "empty", &at("empty")]);
        assert_eq!(client.run("mget", &[&at("empty")]), "");
        let signed = client.run("msign", &[&at("stdin")]);
        let signed = signed.trim();
        let shared = http_get(signed);
        assert!(
            shared.contains("200 OK") && shared.ends_with(&text),
            "{shared}"
        );
        let changed = http_get(&signed.replace("stdin", "empty"));
        assert!(changed.contains("403 Forbidden"), "{changed}");
        // Our own command line signs as theirs does.
        let key = format!(".ssh/id_{kind}");
        let ours = place.run(&["stor", "sign", &at("stdin"), "--key", &key]);
        assert_eq!(ours.code, 0, "{}", ours.all());
        let shared = http_get(ours.stdout.trim());
        assert!(
            shared.contains("200 OK") && shared.ends_with(&text),
            "{shared}"
        );
        let names = client.run("mls", &[&at("")]);
        assert_eq!(names, "deep/\nempty\nstdin\n");
    }
}

#[test]
fn every_command_does_what_it_does_elsewhere() {
    let place = Place::new();
    let (up, keys) = with_keys(&place);
    let client = Client {
        place: &place,
        url: up.url(""),
        fingerprint: keys[0].1.clone(),
    };
    place.write("text", "some text\n");
    client.run("mmkdir", &["-p", "/ann/stor/a/b c/d"]);
    client.run("mmkdir", &["-p", "/ann/stor/a/b c/d"]);
    client.run("mput", &["-m", "-f", "text", "/ann/stor/a/checked"]);
    let header = ["-H", "m-source: hand", "-H", "content-type: text/plain"];
    let file = ["-f", "text", "/ann/stor/a/b c/d/x%41"];
    client.run(
        "mput",
        &[header, [file[0], file[1], file[2], "-q"]].concat(),
    );
    let lines = client.run("mls", &["-j", "/ann/stor/a/b c/d"]);
    let line: serde_json::Value = serde_json::from_str(lines.trim()).unwrap();
    assert_eq!((&line["name"], &line["size"]), (&"x%41".into(), &10.into()));
    let long = client.run("mls", &["-l", "/ann/stor/a"]);
    assert!(long.contains("checked") && long.contains("b c"), "{long}");
    let info = client.run("minfo", &["/ann/stor/a/b c/d/x%41"]);
    assert!(
        info.contains("m-source: hand") && info.contains("content-type: text/plain"),
        "{info}"
    );
    client.run("mln", &["/ann/stor/a/b c/d/x%41", "/ann/stor/a/linked"]);
    client.run("mrm", &["/ann/stor/a/b c/d/x%41"]);
    assert_eq!(client.run("mget", &["/ann/stor/a/linked"]), "some text\n");
    client.run("mchattr", &["-H", "m-source: other", "/ann/stor/a/linked"]);
    let info = client.run("minfo", &["/ann/stor/a/linked"]);
    assert!(info.contains("m-source: other"), "{info}");
    let found = client.run("mfind", &["-t", "o", "/ann/stor"]);
    let mut found: Vec<&str> = found.lines().collect();
    found.sort_unstable();
    assert_eq!(found, ["/ann/stor/a/checked", "/ann/stor/a/linked"]);
    let full = client.try_run("mrmdir", &["/ann/stor/a"]);
    assert!(
        full.code != 0 && full.all().contains("not empty"),
        "{}",
        full.all()
    );
    client.run("mrm", &["-r", "/ann/stor/a"]);
    assert_eq!(client.run("mls", &["/ann/stor"]), "");
}

#[test]
fn thousands_of_objects_in_many_directories_are_removed() {
    let place = Place::new();
    let (up, keys) = with_keys(&place);
    let long = cannery_testkit::long_run();
    let (directories, objects) = if long { (40, 75) } else { (8, 40) };
    let token = place.run(&["token", "create", "--user", "ann"]);
    let stor = up.url("ann/stor/");
    let counts = [directories, objects].map(|n: usize| n.to_string());
    let script = format!("{SCRIPTS}/fill.js");
    let arguments = [&stor, token.stdout.trim(), &counts[0], &counts[1]];
    let filled = ran(&mut node(&place, &script, &arguments));
    assert_eq!(filled.code, 0, "{}", filled.all());
    let client = Client {
        place: &place,
        url: up.url(""),
        fingerprint: keys[1].1.clone(),
    };
    let found = client.run("mfind", &["-t", "o", "/ann/stor/many"]);
    assert_eq!(found.lines().count(), directories * objects);
    client.run("mrm", &["-r", "/ann/stor/many"]);
    assert_eq!(client.run("mls", &["/ann/stor"]), "");
}

/// The client asks for the rest as its library does when a connection breaks: up to one byte too many, under the etag that it saw. (The
/// library itself no longer notices a broken connection on the Node of today.)
#[test]
fn a_download_is_resumed() {
    let place = Place::new();
    let (up, keys) = with_keys(&place);
    let text: String = (0..400_000).map(|n| format!("line {n}\n")).collect();
    place.write("text", &text);
    let client = Client {
        place: &place,
        url: up.url(""),
        fingerprint: keys[2].1.clone(),
    };
    client.run("mput", &["-f", "text", "/ann/stor/large"]);
    let info = client.run("minfo", &["/ann/stor/large"]);
    let etag = info.lines().find_map(|line| line.strip_prefix("etag: "));
    let etag = format!("if-match: {}", etag.unwrap());
    let begun = client.run("mget", &["-H", "range: bytes=0-999999", "/ann/stor/large"]);
    let rest = format!("range: bytes={}-{}", begun.len(), text.len());
    let rest = client.run("mget", &["-H", &rest, "-H", &etag, "/ann/stor/large"]);
    assert!(begun + &rest == text);
    client.run("mput", &["-f", "text", "/ann/stor/large"]);
    let stale = client.try_run("mget", &["-H", &etag, "/ann/stor/large"]);
    assert_ne!(stale.code, 0, "another object is not the rest of this one");
}
