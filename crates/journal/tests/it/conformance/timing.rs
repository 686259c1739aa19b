//! Who listens hears without anybody asking: rules for engines with a timer, which the one in memory has not.
#![allow(dead_code, reason = "only an engine with a timer is held to these")]

use cannery_journal::{Declaration, Retry};

use super::waking::heard;
use crate::subject::{Build as _, LEASE, Subject, at, declared, entry, key};

pub(crate) async fn a_listener_hears_at_the_process_date(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("k").process(500)).await;
    work.pass(499).await;
    let mut wakes = work.wakes();
    assert_eq!(work.take_keys(9).await, [""; 0]);
    work.pass(1).await;
    assert!(heard(&mut wakes).await);
    assert_eq!(work.take_keys(9).await, ["k"]);
}

pub(crate) async fn a_listener_hears_of_a_timeout(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    work.take_one().await;
    work.pass(LEASE).await;
    let mut wakes = work.wakes();
    work.pass(1).await;
    assert!(heard(&mut wakes).await);
    assert_eq!(work.take_keys(9).await, ["k"]);
}

pub(crate) async fn a_listener_hears_of_what_comes_back(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    let held = work.take_token().await;
    let mut wakes = work.wakes();
    work.release(held, None).await.unwrap();
    assert!(heard(&mut wakes).await);
    let held = work.take_token().await;
    let mut wakes = work.wakes();
    work.fail(held, "no luck", Retry::At(at(0))).await.unwrap();
    assert!(heard(&mut wakes).await);
    let held = work.take_token().await;
    work.fail(held, "no hope", Retry::Never).await.unwrap();
    let mut wakes = work.wakes();
    work.requeue(key("k")).await.unwrap();
    assert!(heard(&mut wakes).await);
}

pub(crate) async fn a_listener_hears_when_a_successor_is_free(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    let held = work.take_token().await;
    work.put(entry("k")).await;
    let mut wakes = work.wakes();
    work.done(held).await.unwrap();
    assert!(heard(&mut wakes).await);
    assert_eq!(work.take_keys(9).await, ["k"]);
}
