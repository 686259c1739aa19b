//! A page of a directory takes as much however many entries there are, in the steps of SQLite's machine.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by failing")]

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use cannery_formats::{Digest, Key, ObjectEntry, StoredObject, UserName};
use cannery_runtime::{Clock, Rng};
use cannery_state::State;
use cannery_state::objects::{
    EntryKey, NeededRows, ObjectWrites, PageStart, SortKey, SortOrder, VersionedEntry,
};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};

/// Entries of one transaction.
const AT_ONCE: usize = 10_000;
const PAGE: usize = 1_024;

static STEPS: AtomicU64 = AtomicU64::new(0);

/// Adds up the steps that statements tell of.
struct Ear;

impl Subscriber for Ear {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target() == "cannery_database::steps"
    }

    fn event(&self, event: &Event<'_>) {
        event.record(&mut Steps);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

struct Steps;

impl Visit for Steps {
    fn record_i64(&mut self, field: &Field, steps: i64) {
        if field.name() == "steps" {
            STEPS.fetch_add(steps.try_into().unwrap(), Ordering::Relaxed);
        }
    }

    fn record_debug(&mut self, _: &Field, _: &dyn std::fmt::Debug) {}
}

/// Entry `number` of a directory, in which every thousandth is a directory itself.
fn entry(number: usize) -> ObjectEntry {
    let mtime_us = i64::try_from(number).unwrap();
    if number.is_multiple_of(1_000) {
        return ObjectEntry::Directory { mtime_us };
    }
    ObjectEntry::Object(StoredObject {
        etag: number.to_string(),
        bytes: 1,
        md5: String::new(),
        sha256: Digest::of(&[]),
        data: Key::new(format!("users/a/data/{number}")).unwrap(),
        offset: None,
        headers: BTreeMap::new(),
        mtime_us,
    })
}

fn at(account: &str, path: &str) -> EntryKey {
    EntryKey {
        account: account.to_owned(),
        path: path.parse().unwrap(),
    }
}

/// A directory `/stor/<count>` with so many entries.
async fn fill(state: &State, account: &str, count: usize) -> EntryKey {
    let directory = at(account, &format!("/stor/{count}"));
    for start in (0..count).step_by(AT_ONCE) {
        let numbers = start..count.min(start + AT_ONCE);
        let needed = NeededRows::default();
        let (transaction, known) = state.begin_objects_knowing(&needed).await.unwrap();
        let entries = numbers.clone().map(|number| {
            let written = VersionedEntry {
                version: known.version + 1,
                attempt: String::new(),
                entry: entry(number),
            };
            let path = format!("{}/{number:07}", directory.path);
            (at(account, &path), Some(written))
        });
        let writes = ObjectWrites {
            entries: entries.collect(),
            children: [(directory.clone(), i64::try_from(numbers.len()).unwrap())].into(),
            version: known.version + 1,
            ..ObjectWrites::default()
        };
        transaction.commit(&writes).await.unwrap();
    }
    directory
}

/// The steps of a page at every tenth of the directory, and of as many pages from end to end as there are.
async fn walk(state: &State, directory: &EntryKey, count: usize) -> u64 {
    let mut most = 0;
    for sort in [SortKey::Name, SortKey::Mtime] {
        for order in [SortOrder::Forward, SortOrder::Reverse] {
            for only in [None, Some(true), Some(false)] {
                for tenth in 0..10 {
                    let number = count / 10 * tenth;
                    let start = PageStart::After {
                        mtime_us: i64::try_from(number).unwrap(),
                        name: format!("{number:07}"),
                    };
                    STEPS.store(0, Ordering::Relaxed);
                    let page = state.list_directory(directory, (sort, order), &start, only, PAGE);
                    let page = page.await.unwrap();
                    assert_eq!(page.children, count as u64);
                    most = most.max(STEPS.load(Ordering::Relaxed));
                }
            }
        }
    }
    most
}

#[tokio::test]
async fn a_page_takes_the_same_however_many_entries_there_are() {
    tracing::subscriber::set_global_default(Ear).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state.sqlite");
    let state = State::open(file.to_str().unwrap(), Clock::real());
    let state = state.await.unwrap();
    let name = UserName::new("ann").unwrap();
    let account = state.add_user(&name, &Rng::from_os()).await.unwrap().id;
    // A page is full in both.
    let few = fill(&state, &account, 20_000).await;
    let most_of_few = walk(&state, &few, 20_000).await;
    let count = match cannery_testkit::long_run() {
        true => 1_000_000,
        false => 100_000,
    };
    let many = fill(&state, &account, count).await;
    let most_of_many = walk(&state, &many, count).await;
    assert!(most_of_few > 10 * PAGE as u64, "{most_of_few}");
    assert!(
        most_of_many <= most_of_few + most_of_few / 10,
        "{most_of_many} steps for a page of {count} entries, {most_of_few} for one of 20,000"
    );

    // From end to end, each entry once.
    let (mut start, mut seen) = (PageStart::First, 0);
    loop {
        let sort = (SortKey::Name, SortOrder::Forward);
        let page = state.list_directory(&many, sort, &start, None, PAGE).await;
        let page = page.unwrap();
        seen += page.entries.len();
        match page.entries.last() {
            Some(last) if page.has_more => {
                start = PageStart::After {
                    mtime_us: 0,
                    name: last.name.clone(),
                };
            }
            _ => break,
        }
    }
    assert_eq!(seen, count);
    state.close().await;
}
