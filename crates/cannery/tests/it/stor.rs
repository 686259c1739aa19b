//! `cannery stor`, `cannery user` and `cannery token`, as a person uses them.

use std::os::unix::fs::PermissionsExt as _;
use std::process::Stdio;

use crate::program::{Place, Up, assert_text, http_get, http_send, ran};

/// What a command prints, which must succeed.
fn good(place: &Place, arguments: &[&str]) -> String {
    let ran = place.run(arguments);
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.all());
    ran.stdout
}

#[test]
fn objects_are_put_listed_linked_got_and_removed() {
    let place = Place::new();
    let up = place.up(&[]);
    place.write("a.txt", "some text\n");
    let missing = place.run(&["stor", "put", "stor/notes/a b%?.txt", "a.txt"]);
    assert_eq!(missing.code, 10, "{}", missing.all());
    let arguments = [
        "stor",
        "put",
        "-p",
        "stor/notes/a b%?.txt",
        "a.txt",
        "-H",
        "m-source: hand",
    ];
    good(&place, &arguments);
    good(&place, &["stor", "mkdir", "-p", "stor/deep/er"]);
    good(
        &place,
        &["stor", "ln", "stor/notes/a b%?.txt", "public/a.txt"],
    );
    assert_eq!(good(&place, &["stor", "ls"]), "deep/\nnotes/\n");
    assert_eq!(
        good(&place, &["stor", "get", "stor/notes/a b%?.txt"]),
        "some text\n"
    );
    let found = good(
        &place,
        &["stor", "find", "--type", "object", "--name", "*.txt"],
    );
    assert_eq!(found, "/local/stor/notes/a b%?.txt\n");
    let again = place.run(&["stor", "put", "--if-absent", "public/a.txt", "a.txt"]);
    assert!(
        again.code == 1 && again.stderr.contains("PreconditionFailed"),
        "{}",
        again.all()
    );
    // Anybody reads what is public, and nobody else what is not.
    let public = http_get(&up.url("local/public/a.txt"));
    assert!(
        public.contains("200 OK") && public.ends_with("some text\n"),
        "{public}"
    );
    let private = http_get(&up.url("local/stor/notes/a%20b%25%3F.txt"));
    assert!(private.contains("401 Unauthorized"), "{private}");
    // What would not be stored is refused, and not dropped.
    for header in [
        "content-type: application/json; type=directory",
        "x-other: y",
    ] {
        let refused = place.run(&["stor", "put", "stor/x", "a.txt", "-H", header]);
        assert_eq!(refused.code, 2, "{}", refused.all());
    }
    let url = up.url("local/stor/x");
    let directory = "Content-Type: application/json; type=directory\r\n";
    assert_eq!(
        http_send(&place, ("PUT", &url), directory, b"text")
            .unwrap()
            .0,
        400
    );
    let twice = "Content-Type: a/b\r\nContent-Type: application/json; type=directory\r\n";
    assert_eq!(
        http_send(&place, ("PUT", &url), twice, b"text").unwrap().0,
        400
    );
    assert_eq!(place.run(&["stor", "get", "stor/x"]).code, 10);
    assert_eq!(place.run(&["lake", "put", "users/x", "a.txt"]).code, 2);
    assert_eq!(place.run(&["stor", "rm", "stor/x"]).code, 0);
    let full = place.run(&["stor", "rm", "stor/notes"]);
    assert!(full.stderr.contains("DirectoryNotEmpty"), "{}", full.all());
    good(&place, &["stor", "rm", "-r", "stor/notes"]);
    assert_eq!(
        good(&place, &["stor", "find"]),
        "/local/stor/deep\n/local/stor/deep/er\n"
    );
    assert_eq!(
        good(&place, &["stor", "get", "public/a.txt"]),
        "some text\n"
    );
    assert_eq!(up.stop().0, 0);
    let stopped = place.run(&["stor", "ls"]);
    assert_text("stor_without_a_server", &stopped);
}

/// Whoever got the port of a server that died does not get the token, also when a process of its number lives.
#[test]
fn the_token_goes_to_the_process_that_holds_the_workspace_alone() {
    let place = Place::new();
    let up = place.up(&[]);
    up.kill();
    let stranger = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let url = format!("http://{}/", stranger.local_addr().unwrap());
    for pid in [
        std::process::id().to_string(),
        "1".to_owned(),
        "-1".to_owned(),
    ] {
        place.write(
            "cannery-data/api.json",
            format!(r#"{{"url":"{url}","pid":{pid}}}"#),
        );
        let asked = place.run(&["stor", "ls"]);
        assert!(
            asked.code == 1 && asked.stderr.contains("no server runs"),
            "{}",
            asked.all()
        );
    }
    assert!(stranger.accept().is_err(), "somebody came");
}

/// Also when the database is lost right after the user was removed.
#[test]
fn a_user_who_was_removed_does_not_come_back_with_a_rebuild() {
    let place = Place::new();
    let up = place.up(&[]);
    good(&place, &["user", "add", "ann"]);
    let token = good(&place, &["token", "create", "--user", "ann"]);
    place.write("a.txt", "a secret");
    let mut put = place.command(&["stor", "put", "/ann/public/a", "a.txt"]);
    assert_eq!(ran(put.env("CANNERY_TOKEN", token.trim())).code, 0);
    good(&place, &["user", "rm", "ann", "--with-objects"]);
    assert_eq!(up.stop().0, 0);
    remove_state(&place);
    good(&place, &["rebuild"]);
    let up = place.up(&[]);
    let gone = http_get(&up.url("ann/public/a"));
    assert!(gone.contains("404 Not Found"), "{gone}");
    assert!(!good(&place, &["user", "ls"]).contains("ann"));
    assert_eq!(place.run(&["user", "rm", "local"]).code, 2);
}

#[test]
fn standard_input_of_any_length_and_its_bytes_come_back() {
    let place = Place::new();
    let up = place.up(&[]);
    let bytes: Vec<u8> = (0..3_000_000_u32).map(|n| (n * 7 % 251) as u8).collect();
    place.write("bytes", &bytes);
    let input = std::fs::File::open(place.path("bytes")).unwrap();
    let mut put = place.command(&["stor", "put", "stor/bytes", "-"]);
    assert_eq!(ran(put.stdin(input)).code, 0);
    let mut get = place.command(&["stor", "get", "stor/bytes"]);
    let got = get.stderr(Stdio::inherit()).output().unwrap();
    assert!(got.stdout == bytes);
    drop(up);
}

/// The files by which the command line proves to be the user of this machine are its owner's alone, and the token is the same after a
/// restart.
#[test]
fn the_token_of_the_workspace_is_private_and_stays() {
    let place = Place::new();
    let up = place.up(&[]);
    let token = std::fs::read_to_string(place.path("cannery-data/token")).unwrap();
    for name in ["token", "api.json", "state.sqlite", "state.sqlite-wal"] {
        let file = place.path("cannery-data").join(name);
        let mode = std::fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{name}");
    }
    assert!(!up.log().contains(token.trim()), "a secret in the log");
    assert_eq!(up.stop().0, 0);
    let up = place.up(&[]);
    let again = std::fs::read_to_string(place.path("cannery-data/token")).unwrap();
    assert_eq!(token, again);
    // One that was revoked or damaged is replaced by the next start.
    let id = token.split('_').nth(1).unwrap();
    good(&place, &["token", "revoke", id]);
    assert_eq!(place.run(&["stor", "ls"]).code, 12);
    assert_eq!(up.stop().0, 0);
    let up = place.up(&[]);
    assert_eq!(good(&place, &["stor", "ls"]), "");
    drop(up);
}

/// Sends a request as it stands, and reads the answer.
fn send(up: &Up, head: &str) -> String {
    use std::io::{Read as _, Write as _};
    let url = up.url("");
    let host = url.trim_start_matches("http://").trim_end_matches('/');
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    write!(stream, "{head}Host: {host}\r\nConnection: close\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// Whichever way a secret comes, and whether it is good or not, it is told nowhere.
#[test]
fn no_credential_is_ever_told() {
    let place = Place::new();
    let up = place.up(&["-vv"]);
    let token = std::fs::read_to_string(place.path("cannery-data/token")).unwrap();
    let token = token.trim();
    let mut told = String::new();
    for (request, status) in [
        (format!("GET /local/stor HTTP/1.1\r\nAuthorization: Bearer {token}\r\n"), 200),
        (format!("GET /local/stor HTTP/1.1\r\nAuthorization: Basic {token}\r\n"), 401),
        (format!("GET /local/stor HTTP/1.1\r\nCookie: cannery_session={token}\r\n"), 401),
        ("GET /local/stor HTTP/1.1\r\nAuthorization: Bearer cannery_canary_canary\r\n".to_owned(), 401),
        (
            "GET /local/stor HTTP/1.1\r\nDate: Sun, 15 Nov 2026 18:24:03 GMT\r\nAuthorization: Signature keyId=\"/local/keys/canary\",algorithm=\"rsa-sha256\",signature=\"canary\"\r\n".to_owned(),
            403,
        ),
        (
            "GET /local/stor/a?algorithm=rsa-sha256&expires=99&keyId=%2Flocal%2Fkeys%2Fcanary&method=GET&signature=canary HTTP/1.1\r\n".to_owned(),
            403,
        ),
        ("POST /login?code=canary HTTP/1.1\r\nSec-Fetch-Site: same-origin\r\nContent-Length: 0\r\n".to_owned(), 403),
    ] {
        let answer = send(&up, &request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}{answer}");
        told += &answer;
    }
    for path in ["", "metrics", "status.json", "objects"] {
        told += &http_get(&up.url(path));
    }
    told += &up.log();
    let secret = token.rsplit('_').next().unwrap();
    for canary in [secret, "canary"] {
        assert!(!told.contains(canary), "{canary}");
    }
    assert!(
        up.log().contains("answered a request"),
        "the log tells of requests"
    );
    assert_eq!(up.stop().0, 0);
}

#[test]
fn a_token_does_what_its_scopes_say_and_goes_nowhere_else() {
    let mut place = Place::new();
    let up = place.up(&[]);
    good(&place, &["user", "add", "ann"]);
    let reader = good(
        &place,
        &["token", "create", "--user", "ann", "--scope", "read"],
    );
    place.set("CANNERY_TOKEN", reader.trim());
    place.set("CANNERY_USER", "ann");
    place.write("a.txt", "text");
    assert_eq!(good(&place, &["stor", "ls"]), "");
    let refused = place.run(&["stor", "put", "stor/a", "a.txt"]);
    assert!(
        refused.code == 12 && refused.stderr.contains("scope `write`"),
        "{}",
        refused.all()
    );
    let other = place.run(&["stor", "ls", "/local/stor"]);
    assert_eq!(other.code, 12, "{}", other.all());
    let plain = place.run(&["stor", "--url", "http://192.0.2.1:8420", "ls"]);
    assert!(
        plain.code == 2 && plain.stderr.contains("use https"),
        "{}",
        plain.all()
    );
    assert!(!plain.all().contains(reader.trim()));
    let unknown = place.run(&["token", "create", "--scope", "everything"]);
    assert_eq!(unknown.code, 2);
    drop(up);
}

#[test]
fn users_are_added_limited_and_removed() {
    let place = Place::new();
    let up = place.up(&[]);
    for name in ["lake", "status", "openapi.json", "Ann", "../x"] {
        let refused = place.run(&["user", "add", name]);
        assert_eq!(refused.code, 2, "{name}: {}", refused.all());
    }
    good(&place, &["user", "add", "ann", "--bytes-max", "10"]);
    assert_eq!(place.run(&["user", "add", "ann"]).code, 1);
    let token = good(&place, &["token", "create", "--user", "ann"]);
    let put = |body: &str| {
        place.write("body", body);
        let mut command = place.command(&["stor", "--user", "ann", "put", "stor/a", "body"]);
        ran(command.env("CANNERY_TOKEN", token.trim()))
    };
    let full = put("eleven bytes");
    assert!(
        full.code == 13 && full.stderr.contains("QuotaExceeded"),
        "{}",
        full.all()
    );
    good(&place, &["user", "set", "ann", "--bytes-max", "none"]);
    assert_eq!(put("eleven bytes").code, 0);
    let kept = place.run(&["user", "rm", "ann"]);
    assert!(
        kept.code == 1 && kept.stderr.contains("--with-objects"),
        "{}",
        kept.all()
    );
    good(&place, &["user", "rm", "ann", "--with-objects"]);
    assert_eq!(put("x").code, 12);
    // Somebody else of that name has nothing of it.
    good(&place, &["user", "add", "ann"]);
    let path = up.url("ann/stor/a");
    assert_eq!(http_send(&place, ("GET", &path), "", b"").unwrap().0, 403);
    let users: Vec<_> = place.run(&["user", "ls", "--json"]).json();
    let names: Vec<_> = users
        .iter()
        .map(|user| user["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["ann", "local"]);
}

/// Everything below `stor` and `public`, and what is in it.
fn everything(place: &Place) -> String {
    let found = ["stor", "public"].map(|area| good(place, &["stor", "find", area, "--json"]));
    let found = found.concat();
    let objects = found.lines().filter_map(|line| {
        let entry: serde_json::Value = serde_json::from_str(line).unwrap();
        (entry["type"] == "object").then(|| entry["path"].as_str().unwrap().to_owned())
    });
    let contents = objects.map(|path| good(place, &["stor", "get", &path]));
    contents.fold(found.clone(), |all, content| all + &content)
}

fn fill(place: &Place) {
    place.write("a.txt", "some text\n");
    for path in ["stor/x/y/a", "stor/x/b", "public/c"] {
        good(place, &["stor", "put", "-p", path, "a.txt", "-H", "m-a: b"]);
    }
    good(place, &["stor", "rm", "stor/x/b"]);
    good(place, &["stor", "ln", "stor/x/y/a", "public/linked"]);
}

fn remove_state(place: &Place) {
    for name in ["state.sqlite", "state.sqlite-wal", "state.sqlite-shm"] {
        std::fs::remove_file(place.path("cannery-data").join(name)).ok();
    }
}

#[test]
fn without_its_database_the_namespace_is_made_anew_from_the_lake() {
    let place = Place::new();
    let up = place.up(&[]);
    fill(&place);
    let before = everything(&place);
    assert_eq!(up.stop().0, 0);
    remove_state(&place);
    let up = place.up(&[]);
    up.wait_for_log("users' objects cannot be used");
    let refused = place.run(&["stor", "ls"]);
    assert_eq!(refused.code, 1, "{}", refused.all());
    assert!(http_get(&up.url("")).contains("cannery rebuild"));
    let running = place.run(&["rebuild"]);
    assert_eq!(running.code, 11, "{}", running.all());
    assert_eq!(up.stop().0, 0);
    let rebuilt = good(&place, &["rebuild"]);
    assert!(
        rebuilt.contains("names of users' objects: 5 names"),
        "{rebuilt}"
    );
    assert!(!good(&place, &["rebuild"]).contains("names of users"));
    let up = place.up(&[]);
    assert_eq!(everything(&place), before);
    drop(up);
}

#[test]
fn an_old_backup_of_the_database_is_refused_until_it_is_made_anew() {
    let place = Place::new();
    let up = place.up(&[]);
    place.write("a.txt", "old\n");
    good(&place, &["stor", "put", "stor/a", "a.txt"]);
    assert_eq!(up.stop().0, 0);
    let state = place.path("cannery-data/state.sqlite");
    #[allow(clippy::disallowed_methods, reason = "the input of a test")]
    std::fs::copy(&state, place.path("backup")).unwrap();
    let up = place.up(&[]);
    fill(&place);
    let before = everything(&place);
    assert_eq!(up.stop().0, 0);
    remove_state(&place);
    #[allow(clippy::disallowed_methods, reason = "the input of a test")]
    std::fs::copy(place.path("backup"), &state).unwrap();
    let up = place.up(&[]);
    up.wait_for_log("an old backup");
    let url = up.url("local/stor/a");
    assert_eq!(http_send(&place, ("GET", &url), "", b"").unwrap().0, 503);
    assert_eq!(up.stop().0, 0);
    good(&place, &["rebuild", "--objects"]);
    let up = place.up(&[]);
    assert_eq!(everything(&place), before);
    drop(up);
}
