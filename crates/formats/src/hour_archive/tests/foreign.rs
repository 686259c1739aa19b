//! Archives that others made, and what is taken over from them.

use super::support::*;
use crate::feed::Codec;
use crate::hour_archive::pax::path_record;
use crate::hour_archive::{Input, Origin, merge};

#[test]
fn nothing_but_name_and_content_is_taken_over() {
    let setuid = Blocks::default()
        .with(b'0', "a", b"1", |header| {
            header.set_mode(0o6777);
            header.set_uid(0);
            header.set_mtime(1);
        })
        .end()
        .gzip();
    let looked = look(&setuid).unwrap();
    assert_eq!(looked.set, set_of(&[body("a", b"1")]));
    let input = Input {
        survey: &looked,
        content: Box::new(setuid.as_slice()),
    };
    let (_, merged) = merge(
        vec![input],
        &mut scratch(),
        Vec::new(),
        &feed(),
        hour(),
        &fast(Codec::Gzip),
    )
    .unwrap();
    assert!(merged == ours(&[body("a", b"1")], fast(Codec::Gzip)));
}

#[test]
fn names_that_some_disks_take_for_one_are_two() {
    let bodies = [
        body("a", b"1"),
        body("A", b"2"),
        body("\u{e4}", b"3"),
        body("a\u{308}", b"4"),
    ];
    let survey = look(&foreign(&bodies, Codec::Gzip)).unwrap();
    assert_eq!(survey.set.len(), 4);
}

#[test]
fn foreign_archives_are_read_in_all_their_forms() {
    let long = "n".repeat(150);
    let record = path_record(&long);
    let expected = set_of(&[body("a", b"1"), body(&long, b"2"), body("d/c", b"3")]);
    let tars = [
        Blocks::default()
            .entry(b'5', "./", b"")
            .file("./a", b"1")
            .entry(b'5', "d/", b"")
            .entry(0, "d/c", b"3")
            .entry(b'L', "././@LongLink", format!("{long}\0").as_bytes())
            .file("cut", b"2"),
        Blocks::default()
            .file(".hoard_manifest.json", b"not even JSON")
            .entry(b'x', "pax", b"20 mtime=1234567.25\n9 size=1\n")
            .file("a", b"1")
            .with(b'0', "c", b"3", |header| header.as_mut_bytes()[345] = b'd')
            .entry(b'x', "pax", &record)
            .file("cut", b"2"),
    ];
    for blocks in tars {
        let mut tar = blocks.end().0;
        tar.resize(tar.len().next_multiple_of(10_240), 0);
        for codec in Codec::ALL {
            let survey = look(&compress(&tar, codec)).unwrap();
            assert_eq!(survey.set, expected, "{codec}");
            assert_eq!(survey.origin, Origin::Foreign);
            assert!(survey.in_order);
            // Several streams in a row are one content, wherever they are divided.
            let (one, two) = tar.split_at(700);
            let parts = [one, b"", two].map(|part| compress(part, codec));
            assert_eq!(look(&parts.concat()).unwrap().set, expected, "{codec}");
        }
    }
}

#[test]
fn a_path_twice_is_one_member_or_two() {
    let archive = Blocks::default()
        .file("a", b"1")
        .file("a", b"2")
        .file("a", b"1")
        .file("a.~2", b"3");
    let archive = archive.end().gzip();
    let survey = look(&archive).unwrap();
    assert_eq!(
        survey.set,
        set_of(&[body("a", b"1"), body("a", b"2"), body("a.~2", b"3")])
    );
    assert!(!survey.in_order);
    assert_eq!(survey.bytes, 3);
    let read = read_all(&archive).unwrap();
    let paths: Vec<_> = read.iter().map(|(_, path, _)| path.as_str()).collect();
    assert_eq!(paths, ["a", "a.~2", "a.~3", "a.~2.~2"]);
}

#[test]
fn coverage_that_cannot_be_read_is_a_member_like_any_other() {
    let other_hour = String::from_utf8(some_coverage().to_member().1)
        .unwrap()
        .replace("T18Z", "T19Z");
    let bodies = [
        body(".coverage/a.json", b"nonsense"),
        body(".coverage/b.json", other_hour.as_bytes()),
        body(".coverage/c.json", &some_coverage().to_member().1),
    ];
    let survey = look(&foreign(&bodies, Codec::Gzip)).unwrap();
    assert_eq!(survey.set, set_of(&bodies));
    assert_eq!(survey.coverage, [some_coverage()]);
}
