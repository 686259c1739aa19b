//! Collecting into a real S3 server over HTTP, and reading the lake with a program of others.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use cannery_runtime::disk::create_dir_all;
use cannery_runtime::{Clock, RealDisk};
use cannery_testkit::proxy::{Fault, FaultProxy};
use cannery_testkit::s3::{S3Access, S3Server};
use cannery_testkit::{long_run, scenario_rng, tools};

use super::node::{Node, stop};
use crate::program::ran;

fn lake(access: &S3Access) -> String {
    let S3Access {
        endpoint,
        region,
        bucket,
        key_id,
        secret,
    } = access;
    format!(
        "object_storage:\n- id: main\n  bucket: {bucket}\n  endpoint_url: {endpoint}\n  region_name: {region}\n  \
         aws_access_key_id: {key_id}\n  aws_secret_access_key: {secret}\n"
    )
}

/// A server, a proxy before it that makes faults, and the lake behind both as the configuration has it.
async fn server() -> (S3Server, FaultProxy, String) {
    let server = S3Server::moto().await.unwrap();
    let upstream = server.access().endpoint.strip_prefix("http://").unwrap();
    let proxy = FaultProxy::start(upstream.parse().unwrap()).await.unwrap();
    let access = S3Access {
        endpoint: format!("http://{}", proxy.address()),
        ..server.access().clone()
    };
    (server, proxy, lake(&access))
}

/// Runs what blocks where it may.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    tokio::task::spawn_blocking(work).await.unwrap()
}

/// Brings the objects of the lake into the folder `lake`, for the auditor.
fn download(node: &Node) {
    for line in node.run_well(&["lake", "ls", "--json"]).json() {
        let key = line["key"].as_str().unwrap();
        let path = node.place.path("lake").join(key);
        create_dir_all(&RealDisk, path.parent().unwrap()).unwrap();
        let output = node.command(&["lake", "cat", key]).output().unwrap();
        assert!(output.status.success());
        node.place.write(&format!("lake/{key}"), output.stdout);
    }
}

const SMALL: &str = "  bundle_age_max: 100ms\n  bundle_bytes_max: 20kB\n";

#[tokio::test(flavor = "multi_thread")]
async fn killed_at_random_every_file_is_in_the_bucket_exactly_once() {
    let (_server, proxy, lake) = server().await;
    let kills = if long_run() { 200 } else { 20 };
    let (rng, clock) = (scenario_rng("bucket killed at random"), Clock::real());
    let mut node = Node::with(&lake, SMALL);
    for kill in 0..kills {
        let mut child = node.start(&[]);
        node.produce_some("2026/11/15", &format!("k{kill}x"), 100);
        match rng.below(4) {
            0 => proxy.set_times(Fault::CutAnswer, 2).await,
            1 => proxy.set_times(Fault::SwallowAnswer, 1).await,
            2 => proxy.set_times(Fault::CutAfter(10), 3).await,
            _ => {}
        }
        clock.sleep(rng.jitter(Duration::from_secs(1))).await;
        child.kill().unwrap();
        child.wait().unwrap();
        proxy.set(Fault::None).await;
        if rng.below(10) == 0 {
            std::fs::remove_dir_all(node.place.path("work")).ok();
        }
    }
    node = blocking(move || {
        node.run_well(&["collect", "--once"]);
        download(&node);
        node
    })
    .await;
    node.audit(&["--expect-drained"]);
    println!(
        "result: spool, {kills} kills -9 with an S3 server that loses answers: each file exactly once"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_outage_is_waited_for_and_nothing_is_shipped_twice() {
    let (_server, proxy, lake) = server().await;
    let clock = Clock::real();
    let node = Node::with(&lake, SMALL);
    let child = node.start(&[]);
    node.produce_some("2026/11/15", "before", 100);
    for fault in [
        Fault::Refuse,
        Fault::CutAnswer,
        Fault::SwallowAnswer,
        Fault::Refuse,
    ] {
        proxy.set(fault).await;
        node.produce_some("2026/11/15", &format!("during{}x", proxy.fired()), 100);
        clock.sleep(Duration::from_secs(3)).await;
    }
    proxy.set(Fault::None).await;
    let node = blocking(move || {
        node.wait_for_files(0);
        assert_eq!(stop(child), 0, "{}", node.log());
        download(&node);
        node
    })
    .await;
    node.audit(&["--expect-drained"]);
}

/// The lake is gone when it is told to stop: it says what is left, and the next start ships it.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_flushed_in_time_is_reported_and_shipped_by_the_next_start() {
    let (_server, proxy, lake) = server().await;
    let node = Arc::new(Node::with(&lake, "  flush_timeout: 2s\n"));
    let child = node.start(&[]);
    let waiting = Arc::clone(&node);
    blocking(move || super::flush::wait_for_log(&waiting, "collecting")).await;
    node.produce_some("2026/11/15", "a", 50);
    Clock::real().sleep(Duration::from_secs(1)).await;
    proxy.set(Fault::Refuse).await;
    let code = blocking(move || stop(child)).await;
    assert_eq!(code, 3, "{}", node.log());
    assert!(
        node.log().contains("not shipped: 2 bundles"),
        "{}",
        node.log()
    );
    proxy.set(Fault::None).await;
    let again = Arc::clone(&node);
    blocking(move || {
        again.run_well(&["collect", "--once"]);
        download(&again);
    })
    .await;
    node.audit(&["--expect-drained"]);
}

/// A reader that shares nothing with us.
#[test]
fn duckdb_reads_every_row_with_the_types_of_the_table() {
    let node = Node::new();
    node.produce_some("2026/11/15", "a", 40);
    node.run_well(&["collect", "--once"]);
    let script = "import duckdb, json, sys\n\
        table = json.load(open('lake/autoload/v1/tables/ndt/foo1.table.json'))\n\
        assert [field['name'] for field in table] == ['date', 'archiver', 'raw'], table\n\
        rows = duckdb.sql(\"select date, archiver.Filename, raw.n, raw.text from \
        read_json('lake/autoload/v1/ndt/foo1/2026/11/15/*.jsonl.gz', format='newline_delimited', \
        columns={date: 'DATE', archiver: 'STRUCT(Version VARCHAR, GitCommit VARCHAR, ArchiveURL VARCHAR, Filename VARCHAR)', \
        raw: 'STRUCT(n BIGINT, text VARCHAR)'})\").fetchall()\n\
        print(len(rows), sum(row[2] for row in rows), rows[0][0])\n";
    let python = tools::python("python").unwrap();
    let mut command = Command::new(python);
    command
        .args(["-c", script])
        .current_dir(node.place.path(""));
    let read = ran(&mut command);
    assert_eq!(read.stdout, "20 380 2026-11-15\n", "{}", read.snapshot());
}

#[test]
fn duckdb_reads_the_bundles_that_an_export_names() {
    let node = Node::new();
    node.produce_some("2026/11/15", "a", 40);
    node.produce_some("2026/11/16", "b", 40);
    node.run_well(&["collect", "--once"]);
    let export = ["export", "duckdb", "--no-catalog", "--out", "lake.sql"];
    node.run_well(&[&export[..], &["--from", "2026-11-15", "--to", "2026-11-16"]].concat());
    let then = "db.execute(sql)\n\
        ask = lambda view: db.execute(f'select count(*), sum(raw.n), min(date) from \"{view}\"').fetchone()\n\
        print(*ask('bundle_spool-foo1'), *ask('bundle_spool-bar1'))";
    let read = crate::archive_duckdb::duckdb(&node.place.path(""), "lake.sql", then);
    let expected = "20 380 2026-11-15 20 400 2026-11-15\n";
    assert_eq!(read.stdout, expected, "{}", read.snapshot());
}
