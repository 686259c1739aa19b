//! Nodes of different versions that start at once.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use cannery_collect::schema::{Done, Settled, settle};
use cannery_formats::table_schema::{Field, TableSchema};
use cannery_lake::fault::{FaultStore, Faults};
use cannery_lake::{DiskStore, ErrorKind, Lake};
use cannery_runtime::{Clock, RealDisk, Rng};
use cannery_testkit::long_run;
use object_store::memory::InMemory;
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{MIB, impatient_lake, lake, mirrors, table, table_at};

const NODES: usize = 4;

/// The paths of all fields, records included.
fn paths(table: &TableSchema) -> BTreeSet<String> {
    fn collect(fields: &[Field], above: &str, into: &mut BTreeSet<String>) {
        for field in fields {
            let path = format!("{above}.{}", field.name);
            collect(&field.fields, &path, into);
            into.insert(path);
        }
    }
    let mut all = BTreeSet::new();
    collect(table.fields(), "", &mut all);
    all
}

/// Version `version` of the schema as node `node` has it: some fields are its own, some are shared.
fn version_of(node: usize, version: usize) -> TableSchema {
    table(&format!(
        r#"[{{"name":"own{node}","type":"STRING"}},
            {{"name":"common","type":"INTEGER"}},
            {{"name":"half{half}v{version}","type":"DATE","mode":"REPEATED"}},
            {{"name":"r","type":"RECORD","fields":[
                {{"name":"own{node}v{version}","type":"FLOAT"}},{{"name":"same","type":"JSON"}}]}}]"#,
        half = node % 2,
    ))
}

fn disk_lake(folder: &Path) -> Lake {
    let store = DiskStore::new(Arc::new(RealDisk), folder, Rng::from_os());
    lake(
        "main",
        &format!("file:{}", folder.display()),
        Arc::new(store),
    )
}

/// Starts all nodes at once, each with a lake of its own, and returns what each was told.
async fn start_all(folder: &Path, version: usize) -> Vec<Settled> {
    let barrier = Arc::new(Barrier::new(NODES));
    let mut nodes = JoinSet::new();
    for node in 0..NODES {
        let (barrier, mirrors) = (barrier.clone(), mirrors([disk_lake(folder)]));
        nodes.spawn(async move {
            let ours = version_of(node, version);
            barrier.wait().await;
            let settled = settle(&mirrors, &super::key(), &ours, true, "file").await;
            let settled = settled.unwrap();
            assert!(paths(&settled.schema).is_superset(&paths(&ours)));
            settled
        });
    }
    nodes.join_all().await
}

/// Reads the object again and again until told to stop, and returns the fields of each content it saw, in order.
async fn watch(lake: Lake, stop: CancellationToken) -> Vec<BTreeSet<String>> {
    let mut seen: Vec<BTreeSet<String>> = Vec::new();
    loop {
        // Asked before the read, so that the last read sees what was there at the end.
        let last = stop.is_cancelled();
        match lake.get(&super::key(), MIB).await {
            Ok(object) => {
                let now = paths(&TableSchema::parse(&object.bytes).unwrap());
                if seen.last() != Some(&now) {
                    seen.push(now);
                }
            }
            Err(error) => assert_eq!((error.kind, seen.len()), (ErrorKind::Absent, 0)),
        }
        if last {
            return seen;
        }
        tokio::task::yield_now().await;
    }
}

async fn round() {
    let folder = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let watcher = tokio::spawn(watch(disk_lake(folder.path()), stop.clone()));
    let created = start_all(folder.path(), 1).await;
    let between = paths(&table_at(&disk_lake(folder.path())).await);
    let widened = start_all(folder.path(), 2).await;
    stop.cancel();
    let seen = watcher.await.unwrap();

    let done = |all: &[Settled], done| all.iter().filter(|one| one.mirrors[0].done == done).count();
    assert_eq!(done(&created, Done::Created), 1, "{created:?}");
    assert_eq!(done(&widened, Done::Created), 0, "{widened:?}");
    let union = |versions: &[usize]| {
        let of = |version: &usize| (0..NODES).map(|node| version_of(node, *version)).collect();
        let all: Vec<Vec<TableSchema>> = versions.iter().map(of).collect();
        all.iter()
            .flatten()
            .flat_map(paths)
            .collect::<BTreeSet<_>>()
    };
    assert_eq!(between, union(&[1]));
    assert_eq!(
        paths(&table_at(&disk_lake(folder.path())).await),
        union(&[1, 2])
    );
    assert_eq!(seen.last(), Some(&union(&[1, 2])));
    for two in seen.windows(2) {
        assert!(two[1].is_superset(&two[0]), "a field was lost: {two:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_start_at_once_never_lose_a_field() {
    for _ in 0..if long_run() { 100 } else { 10 } {
        round().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn under_random_faults_all_fields_arrive() {
    let mut injected = 0;
    for seed in 0..if long_run() { 100 } else { 10 } {
        let store = Arc::new(InMemory::new());
        let faults = Faults::by_seed(seed, 0.2);
        let mut nodes = JoinSet::new();
        for node in 0..NODES {
            let faulty = FaultStore::new(store.clone(), faults.clone(), Clock::real());
            let mirrors = mirrors([impatient_lake(Arc::new(faulty))]);
            nodes.spawn(async move {
                let ours = version_of(node, 1);
                // A node that gives up is started again.
                for _ in 0..20 {
                    match settle(&mirrors, &super::key(), &ours, true, "file").await {
                        Ok(_) => return,
                        Err(error) => assert!(error.is_transient(), "seed {seed}: {error}"),
                    }
                }
                panic!("seed {seed}: node {node} never got through");
            });
        }
        nodes.join_all().await;
        injected += faults.injected();
        let honest = lake("main", "memory:", store);
        let expected: BTreeSet<String> = (0..NODES)
            .flat_map(|node| paths(&version_of(node, 1)))
            .collect();
        assert_eq!(paths(&table_at(&honest).await), expected, "seed {seed}");
    }
    assert!(injected > 0);
}
