//! Who listens hears.

use std::time::Duration;

use cannery_journal::{Declaration, Wakes};
use cannery_runtime::Clock;

use crate::subject::{Subject, declared, entry};

/// The answer of a listener, which comes at once; the limit is for a journal that is broken.
pub(super) async fn heard(wakes: &mut Wakes) -> bool {
    let limit = Duration::from_secs(20);
    Clock::real()
        .timeout(limit, wakes.next())
        .await
        .expect("a listener hears")
}

pub(crate) async fn a_listener_hears_an_add(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    let mut wakes = work.wakes();
    work.put(entry("a")).await;
    assert!(heard(&mut wakes).await);
    assert_eq!(work.take_keys(9).await, ["a"]);
    work.put(entry("b")).await;
    assert!(heard(&mut wakes).await);
    assert_eq!(work.take_keys(9).await, ["b"]);
}

pub(crate) async fn every_listener_hears(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    let mut listeners = [work.wakes(), work.wakes(), work.wakes()];
    work.put(entry("a")).await;
    for wakes in &mut listeners {
        assert!(heard(wakes).await);
    }
}

pub(crate) async fn a_listener_hears_of_the_end(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    let mut wakes = work.wakes();
    work.close().await;
    assert!(!heard(&mut wakes).await);
}
