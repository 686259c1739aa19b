//! A claim is a lease, and only who holds it counts.

use cannery_journal::{Beat, Declaration, ErrorKind, Fate, Op, Retry, Status, Token};

use crate::subject::{Build as _, keys};
use crate::subject::{LEASE, Subject, at, data_of, declared, entry, key, token};

pub(crate) async fn a_heartbeat_extends(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    let held = work.take_token().await;
    for now in [LEASE - 1, 2 * LEASE - 2, 3 * LEASE - 3] {
        work.advance_to(now).await;
        assert_eq!(work.heartbeat(held).await.unwrap(), at(now + LEASE));
        let entry = work.only("k").await;
        assert_eq!(entry.deadline, Some(at(now + LEASE)));
        assert_eq!(entry.lease.unwrap().start, at(now));
        let wake = work.claim("tester", 9).await.unwrap().next_wake;
        assert_eq!(wake, Some(at(now + LEASE + 1)));
    }
    work.advance_to(4 * LEASE - 2).await;
    assert_eq!(work.take_keys(9).await, ["k"]);
}

pub(crate) async fn a_lease_holds_through_its_last_millisecond(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.add(vec![entry("a"), entry("b")]).await.unwrap();
    let held = work.take(9).await;
    work.advance(LEASE).await;
    work.done(token(&held[0])).await.unwrap();
    work.advance(1).await;
    let error = work.done(token(&held[1])).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::LeaseLost);
    assert_eq!(work.take_keys(9).await, ["b"]);
}

/// That every way to use a token is refused and changes nothing.
async fn is_refused(work: &Subject, old: Token) {
    let before = work.picture().await;
    assert_eq!(work.heartbeats(vec![old]).await.unwrap(), [Beat::Lost]);
    let tokens = vec![old];
    let ways = [
        Op::Done(tokens.clone()),
        Op::Release {
            tokens: tokens.clone(),
            at: None,
        },
        Op::Fail {
            tokens: tokens.clone(),
            reason: "no luck".into(),
            retry: Retry::At(at(0)),
        },
        Op::Fail {
            tokens,
            reason: "no luck".into(),
            retry: Retry::Never,
        },
    ];
    for way in ways {
        let fates = work.end_all(way.clone()).await.unwrap();
        assert_eq!(fates, [Fate::Lost], "{way:?}");
    }
    let (fates, claimed) = work.done_and_claim(vec![old], "x", 0).await.unwrap();
    assert_eq!((fates, claimed.entries.len()), (vec![Fate::Lost], 0));
    for error in [
        work.done(old).await.unwrap_err(),
        work.heartbeat(old).await.unwrap_err(),
        work.release(old, None).await.unwrap_err(),
        work.fail(old, "", Retry::Never).await.unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::LeaseLost);
        assert!(error.message.contains(&old.to_string()), "{error}");
    }
    assert_eq!(work.picture().await, before);
}

pub(crate) async fn a_token_is_refused_after_its_end(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    let names = ["done", "released", "failed", "died"];
    work.add(names.map(entry).to_vec()).await.unwrap();
    let held: Vec<Token> = work.take(9).await.iter().map(token).collect();
    work.done(held[0]).await.unwrap();
    work.release(held[1], None).await.unwrap();
    let retry = Retry::At(at(0));
    work.fail(held[2], "no luck", retry).await.unwrap();
    work.fail(held[3], "no hope", Retry::Never).await.unwrap();
    for old in &held {
        is_refused(&work, *old).await;
    }
    // Also while others hold the same entries.
    assert_eq!(keys(&work.take(9).await), ["released", "failed"]);
    for old in held {
        is_refused(&work, old).await;
    }
}

pub(crate) async fn a_token_is_refused_after_a_timeout(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    let old = work.take_token().await;
    work.advance(LEASE + 1).await;
    is_refused(&work, old).await;
    let new = work.take_token().await;
    is_refused(&work, old).await;
    work.done(new).await.unwrap();
    is_refused(&work, old).await;
    is_refused(&work, new).await;
}

pub(crate) async fn a_token_is_refused_after_cancel(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    let old = work.take_token().await;
    work.cancel(key("k")).await.unwrap();
    is_refused(&work, old).await;
    work.put(entry("k")).await;
    work.take_one().await;
    is_refused(&work, old).await;
}

pub(crate) async fn a_token_is_refused_after_death_and_requeue(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    let old = work.take_token().await;
    work.fail(old, "no hope", Retry::Never).await.unwrap();
    is_refused(&work, old).await;
    assert_eq!(work.requeue(key("k")).await.unwrap(), 1);
    is_refused(&work, old).await;
    work.take_one().await;
    is_refused(&work, old).await;
}

pub(crate) async fn a_lost_lease_changes_nothing(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k").holding("first")).await;
    let held = work.take_token().await;
    work.put(entry("k").holding("second")).await;
    let forged = [
        Token {
            nonce: held.nonce ^ 1,
            ..held
        },
        Token {
            counter: held.counter + 1,
            ..held
        },
        Token {
            incarnation: held.incarnation + 1,
            ..held
        },
        Token {
            incarnation: 0,
            counter: 0,
            nonce: 0,
        },
        Token {
            incarnation: u64::MAX,
            counter: u64::MAX,
            nonce: u64::MAX,
        },
    ];
    for token in forged {
        is_refused(&work, token).await;
    }
    // A lost lease among others does not hold them up.
    let fates = work.end_all(Op::Done(vec![forged[0], held])).await.unwrap();
    assert_eq!(fates, [Fate::Lost, Fate::Done]);
    assert_eq!(data_of(&work.take_one().await), "second");
}

pub(crate) async fn no_token_comes_back_when_the_journal_was_empty(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    let mut old: Vec<Token> = Vec::new();
    for _ in 0..5 {
        work.put(entry("k")).await;
        let held = work.take_token().await;
        assert!(!old.contains(&held), "{held}");
        work.heartbeat(held).await.unwrap();
        for token in &old {
            is_refused(&work, *token).await;
        }
        work.done(held).await.unwrap();
        assert_eq!(work.stats().await.unwrap().counts.live(), 0);
        old.push(held);
    }
}

pub(crate) async fn one_token_twice_in_a_request_ends_once(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.add(vec![entry("a"), entry("b")]).await.unwrap();
    let held: Vec<Token> = work.take(9).await.iter().map(token).collect();
    let fates = work
        .end_all(Op::Fail {
            tokens: vec![held[0], held[1], held[0]],
            reason: "no luck".into(),
            retry: Retry::At(at(0)),
        })
        .await
        .unwrap();
    assert_eq!(fates, [Fate::Waiting, Fate::Waiting, Fate::Lost]);
    let failed = work.only("a").await;
    assert_eq!((failed.status, failed.meta.timeouts), (Status::Waiting, 1));
    assert_eq!(work.stats().await.unwrap().counts.failures, 2);
}
