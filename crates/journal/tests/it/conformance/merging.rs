//! The same key waiting twice is one entry.

use std::time::Duration;

use cannery_journal::{Added, Date, Declaration, Expiration, Priority, Status};

use crate::subject::{Build as _, LEASE, Subject, at, data_of, declared, entry};

pub(crate) async fn a_merge_keeps_the_insertion_date_and_folds_the_rest(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    let first = entry("k").priority(50).inserted(0).process(400);
    work.put(first.expires(9_000).holding("old")).await;
    work.advance(10).await;
    let second = entry("k").priority(20).inserted(5).process(300);
    let added = work.add_one(second.expires(8_000).holding("new")).await;
    assert_eq!(added.unwrap(), Added::Merged);
    let merged = work.only("k").await;
    assert_eq!(data_of(&merged), "new");
    assert_eq!(
        (
            merged.meta.insertion,
            merged.meta.newest,
            merged.meta.arrived
        ),
        (at(0), at(5), at(0))
    );
    assert_eq!(
        (merged.meta.priority, merged.meta.process),
        (Priority(20), at(400))
    );
    assert_eq!(merged.meta.expiration, Expiration::at(at(9_000)));
    // The other way round: a worse priority, a later date.
    let third = entry("k").priority(60).inserted(6).process(500);
    work.put(third.expires(9_500)).await;
    let merged = work.only("k").await.meta;
    assert_eq!((merged.priority, merged.process), (Priority(20), at(500)));
    assert_eq!(merged.expiration, Expiration::at(at(9_500)));
    assert_eq!(work.stats().await.unwrap().counts.merged, 2);
    work.balances().await;
}

pub(crate) async fn the_later_expiration_wins_and_none_is_the_latest(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    let last = Date::LAST.as_millis() - at(0).as_millis();
    work.put(entry("a").expires(last)).await;
    work.put(entry("a")).await;
    work.put(entry("b")).await;
    work.put(entry("b").expires(10)).await;
    for key in ["a", "b"] {
        assert_eq!(work.only(key).await.meta.expiration, Expiration::NEVER);
    }
    // A stale add counts as well.
    work.put(entry("c").expires(10)).await;
    work.put(entry("c").inserted(-5)).await;
    assert_eq!(work.only("c").await.meta.expiration, Expiration::NEVER);
}

pub(crate) async fn a_merge_resets_the_timeouts(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    work.take_one().await;
    work.advance(LEASE + 1).await;
    let before = work.only("k").await.meta;
    assert_eq!((before.timeouts, before.strikes), (1, 1));
    work.put(entry("k")).await;
    let after = work.only("k").await.meta;
    assert_eq!((after.timeouts, after.strikes), (0, 1));
}

pub(crate) async fn a_merge_moves_an_entry_back_in_the_order(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.add(vec![entry("a"), entry("b")]).await.unwrap();
    work.advance(5).await;
    work.put(entry("a")).await;
    assert_eq!(work.take_keys(9).await, ["b", "a"]);
}

fn bounded(millis: u64) -> Declaration {
    Declaration {
        max_delay: Some(Duration::from_millis(millis)),
        ..declared()
    }
}

pub(crate) async fn a_key_re_added_without_end_still_runs(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(bounded(100)).await;
    for now in (0..=100).step_by(10) {
        work.advance_to(now).await;
        // Every add puts it off by another 50 ms.
        work.put(entry("k").inserted(now).process(now + 50)).await;
        let handed_out = work.take_keys(9).await.len();
        assert_eq!(handed_out, usize::from(now == 100), "at {now} ms");
    }
    let ran = work.only("k").await;
    assert_eq!(
        (ran.status, ran.meta.process),
        (Status::Processing, at(100))
    );
}

pub(crate) async fn a_far_date_is_never_pulled_nearer(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(bounded(100)).await;
    work.put(entry("k").process(5_000)).await;
    work.put(entry("k").process(200)).await;
    assert_eq!(work.only("k").await.meta.process, at(5_000));
    work.put(entry("k").process(6_000)).await;
    assert_eq!(work.only("k").await.meta.process, at(5_000));
    // The bound counts from the arrival by the engine's clock, not from the client's date.
    work.put(entry("old").inserted(-3_000)).await;
    work.put(entry("old").process(6_000)).await;
    assert_eq!(work.only("old").await.meta.process, at(100));
}

pub(crate) async fn no_max_delay_is_the_default(open: impl AsyncFn(Declaration) -> Subject) {
    assert_eq!(Declaration::default().max_delay, None);
    let work = open(declared()).await;
    work.put(entry("k")).await;
    let year = 366 * 86_400_000;
    work.put(entry("k").process(year)).await;
    assert_eq!(work.only("k").await.meta.process, at(year));
}

pub(crate) async fn a_stale_add_keeps_the_data(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    let adds = [
        entry("k").inserted(10).process(100).priority(50),
        entry("k").inserted(30).process(110).priority(40),
        entry("k").inserted(20).process(120).priority(30),
    ];
    let results = [Added::Inserted, Added::Merged, Added::Stale];
    for (place, (add, result)) in adds.into_iter().zip(results).enumerate() {
        let add = add.holding(&format!("{place}")).expires(1_000);
        assert_eq!(work.add_one(add).await.unwrap(), result);
    }
    let kept = work.only("k").await;
    assert_eq!(data_of(&kept), "1");
    assert_eq!((kept.meta.insertion, kept.meta.newest), (at(10), at(30)));
    // Its priority and dates count.
    assert_eq!(
        (kept.meta.priority, kept.meta.process),
        (Priority(30), at(120))
    );
    let counts = work.stats().await.unwrap().counts;
    assert_eq!((counts.merged, counts.stale), (1, 1));
    work.balances().await;
}

pub(crate) async fn a_stale_add_resets_no_timeouts(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    work.take_one().await;
    work.advance(LEASE + 1).await;
    work.put(entry("k").inserted(-1)).await;
    assert_eq!(work.only("k").await.meta.timeouts, 1);
}

pub(crate) async fn adds_of_one_date_replace_in_order(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k").holding("first")).await;
    let second = work.add_one(entry("k").holding("second")).await.unwrap();
    assert_eq!(second, Added::Merged);
    assert_eq!(data_of(&work.only("k").await), "second");
}

pub(crate) async fn a_date_too_far_ahead_is_clamped_and_counted(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    const AHEAD: i64 = 5 * 60_000;
    let work = open(declared()).await;
    work.advance(7).await;
    work.put(entry("k").inserted(7 + AHEAD)).await;
    assert_eq!(work.stats().await.unwrap().counts.clamped, 0);
    work.put(entry("far").inserted(8 + AHEAD).process(10 * AHEAD))
        .await;
    let far = work.only("far").await.meta;
    assert_eq!((far.insertion, far.newest), (at(7 + AHEAD), at(7 + AHEAD)));
    assert_eq!(far.process, at(10 * AHEAD));
    assert_eq!(work.stats().await.unwrap().counts.clamped, 1);
    // One client whose clock is wrong does not lock out the others for longer than that.
    work.advance(AHEAD).await;
    let next = work.add_one(entry("far").holding("sane")).await.unwrap();
    assert_eq!(next, Added::Merged);
    assert_eq!(data_of(&work.only("far").await), "sane");
}

pub(crate) async fn a_batch_merges_with_itself(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    let batch = vec![
        entry("k").inserted(-10).process(5).holding("a"),
        entry("j"),
        entry("k").inserted(-5).holding("b").priority(3),
        entry("k").inserted(-7).process(9).holding("c"),
    ];
    assert_eq!(
        work.add(batch).await.unwrap(),
        [
            Added::Inserted,
            Added::Inserted,
            Added::Merged,
            Added::Stale
        ]
    );
    let merged = work.only("k").await;
    assert_eq!(data_of(&merged), "b");
    assert_eq!(
        (merged.meta.process, merged.meta.priority),
        (at(9), Priority(3))
    );
    work.balances().await;
}

pub(crate) async fn merge_off_keeps_every_add(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(Declaration {
        merge: false,
        ..declared()
    })
    .await;
    for text in ["1", "2", "3"] {
        let added = work.add_one(entry("k").holding(text)).await.unwrap();
        assert_eq!(added, Added::Inserted);
    }
    // Nor does one that is processed hold up the others.
    let first = work.take(1).await;
    assert_eq!(data_of(&first[0]), "1");
    assert_eq!(
        work.of("k").await,
        [
            (Status::Processing, "1".into()),
            (Status::Waiting, "2".into()),
            (Status::Waiting, "3".into())
        ]
    );
    let rest: Vec<String> = work.take(9).await.iter().map(data_of).collect();
    assert_eq!(rest, ["2", "3"]);
    assert_eq!(work.stats().await.unwrap().counts.merged, 0);
    work.balances().await;
}

pub(crate) async fn keys_are_compared_whole(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    let long = "x".repeat(4_095);
    let keys = [
        "a".to_owned(),
        "A".to_owned(),
        "a ".to_owned(),
        "a\u{0}".to_owned(),
        "a\u{0}b".to_owned(),
        "\u{e4}".to_owned(),
        "a\u{308}".to_owned(),
        "a%_\\'\"".to_owned(),
        format!("{long}1"),
        format!("{long}2"),
    ];
    for key in &keys {
        let added = work.add_one(entry(key)).await.unwrap();
        assert_eq!(added, Added::Inserted, "{key:?}");
    }
    for key in &keys {
        assert_eq!(data_of(&work.only(key).await), *key);
        assert_eq!(work.add_one(entry(key)).await.unwrap(), Added::Merged);
    }
    let mut taken = work.take_keys(99).await;
    taken.sort();
    let mut expected = keys.to_vec();
    expected.sort();
    assert_eq!(taken, expected);
}
