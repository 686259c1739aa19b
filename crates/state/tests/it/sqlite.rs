//! The engine in a file.

use std::path::Path;

use cannery_runtime::Clock;
use cannery_state::{Error, ErrorKind, Outcome, State};

use crate::subject::{LIMIT, Subject, begin, documented, hand, well};

pub(crate) async fn open() -> Subject {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.sqlite");
    let (hand, clock) = hand();
    let state = State::open(&format!("sqlite:{}", path.display()), clock).await;
    Subject::new(state.unwrap(), path.to_str().unwrap(), hand, folder)
}

crate::conformance::suite!(open);

async fn open_at(path: &Path) -> Result<State, Error> {
    State::open(path.to_str().unwrap(), Clock::real()).await
}

#[tokio::test]
async fn a_newer_state_is_refused_and_what_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.sqlite");
    open_at(&path).await.unwrap().close().await;
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute("insert into migration values (99)", [])
        .unwrap();
    drop(raw);
    let refused = open_at(&path).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Newer);
    assert!(
        refused.message.starts_with("the state has version 99"),
        "{refused}"
    );

    let disk = cannery_runtime::disk::RealDisk;
    let other = folder.path().join("other");
    cannery_runtime::disk::write_durably(&disk, &other, &[b'x'; 5000]).unwrap();
    let refused = open_at(&other).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Corrupt, "{refused}");
    let nowhere = folder.path().join("missing").join("state.sqlite");
    assert_eq!(open_at(&nowhere).await.unwrap_err().kind, ErrorKind::Denied);
    assert_eq!(
        open_at(Path::new("")).await.unwrap_err().kind,
        ErrorKind::Invalid
    );
}

/// A write that can never succeed must not keep what comes after it from being written.
#[tokio::test]
async fn a_row_that_cannot_be_written_is_dropped_alone() {
    let subject = open().await;
    let raw = rusqlite::Connection::open(&subject.address).unwrap();
    raw.execute_batch(
        "create trigger no before insert on execution when new.stage = 'bad' \
         begin select raise(abort, 'not this one'); end",
    )
    .unwrap();
    let recorder = subject.recorder("node-1");
    for stage in ["can", "bad", "seal", "bad"] {
        let key = format!("{stage}/2026-11-15/-/-");
        recorder.record(begin(&key, 0), &well(1));
    }
    assert!(recorder.flush().await);
    assert_eq!((recorder.waiting(), recorder.dropped()), (0, 2));
    assert_eq!(subject.all().await.len(), 2);
    raw.execute_batch("drop trigger no").unwrap();
    recorder.record(begin("bad/2026-11-15/-/-", 5), &well(6));
    assert!(recorder.close(LIMIT).await);
    assert_eq!(subject.all().await.len(), 3);
}

/// Another process holds the file for a while.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_file_that_is_locked_is_written_later() {
    let subject = open().await;
    let raw = rusqlite::Connection::open(&subject.address).unwrap();
    let recorder = subject.recorder("node-1");
    assert!(recorder.flush().await);
    raw.execute_batch("begin immediate").unwrap();
    let ticket = recorder.begin(begin("can/2026-11-15/ndt/open", 0));
    recorder.end(ticket, &well(1));
    assert!(subject.all().await.is_empty(), "readers are not held up");
    raw.execute_batch("rollback").unwrap();
    assert!(recorder.close(LIMIT).await);
    let expected = [("can/2026-11-15/ndt/open".to_owned(), Outcome::Done)];
    assert_eq!(subject.picture().await, expected);
}

#[tokio::test]
async fn the_documented_questions_are_answered() {
    let subject = open().await;
    subject.tell(&[("can/2026-11-15/ndt/open", 0, 9)]).await;
    let raw = rusqlite::Connection::open(&subject.address).unwrap();
    let mut rows = Vec::new();
    for statement in documented() {
        let mut prepared = raw.prepare(&statement).unwrap();
        let found = prepared.query_map([], |row| row.get::<_, String>(0));
        rows.push(found.unwrap().count());
    }
    assert_eq!(rows, [1, 0]);
}

/// What the program of migration 5 had of objects is there in tables of another layout.
#[tokio::test]
async fn objects_of_an_older_layout_stay() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("state.sqlite");
    let raw = rusqlite::Connection::open(&path).unwrap();
    raw.execute_batch("create table migration (number bigint primary key)")
        .unwrap();
    for (place, migration) in OLDER_MIGRATIONS.iter().enumerate() {
        raw.execute_batch(migration).unwrap();
        raw.execute("insert into migration values (?1)", [place + 1])
            .unwrap();
    }
    raw.execute_batch(
        r#"insert into object values ('u1', '/stor', 'b', 2, 'second', 1, 7, null, null, null, null, null, null, null);
           insert into object values ('u1', '/stor', 'a', 1, 'first', 0, 5, 'e', 3, 'm', 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad', 'users/u1/data/d', null, '{"m-x":"y"}');
           insert into object_directory values ('u1', '/stor', 2);
           insert into object_usage values ('u1', 3);
           update object_counter set version = 2, database_id = 'd';
           insert into object_outbox values (2, 'second', 'line');
           insert into object_garbage values ('users/u1/data/old', 4, 1);"#,
    )
    .unwrap();
    let tables = [
        "select * from object order by name",
        "select * from object_directory",
        "select * from object_usage",
        "select * from object_counter",
        "select * from object_outbox",
        "select * from object_garbage",
    ];
    let content = |raw: &rusqlite::Connection| {
        tables.map(|sql| {
            let mut statement = raw.prepare(sql).unwrap();
            let width = statement.column_count();
            let rows = statement.query_map([], |row| {
                (0..width)
                    .map(|column| row.get::<_, rusqlite::types::Value>(column))
                    .collect::<Result<Vec<_>, _>>()
            });
            rows.unwrap().collect::<Result<Vec<_>, _>>().unwrap()
        })
    };
    let before = content(&raw);
    assert!(before.iter().all(|rows| !rows.is_empty()));
    open_at(&path).await.unwrap().close().await;
    assert_eq!(content(&raw), before);
    let layout =
        "select count(*) from sqlite_schema where name = 'object' and sql like '%without rowid%'";
    let is_new: i64 = raw.query_row(layout, [], |row| row.get(0)).unwrap();
    assert_eq!(is_new, 1);
    let indexes = "select count(*) from sqlite_schema where type = 'index' and tbl_name = 'object' and sql is not null";
    let indexes: i64 = raw.query_row(indexes, [], |row| row.get(0)).unwrap();
    assert_eq!(indexes, 4);
}

const OLDER_MIGRATIONS: [&str; 5] = [
    include_str!("../../migrations/sqlite/0001_history.sql"),
    include_str!("../../migrations/sqlite/0002_identity.sql"),
    include_str!("../../migrations/sqlite/0003_objects.sql"),
    include_str!("../../migrations/sqlite/0004_rebuild.sql"),
    include_str!("../../migrations/sqlite/0005_database_id.sql"),
];
