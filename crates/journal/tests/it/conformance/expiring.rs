//! After its expiration date an entry counts as deleted.

use std::time::Duration;

use cannery_journal::{Added, Declaration, Expiration, Fate, Query, Retry, Status};

use crate::subject::{Build as _, LEASE, Subject, at, data_of, declared, entry, key, keys};

pub(crate) async fn an_expired_entry_is_gone_everywhere(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("k").expires(50)).await;
    work.put(entry("later").process(40).expires(50)).await;
    work.put(entry("other").process(9_000)).await;
    work.pass(50).await;
    assert_eq!(work.of("k").await.len(), 1);
    // Nobody swept: it is gone all the same.
    work.pass(1).await;
    assert_eq!(work.of("k").await.len(), 0);
    assert_eq!(keys(&work.all(Query::all()).await), ["other"]);
    let stats = work.stats().await.unwrap();
    assert_eq!(
        (stats.waiting(), stats.due(), stats.oldest_due),
        (1, 0, None)
    );
    assert_eq!((stats.counts.expired, stats.counts.live()), (2, 1));
    let claimed = work.claim("tester", 9).await.unwrap();
    assert_eq!(keys(&claimed.entries), [""; 0]);
    assert_eq!(claimed.next_wake, Some(at(9_000)));
    assert_eq!(work.cancel(key("k")).await.unwrap().waiting, 0);
    work.balances().await;
}

pub(crate) async fn an_add_after_expiry_is_a_new_entry(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k").priority(0).expires(50).holding("old"))
        .await;
    work.pass(51).await;
    let again = entry("k").inserted(-100).process(51).priority(30);
    // Older than what has expired, and yet not stale.
    assert_eq!(
        work.add_one(again.holding("new")).await.unwrap(),
        Added::Inserted
    );
    let new = work.only("k").await;
    assert_eq!(data_of(&new), "new");
    assert_eq!(
        (new.meta.insertion, new.meta.priority.0, new.meta.arrived),
        (at(-100), 30, at(51))
    );
    work.balances().await;
}

pub(crate) async fn what_has_expired_on_arrival_is_never_merged_with(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    let batch = vec![
        entry("k").priority(0).expires(-1),
        entry("k").priority(30).inserted(-5).process(0),
    ];
    assert_eq!(
        work.add(batch).await.unwrap(),
        [Added::Inserted, Added::Inserted]
    );
    let kept = work.only("k").await.meta;
    assert_eq!((kept.priority.0, kept.insertion), (30, at(-5)));
    assert_eq!(work.stats().await.unwrap().counts.expired, 1);
    work.balances().await;
}

pub(crate) async fn declared_expiry_is_the_default(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(Declaration {
        expiry: Some(Duration::from_millis(70)),
        ..declared()
    })
    .await;
    work.put(entry("k")).await;
    work.put(entry("said").expires(500)).await;
    let expiration = work.only("k").await.meta.expiration;
    assert_eq!(expiration, Expiration::at(at(70)));
    work.advance(71).await;
    assert_eq!(keys(&work.all(Query::all()).await), ["said"]);
}

pub(crate) async fn an_entry_that_expires_while_processing_may_finish(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("k").expires(50)).await;
    let held = work.take_token().await;
    work.advance(LEASE - 1).await;
    assert_eq!(work.heartbeat(held).await.unwrap(), at(2 * LEASE - 1));
    work.advance(LEASE - 1).await;
    work.done(held).await.unwrap();
    let counts = work.stats().await.unwrap().counts;
    assert_eq!((counts.done, counts.expired), (1, 0));
    work.balances().await;
}

pub(crate) async fn an_expired_entry_is_never_retried(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    for name in ["released", "failed", "timed out"] {
        work.put(entry(name).expires(50)).await;
    }
    let held: Vec<_> = work
        .take(9)
        .await
        .iter()
        .map(crate::subject::token)
        .collect();
    work.advance(51).await;
    let fate = work.release(held[0], None).await.unwrap();
    assert_eq!(fate, Fate::Expired);
    let fate = work.fail(held[1], "no luck", Retry::At(at(60))).await;
    assert_eq!(fate.unwrap(), Fate::Expired);
    work.advance(LEASE).await;
    assert_eq!(work.all(Query::all()).await, []);
    let counts = work.stats().await.unwrap().counts;
    assert_eq!((counts.expired, counts.timeouts, counts.died), (3, 1, 0));
    work.balances().await;
}

pub(crate) async fn an_expired_entry_leaves_its_successor_alone(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("k").priority(0).expires(50)).await;
    work.take_one().await;
    work.put(entry("k").priority(30).holding("second")).await;
    work.advance(LEASE + 1).await;
    let second = work.only("k").await;
    assert_eq!(
        (second.status, data_of(&second)),
        (Status::Waiting, "second".to_owned())
    );
    // What is deleted gives no priority away, but its failure is known of the key.
    assert_eq!(second.meta.priority.0, 30);
    assert_eq!((second.meta.timeouts, second.meta.strikes), (0, 1));
    let counts = work.stats().await.unwrap().counts;
    assert_eq!((counts.absorbed, counts.expired), (0, 1));
    work.balances().await;
}

pub(crate) async fn an_expired_successor_absorbs_nothing(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("k").priority(30).holding("first")).await;
    work.take_one().await;
    let short = entry("k").priority(0).expires(50);
    work.put(short.holding("second")).await;
    // The successor has expired long before the lease runs out; nobody looked in between.
    work.pass(LEASE + 1).await;
    let one = work.only("k").await;
    assert_eq!(data_of(&one), "first");
    assert_eq!((one.meta.priority.0, one.meta.timeouts), (30, 1));
    let counts = work.stats().await.unwrap().counts;
    assert_eq!((counts.absorbed, counts.expired), (0, 1));
    work.balances().await;
}

pub(crate) async fn a_dead_entry_does_not_expire(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k").expires(50)).await;
    let held = work.take_token().await;
    work.fail(held, "no hope", Retry::Never).await.unwrap();
    work.advance(9_000_000).await;
    assert_eq!(work.only("k").await.status, Status::Dead);
    assert_eq!(work.stats().await.unwrap().dead, 1);
    work.balances().await;
}
