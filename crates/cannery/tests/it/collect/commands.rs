//! The commands around a spool, as a person uses them.

use super::node::{Node, stop};
use crate::program::{Place, assert_text, http_get, pause};

/// The example of the requirement: two datatypes, one whose schema lies elsewhere.
#[test]
fn what_producers_leave_is_in_the_lake_under_the_names_that_loaders_expect() {
    let node = Node::new();
    node.produce("foo1", "2026/11/15/a.json", "{\"n\":1}");
    node.produce(
        "bar1",
        "2026/11/14/b.json",
        "{\"n\":9007199254740993,\"text\":\"\\u00e9\"}",
    );
    node.run_well(&["collect", "--once"]);
    let listed = node.run_well(&["lake", "ls", "--json"]);
    let keys: Vec<String> = listed
        .json()
        .iter()
        .map(|line| line["key"].as_str().unwrap().to_owned())
        .filter(|key| key.starts_with("autoload/"))
        .collect();
    let shapes: Vec<String> = keys.iter().map(|key| without_time(key)).collect();
    assert_eq!(
        shapes,
        [
            "autoload/v1/ndt/bar1/2026/11/14/TIME-bar1-mlab1-lga01-ndt-data.jsonl.gz",
            "autoload/v1/ndt/foo1/2026/11/15/TIME-foo1-mlab1-lga01-ndt-data.jsonl.gz",
            "autoload/v1/ndt/index1/2026/11/14/TIME-bar1-mlab1-lga01-ndt-index1.jsonl.gz",
            "autoload/v1/ndt/index1/2026/11/15/TIME-foo1-mlab1-lga01-ndt-index1.jsonl.gz",
            "autoload/v1/tables/ndt/bar1.table.json",
            "autoload/v1/tables/ndt/foo1.table.json",
        ]
    );
    let got = node.run_well(&["get", "ndt/bar1/2026/11/14/b.json"]);
    assert_eq!(
        got.stdout,
        "{\"n\":9007199254740993,\"text\":\"\\u00e9\"}\n"
    );
    let row = node.run_well(&["get", "--row", "ndt/foo1/2026/11/15/a.json"]);
    assert!(
        row.stdout
            .starts_with("{\"date\":\"2026-11-15\",\"archiver\":"),
        "{}",
        row.stdout
    );
    let days = node.run_well(&["ls", "ndt/foo1", "--json"]);
    assert_eq!(days.json()[0]["date"], "2026-11-15");
    let records = node.run_well(&["ls", "ndt/foo1/2026/11/15", "--json"]);
    assert_eq!(records.json()[0]["record"], "ndt/foo1/2026/11/15/a.json");
    assert_eq!(node.run(&["get", "ndt/foo1/2026/11/15/z.json"]).code, 10);
    node.audit(&["--expect-drained"]);
}

/// `20261115T182403.850914Z` is never the same.
fn without_time(key: &str) -> String {
    let (folder, name) = key.rsplit_once('/').unwrap();
    match name.split_once("Z-") {
        Some((_, rest)) => format!("{folder}/TIME-{rest}"),
        None => key.to_owned(),
    }
}

#[test]
fn everything_can_be_said_by_flags_alone() {
    let node = Node::new();
    node.produce("foo1", "2026/11/15/a.json", "{\"n\":1}");
    let place = &node.place;
    place.write(
        "plain.yml",
        "node: mlab1-lga01\nworkspace: work\nobject_storage: [{url: \"file:lake\"}]\n",
    );
    let mut command = place.command(&[
        "collect",
        "--once",
        "--config-file",
        "plain.yml",
        "--experiment",
        "ndt",
        "--datatype",
        "foo1",
        "--datatype-file",
        "bar1:bar1.json",
        "--home",
        "spool",
        "--object-home",
        "autoload/v1",
        "--extension",
        ".json",
        "--bundle-bytes-max",
        "1MiB",
        "--bundle-age-max",
        "1h",
        "--min-file-age",
        "2h",
        "--scan-interval",
        "5m",
        "--flush-timeout",
        "60s",
        "--upload-schema",
        "true",
        "--bad-files",
        "keep",
        "--quarantine-bytes-max",
        "1MiB",
        "--spool-bytes-max",
        "1GiB",
        "--spool-full",
        "drop_oldest_bad",
        "--id-column",
        "false",
        "--index-loadable",
        "false",
    ]);
    let ran = crate::program::ran(&mut command);
    assert_eq!(ran.code, 0, "{}", ran.snapshot());
    node.audit(&["--expect-drained"]);
}

#[test]
fn bad_files_are_listed_with_their_reason_and_can_be_put_back() {
    let node = Node::new();
    node.produce("foo1", "2026/11/15/good.json", "{\"n\":1}");
    node.produce_bad("foo1", "2026/11/15/bad.json", "{\"n\":\"no number\"}");
    node.produce_bad("foo1", "2026/11/15/torn.json", "{\"n\":");
    node.run_well(&["collect", "--once"]);
    let listed = node
        .run_well(&["spool", "quarantine", "ls", "--json"])
        .json();
    let reasons: Vec<_> = listed
        .iter()
        .map(|line| line["reason"].as_str().unwrap())
        .collect();
    assert_eq!(listed.len(), 2);
    assert!(
        reasons.contains(&"schema") && reasons.contains(&"json"),
        "{reasons:?}"
    );
    node.audit(&["--expect-drained"]);
    let id = listed[0]["id"].as_str().unwrap().to_owned();
    let released = node
        .run_well(&["spool", "quarantine", "release", &id, "--json"])
        .json();
    assert_eq!(released[0]["outcome"], "released");
    assert_eq!(node.files_left(), 1);
    assert_eq!(node.run(&["spool", "quarantine", "release", &id]).code, 10);
    node.run_well(&["spool", "quarantine", "release", "--all"]);
    assert_eq!(node.files_left(), 2);
}

#[test]
fn a_backlog_from_elsewhere_is_imported_once() {
    let node = Node::new();
    node.produce_some("2026/11/13", "old", 20);
    #[allow(
        clippy::disallowed_methods,
        reason = "the input of a test need not be durable"
    )]
    std::fs::rename(node.place.path("spool/ndt"), node.place.path("backlog-ndt")).unwrap();
    std::fs::create_dir(node.place.path("backlog")).unwrap();
    #[allow(
        clippy::disallowed_methods,
        reason = "the input of a test need not be durable"
    )]
    std::fs::rename(
        node.place.path("backlog-ndt"),
        node.place.path("backlog/ndt"),
    )
    .unwrap();
    let copied = std::process::Command::new("cp")
        .args(["-a", "backlog", "copy"])
        .current_dir(node.place.path(""))
        .status();
    assert!(copied.unwrap().success());
    node.run_well(&["import", "backlog"]);
    // The same files once more, beside a spool that is collected, and the lake knows them.
    node.produce("foo1", "2026/11/15/new.json", "{\"n\":1}");
    node.run_well(&["collect", "--once"]);
    node.run_well(&["import", "copy"]);
    node.audit(&[]);
    let absent = node.run(&["import", "nowhere"]);
    assert_eq!(absent.code, 10, "{}", absent.snapshot());
}

#[test]
fn table_schemas_are_written_to_look_at() {
    let node = Node::new();
    let ran = node.run_well(&[
        "schema",
        "--datatype",
        "foo1",
        "--home",
        "spool",
        "--datatype-file",
        "bar1:bar1.json",
        "--dir",
        "tables",
        "--index-loadable",
    ]);
    assert_text("schema", &ran);
    let table = std::fs::read_to_string(node.place.path("tables/bar1-table.json")).unwrap();
    assert!(table.contains("\"name\": \"archiver\""), "{table}");
    assert!(node.place.path("tables/index1-table.json").exists());
    assert!(
        !node.place.path("lake/autoload").exists(),
        "nothing is uploaded"
    );
    let ran = node.run(&["schema", "--datatype", "baz1"]);
    assert_text("schema_missing", &ran);
}

#[test]
fn what_cannot_be_collected_is_refused_with_what_to_do() {
    let place = Place::new();
    for (name, arguments) in [
        ("collect_nothing", &["collect"][..]),
        ("collect_no_datatype", &["collect", "--experiment", "ndt"]),
        (
            "collect_no_schema",
            &["collect", "--experiment", "ndt", "--datatype", "foo1"],
        ),
        ("spool_status_nothing", &["spool", "status"]),
        ("get_no_record", &["get", "ndt/foo1"]),
    ] {
        place.write("node.yml", "node: mlab1-lga01\n");
        let mut all = arguments.to_vec();
        all.extend(["--config-file", "node.yml"]);
        assert_text(name, &place.run(&all));
    }
}

#[test]
fn a_changed_type_is_refused_with_field_types_and_sources() {
    let node = Node::new();
    node.produce("foo1", "2026/11/15/a.json", "{\"n\":1}");
    node.run_well(&["collect", "--once"]);
    node.place.write(
        "spool/datatypes/foo1.json",
        r#"[{"name":"n","type":"STRING"}]"#,
    );
    let ran = node.run(&["collect", "--once"]);
    assert_eq!(ran.code, 2, "{}", ran.snapshot());
    for part in [
        "`raw.n`",
        "STRING",
        "INTEGER",
        "foo1.json",
        "foo1.table.json",
    ] {
        assert!(ran.stderr.contains(part), "{part}: {}", ran.stderr);
    }
}

/// The dashboard and the metrics of a node that collects.
#[test]
fn bad_files_show_in_metrics_and_on_the_page() {
    let node = Node::new();
    node.produce("foo1", "2026/11/15/good.json", "{\"n\":1}");
    node.produce_bad("foo1", "2026/11/15/bad.json", "{\"n\":\"no number\"}");
    let child = node.start(&["--listen", "127.0.0.1:0", "--bundle-age-max", "100ms"]);
    let url = node.dashboard();
    node.wait_for_files(0);
    for _ in 0..100 {
        if http_get(&format!("{url}metrics"))
            .contains("cannery_spool_bundles_shipped_total{experiment=\"ndt\",datatype=\"foo1\"} 1")
        {
            break;
        }
        pause();
    }
    let metrics = http_get(&format!("{url}metrics"));
    for line in [
        "cannery_spool_bundles_shipped_total{experiment=\"ndt\",datatype=\"foo1\"} 1",
        "cannery_spool_files_bad_total{experiment=\"ndt\",datatype=\"foo1\",reason=\"schema\"} 1",
        "cannery_spool_files_bundled_total{experiment=\"ndt\",datatype=\"foo1\"} 1",
    ] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let page = http_get(&format!("{url}spools"));
    for part in [
        "Bad files by reason",
        "schema",
        "Last ships",
        "foo1",
        "cannery spool quarantine ls",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    assert!(http_get(&format!("{url}readyz")).starts_with("HTTP/1.1 200"));
    assert_eq!(stop(child), 0);
}

/// The only data object of a node that has collected one file.
fn data_of(node: &Node) -> String {
    let listed = node.run_well(&["lake", "ls", "--json"]).json();
    let keys = listed.iter().map(|line| line["key"].as_str().unwrap());
    let mut data = keys.filter(|key| key.ends_with("-data.jsonl.gz"));
    format!("lake/{}", data.next_back().unwrap())
}

#[test]
fn what_was_removed_or_altered_is_found_by_the_inventory() {
    let node = Node::new();
    node.produce("foo1", "2026/11/15/a.json", "{\"n\":1}");
    assert_eq!(
        node.run(&["spool", "check"]).code,
        20,
        "there is no inventory yet"
    );
    node.run_well(&["collect", "--once"]);
    node.run_well(&["spool", "check", "--contents"]);
    let data = data_of(&node);
    let mut bytes = std::fs::read(node.place.path(&data)).unwrap();
    bytes[20] ^= 1;
    node.place.write(&data, &bytes);
    node.run_well(&["spool", "check"]);
    let ran = node.run(&["spool", "check", "--contents", "--json"]);
    assert_eq!(
        (ran.code, &ran.json()[0]["finding"]),
        (20, &"altered".into())
    );
    std::fs::remove_file(node.place.path(&data)).unwrap();
    let ran = node.run(&["spool", "check", "--json"]);
    assert_eq!(
        (ran.code, &ran.json()[0]["finding"]),
        (20, &"missing".into())
    );
}

#[test]
fn a_damaged_index_hides_nothing_but_its_own_records() {
    let node = Node::new();
    node.produce("foo1", "2026/11/15/a.json", "{\"n\":1}");
    node.run_well(&["collect", "--once"]);
    let index = "autoload/v1/ndt/index1/2026/11/15/20261116T000000.000000Z-foo1-evil-node-ndt-index1.jsonl.gz";
    node.place.write(&format!("lake/{index}"), "no gzip");
    for arguments in [
        &["ls", "ndt/foo1/2026/11/15"][..],
        &["get", "ndt/foo1/2026/11/15/a.json"],
    ] {
        let ran = node.run(arguments);
        assert_eq!(ran.code, 3, "{}", ran.snapshot());
        assert!(
            ran.stdout.contains("a.json") || ran.stdout == "{\"n\":1}\n",
            "{}",
            ran.snapshot()
        );
        assert!(ran.stderr.contains("evil-node"), "{}", ran.snapshot());
    }
}
