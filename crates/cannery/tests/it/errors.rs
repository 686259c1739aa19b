//! What a person sees when something is wrong: one clear error, the next step, and a code of its own.

use cannery_testkit::feed_server::{Behaviour, FeedServer};

use crate::program::{Place, assert_text, ran};

fn s3_config(endpoint: &str) -> String {
    format!(
        "object_storage:\n- id: main\n  bucket: records\n  endpoint_url: {endpoint}\n  \
         aws_access_key_id: some-key-id\n  aws_secret_access_key: some-secret\n"
    )
}

#[test]
fn a_config_with_a_typo() {
    let place = Place::new();
    place.write(
        "cannery.yml",
        "workspace: data\nobject_storage:\n- id: main\n  buckett: records\n",
    );
    let ran = place.run(&["config", "check", "--config-file", "cannery.yml"]);
    assert_eq!(ran.code, 2);
    assert_text("config_typo", &ran);
}

#[test]
fn a_config_that_is_not_there() {
    let ran = Place::new().run(&["up", "--config-file", "nowhere.yml"]);
    assert_eq!(ran.code, 2);
    assert_text("config_missing", &ran);
}

#[test]
fn a_variable_that_is_not_set() {
    let place = Place::new();
    place.write("cannery.yml", "node: {{ env.NODE_NAME }}\n");
    let ran = place.run(&["config", "show", "--config-file", "cannery.yml"]);
    assert_eq!(ran.code, 2);
    assert_text("config_variable", &ran);
}

#[test]
fn a_lake_that_nobody_made() {
    let ran = Place::new().run(&["lake", "ls"]);
    assert_eq!(ran.code, 10);
    assert_text("lake_missing", &ran);
}

#[test]
fn an_object_that_is_not_there() {
    let ran = Place::new().run(&["lake", "cat", "a/b.json"]);
    assert_eq!(ran.code, 10);
    assert_text("object_missing", &ran);
    let json = Place::new().run(&["lake", "cat", "a/b.json", "--json"]);
    let error: serde_json::Value = serde_json::from_str(json.stderr.trim()).unwrap();
    assert_eq!(
        (
            error["error"]["kind"].as_str(),
            error["error"]["code"].as_i64()
        ),
        (Some("absent"), Some(10))
    );
}

#[test]
fn a_key_that_leaves_the_lake() {
    let ran = Place::new().run(&["lake", "cat", "../../etc/passwd"]);
    assert_eq!(ran.code, 2);
    assert_text("key_invalid", &ran);
}

#[test]
fn content_that_would_replace_another() {
    let place = Place::new();
    place.write("one", "one");
    place.write("two", "two");
    assert_eq!(place.run(&["lake", "put", "k", "one"]).code, 0);
    let ran = place.run(&["lake", "put", "k", "two"]);
    assert_eq!(ran.code, 1);
    assert_text("put_conflict", &ran);
}

#[test]
fn a_workspace_that_is_in_use() {
    let place = Place::new();
    let _first = place.up(&[]);
    let ran = place.run(&["up", "--listen", "127.0.0.1:0"]);
    assert_eq!(ran.code, 11);
    assert_text("workspace_locked", &ran);
}

#[test]
fn an_address_that_is_in_use() {
    let place = Place::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let ran = place.run(&["up", "--listen", &taken.local_addr().unwrap().to_string()]);
    assert_eq!(ran.code, 1);
    assert_text("address_taken", &ran);
}

#[test]
fn another_lake_than_the_workspace_knows() {
    let place = Place::new();
    place.up(&[]).stop();
    place.write("other.yml", "object_storage:\n- url: file:other-lake\n");
    let ran = place.run(&[
        "up",
        "--listen",
        "127.0.0.1:0",
        "--config-file",
        "other.yml",
    ]);
    assert_eq!(ran.code, 1);
    assert_text("lake_changed", &ran);
}

#[test]
fn a_lake_of_a_newer_version() {
    let place = Place::new();
    place.write("x", "x");
    place.run(&["lake", "put", "x", "x"]);
    let newer = include_str!("../../../formats/fixtures/lake_manifest/newer-format.json");
    place.write("cannery-data/lake/cannery.json", newer);
    let ran = place.run(&["lake", "ls"]);
    assert_eq!(ran.code, 1);
    assert_text("lake_newer", &ran);
}

/// In a mount namespace of its own, so that the small disk is this run's alone.
#[test]
fn a_full_disk() {
    let place = Place::new();
    let large = place.write("large", vec![7; 2 << 20]);
    std::fs::create_dir(place.path("small")).unwrap();
    let script = "mount -t tmpfs -o size=1m tmpfs small && exec \"$0\" lake put large \"$1\" --workspace small";
    let mut command = std::process::Command::new("unshare");
    command.args([
        "--mount",
        "--map-root-user",
        "sh",
        "-c",
        script,
        env!("CARGO_BIN_EXE_cannery"),
    ]);
    let ran = ran(command.arg(large).current_dir(place.path("")));
    assert_eq!(ran.code, 13, "{}", ran.snapshot());
    assert_text("disk_full", &ran);
}

/// The first page of a listing arrives, the second never does.
#[tokio::test(flavor = "multi_thread")]
async fn a_listing_that_breaks_off() {
    let server = FeedServer::start().await.unwrap();
    let page = "<?xml version=\"1.0\"?><ListBucketResult><Name>records</Name><KeyCount>1</KeyCount><MaxKeys>1</MaxKeys>\
                <IsTruncated>true</IsTruncated><NextContinuationToken>t</NextContinuationToken><Contents><Key>a/1</Key>\
                <LastModified>2026-11-15T00:00:00.000Z</LastModified><ETag>\"x\"</ETag><Size>5</Size></Contents></ListBucketResult>";
    server.on(
        "/records",
        Behaviour::Bodies(vec![page.into(), "<html>busy</html>".into()]),
    );
    server.on("/records/cannery.json", Behaviour::Status(404));
    let place = Place::new();
    place.write("s3.yml", s3_config(&server.url("")));
    let ran =
        tokio::task::spawn_blocking(move || place.run(&["lake", "ls", "--config-file", "s3.yml"]))
            .await
            .unwrap();
    assert_eq!(ran.code, 3, "{}", ran.snapshot());
    assert!(ran.stdout.contains("a/1"));
    assert_text("listing_cut_off", &ran);
}

/// A store that does not answer at all.
#[test]
fn a_store_that_is_down() {
    let place = Place::new();
    place.write("s3.yml", s3_config("http://127.0.0.1:1"));
    let ran = place.run(&["lake", "ls", "--config-file", "s3.yml"]);
    assert_eq!(ran.code, 1);
    assert_text("store_down", &ran);
}

#[test]
fn the_help_is_worth_reading() {
    let place = Place::new();
    for (name, arguments) in [
        ("help", &["--help"][..]),
        ("help_up", &["up", "--help"]),
        ("help_lake", &["lake", "--help"]),
        ("help_lake_put", &["lake", "put", "--help"]),
        ("help_doctor", &["doctor", "--help"]),
        ("help_history", &["history", "--help"]),
        ("help_redact", &["redact", "--help"]),
    ] {
        assert_text(name, &place.run(arguments));
    }
}
