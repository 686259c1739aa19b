//! What is given up, and what a person does about it.

use cannery_journal::{Cancelled, Declaration, Expiration, Fate, Op, Retry, Status};

use crate::subject::{Build as _, LEASE, Subject, at, data_of, declared, entry, key};

/// Claims the one entry that is due and lets its lease run out.
async fn time_out(work: &Subject) {
    work.take_one().await;
    work.advance(LEASE + 1).await;
}

/// Adds an entry that is given up at once.
async fn bury(work: &Subject, text: &str) {
    work.put(entry("k").holding(text)).await;
    let held = work.take_token().await;
    let fate = work.fail(held, "no hope", Retry::Never).await.unwrap();
    assert_eq!(fate, Fate::Dead);
}

pub(crate) async fn past_timeouts_max_it_dies_exactly_once(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    time_out(&work).await;
    time_out(&work).await;
    let alive = work.only("k").await;
    assert_eq!((alive.status, alive.meta.timeouts), (Status::Waiting, 2));
    time_out(&work).await;
    let dead = work.only("k").await;
    assert_eq!((dead.status, dead.meta.timeouts), (Status::Dead, 3));
    let death = dead.death.unwrap();
    assert_eq!(death.date, at(3 * (LEASE + 1)));
    assert!(death.reason.contains("timed out"), "{}", death.reason);
    assert!(death.reason.contains("`tester`"), "{}", death.reason);
    work.advance(100 * LEASE).await;
    assert_eq!(work.take_keys(9).await, [""; 0]);
    let stats = work.stats().await.unwrap();
    assert_eq!((stats.dead, stats.counts.died), (1, 1));
    assert_eq!(stats.counts.timeouts, 3);
    work.balances().await;
}

pub(crate) async fn retry_never_goes_to_the_dead_list(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.advance(5).await;
    bury(&work, "x").await;
    let dead = work.only("k").await;
    assert_eq!((dead.status, dead.meta.timeouts), (Status::Dead, 1));
    let death = dead.death.unwrap();
    assert_eq!((death.date, &*death.reason), (at(5), "no hope"));
    let counts = work.stats().await.unwrap().counts;
    assert_eq!((counts.died, counts.failures), (1, 1));
    // A new add is a new entry; the dead one stays.
    work.put(entry("k").holding("y")).await;
    assert_eq!(
        work.of("k").await,
        [(Status::Waiting, "y".into()), (Status::Dead, "x".into())]
    );
    work.balances().await;
}

pub(crate) async fn a_long_reason_is_cut(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    let held = work.take_token().await;
    // The bound falls into the middle of a character.
    let reason = format!("x{}", "\u{e4}".repeat(Op::TEXT_BYTES_MAX));
    work.fail(held, &reason, Retry::Never).await.unwrap();
    let kept = work.only("k").await.death.unwrap().reason;
    assert_eq!(*kept, reason[..Op::TEXT_BYTES_MAX - 1]);
}

pub(crate) async fn timeouts_max_zero_allows_one_attempt(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(Declaration {
        timeouts_max: 0,
        ..declared()
    })
    .await;
    work.put(entry("k")).await;
    let held = work.take_token().await;
    work.release(held, None).await.unwrap();
    time_out(&work).await;
    assert_eq!(work.only("k").await.status, Status::Dead);
}

pub(crate) async fn death_frees_the_successor(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k").priority(0).holding("bad")).await;
    let held = work.take_token().await;
    work.put(entry("k").priority(30).holding("cure")).await;
    work.fail(held, "no hope", Retry::Never).await.unwrap();
    assert_eq!(
        work.of("k").await,
        [
            (Status::Waiting, "cure".into()),
            (Status::Dead, "bad".into())
        ]
    );
    let cure = work.take_one().await;
    assert_eq!((cure.meta.priority.0, cure.meta.timeouts), (30, 0));
    assert_eq!(cure.meta.strikes, 1, "what is known of the key stays known");
    work.balances().await;
}

pub(crate) async fn requeue_forgets_what_was_held_against_it(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("k").priority(7).holding("x")).await;
    for _ in 0..3 {
        time_out(&work).await;
    }
    assert_eq!(work.requeue(key("other")).await.unwrap(), 0);
    assert_eq!(work.requeue(key("k")).await.unwrap(), 1);
    let back = work.take_one().await;
    assert_eq!((back.meta.timeouts, back.meta.strikes), (0, 0));
    assert_eq!((back.meta.priority.0, data_of(&back).as_str()), (7, "x"));
    assert_eq!((back.meta.insertion, &back.death), (at(0), &None));
    assert_eq!(work.stats().await.unwrap().dead, 0);
    assert_eq!(work.requeue(key("k")).await.unwrap(), 0);
    // It has all its attempts again.
    work.advance(LEASE + 1).await;
    assert_eq!(work.only("k").await.status, Status::Waiting);
    work.balances().await;
}

pub(crate) async fn requeue_meets_a_waiting_entry(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k").priority(7).expires(90_000).holding("old"))
        .await;
    let held = work.take_token().await;
    work.fail(held, "no hope", Retry::Never).await.unwrap();
    work.advance(10).await;
    let new = entry("k").priority(30).process(400).holding("new");
    work.put(new).await;
    assert_eq!(work.requeue(key("k")).await.unwrap(), 1);
    let one = work.only("k").await;
    assert_eq!(
        (one.status, data_of(&one)),
        (Status::Waiting, "new".to_owned())
    );
    assert_eq!((one.meta.insertion, one.meta.newest), (at(0), at(10)));
    assert_eq!((one.meta.priority.0, one.meta.process), (7, at(400)));
    assert_eq!(one.meta.expiration, Expiration::NEVER);
    let counts = work.stats().await.unwrap().counts;
    assert_eq!((counts.absorbed, counts.died), (1, 1));
    work.balances().await;
}

pub(crate) async fn requeue_while_processing_is_blocked(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    bury(&work, "old").await;
    work.put(entry("k").holding("new")).await;
    let held = work.take_token().await;
    assert_eq!(work.requeue(key("k")).await.unwrap(), 1);
    assert_eq!(
        work.of("k").await,
        [
            (Status::Processing, "new".into()),
            (Status::Blocked, "old".into())
        ]
    );
    assert_eq!(work.take_keys(9).await, [""; 0]);
    work.done(held).await.unwrap();
    assert_eq!(data_of(&work.take_one().await), "old");
    work.balances().await;
}

pub(crate) async fn requeue_of_two_makes_one(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    bury(&work, "first").await;
    work.advance(10).await;
    bury(&work, "second").await;
    assert_eq!(work.stats().await.unwrap().dead, 2);
    assert_eq!(work.requeue(key("k")).await.unwrap(), 2);
    let one = work.only("k").await;
    assert_eq!(data_of(&one), "second", "the newest data");
    assert_eq!(one.meta.newest, at(10));
    assert_eq!(one.meta.insertion, at(0), "kept from the first add");
    work.balances().await;
}

pub(crate) async fn requeue_revives_what_expired_in_the_meantime(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("k").expires(50)).await;
    let held = work.take_token().await;
    work.fail(held, "no hope", Retry::Never).await.unwrap();
    work.advance(1_000).await;
    assert_eq!(work.requeue(key("k")).await.unwrap(), 1);
    assert_eq!(work.take_one().await.meta.expiration, Expiration::NEVER);
}

pub(crate) async fn forget_takes_the_dead_only(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    bury(&work, "1").await;
    bury(&work, "2").await;
    work.put(entry("k").holding("3")).await;
    let held = work.take_token().await;
    work.put(entry("k").holding("4")).await;
    assert_eq!(work.forget(key("k")).await.unwrap(), 2);
    assert_eq!(work.forget(key("k")).await.unwrap(), 0);
    assert_eq!(
        work.of("k").await,
        [
            (Status::Processing, "3".into()),
            (Status::Blocked, "4".into())
        ]
    );
    work.done(held).await.unwrap();
    let counts = work.stats().await.unwrap().counts;
    assert_eq!((counts.forgotten, counts.died), (2, 2));
    work.balances().await;
}

pub(crate) async fn cancel_takes_waiting_and_processing(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    bury(&work, "dead").await;
    work.put(entry("k")).await;
    work.put(entry("other").process(9_000)).await;
    work.take_one().await;
    work.put(entry("k")).await;
    let cancelled = work.cancel(key("k")).await.unwrap();
    assert_eq!(
        cancelled,
        Cancelled {
            waiting: 1,
            processing: 1
        }
    );
    assert_eq!(work.of("k").await, [(Status::Dead, "dead".into())]);
    assert_eq!(work.of("other").await.len(), 1);
    // There is no time-out of what is gone.
    work.advance(LEASE + 1).await;
    let counts = work.stats().await.unwrap().counts;
    assert_eq!((counts.cancelled, counts.timeouts), (2, 0));
    assert_eq!(work.cancel(key("k")).await.unwrap(), Cancelled::default());
    work.balances().await;
}

/// Lets a key fail until it is dead; `again` adds it once more in every round. Says after how many attempts.
async fn attempts_until_death(work: &Subject, again: impl AsyncFn(bool)) -> usize {
    work.put(entry("k")).await;
    for attempt in 1..1_000 {
        assert_eq!(work.take_keys(9).await, ["k"], "attempt {attempt}");
        again(true).await;
        work.advance(LEASE + 1).await;
        if work.stats().await.unwrap().dead > 0 {
            return attempt;
        }
        again(false).await;
    }
    panic!("a poisonous key never died");
}

pub(crate) async fn a_poisonous_key_re_added_while_waiting_dies(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    let attempts = attempts_until_death(&work, async |processing| {
        if !processing {
            work.put(entry("k")).await;
        }
    })
    .await;
    // Every merge gives it new attempts, but not for ever: four times as many.
    assert_eq!(attempts, 4 * 2 + 1);
    assert_eq!(work.stats().await.unwrap().counts.died, 1);
    work.balances().await;
}

pub(crate) async fn a_poisonous_key_re_added_while_processing_dies(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    let attempts = attempts_until_death(&work, async |processing| {
        if processing {
            work.put(entry("k")).await;
        }
    })
    .await;
    // The counter is carried into every successor.
    assert_eq!(attempts, 2 + 1);
    // The last successor, with new data, may still be the cure.
    assert_eq!(work.take_one().await.meta.timeouts, 0);
    work.balances().await;
}

pub(crate) async fn done_wipes_the_slate_clean(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    time_out(&work).await;
    time_out(&work).await;
    let held = work.take_token().await;
    work.put(entry("k")).await;
    work.done(held).await.unwrap();
    let next = work.take_one().await.meta;
    assert_eq!((next.timeouts, next.strikes), (0, 0));
}
