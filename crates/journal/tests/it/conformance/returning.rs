//! Entries that come back, and the successor that may wait for them.

use std::time::Duration;

use cannery_journal::{Declaration, Expiration, Fate, Priority, Retry, Status};

use crate::subject::{Build as _, LEASE, Subject, at, data_of, declared, entry};

pub(crate) async fn a_key_added_while_processing_waits_for_the_end(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("k").holding("first")).await;
    let first = work.take_token().await;
    work.put(entry("k").holding("second").priority(0)).await;
    assert_eq!(
        work.of("k").await,
        [
            (Status::Processing, "first".into()),
            (Status::Blocked, "second".into())
        ]
    );
    assert_eq!(work.take_keys(9).await, [""; 0]);
    work.advance(LEASE).await;
    assert_eq!(work.take_keys(9).await, [""; 0]);
    work.done(first).await.unwrap();
    let second = work.take_one().await;
    assert_eq!(data_of(&second), "second");
    assert_eq!((second.meta.timeouts, second.meta.strikes), (0, 0));
    work.balances().await;
}

pub(crate) async fn adds_of_a_blocked_key_merge(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    let first = work.take_token().await;
    for text in ["a", "b", "c"] {
        work.put(entry("k").holding(text)).await;
    }
    assert_eq!(work.of("k").await[1..], [(Status::Blocked, "c".into())]);
    work.done(first).await.unwrap();
    assert_eq!(data_of(&work.take_one().await), "c");
    work.balances().await;
}

pub(crate) async fn a_timeout_waits_again_with_one_more(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("k").priority(7).expires(90_000)).await;
    let before = work.take_one().await;
    assert_eq!(before.deadline, Some(at(LEASE)));
    work.advance(LEASE + 1).await;
    let after = work.only("k").await;
    assert_eq!((after.status, &after.lease), (Status::Waiting, &None));
    assert_eq!((after.meta.timeouts, after.meta.strikes), (1, 1));
    let unchanged = cannery_journal::Meta {
        timeouts: 0,
        strikes: 0,
        ..after.meta
    };
    assert_eq!(unchanged, before.meta);
    assert_eq!(work.stats().await.unwrap().counts.timeouts, 1);
    // Nor is it counted again while nobody claims it.
    work.advance(LEASE * 5).await;
    assert_eq!(work.only("k").await.meta.timeouts, 1);
    assert_eq!(work.take_keys(9).await, ["k"]);
}

/// One entry in the making: a predecessor that is processed and a successor that waits for it.
async fn two_of_a_key(work: &Subject) -> cannery_journal::Token {
    let first = entry("k").inserted(-20).priority(30).expires(50_000);
    work.put(first.holding("first")).await;
    let first = work.take_token().await;
    work.advance(10).await;
    let second = entry("k").inserted(5).process(60).priority(40);
    work.put(second.expires(40_000).holding("second")).await;
    first
}

/// What they become, whatever brought the first one back; gives back its counters.
async fn are_one(work: &Subject) -> (u8, u16) {
    let one = work.only("k").await;
    assert_eq!((one.status, &one.lease), (Status::Waiting, &None));
    assert_eq!(data_of(&one), "second");
    assert_eq!(
        (one.meta.insertion, one.meta.newest, one.meta.arrived),
        (at(-20), at(5), at(0))
    );
    assert_eq!(one.meta.priority, Priority(30));
    assert_eq!(one.meta.expiration, Expiration::at(at(50_000)));
    assert_eq!(one.meta.process, at(60));
    let counts = work.stats().await.unwrap().counts;
    assert_eq!((counts.adds, counts.absorbed), (2, 1));
    work.balances().await;
    (one.meta.timeouts, one.meta.strikes)
}

pub(crate) async fn a_timeout_with_a_successor_is_absorbed(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    two_of_a_key(&work).await;
    work.advance_to(LEASE + 1).await;
    assert_eq!(are_one(&work).await, (1, 1));
    assert_eq!(data_of(&work.take_one().await), "second");
}

pub(crate) async fn a_stale_successor_leaves_the_data(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k").inserted(20).process(20).holding("newer"))
        .await;
    work.advance(20).await;
    work.take_one().await;
    let older = entry("k").inserted(10).process(70).priority(1);
    work.put(older.holding("older")).await;
    work.advance(LEASE + 1).await;
    let one = work.only("k").await;
    assert_eq!(data_of(&one), "newer");
    assert_eq!(
        (one.meta.insertion, one.meta.newest, one.meta.timeouts),
        (at(20), at(20), 1)
    );
    assert_eq!(
        (one.meta.priority, one.meta.process),
        (Priority(1), at(70)),
        "the dates and the priority of a stale add count"
    );
    work.balances().await;
}

pub(crate) async fn release_waits_again_without_blame(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    let before = work.take_one().await;
    let fate = work.release(crate::subject::token(&before), None).await;
    assert_eq!(fate.unwrap(), Fate::Waiting);
    let after = work.only("k").await;
    assert_eq!((after.status, after.meta), (Status::Waiting, before.meta));
    assert_eq!(work.take_keys(9).await, ["k"]);
    assert_eq!(work.stats().await.unwrap().counts.releases, 1);
}

pub(crate) async fn release_waits_until_the_date(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    let first = work.take_token().await;
    work.release(first, Some(at(500))).await.unwrap();
    work.advance_to(499).await;
    assert_eq!(work.take_keys(9).await, [""; 0]);
    work.advance_to(500).await;
    let second = work.take_token().await;
    // A past date does not pull it forward in the order.
    work.release(second, Some(at(3))).await.unwrap();
    assert_eq!(work.only("k").await.meta.process, at(500));
}

pub(crate) async fn release_with_a_successor_is_absorbed(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    let first = two_of_a_key(&work).await;
    let fate = work.release(first, Some(at(50))).await.unwrap();
    assert_eq!(fate, Fate::Absorbed);
    assert_eq!(are_one(&work).await, (0, 0));
}

pub(crate) async fn fail_counts_and_waits_until_the_date(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    let first = work.take_token().await;
    let fate = work.fail(first, "no luck", Retry::At(at(500))).await;
    assert_eq!(fate.unwrap(), Fate::Waiting);
    let meta = work.only("k").await.meta;
    assert_eq!((meta.timeouts, meta.strikes, meta.process), (1, 1, at(500)));
    work.advance_to(499).await;
    assert_eq!(work.take_keys(9).await, [""; 0]);
    work.advance_to(500).await;
    assert_eq!(work.take_keys(9).await, ["k"]);
    let counts = work.stats().await.unwrap().counts;
    assert_eq!((counts.failures, counts.timeouts), (1, 0));
}

pub(crate) async fn fail_with_a_successor_is_absorbed(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    let first = two_of_a_key(&work).await;
    let fate = work.fail(first, "no luck", Retry::At(at(0))).await.unwrap();
    assert_eq!(fate, Fate::Absorbed);
    assert_eq!(are_one(&work).await, (1, 1));
}

pub(crate) async fn an_absorbed_entry_respects_max_delay(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(Declaration {
        max_delay: Some(Duration::from_millis(100)),
        ..declared()
    })
    .await;
    work.put(entry("k")).await;
    let first = work.take_token().await;
    work.put(entry("k").process(9_000)).await;
    work.release(first, None).await.unwrap();
    assert_eq!(work.only("k").await.meta.process, at(100));
    // A date that a worker asks for is its own affair.
    work.advance_to(100).await;
    let again = work.take_token().await;
    work.put(entry("k").process(9_000)).await;
    work.release(again, Some(at(5_000))).await.unwrap();
    assert_eq!(work.only("k").await.meta.process, at(5_000));
}

pub(crate) async fn merge_off_absorbs_nothing(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(Declaration {
        merge: false,
        ..declared()
    })
    .await;
    work.put(entry("k").holding("1")).await;
    let first = work.take_token().await;
    work.put(entry("k").holding("2")).await;
    let fate = work.fail(first, "no luck", Retry::At(at(0))).await.unwrap();
    assert_eq!(fate, Fate::Waiting);
    let all = work.take(9).await;
    let found: Vec<_> = all
        .iter()
        .map(|entry| (data_of(entry), entry.meta.timeouts))
        .collect();
    assert_eq!(found, [("1".to_owned(), 1), ("2".to_owned(), 0)]);
    assert_eq!(work.stats().await.unwrap().counts.absorbed, 0);
}
