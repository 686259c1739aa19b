use cannery_formats::Digest;
use cannery_formats::Key;
use cannery_formats::feed::{ArchiveName, Codec, ContentSet, Holding, Member};
use cannery_lake::Entry;

use super::*;
use crate::store::{Way, WithPrimary};

fn feed(id: &str) -> FeedId {
    FeedId::new(id).unwrap()
}

fn hour() -> Hour {
    "20261115T18Z".parse().unwrap()
}

fn entry(key: Key, stored_bytes: u64, second: i64) -> Entry {
    Entry {
        key,
        stored_bytes,
        modified: Timestamp::from_second(second).unwrap(),
    }
}

/// One letter for each object: `p` primary, `a` `b` gzip, `z` zstd, `f` foreign, `t` tombstone, `u` unknown.
fn key(feed: &FeedId, hour: Hour, letter: char) -> Key {
    let set: ContentSet = [Member::new(letter, 1, Digest::of(b"x")).unwrap()]
        .into_iter()
        .collect();
    let named = |holding| {
        Key::feed_archive(&ArchiveName {
            feed: feed.clone(),
            hour,
            holding,
        })
    };
    let below = |name: &str| Key::new(format!("{}/{name}", Key::feed_hour(feed, hour))).unwrap();
    match letter {
        'p' => named(Holding::Primary),
        'a' | 'b' => named(Holding::Set(set.hash(), Codec::Gzip)),
        'z' => named(Holding::Set(set.hash(), Codec::Zstd)),
        'f' => below(&format!("{feed}_{hour}_abcdefghij23.tar.gz")),
        't' => Key::feed_tombstone(feed, hour),
        _ => below("notes.txt"),
    }
}

fn listing(feed: &FeedId, hour: Hour, letters: &str) -> Vec<Entry> {
    let entries = letters.chars();
    entries
        .map(|letter| entry(key(feed, hour, letter), 5_000, 10))
        .collect()
}

const HASHED: Way = Way::Hashed(WithPrimary::Swapped);

#[test]
fn an_hour_needs_work_by_what_its_store_makes_of_it() {
    // Hashed, with a primary from before that can be replaced or not; swapped; projected.
    for (letters, needs) in [
        ("", [false, false, false, false]),
        ("u", [false, false, false, false]),
        ("a", [false, false, true, true]),
        ("f", [false, false, true, true]),
        ("au", [false, false, true, true]),
        ("ab", [true, true, true, true]),
        ("af", [true, true, true, true]),
        ("p", [false, true, false, true]),
        ("pa", [true, false, true, false]),
        ("pab", [true, true, true, true]),
        ("t", [false, false, false, false]),
        ("tp", [true, true, true, true]),
        ("ta", [true, true, true, true]),
    ] {
        let feed = feed("f");
        let is_needed = |way| !unmerged(listing(&feed, hour(), letters), Need(way)).is_empty();
        let ways = [
            HASHED,
            Way::Hashed(WithPrimary::Projected),
            Way::Swapped,
            Way::Projected,
        ];
        assert_eq!(ways.map(is_needed), needs, "{letters}");
    }
}

#[test]
fn an_old_copy_is_noticed_by_its_length_or_its_time() {
    let feed = feed("f");
    for (part, bytes, second, is_stale) in [
        ('a', 5_000, 10, false),
        ('a', 5_000, 9, false),
        ('a', 5_001, 9, true),
        ('a', 5_000, 11, true),
        ('z', 4_000, 9, false),
        ('z', 4_000, 11, true),
        // A small object may be the commit of a large one.
        ('a', 300, 9, false),
    ] {
        let listing = [
            entry(key(&feed, hour(), 'p'), 5_000, 10),
            entry(key(&feed, hour(), part), bytes, second),
        ];
        let found = unmerged(listing, Need(Way::Projected));
        assert_eq!(!found.is_empty(), is_stale, "{part} {bytes} {second}");
    }
}

#[test]
fn a_listing_in_order_is_not_remembered_and_gives_the_same() {
    // In the order of keys `a-b/` comes before `a/`.
    let mut entries = Vec::new();
    for id in ["a-b", "a", "b"] {
        for (at, letters) in [
            ("20261115T17Z", "a"),
            ("20261115T18Z", "ab"),
            ("20261116T00Z", "fz"),
        ] {
            entries.extend(listing(&feed(id), at.parse().unwrap(), letters));
        }
    }
    let mut streaming = ByHour::streaming(Need(HASHED));
    for entry in entries.clone() {
        assert_eq!(streaming.take(entry), Ok(()));
    }
    let found = streaming.finish();
    assert_eq!(found.hours, 9);
    assert_eq!(found.feeds.len(), 3);
    assert_eq!(found.unmerged.len(), 6);
    entries.reverse();
    assert_eq!(found.unmerged, unmerged(entries.clone(), Need(HASHED)));
    entries.rotate_left(1);
    let mut streaming = ByHour::streaming(Need(HASHED));
    let disorder = entries
        .into_iter()
        .any(|entry| streaming.take(entry).is_err());
    assert!(disorder, "an hour that comes back must be noticed");
}
