//! A changed declaration applies to new entries.

use std::time::Duration;

use cannery_journal::{Declaration, ErrorKind, FieldType, NewEntry, Retry, Status};

use crate::subject::{LEASE, Subject, at, declared, entry, json, key};

fn longer() -> Declaration {
    Declaration {
        lease: Duration::from_millis(5_000),
        ..declared()
    }
}

pub(crate) async fn the_same_declaration_changes_nothing(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    let before = work.picture().await;
    let version = work.stats().await.unwrap().version;
    assert_eq!(work.declare(declared()).await.unwrap(), version);
    assert_eq!(work.picture().await, before);
    assert_eq!(work.declare(longer()).await.unwrap(), version + 1);
    assert_eq!(work.declaration(), longer());
    assert_eq!(work.stats().await.unwrap().version, version + 1);
    // Back to the old one: that is a change too.
    assert_eq!(work.declare(declared()).await.unwrap(), version + 2);
}

pub(crate) async fn old_entries_keep_their_lease_and_version(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.add(vec![entry("held"), entry("waits")]).await.unwrap();
    let held = work.take(1).await.remove(0);
    let new = work.declare(longer()).await.unwrap();
    work.put(entry("new")).await;
    let taken = work.take(9).await;
    let found: Vec<_> = taken
        .iter()
        .map(|entry| (entry.key.as_str(), entry.deadline, entry.meta.version))
        .collect();
    let old = held.meta.version;
    assert_eq!(
        found,
        [
            ("waits", Some(at(LEASE)), old),
            ("new", Some(at(5_000)), new)
        ]
    );
    assert!(old < new);
    work.advance_to(10).await;
    // A heartbeat extends by the old lease, and the old lease runs out.
    let until = work.heartbeat(crate::subject::token(&held)).await.unwrap();
    assert_eq!(until, at(10 + LEASE));
    work.advance_to(LEASE + 1).await;
    let statuses = [
        work.only("held").await.status,
        work.only("waits").await.status,
        work.only("new").await.status,
    ];
    assert_eq!(
        statuses,
        [Status::Processing, Status::Waiting, Status::Processing]
    );
}

pub(crate) async fn a_merge_takes_the_new_version(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.add(vec![entry("merged"), entry("stale")])
        .await
        .unwrap();
    let old = work.stats().await.unwrap().version;
    let new = work.declare(longer()).await.unwrap();
    work.put(entry("merged")).await;
    let older = NewEntry {
        insertion_date: Some(at(-1)),
        ..entry("stale")
    };
    work.put(older).await;
    assert_eq!(work.only("merged").await.meta.version, new);
    // Its data is still of the old version.
    assert_eq!(work.only("stale").await.meta.version, old);
}

pub(crate) async fn old_entries_keep_their_timeouts_max(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("old")).await;
    work.declare(Declaration {
        timeouts_max: 0,
        ..declared()
    })
    .await
    .unwrap();
    work.put(entry("new")).await;
    work.take(9).await;
    work.advance(LEASE + 1).await;
    assert_eq!(work.only("old").await.status, Status::Waiting);
    assert_eq!(work.only("new").await.status, Status::Dead);
}

pub(crate) async fn merge_cannot_change_while_there_are_entries(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    let apart = Declaration {
        merge: false,
        ..declared()
    };
    work.put(entry("k")).await;
    let mut held = None;
    // Waiting, processing, dead: entries all the same.
    for stage in ["waiting", "processing", "dead"] {
        let before = work.picture().await;
        let error = work.declare(apart.clone()).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{stage}");
        assert!(error.message.contains("`merge`"), "{error}");
        assert_eq!(work.picture().await, before, "{stage}");
        assert_eq!(work.declaration(), declared());
        match held {
            None => held = Some(work.take_token().await),
            Some(token) if stage == "processing" => {
                work.fail(token, "no hope", Retry::Never).await.unwrap();
            }
            Some(_) => {}
        }
    }
    work.forget(key("k")).await.unwrap();
    work.declare(apart).await.unwrap();
    work.add(vec![entry("k"), entry("k")]).await.unwrap();
    assert_eq!(work.take_keys(9).await, ["k", "k"]);
    work.cancel(key("k")).await.unwrap();
    work.declare(declared()).await.unwrap();
    work.add(vec![entry("k"), entry("k")]).await.unwrap();
    assert_eq!(work.take_keys(9).await, ["k"]);
    work.balances().await;
}

pub(crate) async fn a_wrong_declaration_is_refused(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    let wrong = [
        Declaration {
            lease: Duration::ZERO,
            ..declared()
        },
        Declaration {
            key: vec!["path".into()],
            ..declared()
        },
        Declaration {
            key: vec!["x".into()],
            fields: [("x".to_owned(), FieldType::F64)].into(),
            ..declared()
        },
    ];
    for declaration in wrong {
        let error = work.declare(declaration).await.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid);
    }
    assert_eq!(work.declaration(), declared());
    work.put(NewEntry::new("k", json("still works"))).await;
}
