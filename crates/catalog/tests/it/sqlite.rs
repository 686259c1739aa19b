//! The engine in a file.

use cannery_catalog::{Catalog, Decision, ErrorKind, Filter};
use cannery_runtime::Clock;

use crate::doc::{doc, documented};
use crate::subject::Subject;

pub(crate) async fn open() -> Subject {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.db");
    let catalog = Catalog::open(&format!("sqlite:{}", path.display()), Clock::real()).await;
    Subject::new(catalog.unwrap(), folder).await
}

crate::suites!(open, 24);

async fn open_at(path: &std::path::Path) -> Result<Catalog, cannery_catalog::Error> {
    Catalog::open(path.to_str().unwrap(), Clock::real()).await
}

#[tokio::test]
async fn what_was_committed_is_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.db");
    let subject = Subject::new(open_at(&path).await.unwrap(), ()).await;
    subject.ingest(&doc("a", &[1, 2])).await;
    let before = subject.picture().await;
    subject.close().await;
    subject.close().await;
    let refused = subject.lookup("x").await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Unavailable);
    let again = Subject::new(open_at(&path).await.unwrap(), ()).await;
    assert_eq!(again.picture().await, before);
}

#[tokio::test]
async fn a_newer_catalog_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.db");
    open_at(&path).await.unwrap().close().await;
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute("insert into migration values (1000)", [])
        .unwrap();
    drop(raw);
    let refused = open_at(&path).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Newer);
}

#[tokio::test]
async fn what_is_no_catalog_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.db");
    let disk = cannery_runtime::disk::RealDisk;
    cannery_runtime::disk::write_durably(&disk, &path, &[b'x'; 5000]).unwrap();
    let refused = open_at(&path).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Corrupt, "{refused}");
    let nowhere = folder.path().join("missing").join("catalog.db");
    assert_eq!(open_at(&nowhere).await.unwrap_err().kind, ErrorKind::Denied);
}

/// Every contradiction that a check looks for, made by hand.
#[tokio::test]
async fn a_check_finds_what_contradicts_itself() {
    for damage in [
        "delete from file",
        "delete from report",
        "delete from measurement",
        "update file set measurements = 9",
        "update measurement set report = 99",
        "update duplicate set uid = 'x'",
        "update badrow set uid = 'x'",
        "update badblob set report = 99",
        "update residual set file = 99",
        "update file_feature set feature = 99 where feature = 1",
        "update report set file = 99",
        "update feature_dns set measurement = 99 where measurement = 1",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("catalog.db");
        let subject = Subject::new(open_at(&path).await.unwrap(), ()).await;
        subject.ingest(&doc("a", &[1, 5, 5])).await;
        subject.is_sound().await;
        let raw = rusqlite::Connection::open(&path).unwrap();
        assert!(raw.execute(damage, []).unwrap() > 0, "{damage}");
        let findings = subject.check().await.unwrap();
        assert!(!findings.is_empty(), "{damage}");
    }
}

#[tokio::test]
async fn the_documented_questions_are_answered() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("catalog.db");
    let subject = Subject::new(open_at(&path).await.unwrap(), ()).await;
    subject.ingest(&doc("a", &[1, 2, 5])).await;
    let raw = rusqlite::Connection::open(&path).unwrap();
    for statement in documented() {
        if statement.starts_with("select") {
            let mut prepared = raw.prepare(&statement).unwrap();
            prepared.query([]).unwrap().next().unwrap();
        }
    }
}

fn is_send(_: &impl Send) {}

/// Workers run loads as tasks, and commands print what they find.
#[tokio::test]
async fn loads_may_run_on_any_thread_and_answers_are_json() {
    let subject = open().await;
    let file = doc("a", &[5]);
    let load = subject.run(&file, crate::subject::ingest(&file));
    is_send(&load);
    load.await.unwrap();
    let page = subject.measurements(&Filter::default(), None, 1).await;
    let json = serde_json::to_value(page.unwrap()).unwrap();
    assert_eq!(json["items"][0]["place"]["frame_size"], 900);
    let decision = serde_json::to_string(&Decision::MarkCurrent {
        features: vec!["http".to_owned()],
    });
    let expected = "{\"decision\":\"mark_current\",\"features\":[\"http\"]}";
    assert_eq!(decision.unwrap(), expected);
    let trace = subject.trace(&crate::doc::uid(5)).await.unwrap();
    let json = serde_json::to_value(trace).unwrap();
    assert_eq!(json["file"]["facts"]["kind"], "ndt");
}

/// The address of a catalog that is not there yet.
fn nowhere(folder: &tempfile::TempDir) -> String {
    // A quote in the name must not end a text of SQL.
    format!("sqlite:{}", folder.path().join("it's.db").display())
}

#[tokio::test]
async fn a_new_one_takes_the_place_of_the_old_one() {
    let folder = tempfile::tempdir().unwrap();
    crate::beside::takes_over(&nowhere(&folder)).await;
    crate::beside::discarded_changes_nothing(&nowhere(&folder)).await;
    let left: Vec<String> = std::fs::read_dir(folder.path().join("it's.db.rebuild"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.starts_with("catalog"))
        .collect();
    assert_eq!(left, Vec::<String>::new());
}

/// A step of the one transaction fails, after the old tables are gone in it.
#[tokio::test]
async fn a_taking_over_that_fails_half_way_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let address = nowhere(&folder);
    let old = Subject::new(Catalog::open(&address, Clock::real()).await.unwrap(), ()).await;
    old.ingest(&doc("a", &[1, 2, 5])).await;
    let before = old.picture().await;
    let beside = cannery_catalog::Beside::open(&address, Clock::real()).await;
    let beside = beside.unwrap();
    let path = folder.path().join("it's.db.rebuild").join("catalog.db");
    let raw = rusqlite::Connection::open(path).unwrap();
    // A table that the old file cannot get: something that is not ours has its name.
    raw.execute_batch("create table zz (a)").unwrap();
    drop(raw);
    let raw = rusqlite::Connection::open(folder.path().join("it's.db")).unwrap();
    raw.execute_batch("create view zz as select 1").unwrap();
    drop(raw);
    beside.take_over().await.unwrap_err();
    assert_eq!(old.picture().await, before);
    old.ingest(&doc("b", &[3])).await;
    old.is_sound().await;
}
