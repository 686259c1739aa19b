//! A catalog that is made anew beside another, on any engine.

use cannery_catalog::{Beside, Catalog, ErrorKind};
use cannery_runtime::Clock;

use crate::doc::{doc, http};
use crate::subject::Subject;

/// Loads go on in the old one until the new one takes over; then everybody sees that, and ids go on where they were.
pub(crate) async fn takes_over(address: &str) {
    let old = Subject::new(Catalog::open(address, Clock::real()).await.unwrap(), ()).await;
    old.ingest(&doc("a", &[1, 2, 5, 5])).await;
    old.ingest(&doc("b", &[2, 3])).await;
    let beside = Beside::open(address, Clock::real()).await.unwrap();
    let second = Beside::open(address, Clock::real()).await.unwrap_err();
    assert_eq!(second.kind, ErrorKind::Conflict, "{second}");
    let new = Subject::new(beside.new_one().clone(), ()).await;
    assert!(new.rows("file").await.is_empty());
    new.ingest(&doc("c", &[7, 8, 8])).await;
    let wanted = new.picture().await;
    old.ingest(&doc("d", &[4])).await;
    let expected = old.picture().await;
    assert_ne!(expected, wanted);

    let now = beside.take_over().await.unwrap();
    assert_eq!(old.picture().await, wanted, "who had it open sees it");
    old.is_sound().await;
    assert!(now.lookup(&crate::doc::uid(7)).await.unwrap().is_some());
    old.ingest(&doc("a", &[1, 7, 9])).await;
    let mut feature = http();
    feature.name = "extra".to_owned();
    old.declare(&feature).await;
    old.is_sound().await;
    now.close().await;
    old.close().await;
}

/// What an earlier one left is gone, and what is discarded leaves nothing.
pub(crate) async fn discarded_changes_nothing(address: &str) {
    let old = Subject::new(Catalog::open(address, Clock::real()).await.unwrap(), ()).await;
    let before = old.picture().await;
    let beside = Beside::open(address, Clock::real()).await.unwrap();
    let new = Subject::new(beside.new_one().clone(), ()).await;
    new.ingest(&doc("x", &[11])).await;
    // As a crash leaves it.
    drop((beside, new));
    // A server notices a moment later that somebody is gone.
    let beside = loop {
        match Beside::open(address, Clock::real()).await {
            Err(error) if error.kind == ErrorKind::Conflict => {}
            opened => break opened.unwrap(),
        }
    };
    let empty = beside.new_one().tables().await.unwrap();
    assert!(!empty.iter().any(|table| table.starts_with("feature_")));
    beside.discard().await.unwrap();
    assert_eq!(old.picture().await, before);
    old.is_sound().await;
    old.close().await;
}
