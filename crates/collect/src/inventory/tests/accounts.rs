//! Several accounts of one day.

use std::collections::BTreeSet;

use cannery_formats::inventory::beginning;
use proptest::prelude::*;

use super::super::day::{Day, items_in, unite};
use super::*;

fn day_with(numbers: &[u64]) -> Day {
    let mut day = Day::default();
    let now = "2026-11-15T12:00:00Z".parse().unwrap();
    day.extend(
        numbers.iter().copied().map(item).collect(),
        now,
        beginning(),
    );
    day
}

fn keys_of(day: &Day) -> Vec<Key> {
    let lines = items_in(&day.text).chain(day.strays.iter().cloned());
    lines.map(|item| item.key).collect()
}

#[test]
fn the_longest_of_accounts_that_agree_is_taken_as_it_is() {
    let (short, long) = (day_with(&[1, 2]), day_with(&[1, 2, 3]));
    for (local, lakes) in [
        (short.clone(), vec![long.clone()]),
        (long.clone(), vec![short.clone()]),
        (Day::default(), vec![short, long.clone(), Day::default()]),
    ] {
        assert_eq!(unite(local, lakes), long);
    }
}

#[test]
fn where_accounts_differ_the_lake_stays_as_it_is() {
    let lake = day_with(&[1, 2, 3]);
    let united = unite(day_with(&[1, 4, 3, 5]), vec![lake.clone()]);
    assert_eq!(united.text, lake.text);
    assert_eq!(united.strays, [item(4), item(5)]);
}

#[test]
fn a_node_that_knows_everything_is_right() {
    let local = day_with(&[1, 2, 3]);
    let mut forged = item(3);
    forged.sha256 = Digest::of(b"forged");
    let mut lake = day_with(&[1, 2]);
    lake.extend(vec![forged], Timestamp::UNIX_EPOCH, beginning());
    let united = unite(local.clone(), vec![lake]);
    assert_eq!((united.text, united.strays), (local.text, Vec::new()));
}

proptest! {
    #[test]
    fn no_object_is_lost_or_doubled(
        local in proptest::collection::btree_set(0_u64..12, 0..8),
        lakes in proptest::collection::vec(proptest::collection::btree_set(0_u64..12, 0..8), 0..3),
        damage in proptest::option::of(0_usize..2_000),
    ) {
        let day_of = |numbers: &BTreeSet<u64>| day_with(&numbers.iter().copied().collect::<Vec<_>>());
        let mut expected: BTreeSet<u64> = lakes.iter().flatten().copied().collect();
        let mut ours = day_of(&local);
        if let Some(at) = damage && at < ours.text.len() {
            let mut text = ours.text.clone();
            text.truncate(at);
            ours = Day::read(&text);
        }
        let kept = keys_of(&ours);
        expected.extend(local.iter().filter(|number| kept.contains(&item(**number).key)));
        let united = unite(ours, lakes.iter().map(day_of).collect());
        let mut keys = keys_of(&united);
        keys.sort();
        let expected: Vec<_> = expected.into_iter().map(|number| item(number).key).collect();
        prop_assert_eq!(keys, expected);
        prop_assert!(Day::read(&united.text).is_sound());
    }

    #[test]
    fn nothing_that_is_read_panics_or_makes_a_broken_chain(text in proptest::collection::vec(any::<u8>(), 0..400), at in 0_usize..900) {
        let mut mixed = day_with(&[1, 2, 3]).text;
        let at = at.min(mixed.len());
        mixed.splice(at..at, text);
        let found = Day::read(&mixed);
        let mut chain = Chain::default();
        for line in found.text.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            prop_assert!(chain.follow(line).is_ok());
        }
        // A line is damaged at most, unless one was put between two.
        prop_assert!(keys_of(&found).len() >= 2);
    }
}
