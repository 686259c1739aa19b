//! Journals in PostgreSQL.

use std::sync::Arc;

use cannery_testkit::postgres::Postgres;
use serde_json::{Value, json};

use super::{journal, journal_fed};
use crate::program::{Place, Ran};

const CONFIG: [&str; 2] = ["--config-file", "c.yml"];

fn run(place: &Place, arguments: &[&str]) -> Ran {
    journal(place, &[arguments, &CONFIG].concat())
}

fn lines(place: &Place, arguments: &[&str]) -> Vec<Value> {
    let ran = run(place, &[arguments, &["--json"]].concat());
    assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.all());
    ran.json()
}

async fn on_database(test: impl FnOnce(&Place) + Send + 'static) {
    let server = Postgres::start().await.unwrap();
    let place = Arc::new(Place::new());
    let config = format!(
        "journals:\n  default: {{engine: '{}'}}\n  other: {{lease: 30s}}\n",
        server.url()
    );
    place.write("c.yml", config);
    tokio::task::spawn_blocking(move || test(&place))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_added_claimed_and_done() {
    on_database(|place| {
        let added = journal_fed(
            place,
            &[&["add", "default"], &CONFIG[..]].concat(),
            b"{\"key\":\"a\",\"data\":{\"x\": 1.0}}\n{\"key\":\"b\",\"priority\":\"now\"}\n{\"key\":\"a\"}\n",
        );
        assert_eq!(added.stdout, "added 3: 2 inserted, 1 merged, 0 stale\n", "{}", added.all());
        let claimed = lines(place, &["claim", "default"]);
        assert_eq!(claimed[0]["key"], "b");
        let token = claimed[0]["token"].as_str().unwrap();
        assert_eq!(run(place, &["heartbeat", "default", token]).code, 0);
        assert_eq!(run(place, &["done", "default", token]).code, 0);
        assert_eq!(run(place, &["done", "default", token]).code, 1);
        let done = run(place, &["work", "default", "--exec", "/bin/true", "--once", "--json"]);
        assert_eq!(done.json().last().unwrap()["done"], 1, "{}", done.all());
        assert_eq!(run(place, &["claim", "default"]).code, 10);
        assert!(!place.path("cannery-data").exists(), "nothing is kept here");
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn journals_are_declared_in_the_database_of_the_default_one() {
    on_database(|place| {
        assert_eq!(run(place, &["ls", "files"]).code, 10);
        assert_eq!(
            lines(place, &["declare", "files", "--lease", "5s"])[0]["version"],
            1
        );
        assert_eq!(
            lines(place, &["declare", "files", "--lease", "6s"])[0]["version"],
            2
        );
        assert_eq!(run(place, &["add", "files", "--key", "k"]).code, 0);
        let names = lines(place, &["names"]);
        let names: Vec<&str> = names
            .iter()
            .filter_map(|name| name["journal"].as_str())
            .collect();
        assert_eq!(names, ["default", "files", "other", "pipeline"]);
        let mistyped = run(place, &["ls", "flies"]);
        assert!(
            mistyped.stderr.contains("did you mean `files`?"),
            "{}",
            mistyped.all()
        );
        assert_eq!(lines(place, &["stats", "files"])[0]["waiting"], json!(1));
        assert_eq!(lines(place, &["stats", "other"])[0]["waiting"], json!(0));
    })
    .await;
}
