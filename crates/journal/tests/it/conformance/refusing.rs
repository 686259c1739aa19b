//! What is wrong is refused whole, and what is right comes back as it was.

use cannery_journal::{
    Added, Data, Date, Declaration, ErrorKind, FieldType, Key, NewEntry, Op, Retry, Token,
};

use crate::subject::{Build as _, Subject, at, declared, entry};

/// That an add is refused, and nothing of it was done.
async fn refused(work: &Subject, entries: Vec<NewEntry>, why: &str) {
    let before = work.picture().await;
    let error = work.add(entries).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    assert!(error.message.contains(why), "{error}");
    assert_eq!(work.picture().await, before);
}

fn typed() -> Declaration {
    let fields = [
        ("path", FieldType::String),
        ("size", FieldType::U64),
        ("more", FieldType::Json),
    ];
    Declaration {
        key: vec!["path".into()],
        fields: fields.map(|(name, kind)| (name.to_owned(), kind)).into(),
        ..declared()
    }
}

fn holding(data: &str) -> NewEntry {
    NewEntry {
        data: Some(Data::from_json(data.to_owned()).unwrap()),
        ..NewEntry::default()
    }
}

pub(crate) async fn a_batch_with_a_wrong_entry_adds_nothing(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("there").priority(50)).await;
    let good = || {
        vec![
            entry("a"),
            entry("there").priority(0).holding("new"),
            entry("b"),
        ]
    };
    let wrong = [
        (entry(""), "the key is empty"),
        (entry("z").process(-1), "before its insertion date"),
        (NewEntry::default(), "the entry has no `key`"),
    ];
    for (entry, why) in wrong {
        let mut batch = good();
        batch.insert(2, entry);
        refused(&work, batch, why).await;
    }
    assert_eq!(work.add(good()).await.unwrap().len(), 3);
    assert_eq!(work.add(Vec::new()).await.unwrap(), []);
    work.balances().await;
}

pub(crate) async fn an_undeclared_field_or_a_wrong_type_is_refused(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(typed()).await;
    let good = || holding(r#"{"path":"/a","size":3,"more":[1]}"#);
    for (data, why) in [
        (r#"{"path":"/b","sise":3}"#, "`sise` is not declared"),
        (
            r#"{"path":"/b","size":"3"}"#,
            "`size` is not of its declared type",
        ),
        (
            r#"{"path":"/b","size":-3}"#,
            "`size` is not of its declared type",
        ),
        (r#"{"path":3}"#, "`path` is not of its declared type"),
        (r#"{"size":3}"#, "`path` is missing"),
        ("[]", "not an object"),
    ] {
        refused(&work, vec![good(), holding(data)], why).await;
        refused(&work, vec![good(), holding(data)], "entry 2").await;
    }
    assert_eq!(work.add_one(good()).await.unwrap(), Added::Inserted);
    assert_eq!(work.add_one(good()).await.unwrap(), Added::Merged);
    assert_eq!(work.take_keys(9).await, ["/a"]);
}

pub(crate) async fn a_process_date_before_the_insertion_date_is_refused(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    let early = entry("k").inserted(10).process(9);
    refused(&work, vec![early], "before its insertion date").await;
    work.put(entry("k").inserted(10).process(10)).await;
}

pub(crate) async fn dates_outside_of_1970_to_9999_are_refused(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    let after = Date::from_millis(Date::LAST.as_millis() + 1);
    for wrong in [
        Date::from_millis(-1),
        after,
        Date::from_millis(i64::MIN),
        Date::from_millis(i64::MAX - 1),
    ] {
        let inserted = NewEntry {
            insertion_date: Some(wrong),
            process_date: Some(wrong),
            ..entry("k")
        };
        refused(&work, vec![inserted], "is no date of an entry").await;
        let expires = NewEntry {
            expiration_date: Some(wrong),
            ..entry("k")
        };
        refused(&work, vec![expires], "is no date of an entry").await;
    }
    let outermost = NewEntry {
        insertion_date: Some(Date::from_millis(0)),
        process_date: Some(Date::LAST),
        expiration_date: Some(Date::LAST),
        ..entry("k")
    };
    work.put(outermost).await;
    let kept = work.only("k").await.meta;
    assert_eq!(
        (kept.insertion, kept.process, kept.expiration.date()),
        (Date::from_millis(0), Date::LAST, Some(Date::LAST))
    );
}

pub(crate) async fn a_worker_cannot_ask_for_a_date_after_9999(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    let held = work.take_token().await;
    let before = work.picture().await;
    let after = Date::from_millis(Date::LAST.as_millis() + 1);
    for wrong in [after, Date::from_millis(i64::MAX)] {
        for outcome in [
            work.release(held, Some(wrong)).await,
            work.fail(held, "no luck", Retry::At(wrong)).await,
        ] {
            assert_eq!(outcome.map_err(|error| error.kind), Err(ErrorKind::Invalid));
        }
    }
    assert_eq!(work.picture().await, before);
    work.release(held, Some(Date::LAST)).await.unwrap();
    assert_eq!(work.only("k").await.meta.process, Date::LAST);
}

pub(crate) async fn what_is_too_large_is_refused(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    let long = "k".repeat(Key::BYTES_MAX + 1);
    refused(&work, vec![entry("a"), entry(&long)], "the key has").await;
    let many = vec![entry("k"); Op::COUNT_MAX + 1];
    refused(&work, many, "entries in one add").await;
    // Each is allowed alone; together they are too many bytes.
    let data = Data::from_json(format!("\"{}\"", "x".repeat(Data::BYTES_MAX - 2))).unwrap();
    let wide = (0..9).map(|n| NewEntry::new(format!("{n}"), data.clone()));
    refused(&work, wide.collect(), "bytes in one add").await;
    let token = Token {
        incarnation: 1,
        counter: 1,
        nonce: 1,
    };
    let before = work.picture().await;
    let count = u32::try_from(Op::COUNT_MAX).unwrap() + 1;
    let worker = "w".repeat(Op::TEXT_BYTES_MAX + 1);
    for error in [
        work.heartbeats(vec![token; Op::COUNT_MAX + 1])
            .await
            .unwrap_err(),
        work.claim("tester", count).await.unwrap_err(),
        work.claim(&worker, 1).await.unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
    }
    assert_eq!(work.picture().await, before);
}

pub(crate) async fn what_is_as_large_as_allowed_is_taken(
    open: impl AsyncFn(Declaration) -> Subject,
) {
    let work = open(declared()).await;
    let key = "k".repeat(Key::BYTES_MAX);
    let data = Data::from_json(format!("\"{}\"", "x".repeat(Data::BYTES_MAX - 2))).unwrap();
    work.put(NewEntry::new(key.clone(), data.clone())).await;
    assert_eq!(work.only(&key).await.data, data);
    let many = (0..Op::COUNT_MAX).map(|n| entry(&format!("{n}")).process(5));
    let added = work.add(many.collect()).await.unwrap();
    assert_eq!(added, vec![Added::Inserted; Op::COUNT_MAX]);
    work.advance(5).await;
    let worker = "w".repeat(Op::TEXT_BYTES_MAX);
    let count = u32::try_from(Op::COUNT_MAX).unwrap();
    let claimed = work.claim(&worker, count).await.unwrap();
    assert_eq!(claimed.entries.len(), Op::COUNT_MAX);
    assert_eq!(*claimed.entries[0].lease.as_ref().unwrap().worker, *worker);
    work.balances().await;
}

/// Data is text: what is kept must be able to be shown.
pub(crate) async fn data_that_is_no_text_is_refused(open: impl AsyncFn(Declaration) -> Subject) {
    for bytes in [&b"\"\xff\""[..], b"{\"a\xc3\":1}", b"\"\xed\xa0\x80\""] {
        match Data::from_json(bytes.to_vec()) {
            Err(error) => assert_eq!(error.kind, ErrorKind::Invalid),
            Ok(data) => {
                let work = open(declared()).await;
                let added = work.add_one(NewEntry::new("k", data)).await;
                panic!("{bytes:?} was taken as data and became {added:?}");
            }
        }
    }
}

pub(crate) async fn the_very_text_comes_back(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    let texts = [
        r#"{"b": 1.0, "a":2, "b":3}"#,
        "1e400",
        "123456789012345678901234567890",
        r#""\u0000 \ud83d\ude00 / \/""#,
        "\"\u{1f41f}\u{e4}\u{2028}\"",
        "[ ]",
        "-0",
        "null",
    ];
    for text in texts {
        let data = Data::from_json(text.to_owned()).unwrap();
        work.put(NewEntry::new(text, data)).await;
        assert_eq!(&work.only(text).await.data.as_bytes()[..], text.as_bytes());
    }
    for entry in work.take(99).await {
        assert_eq!(&entry.data.as_bytes()[..], entry.key.as_str().as_bytes());
    }
}

pub(crate) async fn a_closed_journal_refuses(open: impl AsyncFn(Declaration) -> Subject) {
    let work = open(declared()).await;
    work.put(entry("k")).await;
    work.close().await;
    work.close().await;
    for error in [
        work.add_one(entry("k")).await.unwrap_err(),
        work.claim("tester", 1).await.unwrap_err(),
        work.stats().await.unwrap_err(),
    ] {
        assert_eq!(error.kind, ErrorKind::Closed, "{error}");
        assert!(error.message.contains("journal `work`"), "{error}");
    }
    assert_eq!(work.now(), at(0));
}
