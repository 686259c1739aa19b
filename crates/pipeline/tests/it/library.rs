//! The example does what it says: all tasks of the product without its binary.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use bytes::Bytes;
use cannery_runtime::Clock;
use cannery_testkit::feed_server::{Behaviour, FeedServer};

#[path = "../../examples/feeds/tour.rs"]
mod tour;

use tour::Tour;

/// What is in the files below a folder.
fn contents(folder: &Path) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(std::fs::read_to_string(path).unwrap());
        }
    }
    found
}

/// Until so many requests were made: what was asked before the last of them is stored.
async fn asked(server: &FeedServer, requests: usize) {
    while server.requests("/f").len() < requests {
        Clock::real().sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_feed_is_collected_merged_retrieved_audited_and_deleted() {
    let server = FeedServer::start().await.unwrap();
    let bodies: Vec<String> = (0..4).map(|number| format!("body {number}")).collect();
    let served = bodies.iter().cloned().map(Bytes::from).collect();
    server.on("/f", Behaviour::Bodies(served));
    let folder = tempfile::tempdir().unwrap();
    let tour = Tour::begin(folder.path()).await.unwrap();
    for (replica, requests) in [("one", 7), ("two", 14)] {
        let until = asked(&server, requests);
        let stored = tour.collect(replica, &server.url("/f"), until).await;
        assert!(stored.unwrap() >= 1);
        tour.clean(replica).await.unwrap();
    }
    let retrieved = folder.path().join("retrieved");
    let reports = tour.consolidate().await.unwrap();
    assert_eq!(tour.consolidate().await.unwrap().len(), 0);
    let done = tour.retrieve(&retrieved).await.unwrap();
    assert!(done.files >= 5, "{done:?}");
    assert_eq!(contents(&retrieved), BTreeSet::from_iter(bodies));
    assert_eq!(tour.audit().await.unwrap(), []);
    let hours = tour.delete().await.unwrap();
    // Where an hour ended between the replicas, neither has anything of the other's.
    assert!(reports.len() == 1 || hours > 1, "{reports:?}");
    let again = folder.path().join("again");
    assert_eq!(tour.retrieve(&again).await.unwrap().files, 0);
}
