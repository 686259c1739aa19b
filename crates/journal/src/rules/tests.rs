use super::*;
use crate::data::Data;
use crate::key::Key;
use crate::priority::Priority;

const fn at(millis: i64) -> Date {
    Date::from_millis(millis)
}

fn declared(timeouts_max: u8) -> Declaration {
    Declaration {
        timeouts_max,
        ..Declaration::default()
    }
}

fn meta() -> Meta {
    Meta {
        insertion: at(100),
        newest: at(100),
        arrived: at(110),
        expiration: Expiration::at(at(1_000)),
        process: at(120),
        priority: Priority(20),
        timeouts: 0,
        strikes: 0,
        version: 1,
    }
}

fn add(insertion: i64, process: i64) -> Add {
    Add {
        key: Key::new("k").unwrap(),
        insertion: at(insertion),
        expiration: Expiration::at(at(900)),
        priority: Priority(10),
        process: at(process),
        data: Data::null(),
    }
}

#[test]
fn a_client_may_be_five_minutes_ahead() {
    let latest = at(1_000).plus(CLOCK_AHEAD_MAX);
    let ahead = at(latest.as_millis() + 1);
    assert_eq!(clamp(latest, at(1_000)), (latest, false));
    assert_eq!(clamp(ahead, at(1_000)), (latest, true));
    assert_eq!(clamp(at(0), at(1_000)), (at(0), false));
}

#[test]
fn an_insert_is_the_add_and_its_arrival() {
    let inserted = insert(&add(100, 130), at(90), at(110), 7);
    let expected = Meta {
        insertion: at(90),
        newest: at(90),
        arrived: at(110),
        expiration: Expiration::at(at(900)),
        process: at(130),
        priority: Priority(10),
        version: 7,
        ..meta()
    };
    assert_eq!(inserted, expected);
}

/// A process date after a merge, by the dates of both and the bound.
#[test]
fn max_delay_bounds_what_adds_put_off() {
    let cases = [
        // waiting, added, max_delay, merged
        (120, 130, None, 130),
        (120, 9_000, None, 9_000),
        (120, 110, None, 120),
        (120, 9_000, Some(50), 160),
        (120, 150, Some(50), 150),
        // The bound is past: the date stays.
        (120, 9_000, Some(0), 120),
        // A far date is its own.
        (5_000, 9_000, Some(50), 5_000),
        (5_000, 150, Some(50), 5_000),
    ];
    for (waiting, added, max_delay, merged) in cases {
        let declared = Declaration {
            max_delay: max_delay.map(Duration::from_millis),
            ..declared(1)
        };
        let waiting = Meta {
            process: at(waiting),
            ..meta()
        };
        let Merge::Replace(after) = merge(&waiting, &add(105, added), at(105), &declared, 2) else {
            panic!("a newer add replaces");
        };
        assert_eq!(after.process, at(merged), "{waiting:?} {added}");
    }
}

#[test]
fn an_older_add_keeps_data_counter_and_version() {
    let waiting = Meta {
        timeouts: 3,
        strikes: 5,
        ..meta()
    };
    let older = merge(&waiting, &add(99, 300), at(99), &declared(1), 2);
    let expected = Meta {
        priority: Priority(10),
        process: at(300),
        ..waiting
    };
    assert_eq!(older, Merge::KeepData(expected));
    let same_age = merge(&waiting, &add(100, 300), at(100), &declared(1), 2);
    let expected = Meta {
        timeouts: 0,
        version: 2,
        ..expected
    };
    assert_eq!(same_age, Merge::Replace(expected));
}

#[test]
fn it_dies_past_either_limit_and_only_when_it_is_to_blame() {
    let now = at(500);
    let after = |timeouts, strikes, how, max| {
        let entry = Meta {
            timeouts,
            strikes,
            ..meta()
        };
        match come_back(&entry, how, &declared(max), now) {
            Comeback::Waits(meta) => ("waits", meta.timeouts, meta.strikes),
            Comeback::Dies(meta) => ("dies", meta.timeouts, meta.strikes),
            Comeback::Expires(meta) => ("expires", meta.timeouts, meta.strikes),
        }
    };
    let fail = Return::Failed(Retry::At(now));
    let release = Return::Released(None);
    assert_eq!(after(1, 1, Return::TimedOut, 2), ("waits", 2, 2));
    assert_eq!(after(2, 2, Return::TimedOut, 2), ("dies", 3, 3));
    assert_eq!(after(0, 7, fail, 2), ("waits", 1, 8));
    assert_eq!(after(0, 8, fail, 2), ("dies", 1, 9));
    assert_eq!(after(0, 0, fail, 0), ("dies", 1, 1));
    assert_eq!(after(9, 99, release, 2), ("waits", 9, 99));
    assert_eq!(after(0, 0, Return::Failed(Retry::Never), 9), ("dies", 1, 1));
    // The counters hold at their ends.
    assert_eq!(
        after(u8::MAX, u16::MAX, fail, 254),
        ("dies", u8::MAX, u16::MAX)
    );
}

#[test]
fn what_has_expired_is_not_tried_again() {
    for how in [
        Return::TimedOut,
        Return::Released(None),
        Return::Failed(Retry::At(at(1_001))),
        Return::Failed(Retry::Never),
    ] {
        let last = come_back(&meta(), how, &declared(5), at(1_000));
        assert!(!matches!(last, Comeback::Expires(_)), "{how:?}");
        let past = come_back(&meta(), how, &declared(5), at(1_001));
        assert!(matches!(past, Comeback::Expires(_)), "{how:?}");
    }
}

#[test]
fn a_worker_may_ask_for_a_later_date_only() {
    for (asked, process) in [(None, 120), (Some(at(50)), 120), (Some(at(700)), 700)] {
        let back = come_back(&meta(), Return::Released(asked), &declared(1), at(500));
        let Comeback::Waits(back) = back else {
            panic!("{back:?}");
        };
        assert_eq!(back.process, at(process));
    }
}

#[test]
fn the_successor_inherits_the_strikes_alone() {
    let old = Meta {
        priority: Priority(0),
        timeouts: 3,
        strikes: 9,
        ..meta()
    };
    let successor = Meta {
        priority: Priority(50),
        strikes: 2,
        ..meta()
    };
    let expected = Meta {
        strikes: 9,
        ..successor
    };
    assert_eq!(inherit(&old, &successor), expected);
}

#[test]
fn a_requeued_entry_is_due_at_once_and_lives() {
    let dead = Meta {
        process: at(9_000),
        timeouts: 4,
        strikes: 20,
        ..meta()
    };
    let back = requeue(&dead, at(1_001));
    assert_eq!((back.timeouts, back.strikes), (0, 0));
    assert_eq!(back.process, at(1_001));
    assert_eq!(back.expiration, Expiration::NEVER);
    let in_time = requeue(&dead, at(1_000));
    assert_eq!(in_time.expiration, dead.expiration);
    // Never before the insertion date.
    assert_eq!(requeue(&dead, at(50)).process, at(100));
}
