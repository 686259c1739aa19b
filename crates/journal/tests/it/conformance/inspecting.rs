//! Looking: by key, page by page, and in numbers.

use cannery_journal::{
    Counts, Declaration, Depth, NewEntry, Op, Priority, Query, Retry, Status, Token,
};

use crate::subject::{Build as _, LEASE, Subject, at, declared, entry, key, keys, token};

/// Entries of every status.
async fn of_every_status(work: &Subject) {
    work.put(entry("a/dead").priority(0)).await;
    let held = work.take_token().await;
    work.fail(held, "no hope", Retry::Never).await.unwrap();
    for name in ["b/one", "b/two"] {
        work.put(entry(name).priority(10)).await;
    }
    assert_eq!(work.take(9).await.len(), 2);
    for name in ["b/two", "b/one"] {
        work.put(entry(name).priority(30)).await;
    }
    let waiting = [
        ("c/far", 20, 900),
        ("a/near", 20, 300),
        ("a/slow", 200, 0),
        ("c/best", 5, 500),
        ("a/same", 20, 300),
    ];
    for (name, priority, process) in waiting {
        work.put(entry(name).priority(priority).process(process))
            .await;
    }
}

const ORDER: [(Status, &str); 10] = [
    (Status::Processing, "b/one"),
    (Status::Processing, "b/two"),
    (Status::Waiting, "c/best"),
    (Status::Waiting, "a/near"),
    (Status::Waiting, "a/same"),
    (Status::Waiting, "c/far"),
    (Status::Waiting, "a/slow"),
    (Status::Blocked, "b/two"),
    (Status::Blocked, "b/one"),
    (Status::Dead, "a/dead"),
];

async fn listed(work: &Subject, query: Query) -> Vec<(Status, String)> {
    let entries = work.all(query).await;
    entries
        .iter()
        .map(|entry| (entry.status, entry.key.as_str().to_owned()))
        .collect()
}

fn expected(wanted: impl Fn(Status, &str) -> bool) -> Vec<(Status, String)> {
    ORDER
        .iter()
        .filter(|(status, key)| wanted(*status, key))
        .map(|(status, key)| (*status, (*key).to_owned()))
        .collect()
}

pub(crate) async fn get_shows_processing_waiting_dead(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    assert_eq!(work.of("k").await, []);
    work.put(entry("k").holding("1")).await;
    let held = work.take_token().await;
    work.fail(held, "no hope", Retry::Never).await.unwrap();
    work.put(entry("k").holding("2")).await;
    work.take_one().await;
    work.put(entry("k").holding("3")).await;
    let found = work.get(key("k")).await.unwrap();
    assert_eq!(
        work.of("k").await,
        [
            (Status::Processing, "2".into()),
            (Status::Blocked, "3".into()),
            (Status::Dead, "1".into())
        ]
    );
    assert_eq!(*found[0].lease.as_ref().unwrap().worker, *"tester");
    assert_eq!(found[0].deadline, Some(at(LEASE)));
    assert!(found[1].lease.is_none() && found[1].deadline.is_none());
    assert!(found[2].death.is_some() && found[2].lease.is_none());
}

pub(crate) async fn list_is_in_order_page_by_page(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    of_every_status(&work).await;
    let all = expected(|_, _| true);
    for limit in [1, 2, 3, 5, 9, 10, 11, Query::LIMIT_MAX] {
        let query = Query {
            limit,
            ..Query::all()
        };
        assert_eq!(listed(&work, query).await, all, "pages of {limit}");
    }
    let exact = Query {
        limit: 10,
        ..Query::all()
    };
    assert_eq!(work.list(exact).await.unwrap().next, None);
    // Two thousand more make three of the largest pages.
    for batch in 0..2 {
        let many = (0..Op::COUNT_MAX).map(|n| entry(&format!("z/{batch}/{n}")).process(5));
        work.add(many.collect()).await.unwrap();
    }
    let page = work.list(Query::all()).await.unwrap();
    assert_eq!(page.entries.len(), Query::LIMIT_MAX as usize);
    let mut keys = keys(&work.all(Query::all()).await);
    assert_eq!(keys.len(), 2_010);
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), 2_008, "two keys are there twice, blocked");
}

pub(crate) async fn list_filters(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    of_every_status(&work).await;
    for limit in [1, 3, 100] {
        let query = || Query {
            limit,
            ..Query::all()
        };
        let by_prefix = Query {
            prefix: "a/".into(),
            ..query()
        };
        assert_eq!(
            listed(&work, by_prefix).await,
            expected(|_, key| key.starts_with("a/"))
        );
        for statuses in [
            vec![Status::Processing],
            vec![Status::Waiting],
            vec![Status::Dead, Status::Blocked],
        ] {
            let by_status = Query {
                statuses: statuses.clone(),
                ..query()
            };
            assert_eq!(
                listed(&work, by_status).await,
                expected(|status, _| statuses.contains(&status))
            );
        }
        let by_priority = Query {
            priority: Some(Priority(20)),
            ..query()
        };
        assert_eq!(
            listed(&work, by_priority).await,
            expected(|_, key| ["a/near", "a/same", "c/far"].contains(&key))
        );
        let by_all = Query {
            statuses: vec![Status::Waiting],
            prefix: "a".into(),
            priority: Some(Priority(200)),
            ..query()
        };
        assert_eq!(
            listed(&work, by_all).await,
            expected(|_, key| key == "a/slow")
        );
        let blocked = Query {
            priority: Some(Priority(30)),
            ..query()
        };
        assert_eq!(
            listed(&work, blocked).await,
            expected(|status, _| status == Status::Blocked)
        );
    }
    let literal = Query {
        prefix: "a%".into(),
        ..Query::all()
    };
    assert_eq!(listed(&work, literal).await, []);
}

pub(crate) async fn a_rare_prefix_is_found_page_by_page(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    for batch in 0..11 {
        let many = (0..Op::COUNT_MAX).map(|n| entry(&format!("common {batch} {n}")));
        work.add(many.collect::<Vec<NewEntry>>()).await.unwrap();
    }
    work.put(entry("rare")).await;
    let rare = Query {
        prefix: "rare".into(),
        limit: 3,
        ..Query::all()
    };
    assert_eq!(
        listed(&work, rare).await,
        [(Status::Waiting, "rare".into())]
    );
    let stats = work.stats().await.unwrap();
    assert_eq!(stats.due(), 11 * Op::COUNT_MAX as u64 + 1);
}

pub(crate) async fn stats_count_by_priority_and_state(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    let empty = work.stats().await.unwrap();
    assert_eq!((empty.depths.len(), empty.dead), (0, 0));
    assert_eq!(empty.counts, Counts::default());
    of_every_status(&work).await;
    work.advance(300).await;
    let stats = work.stats().await.unwrap();
    let depth = |priority, waiting, due, blocked, processing| Depth {
        priority: Priority(priority),
        waiting,
        due,
        blocked,
        processing,
    };
    assert_eq!(
        stats.depths,
        [
            depth(5, 1, 0, 0, 0),
            depth(10, 0, 0, 0, 2),
            depth(20, 3, 2, 0, 0),
            depth(30, 0, 0, 2, 0),
            depth(200, 1, 1, 0, 0),
        ]
    );
    assert_eq!((stats.waiting(), stats.due()), (7, 3));
    assert_eq!((stats.processing(), stats.dead), (2, 1));
    work.balances().await;
}

pub(crate) async fn stats_know_the_oldest_and_the_next(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("held")).await;
    let held = work.take_token().await;
    work.put(entry("held").process(1)).await;
    for (name, process) in [("a", 10), ("b", 20), ("c", 700), ("d", 800)] {
        work.put(entry(name).process(process)).await;
    }
    let stats = work.stats().await.unwrap();
    assert_eq!((stats.oldest_due, stats.next_due), (None, Some(at(10))));
    assert_eq!(stats.oldest_lease, Some(at(0)));
    work.advance_to(20).await;
    work.heartbeat(held).await.unwrap();
    let stats = work.stats().await.unwrap();
    assert_eq!(
        (stats.oldest_due, stats.next_due),
        (Some(at(10)), Some(at(700)))
    );
    assert_eq!(stats.oldest_lease, Some(at(20)));
    work.advance_to(800).await;
    work.done(held).await.unwrap();
    let stats = work.stats().await.unwrap();
    assert_eq!((stats.oldest_due, stats.next_due), (Some(at(1)), None));
    assert_eq!(stats.oldest_lease, None);
}

pub(crate) async fn counts_balance_through_everything(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    let names = ["done", "back", "dead", "lost", "old"];
    work.add(names.map(entry).to_vec()).await.unwrap();
    work.put(entry("back").holding("merged")).await;
    work.put(entry("back").inserted(-1)).await;
    work.put(entry("short").expires(5).process(5)).await;
    let held: Vec<Token> = work.take(9).await.iter().map(token).collect();
    work.put(entry("back")).await;
    work.balances().await;
    work.done(held[0]).await.unwrap();
    work.release(held[1], None).await.unwrap();
    work.fail(held[2], "no hope", Retry::Never).await.unwrap();
    work.cancel(key("lost")).await.unwrap();
    work.balances().await;
    work.advance(LEASE + 1).await;
    work.forget(key("dead")).await.unwrap();
    let expected = Counts {
        adds: 9,
        merged: 1,
        stale: 1,
        absorbed: 1,
        done: 1,
        expired: 1,
        cancelled: 1,
        forgotten: 1,
        died: 1,
        claims: 5,
        timeouts: 1,
        releases: 1,
        failures: 1,
        ..Counts::default()
    };
    assert_eq!(work.stats().await.unwrap().counts, expected);
    assert_eq!(expected.live(), 2);
    work.balances().await;
}
