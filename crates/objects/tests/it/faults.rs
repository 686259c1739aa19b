//! Every request to the lake fails, before and after its effect: what was acknowledged is there, what was refused is not, and
//! what was not answered is one or the other.

use std::sync::Arc;

use cannery_lake::fault::{Fault, Faults, Request};
use cannery_objects::{ObjectErrorKind, RequestedChange};
use cannery_state::objects::ObjectWrites;
use object_store::memory::InMemory;

use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_acknowledged_is_there_whatever_the_lake_does() {
    for seed in 0..30 {
        let world = World::new(Arc::new(InMemory::new()), None, ());
        world.open().await.close().await;
        let faults = Faults::by_seed(seed, 0.4);
        // It may refuse to open: then it is asked again.
        let server = loop {
            if let Ok(server) = world.open_with(Some(&faults)).await {
                break server;
            }
        };
        let mut expected: Vec<Option<Option<u8>>> = Vec::new();
        for number in 0..6_u8 {
            let path = format!("/stor/{number}");
            let put = server.put(&path, &[number]).await;
            let deleted = match (number % 3 == 2, &put) {
                (true, Ok(_)) => Some(server.change(&path, RequestedChange::Delete).await),
                _ => None,
            };
            expected.push(match (put, deleted) {
                (Ok(_), None) => Some(Some(number)),
                (Ok(_), Some(Ok(_))) => Some(None),
                (Err(error), _) | (_, Some(Err(error))) => {
                    assert_eq!(
                        error.kind,
                        ObjectErrorKind::Unavailable,
                        "seed {seed}: {error}"
                    );
                    None
                }
            });
        }
        faults.stop();
        server.close().await;
        let server = world.open().await;
        let log = world.log().await;
        for (number, expected) in expected.into_iter().enumerate() {
            let path = format!("/stor/{number}");
            let there = server.get(&path).await.map(|content| content[0]);
            if let Some(expected) = expected {
                assert_eq!(there, expected, "seed {seed}, {path}");
            }
            // The log says the same as the rows, for a rebuild.
            let newest = log
                .values()
                .rev()
                .find(|change| change.path.as_str() == path);
            let logged = newest.and_then(|change| change.entry.clone());
            let row = server.object(&path).await;
            assert_eq!(
                logged.and_then(|entry| entry.as_object().cloned()),
                row,
                "seed {seed}, {path}"
            );
        }
        server.close().await;
    }
}

/// The first answer was lost with the log; the second must not come before the directory is in it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_there_already_is_answered_once_it_is_in_the_log() {
    let world = World::new(Arc::new(InMemory::new()), None, ());
    let faults = Faults::none();
    let server = world.open_with(Some(&faults)).await.unwrap();
    faults.next(Request::Put, Fault::ErrorBefore, u32::MAX);
    let lost = server
        .change("/stor/d", RequestedChange::MakeDirectory)
        .await;
    assert_eq!(lost.unwrap_err().kind, ObjectErrorKind::Unavailable);
    assert!(world.log().await.is_empty());
    faults.stop();
    server.make("/stor/d").await;
    let paths: Vec<String> = world
        .log()
        .await
        .into_values()
        .map(|change| change.path.to_string())
        .collect();
    assert_eq!(paths, ["/stor/d"]);
    server.close().await;
}

/// As a restored backup under a running server would: it must not give out versions for the second time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_loses_changes_under_a_server_is_refused() {
    let world = World::new(Arc::new(InMemory::new()), None, ());
    let server = world.open().await;
    server.put("/stor/a", b"1").await.unwrap();
    let older = server.state.begin_objects().await.unwrap();
    older.commit(&ObjectWrites::default()).await.unwrap();
    let refused = server.put("/stor/b", b"2").await.unwrap_err();
    assert_eq!(refused.kind, ObjectErrorKind::BehindLake);
    server.close().await;
}
