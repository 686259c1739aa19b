//! Archives that somebody made to do harm, or that no program of ours would make, each named for what is wrong with it.

use super::support::*;
use crate::feed::{Codec, MANIFEST_NAME, Manifest};
use crate::hour_archive::header::BLOCK_BYTES;
use crate::hour_archive::{ArchiveFault, Limits, survey};

/// Which fault somebody expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Damaged,
    Hostile,
    Newer,
    TooLarge,
}

fn kind_of(fault: &ArchiveFault) -> Option<Kind> {
    match fault {
        ArchiveFault::Damaged(_) => Some(Kind::Damaged),
        ArchiveFault::Hostile(_) => Some(Kind::Hostile),
        ArchiveFault::Newer(_) => Some(Kind::Newer),
        ArchiveFault::TooLarge(_) => Some(Kind::TooLarge),
        ArchiveFault::Io(_) => None,
    }
}

/// Limits that a test can reach.
fn limits() -> Limits {
    Limits {
        entry_bytes_max: 100_000,
        entries_max: 20,
        total_bytes_max: 3_000_000,
    }
}

#[track_caller]
fn refused(what: &str, archive: &[u8], kind: Kind, text: &str) {
    let fault = survey(archive, &feed(), hour(), &limits()).expect_err(what);
    assert_eq!(kind_of(&fault), Some(kind), "{what}: {fault}");
    assert!(fault.to_string().contains(text), "{what}: {fault}");
}

fn blocks() -> Blocks {
    Blocks::default()
}

/// A file with PAX records before it.
fn with_pax(records: &[u8]) -> Blocks {
    blocks().entry(b'x', "pax", records).file("a", b"1")
}

/// A manifest that lists these bodies.
fn manifest(bodies: &[Body]) -> Vec<u8> {
    let manifest = Manifest {
        feed: feed(),
        hour: hour(),
        set: set_of(bodies),
    };
    manifest.to_json()
}

#[test]
fn names_that_lead_elsewhere() {
    let long = "n".repeat(256);
    let longer = "n/".repeat(600);
    for name in [
        "../x",
        "a/../x",
        "..",
        "/etc/passwd",
        "a//b",
        "a/",
        "a\nb",
        "a\u{1b}[2J",
        ".",
        "./../x",
        "a/./b",
        "",
    ] {
        let archive = blocks().file(name, b"1").end().gzip();
        refused(name, &archive, Kind::Hostile, "is refused");
        let record = crate::hour_archive::pax::path_record(name);
        refused(
            name,
            &with_pax(&record).end().gzip(),
            Kind::Hostile,
            "is refused",
        );
    }
    for name in ["../x", "/x", &long] {
        let gnu = blocks().entry(b'L', "././@LongLink", format!("{name}\0").as_bytes());
        let archive = gnu.file("a", b"1").end().gzip();
        refused(name, &archive, Kind::Hostile, "is refused");
    }
    let gnu = blocks().entry(b'L', "././@LongLink", longer.as_bytes());
    refused(
        "a long name",
        &gnu.file("a", b"1").end().gzip(),
        Kind::Hostile,
        "too long",
    );
    let nul = blocks()
        .entry(b'L', "././@LongLink", b"a\0b\0")
        .file("a", b"1");
    refused(
        "a zero byte in a name",
        &nul.end().gzip(),
        Kind::Hostile,
        "control",
    );
    for name in ["../d/", "/d/", "/", "d/../../e/"] {
        let archive = blocks().entry(b'5', name, b"").end().gzip();
        refused(name, &archive, Kind::Hostile, "is refused");
    }
    let not_utf8 = blocks().with(b'0', "a", b"1", |header| header.as_old_mut().name[0] = 0xff);
    refused(
        "not UTF-8",
        &not_utf8.end().gzip(),
        Kind::Hostile,
        "not UTF-8",
    );
}

#[test]
fn everything_that_is_no_file() {
    for (kind, text) in [
        (b'1', "a hard link"),
        (b'2', "a symbolic link"),
        (b'3', "a device"),
        (b'4', "a device"),
        (b'6', "a pipe"),
        (b'S', "a sparse file"),
        (b'K', "a long link"),
        (b'g', "a PAX header for all members"),
        (b'7', "neither a file nor a folder"),
        (b'V', "neither a file nor a folder"),
    ] {
        let archive = blocks()
            .file("a", b"1")
            .entry(kind, "b", b"")
            .file("c", b"3");
        refused(text, &archive.end().gzip(), Kind::Hostile, text);
    }
    let link_then_file = blocks()
        .with(b'2', "d", b"", |header| {
            header.set_link_name("/etc").unwrap();
        })
        .file("d/passwd", b"root");
    refused(
        "a link, then a file in it",
        &link_then_file.end().gzip(),
        Kind::Hostile,
        "`d` is a symbolic link",
    );
    let full_folder = blocks().entry(b'5', "d/", b"content").end().gzip();
    refused(
        "a folder with content",
        &full_folder,
        Kind::Hostile,
        "has content",
    );
}

#[test]
fn extensions_that_smuggle() {
    let smuggled = with_pax(b"13 size=1024\n").end().gzip();
    refused("another size in PAX", &smuggled, Kind::Hostile, "two sizes");
    let zero = with_pax(b"9 size=0\n").end().gzip();
    refused(
        "a file hidden behind size 0",
        &zero,
        Kind::Hostile,
        "two sizes",
    );
    let link = with_pax(b"14 linkpath=b\n").end().gzip();
    refused("a link in PAX", &link, Kind::Hostile, "a link");
    let sparse = with_pax(b"22 GNU.sparse.major=1\n").end().gzip();
    refused("sparse in PAX", &sparse, Kind::Hostile, "sparse");
    let twice = blocks()
        .entry(b'x', "pax", b"9 path=b\n")
        .entry(b'x', "pax", b"9 path=c\n");
    refused(
        "two PAX headers",
        &twice.file("a", b"1").end().gzip(),
        Kind::Hostile,
        "same extension",
    );
    let both = blocks()
        .entry(b'x', "pax", b"9 path=b\n")
        .entry(b'L', "long", b"c\0");
    refused(
        "two long names",
        &both.file("a", b"1").end().gzip(),
        Kind::Hostile,
        "two long names",
    );
    let alone = blocks().entry(b'x', "pax", b"9 path=b\n").end().gzip();
    refused(
        "a name without a member",
        &alone,
        Kind::Damaged,
        "behind the name",
    );
    let unreadable = with_pax(b"nonsense").end().gzip();
    refused("no PAX record", &unreadable, Kind::Damaged, "not readable");
    let huge = blocks().with(b'x', "pax", b"", |header| header.set_size(1 << 32));
    refused(
        "PAX records of 4 GiB",
        &huge.end().gzip(),
        Kind::TooLarge,
        "extension",
    );
}

#[test]
fn sizes_that_lie() {
    let large = blocks().with(b'0', "a", b"", |header| header.set_size(100_001));
    refused(
        "beyond the limit",
        &large.end().gzip(),
        Kind::TooLarge,
        "more than 100000 bytes",
    );
    let endless = blocks().with(b'0', "a", b"", |header| {
        header.as_old_mut().size = [
            0x80, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff,
        ];
    });
    refused(
        "2^88 bytes",
        &endless.end().gzip(),
        Kind::TooLarge,
        "more than 100000 bytes",
    );
    let negative = blocks().with(b'0', "a", b"", |header| {
        header.as_old_mut().size = [0xff; 12];
    });
    refused(
        "-1 bytes",
        &negative.end().gzip(),
        Kind::Damaged,
        "no readable size",
    );
    let none = blocks().with(b'0', "a", b"", |header| {
        header.as_old_mut().size = *b"not a number";
    });
    refused(
        "no number",
        &none.end().gzip(),
        Kind::Damaged,
        "no readable size",
    );
    let short = blocks().with(b'0', "a", b"123", |header| header.set_size(5_000));
    refused(
        "more than there is",
        &short.end().gzip(),
        Kind::Damaged,
        "ends",
    );
}

#[test]
fn too_many_members() {
    let many = (0..21).fold(blocks(), |blocks, n| blocks.file(&n.to_string(), b""));
    refused(
        "21 files",
        &many.end().gzip(),
        Kind::TooLarge,
        "more than 20 members",
    );
    let folders = (0..21).fold(blocks(), |blocks, _| blocks.entry(b'5', "d/", b""));
    refused(
        "21 folders",
        &folders.end().gzip(),
        Kind::TooLarge,
        "more than 20 members",
    );
    let listed: Vec<Body> = (0..21).map(|n| body(&n.to_string(), b"")).collect();
    let archive = blocks()
        .file(MANIFEST_NAME, &manifest(&listed))
        .end()
        .gzip();
    refused("21 listed", &archive, Kind::TooLarge, "lists more than 20");
}

#[test]
fn a_tar_that_does_not_end_where_it_ends() {
    let one = || blocks().file("a", b"1");
    refused("no end", &one().gzip(), Kind::Damaged, "ends too early");
    let mut half = one();
    half.0.extend_from_slice(&[0; BLOCK_BYTES]);
    refused(
        "half an end",
        &half.clone().gzip(),
        Kind::Damaged,
        "ends too early",
    );
    refused(
        "a file behind half an end",
        &half.file("b", b"2").end().gzip(),
        Kind::Damaged,
        "only half there",
    );
    let second = one().end().file("b", b"2").end().gzip();
    refused(
        "another tar behind the end",
        &second,
        Kind::Hostile,
        "follows the end",
    );
    let mut garbage = one().end();
    garbage.0.push(1);
    refused(
        "a byte behind the end",
        &garbage.gzip(),
        Kind::Hostile,
        "follows the end",
    );
    let mut padding = one().end();
    padding.0.resize(padding.0.len() + (1 << 20) + 1, 0);
    refused(
        "endless zeros",
        &padding.gzip(),
        Kind::Hostile,
        "follows the end",
    );
    for codec in Codec::ALL {
        let sound = compress(&one().end().0, codec);
        let text = format!("follows the {codec} stream");
        let [empty, zeros] = [compress(b"", codec), compress(&[0; 512], codec)];
        let other = compress(&blocks().file("b", b"2").end().0, codec);
        for more in [b"x".as_slice(), &[0], &empty, &zeros, &other] {
            let archive = [&sound, more].concat();
            refused("bytes behind the stream", &archive, Kind::Hostile, &text);
        }
    }
}

#[test]
fn headers_that_are_none() {
    let mut flipped = blocks().file("a", b"1").end();
    flipped.0[0] = b'b';
    refused("a changed name", &flipped.gzip(), Kind::Damaged, "checksum");
    let old = blocks().with(b'0', "a", b"1", |header| {
        header.as_mut_bytes()[257..265].fill(0);
    });
    refused(
        "no magic",
        &old.end().gzip(),
        Kind::Damaged,
        "neither of USTAR",
    );
    let mut padding = blocks().file("a", b"1").end();
    padding.0[BLOCK_BYTES + 1] = 1;
    refused(
        "something behind a body",
        &padding.gzip(),
        Kind::Damaged,
        "between two members",
    );
    refused(
        "noise",
        &compress(&[b'n'; 2_048], Codec::Zstd),
        Kind::Damaged,
        "checksum",
    );
    refused("nothing", b"", Kind::Damaged, "it is empty");
    refused("a web page", b"<html>", Kind::Damaged, "neither gzip");
    refused(
        "a bare tar",
        &blocks().file("a", b"1").end().0,
        Kind::Damaged,
        "neither gzip",
    );
    refused(
        "an empty stream",
        &compress(b"", Codec::Xz),
        Kind::Damaged,
        "ends too early",
    );
}

#[test]
fn manifests_that_lie() {
    let [a, b] = [body("a", b"1"), body("b", b"2")];
    let of = |bodies: &[Body]| blocks().file(MANIFEST_NAME, &manifest(bodies));
    let one = || of(std::slice::from_ref(&a));
    refused(
        "an extra member",
        &one().file("a", b"1").file("b", b"2").end().gzip(),
        Kind::Damaged,
        "`b` is not in its manifest",
    );
    refused(
        "a member twice",
        &one().file("a", b"1").file("a", b"1").end().gzip(),
        Kind::Damaged,
        "or twice",
    );
    refused(
        "a missing member",
        &of(&[a.clone(), b]).file("a", b"1").end().gzip(),
        Kind::Damaged,
        "`b` and 0 other",
    );
    refused(
        "another size",
        &one().file("a", b"11").end().gzip(),
        Kind::Damaged,
        "not the size",
    );
    refused(
        "another content",
        &one().file("a", b"2").end().gzip(),
        Kind::Damaged,
        "not the SHA-256",
    );
    refused(
        "Hoard's manifest as well",
        &one()
            .file("a", b"1")
            .file(".hoard_manifest.json", b"{}")
            .end()
            .gzip(),
        Kind::Damaged,
        "not in its manifest",
    );
    let late = blocks()
        .file("a", b"1")
        .file(MANIFEST_NAME, b"{}")
        .end()
        .gzip();
    refused("a late manifest", &late, Kind::Damaged, "not the first");
    for (what, from, to) in [
        ("another feed", r#""feed":"f""#, r#""feed":"g""#),
        ("another hour", "T18Z", "T19Z"),
    ] {
        let text = String::from_utf8(manifest(&[])).unwrap().replace(from, to);
        let archive = blocks().file(MANIFEST_NAME, text.as_bytes()).end().gzip();
        refused(what, &archive, Kind::Damaged, "its manifest is of feed");
    }
    let twins = String::from_utf8(manifest(&[body("a", b"1"), body("a", b"22")])).unwrap();
    for (what, from, to) in [
        ("a path twice", r#","path":"a.~"#, r#","other":"a.~"#),
        ("a path elsewhere", r#""path":"a.~"#, r#""path":"../a.~"#),
        ("a path below", r#""path":"a.~"#, r#""path":"a.~/"#),
        ("the name of another", r#""path":"a.~"#, r#""path":"b.~"#),
    ] {
        assert!(twins.contains(from), "{what}");
        let text = twins.replace(from, to);
        let archive = blocks().file(MANIFEST_NAME, text.as_bytes()).end().gzip();
        refused(what, &archive, Kind::Damaged, "its manifest is damaged");
    }
    let newer = blocks()
        .file(MANIFEST_NAME, br#"{"format":2}"#)
        .end()
        .gzip();
    refused("a newer format", &newer, Kind::Newer, "use a newer version");
    let hostile = blocks().file(MANIFEST_NAME, br#"{"format":1,"feed":"f","hour":"20261115T18Z","entries":[{"name":"../x","size":1,"sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"}]}"#);
    refused(
        "a listed name that leads elsewhere",
        &hostile.end().gzip(),
        Kind::Damaged,
        "its manifest is damaged",
    );
    for text in ["", "{}", "[", "null", &"[".repeat(99_000)] {
        let archive = blocks().file(MANIFEST_NAME, text.as_bytes()).end().gzip();
        refused(text, &archive, Kind::Damaged, "its manifest is damaged");
    }
}
