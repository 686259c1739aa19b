//! `docs/formats.md` says the same as the code.

use super::support::*;
use crate::Digest;
use crate::feed::{ArchiveName, Codec, Coverage, Holding, Slot, Tombstone, merge_slots};

const DOCUMENT: &str = include_str!("../../../../../docs/formats.md");

/// What stands between the fences of the first block behind `text`.
fn block_behind(text: &str) -> &'static str {
    let (_, rest) = DOCUMENT.split_once(text).unwrap();
    let (_, rest) = rest.split_once("```").unwrap();
    let (_, rest) = rest.split_once('\n').unwrap();
    rest.split_once("```").unwrap().0
}

#[test]
fn the_worked_example_of_the_hash_is_right() {
    let bodies = [
        body("twin", b"other"),
        body(
            "f_20261115T182403.850Z_xj4bnp4pahh6uqkbidpf3lrceo.json",
            b"abc",
        ),
        body("twin", b"one"),
    ];
    let set = set_of(&bodies);
    let lines = block_behind("a body `abc`, and two bodies");
    let members = set.iter();
    let expected: String = members
        .map(|member| format!("{} {} {}\n", member.sha256(), member.size(), member.name()))
        .collect();
    assert_eq!(lines, expected);
    let digest = Digest::of(lines.as_bytes());
    assert!(DOCUMENT.contains(&format!("The SHA-256 of these three lines is `{digest}`")));
    let name = ArchiveName {
        feed: feed(),
        hour: hour(),
        holding: Holding::Set(set.hash(), Codec::Gzip),
    };
    assert!(DOCUMENT.contains(&format!("is `{name}`")), "{name}");
}

#[test]
fn the_example_of_coverage_can_be_read() {
    let json = block_behind("### Coverage");
    let coverage = Coverage::parse(json.as_bytes()).unwrap();
    assert_eq!(coverage.to_member().1, json.as_bytes());
    let slots = merge_slots(&[coverage], 1_000);
    let failed = Slot::Failed {
        reason: "time-out".into(),
    };
    assert_eq!(slots[..3], [Slot::Stored, failed.clone(), failed]);
    assert_eq!(slots[3], Slot::NotCollected);
}

#[test]
fn the_example_of_a_deleted_hour_can_be_read() {
    let json = block_behind("### Deleted hours");
    let tombstone: Tombstone = serde_json::from_str(json).unwrap();
    assert_eq!(tombstone.to_json(), json.as_bytes());
}
