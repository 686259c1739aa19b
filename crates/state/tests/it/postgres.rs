//! The engine in a PostgreSQL database, on a real server.

use std::sync::{Arc, Weak};

use cannery_runtime::{Clock, Rng};
use cannery_state::{ErrorKind, Outcome, State};
use cannery_testkit::postgres::Postgres;
use tokio::sync::Mutex;
use tokio_postgres::NoTls;

use crate::subject::{LIMIT, Subject, begin, documented, hand, well};

/// One server for all tests that run at the same time; the last one to end takes it along.
static SERVER: Mutex<Weak<Postgres>> = Mutex::const_new(Weak::new());

async fn server() -> Arc<Postgres> {
    let mut shared = SERVER.lock().await;
    if let Some(server) = shared.upgrade() {
        return server;
    }
    let server = Arc::new(Postgres::start().await.unwrap());
    *shared = Arc::downgrade(&server);
    server
}

/// A database that no other test has.
async fn fresh() -> (String, Arc<Postgres>) {
    let server = server().await;
    let name = format!("state_{}", Rng::from_os().id().replace('-', "_"));
    (server.create_database(&name).await.unwrap(), server)
}

pub(crate) async fn open() -> Subject {
    let (url, server) = fresh().await;
    let (hand, clock) = hand();
    let state = State::open(&url, clock).await.unwrap();
    Subject::new(state, &url, hand, server)
}

crate::conformance::suite!(open);

#[tokio::test]
async fn a_newer_state_is_refused() {
    let (url, _server) = fresh().await;
    let state = State::open(&url, Clock::real()).await.unwrap();
    state.close().await;
    let (client, wire) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let wire = tokio::spawn(wire);
    client
        .execute("insert into cannery_state.migration values (99)", &[])
        .await
        .unwrap();
    drop(client);
    wire.await.unwrap().unwrap();
    let refused = State::open(&url, Clock::real()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Newer);
}

#[tokio::test]
async fn many_processes_may_open_it_at_once() {
    let (url, _server) = fresh().await;
    let opened = (0..6).map(|_| State::open(&url, Clock::real()));
    for state in futures::future::join_all(opened).await {
        state.unwrap().close().await;
    }
}

#[tokio::test]
async fn a_wrong_password_is_denied_and_not_shown() {
    let (url, _server) = fresh().await;
    let (_, rest) = url.split_once('@').unwrap();
    let wrong = format!("postgres://nobody:canary-pass@{rest}");
    let refused = State::open(&wrong, Clock::real()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Denied, "{refused}");
    assert!(!refused.message.contains("canary-pass"), "{refused}");
}

/// The server dies under a write and comes back: nothing of what was told is lost, and nothing is there twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_is_killed_gets_everything_later() {
    let mut server = Postgres::start().await.unwrap();
    let (hand, clock) = hand();
    let state = State::open(&server.url(), clock).await.unwrap();
    let subject = Subject::new(state, &server.url(), hand, ());
    let recorder = subject.recorder("node-1");
    let first = recorder.begin(begin("can/2026-11-15/ndt/open", 0));
    assert!(recorder.flush().await);
    for number in 1..500 {
        recorder.record(begin("can/2026-11-15/ndt/open", number), &well(number + 1));
    }
    server.kill();
    recorder.end(first, &well(1));
    assert!(!recorder.flush().await);
    assert!(recorder.waiting() > 0);
    server.restart().await.unwrap();
    // Connections of before the crash are found out one by one.
    while !recorder.flush().await {}
    assert_eq!((recorder.waiting(), recorder.dropped()), (0, 0));
    while subject.running().await.is_err() {}
    let all = subject.picture().await;
    assert_eq!(all.len(), 500);
    assert!(all.iter().all(|(_, result)| *result == Outcome::Done));
    assert!(recorder.close(LIMIT).await);
}

#[tokio::test]
async fn the_documented_questions_are_answered() {
    let subject = open().await;
    subject.tell(&[("can/2026-11-15/ndt/open", 0, 9)]).await;
    let (client, wire) = tokio_postgres::connect(&subject.address, NoTls)
        .await
        .unwrap();
    tokio::spawn(wire);
    client
        .batch_execute("set search_path = cannery_state")
        .await
        .unwrap();
    let mut rows = Vec::new();
    for statement in documented() {
        rows.push(client.query(&statement, &[]).await.unwrap().len());
    }
    assert_eq!(rows, [1, 0]);
}
