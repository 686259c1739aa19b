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
