//! What a claim hands out, and when to come again.

use cannery_journal::{Data, Declaration, Fate, NewEntry, Op};

use crate::subject::{Build as _, LEASE, Subject, at, declared, entry, keys, token};

pub(crate) async fn order_is_priority_then_process_date_then_arrival(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.advance(100).await;
    let adds = [
        ("late", 20, 90),
        ("first of two", 20, 50),
        ("second of two", 20, 50),
        ("slow but long due", 180, 1),
        ("best", 0, 100),
        ("early", 20, 49),
    ];
    for (name, priority, process) in adds {
        let add = entry(name).priority(priority).inserted(0).process(process);
        work.put(add).await;
    }
    let order = [
        "best",
        "early",
        "first of two",
        "second of two",
        "late",
        "slow but long due",
    ];
    assert_eq!(work.take_keys(2).await, order[..2]);
    assert_eq!(work.take_keys(1).await, order[2..3]);
    assert_eq!(work.take_keys(100).await, order[3..]);
}

pub(crate) async fn nothing_before_its_process_date(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k").process(500)).await;
    work.put(entry("better and later").priority(0).process(501))
        .await;
    work.advance_to(499).await;
    assert_eq!(work.take_keys(9).await, [""; 0]);
    work.advance_to(500).await;
    assert_eq!(work.take_keys(9).await, ["k"]);
    work.advance_to(501).await;
    assert_eq!(work.take_keys(9).await, ["better and later"]);
}

pub(crate) async fn priority_200_waits(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("slow").priority(200)).await;
    work.put(entry("fast").priority(199).process(10)).await;
    work.put(entry("slower").priority(255)).await;
    // Something below 200 waits, but it is not due.
    assert_eq!(work.take_keys(1).await, ["slow"]);
    work.advance_to(10).await;
    assert_eq!(work.take_keys(1).await, ["fast"]);
    assert_eq!(work.take_keys(1).await, ["slower"]);
}

pub(crate) async fn a_claim_with_fast_work_has_no_slow_work(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    for (name, priority) in [("a", 200), ("b", 0), ("c", 230), ("d", 199)] {
        work.put(entry(name).priority(priority)).await;
    }
    let claimed = work.claim("tester", 9).await.unwrap();
    assert_eq!(keys(&claimed.entries), ["b", "d"]);
    // The slow ones may follow at once.
    assert!(claimed.next_wake.unwrap() <= work.now());
    assert_eq!(work.take_keys(9).await, ["a", "c"]);
}

pub(crate) async fn what_is_blocked_does_not_hold_up_slow_work(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("k").priority(0)).await;
    let first = work.take_token().await;
    work.put(entry("k").priority(0)).await;
    work.put(entry("slow").priority(255)).await;
    assert_eq!(work.take_keys(9).await, ["slow"]);
    work.done(first).await.unwrap();
    assert_eq!(work.take_keys(9).await, ["k"]);
}

pub(crate) async fn a_claim_hands_out_what_was_asked_for_and_nothing_twice(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    let adds = (0..25).map(|n| entry(&format!("{n:02}"))).collect();
    work.add(adds).await.unwrap();
    assert_eq!(work.take_keys(0).await, [""; 0]);
    let mut all = Vec::new();
    let mut tokens = Vec::new();
    for count in [10, 10, 10] {
        let entries = work.take(count).await;
        all.extend(keys(&entries));
        tokens.extend(entries.iter().map(token));
    }
    let expected: Vec<String> = (0..25).map(|n| format!("{n:02}")).collect();
    assert_eq!(all, expected);
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 25);
    work.balances().await;
}

pub(crate) async fn a_claim_is_bounded_in_bytes(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    let text = format!("\"{}\"", "x".repeat(Data::BYTES_MAX - 2));
    let data = Data::from_json(text).unwrap();
    let per_claim = Op::BYTES_MAX / Data::BYTES_MAX;
    for n in 0..=per_claim {
        work.put(NewEntry::new(format!("{n}"), data.clone())).await;
    }
    let first = work.claim("tester", 100).await.unwrap();
    assert_eq!(first.entries.len(), per_claim);
    assert!(first.next_wake.unwrap() <= work.now());
    assert!(first.entries.iter().all(|entry| entry.data == data));
    assert_eq!(work.take(100).await.len(), 1);
}

pub(crate) async fn done_and_claim_is_one(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    let first = work.take_token().await;
    work.put(entry("k")).await;
    let (fates, claimed) = work
        .done_and_claim(vec![first, first], "tester", 9)
        .await
        .unwrap();
    assert_eq!(fates, [Fate::Done, Fate::Lost]);
    // The successor was blocked by what is done in the same request.
    assert_eq!(keys(&claimed.entries), ["k"]);
    assert_eq!(claimed.next_wake, Some(at(LEASE + 1)));
    let counts = work.stats().await.unwrap().counts;
    assert_eq!((counts.done, counts.claims), (1, 2));
    work.balances().await;
}

pub(crate) async fn next_wake_is_none_while_nothing_waits_or_is_processed(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    assert_eq!(work.claim("tester", 9).await.unwrap().next_wake, None);
    work.put(entry("k")).await;
    let first = work.take_token().await;
    work.done(first).await.unwrap();
    assert_eq!(work.claim("tester", 9).await.unwrap().next_wake, None);
}

pub(crate) async fn next_wake_is_the_next_process_date(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("slow").priority(255).process(700)).await;
    work.put(entry("fast").process(800)).await;
    let claimed = work.claim("tester", 9).await.unwrap();
    assert_eq!(claimed.next_wake, Some(at(700)));
    work.advance_to(700).await;
    let claimed = work.claim("tester", 9).await.unwrap();
    assert_eq!(keys(&claimed.entries), ["slow"]);
    assert_eq!(claimed.next_wake, Some(at(800)));
}

pub(crate) async fn next_wake_is_past_while_something_is_due(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.add(vec![entry("a"), entry("b")]).await.unwrap();
    let claimed = work.claim("tester", 1).await.unwrap();
    assert!(claimed.next_wake.unwrap() <= work.now());
}

pub(crate) async fn next_wake_is_the_moment_after_a_deadline(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("far").process(9_000_000)).await;
    work.put(entry("k")).await;
    let claimed = work.claim("tester", 9).await.unwrap();
    assert_eq!(claimed.next_wake, Some(at(LEASE + 1)));
    work.advance_to(LEASE).await;
    assert_eq!(work.take_keys(9).await, [""; 0]);
    work.advance_to(LEASE + 1).await;
    assert_eq!(work.take_keys(9).await, ["k"]);
}
