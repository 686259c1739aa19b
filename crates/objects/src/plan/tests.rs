use std::collections::BTreeMap;

use cannery_formats::{Digest, Key, ObjectPath};
use cannery_state::objects::AccountUsage;

use super::*;
use crate::change::{Conditions, EtagMatch};
use crate::upload::UploadedBytes;

const NOW: i64 = 1_794_960_000_000;

fn key(path: &str) -> EntryKey {
    EntryKey {
        account: "u".repeat(26),
        path: path.parse().unwrap(),
    }
}

fn bytes(id: char, bytes: u64) -> UploadedBytes {
    UploadedBytes {
        data: Key::user_data(&"u".repeat(26), &id.to_string().repeat(26)).unwrap(),
        bytes,
        md5: "md5".to_owned(),
        sha256: Digest::of(&[]),
        etag: id.to_string(),
        stored_at: std::time::Duration::ZERO,
    }
}

fn put(id: char, size: u64) -> RequestedChange {
    RequestedChange::Put {
        bytes: bytes(id, size),
        headers: BTreeMap::new(),
    }
}

fn request(path: &str, change: RequestedChange) -> ObjectRequest {
    ObjectRequest {
        attempt: "attempt".to_owned(),
        at: key(path),
        change,
        conditions: Conditions::default(),
    }
}

fn if_match(path: &str, tag: &str, change: RequestedChange) -> ObjectRequest {
    let tags = EtagMatch::OneOf(vec![tag.to_owned()]);
    ObjectRequest {
        conditions: Conditions {
            if_match: Some(tags),
            if_none_match: None,
        },
        ..request(path, change)
    }
}

fn link(path: &str, source: &str) -> ObjectRequest {
    request(
        path,
        RequestedChange::Link {
            source: key(source),
        },
    )
}

fn empty(limit: Option<u64>) -> ObjectRows {
    ObjectRows {
        version: 10,
        usage: [(
            "u".repeat(26),
            AccountUsage {
                bytes_max: limit,
                ..AccountUsage::default()
            },
        )]
        .into(),
        ..ObjectRows::default()
    }
}

/// Plans on an empty namespace, as far as the planner must know it.
fn planned(requests: &[ObjectRequest]) -> BatchPlan {
    let mut known = empty(None);
    for directory in wanted(requests).directories {
        known.children.insert(directory, 0);
    }
    plan(known, NOW, requests)
}

fn kinds(plan: &BatchPlan) -> Vec<Option<ObjectErrorKind>> {
    let kind =
        |answer: &Result<Committed, ObjectError>| answer.as_ref().err().map(|error| error.kind);
    plan.answers.iter().map(kind).collect()
}

#[test]
fn each_request_sees_those_before_it_and_versions_have_no_gap() {
    let plan = planned(&[
        request("/stor/a/b", put('a', 1)),
        request("/stor/a", RequestedChange::MakeDirectory),
        request("/stor/a", RequestedChange::MakeDirectory),
        request("/stor/a/b", put('b', 2)),
        request("/stor/a/b", put('c', 3)),
        request("/stor/a", RequestedChange::Delete),
        request("/stor/a/b", RequestedChange::Delete),
        request("/stor/a", RequestedChange::Delete),
    ]);
    assert_eq!(
        kinds(&plan),
        [
            Some(ObjectErrorKind::ParentAbsent),
            None,
            None,
            None,
            None,
            Some(ObjectErrorKind::NotEmpty),
            None,
            None
        ]
    );
    let versions: Vec<u64> = plan
        .writes
        .changes
        .iter()
        .map(|change| change.version)
        .collect();
    assert_eq!(versions, [11, 12, 13, 14, 15]);
    assert_eq!(plan.writes.version, 15);
    assert_eq!(
        plan.answers[2].as_ref().unwrap().version,
        11,
        "the directory was there"
    );
    assert!(
        plan.writes.entries.values().all(Option::is_none),
        "all is gone again"
    );
    let sums: Vec<i64> = plan.writes.children.values().copied().collect();
    assert_eq!(sums, [0, 0]);
    assert_eq!(plan.writes.bytes.values().sum::<i64>(), 0);
    assert_eq!(plan.writes.garbage.len(), 3, "one of them was refused");
}

#[test]
fn an_object_is_no_directory_and_a_directory_no_object() {
    let plan = planned(&[
        request("/stor/o", put('a', 1)),
        request("/stor/o/b", put('b', 1)),
        request("/stor/o", RequestedChange::MakeDirectory),
        request("/stor/d", RequestedChange::MakeDirectory),
        request("/stor/d", put('c', 1)),
        link("/stor/l", "/stor/d"),
        link("/stor/d", "/stor/o"),
        request("/stor", put('d', 1)),
        request("/stor", RequestedChange::MakeDirectory),
        request("/stor", RequestedChange::Delete),
        request(
            "/stor/d",
            RequestedChange::SetHeaders {
                headers: BTreeMap::new(),
            },
        ),
        request("/stor/no", RequestedChange::Delete),
        link("/stor/l", "/stor/no"),
    ]);
    use ObjectErrorKind as K;
    let expected = [
        None,
        Some(K::ParentNotDirectory),
        Some(K::IsObject),
        None,
        Some(K::IsDirectory),
        Some(K::IsDirectory),
        Some(K::IsDirectory),
        Some(K::IsDirectory),
        None,
        Some(K::Invalid),
        Some(K::IsDirectory),
        Some(K::Absent),
        Some(K::Absent),
    ];
    assert_eq!(kinds(&plan), expected);
}

#[test]
fn a_link_has_the_bytes_of_its_source_at_that_moment() {
    let plan = planned(&[
        request("/stor/a", put('a', 5)),
        link("/stor/l", "/stor/a"),
        request("/stor/a", put('b', 7)),
    ]);
    let linked = plan.writes.entries[&key("/stor/l")].as_ref().unwrap();
    let object = linked.entry.as_object().unwrap();
    assert_eq!((object.etag.as_str(), object.bytes), ("a", 5));
    assert_eq!(object.data, bytes('a', 5).data);
    assert_eq!(plan.writes.bytes.values().sum::<i64>(), 12);
}

#[test]
fn conditions_are_held_against_what_is_there() {
    let none = |path: &str, change| ObjectRequest {
        conditions: Conditions {
            if_match: None,
            if_none_match: Some(EtagMatch::Any),
        },
        ..request(path, change)
    };
    let plan = planned(&[
        if_match("/stor/a", "x", put('a', 1)),
        none("/stor/a", put('a', 1)),
        none("/stor/a", put('b', 1)),
        if_match("/stor/a", "a", put('c', 1)),
        if_match("/stor/a", "a", RequestedChange::Delete),
        if_match("/stor/a", "c", RequestedChange::Delete),
    ]);
    let failed = Some(ObjectErrorKind::ConditionFailed);
    assert_eq!(kinds(&plan), [failed, None, failed, None, failed, None]);
}

#[test]
fn headers_change_and_the_content_stays() {
    let headers: BTreeMap<String, String> = [("m-x".to_owned(), "1".to_owned())].into();
    let plan = planned(&[
        request("/stor/a", put('a', 1)),
        request(
            "/stor/a",
            RequestedChange::SetHeaders {
                headers: headers.clone(),
            },
        ),
    ]);
    let row = plan.writes.entries[&key("/stor/a")].as_ref().unwrap();
    let object = row.entry.as_object().unwrap();
    assert_eq!((&object.headers, object.etag.as_str()), (&headers, "a"));
    assert!(plan.writes.garbage.is_empty());
}

#[test]
fn a_user_has_no_more_bytes_than_allowed_but_may_always_have_fewer() {
    let requests = [
        request("/stor/a", put('a', 60)),
        request("/stor/b", put('b', 41)),
        request("/stor/b", put('c', 40)),
        link("/stor/l", "/stor/a"),
        request("/stor/a", put('d', 59)),
        request("/stor/b", RequestedChange::Delete),
        request("/stor/e", put('e', 0)),
    ];
    let plan = plan(empty(Some(100)), NOW, &requests);
    let exceeded = Some(ObjectErrorKind::QuotaExceeded);
    assert_eq!(
        kinds(&plan),
        [None, exceeded, None, exceeded, None, None, None]
    );
    assert_eq!(plan.writes.bytes.values().sum::<i64>(), 59);
}

#[test]
fn nobody_changes_what_belonged_to_a_removed_user() {
    let known = ObjectRows {
        usage: BTreeMap::new(),
        ..empty(None)
    };
    let plan = plan(known, NOW, &[request("/stor/a", put('a', 1))]);
    assert!(plan.answers[0].is_err());
    assert_eq!(plan.writes.changes, []);
}

#[test]
fn what_must_be_known_is_asked_for() {
    let wanted = wanted(&[
        request("/stor/a/b", RequestedChange::Delete),
        link("/stor/l", "/public/s"),
    ]);
    let paths: Vec<&ObjectPath> = wanted.entries.iter().map(|key| &key.path).collect();
    let paths: Vec<&str> = paths.into_iter().map(ObjectPath::as_str).collect();
    assert_eq!(
        paths,
        ["/stor", "/stor/a", "/stor/a/b", "/stor/l", "/public/s"]
    );
    assert_eq!(wanted.directories.len(), 1);
    assert_eq!(wanted.accounts.len(), 1);
}

#[test]
fn a_clock_that_was_set_back_makes_nothing_older_than_what_it_replaces() {
    let first = planned(&[request("/stor/a", put('a', 1))]);
    let mut known = empty(None);
    for (key, row) in first.writes.entries {
        known.entries.insert(key, row.unwrap());
    }
    let second = plan(known, NOW - 1_000, &[request("/stor/a", put('b', 1))]);
    let entry = second.answers[0].clone().unwrap().entry.unwrap();
    assert_eq!(entry.mtime_us(), NOW);
}

#[test]
fn the_bytes_of_a_refused_request_are_garbage() {
    let requests = [
        request("/stor/d/a", put('a', 1)),
        request("/stor/b", put('b', 1)),
    ];
    let plan = planned(&requests);
    assert_eq!(kinds(&plan), [Some(ObjectErrorKind::ParentAbsent), None]);
    let garbage: Vec<String> = plan.writes.garbage.into_iter().collect();
    assert_eq!(garbage, [bytes('a', 1).data.to_string()]);
}

#[test]
fn no_two_changes_have_the_same_moment() {
    let requests: Vec<ObjectRequest> = (0..5)
        .map(|number| request(&format!("/stor/{number}"), RequestedChange::MakeDirectory))
        .collect();
    let plan = plan(empty(None), NOW, &requests);
    let moments: Vec<i64> = plan
        .answers
        .into_iter()
        .map(|answer| answer.unwrap().entry.unwrap().mtime_us())
        .collect();
    assert_eq!(moments, [NOW, NOW + 1, NOW + 2, NOW + 3, NOW + 4]);
}
