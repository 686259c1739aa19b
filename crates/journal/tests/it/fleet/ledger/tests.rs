//! The ledger finds what it is there to find.

use super::*;

fn token(counter: u64) -> Token {
    Token {
        incarnation: 1,
        counter,
        nonce: 1,
    }
}

/// A ledger that heard this, of one key that was added once.
fn heard(events: Vec<(i64, What)>) -> (Ledger, Vec<String>) {
    let mut ledger = Ledger::default();
    for (at, what) in events {
        let at = Date::from_millis(at);
        ledger.hear(Event { at, what });
    }
    let wrong = ledger.check(&BTreeMap::from([("key".to_owned(), 1)]));
    (ledger, wrong)
}

fn claim(counter: u64, deadline: i64) -> What {
    let held = Held {
        key: "key".to_owned(),
        token: token(counter),
        deadline: Date::from_millis(deadline),
    };
    What::Claimed {
        count: 0,
        leases: vec![held],
    }
}

fn ending(counter: u64, end: End) -> What {
    What::Ending {
        end,
        tokens: vec![token(counter)],
    }
}

fn ended(counter: u64, end: End, fate: Fate) -> What {
    What::Ended {
        end,
        fates: vec![(token(counter), fate)],
    }
}

fn done(counter: u64) -> [What; 2] {
    [
        ending(counter, End::Done),
        ended(counter, End::Done, Fate::Done),
    ]
}

#[test]
fn a_history_that_keeps_the_rules_is_right() {
    let [doing, did] = done(2);
    let (ledger, wrong) = heard(vec![
        (10, claim(1, 20)),
        (
            15,
            What::Beaten(vec![(token(1), Beat::Until(Date::from_millis(25)))]),
        ),
        (26, What::Beaten(vec![(token(1), Beat::Lost)])),
        (26, claim(2, 40)),
        (30, doing),
        (31, did),
    ]);
    assert_eq!(wrong, Vec::<String>::new());
    let counts = Counts {
        adds: 1,
        done: 1,
        claims: 2,
        timeouts: 1,
        ..Counts::default()
    };
    assert_eq!(ledger.check_counts(&counts), Vec::<String>::new());
    let others = [
        Counts { adds: 2, ..counts },
        Counts {
            claims: 3,
            timeouts: 2,
            ..counts
        },
        Counts {
            timeouts: 2,
            ..counts
        },
        Counts {
            adds: 2,
            done: 2,
            timeouts: 0,
            ..counts
        },
        Counts {
            adds: 0,
            done: 0,
            timeouts: 2,
            ..counts
        },
    ];
    for counts in others {
        assert_ne!(ledger.check_counts(&counts), Vec::<String>::new());
    }
}

#[test]
fn what_breaks_a_rule_is_found() {
    let [doing, did] = done(1);
    let [doing_again, did_again] = done(2);
    let cases = [
        (
            "held twice at once",
            vec![(10, claim(1, 20)), (19, claim(2, 40))],
        ),
        (
            "given out twice",
            vec![(10, claim(1, 20)), (30, claim(1, 40))],
        ),
        (
            "before its deadline",
            vec![
                (10, claim(1, 20)),
                (12, ending(1, End::Done)),
                (12, ended(1, End::Done, Fate::Lost)),
            ],
        ),
        (
            "is lost",
            vec![(10, claim(1, 20)), (12, ending(1, End::Release))],
        ),
        (
            "was done 2 times",
            vec![
                (10, claim(1, 20)),
                (12, doing.clone()),
                (13, did.clone()),
                (14, claim(2, 20)),
                (15, doing_again),
                (15, did_again),
            ],
        ),
        (
            "came back",
            vec![
                (10, claim(1, 20)),
                (12, doing.clone()),
                (13, did.clone()),
                (14, claim(2, 20)),
            ],
        ),
        (
            "answered Done",
            vec![
                (10, claim(1, 20)),
                (12, doing),
                (13, did.clone()),
                (14, did),
            ],
        ),
    ];
    for (rule, events) in cases {
        let (_, wrong) = heard(events);
        assert!(
            wrong.iter().any(|text| text.contains(rule)),
            "{rule}: {wrong:?}"
        );
    }
}
