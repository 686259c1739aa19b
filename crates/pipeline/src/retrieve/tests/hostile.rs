//! Archives that somebody made to do harm, or that are damaged: each is refused and named, and the others are there.

use std::os::unix::fs::MetadataExt as _;

use cannery_formats::Digest;
use cannery_formats::feed::{BodyHash, Codec};
use cannery_formats::hour_archive::Limits;

use super::support::{
    Bench, Blocks, body, download, feed, foreign, foreign_key, hour, packed, primary, secondary,
    tree,
};
use crate::retrieve::{Outcome, RetrieveOptions};

fn tar() -> Blocks {
    Blocks::default().file("first", b"first")
}

fn pax(record: &[u8]) -> Blocks {
    tar().entry(b'x', "pax", record, "")
}

/// What is refused, and a part of why.
fn refused() -> Vec<(&'static str, Vec<u8>, &'static str)> {
    let sound = packed("a", hour(18), &[body("x", "1")], Codec::Gzip);
    let half = sound[..sound.len() / 2].to_vec();
    let mut flipped = foreign(&[body("x", &"content".repeat(100))]);
    let middle = flipped.len() / 2;
    flipped[middle] ^= 1;
    let ours = |id: &str, at| packed(id, hour(at), &[body("x", "1")], Codec::Gzip);
    vec![
        ("dots", tar().file("../escaped", b"x").gzip(), "`..`"),
        (
            "dots within",
            tar().file("a/../../escaped", b"x").gzip(),
            "`..`",
        ),
        (
            "absolute",
            tar().file("/tmp/escaped", b"x").gzip(),
            "empty component",
        ),
        (
            "symlink, then a file through it",
            tar()
                .entry(b'2', "link", b"", "..")
                .file("link/escaped", b"x")
                .gzip(),
            "symbolic link",
        ),
        (
            "hard link",
            tar().entry(b'1', "link", b"", "/etc/passwd").gzip(),
            "hard link",
        ),
        (
            "character device",
            tar().entry(b'3', "device", b"", "").gzip(),
            "device",
        ),
        (
            "block device",
            tar().entry(b'4', "device", b"", "").gzip(),
            "device",
        ),
        ("pipe", tar().entry(b'6', "pipe", b"", "").gzip(), "pipe"),
        (
            "sparse",
            tar().entry(b'S', "sparse", b"", "").gzip(),
            "sparse",
        ),
        (
            "PAX size",
            pax(b"9 size=1\n").file("x", b"12345").gzip(),
            "two sizes",
        ),
        (
            "PAX path",
            pax(b"20 path=../escaped1\n").file("x", b"1").gzip(),
            "`..`",
        ),
        (
            "PAX link",
            pax(b"15 linkpath=..\n").file("x", b"1").gzip(),
            "link",
        ),
        (
            "size",
            tar().raw(b'0', "x", b"1", "", 1 << 32, 0o644).gzip(),
            "too large",
        ),
        (
            "control character",
            tar().file("a\nb", b"1").gzip(),
            "control character",
        ),
        (
            "bomb",
            tar().file("zeros", &vec![0; 3 << 20]).gzip(),
            "too large",
        ),
        ("cut off", half, "damaged"),
        ("flipped bit", flipped, "damaged"),
        ("empty", Vec::new(), "it is empty"),
        (
            "no archive",
            b"<Error>NoSuchKey</Error>".to_vec(),
            "neither gzip",
        ),
        ("of another hour", ours("a", 17), "hour `20261115T17Z`"),
        ("of another feed", ours("b", 18), "feed `b`"),
    ]
}

#[tokio::test]
async fn each_is_refused_and_named_and_the_others_are_there() {
    let near = download("a", 18, 1, "in the same hour");
    let far = download("a", 19, 1, "in the next hour");
    for (what, archive, why) in refused() {
        for no_extract in [false, true] {
            let mut bench = Bench::new();
            bench.workplace.limits = Limits {
                entry_bytes_max: 1 << 20,
                ..Limits::default()
            };
            let bad = foreign_key("a", hour(18), "abcdefghij23");
            bench.put(&bad, archive.clone()).await;
            bench.upload("a", 18, std::slice::from_ref(&near)).await;
            bench.upload("a", 19, std::slice::from_ref(&far)).await;
            let options = RetrieveOptions {
                no_extract,
                ..bench.options()
            };
            let retrieved = bench.retrieve(&options).await.unwrap();
            assert_eq!(retrieved.outcome(), Outcome::Partial, "{what}");
            let [refused] = retrieved.refused.as_slice() else {
                panic!("{what}: {retrieved:?}");
            };
            assert_eq!(refused.key, bad, "{what}");
            assert!(refused.why.contains(why), "{what}: {refused}");
            assert_eq!((retrieved.files, retrieved.hours), (2, 2), "{what}");
            if !no_extract {
                let expected = [("a/2026/11/15/18/", &near), ("a/2026/11/15/19/", &far)];
                assert_eq!(bench.tree(), tree(expected), "{what}");
            }
            bench.assert_contained(what);
        }
    }
}

#[tokio::test]
async fn an_archive_that_is_not_what_its_name_says_is_refused() {
    let bench = Bench::new();
    let (said, is) = ([body("x", "said")], [body("x", "is")]);
    let key = secondary("a", hour(18), &said, Codec::Gzip);
    bench
        .put(&key, packed("a", hour(18), &is, Codec::Gzip))
        .await;
    let retrieved = bench.retrieve(&bench.options()).await.unwrap();
    assert_eq!(retrieved.refused.len(), 1);
    assert_eq!(
        (retrieved.hours, retrieved.outcome()),
        (0, Outcome::Partial)
    );
    assert_eq!(bench.tree(), tree([]));
}

#[tokio::test]
async fn a_manifest_that_lies_is_noticed() {
    let bench = Bench::new();
    let honest = packed("a", hour(18), &[body("x", "12345")], Codec::Gzip);
    let mut tar = Vec::new();
    let mut decoder = flate2::read::GzDecoder::new(honest.as_slice());
    std::io::Read::read_to_end(&mut decoder, &mut tar).unwrap();
    let at = tar.windows(5).rposition(|part| part == b"12345").unwrap();
    tar[at] = b'9';
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    std::io::Write::write_all(&mut gzip, &tar).unwrap();
    let key = primary("a", hour(18));
    bench.put(&key, gzip.finish().unwrap()).await;
    let retrieved = bench.retrieve(&bench.options()).await.unwrap();
    assert_eq!(retrieved.refused[0].key, key);
    assert!(retrieved.refused[0].why.contains("SHA-256"));
    assert_eq!(bench.tree(), tree([]));
}

/// A rogue replica uploads something else under the name of a download, which says what body it is of.
#[tokio::test]
async fn a_forged_body_never_has_the_name_of_a_genuine_one() {
    let genuine = download("a", 18, 1, "genuine");
    for (content, collapse_time) in [("short", false), ("forgery", false), ("short", true)] {
        let forged = body(&genuine.0, content);
        let digest = Digest::of(content.as_bytes());
        let beside = body(
            &format!("{}.~{}", genuine.0, BodyHash::of(&digest)),
            content,
        );
        let folder = if collapse_time {
            "a/"
        } else {
            "a/2026/11/15/18/"
        };

        let bench = Bench::new();
        let options = RetrieveOptions {
            collapse_time,
            ..bench.options()
        };
        bench.upload("a", 18, std::slice::from_ref(&forged)).await;
        bench.retrieve(&options).await.unwrap();
        assert_eq!(bench.tree(), tree([(folder, &beside)]), "{content}");
        bench.upload("a", 18, std::slice::from_ref(&genuine)).await;
        let retrieved = bench.retrieve(&options).await.unwrap();
        assert_eq!(retrieved.outcome(), Outcome::Whole, "{content}");
        let both = tree([(folder, &genuine), (folder, &beside)]);
        assert_eq!(bench.tree(), both, "{content}");

        let bench = Bench::new();
        bench.upload("a", 18, &[forged, genuine.clone()]).await;
        let options = RetrieveOptions {
            target: bench.target(),
            ..options
        };
        bench.retrieve(&options).await.unwrap();
        assert_eq!(bench.tree(), both, "merged: {content}");
    }
}

#[tokio::test]
async fn setuid_is_not_taken_over() {
    let bench = Bench::new();
    let archive = Blocks::default().raw(b'0', "x", b"1", "", 1, 0o6777).gzip();
    bench
        .put(&foreign_key("a", hour(18), "abcdefghij23"), archive)
        .await;
    bench.retrieve(&bench.options()).await.unwrap();
    let found = bench.target().join("a/2026/11/15/18/x").metadata().unwrap();
    assert_eq!(found.mode() & 0o7777, 0o644);
}

#[tokio::test]
async fn odd_but_harmless_archives_are_taken_whole() {
    let bench = Bench::new();
    let names = [
        "-rf",
        "a b",
        "%2e%2e%2f",
        "\u{202e}txt",
        "...",
        "c:\\x",
        "deep/er/x",
    ];
    let mut bodies: Vec<_> = names.iter().map(|name| body(name, name)).collect();
    // Twins of other case, a file where others have a folder, and the same once more.
    bodies.extend([body("Twin", "1"), body("twin", "2"), body("deep", "3")]);
    bodies.push(body("a b", "a b"));
    let key = foreign_key("a", hour(18), "abcdefghij23");
    bench.put(&key, foreign(&bodies)).await;
    let without_manifest = Blocks::default()
        .entry(b'5', "./", b"", "")
        .file("./bare", b"4");
    let other = foreign_key("a", hour(18), "abcdefghij24");
    bench.put(&other, without_manifest.gzip()).await;
    let retrieved = bench.retrieve(&bench.options()).await.unwrap();
    assert_eq!(retrieved.outcome(), Outcome::Whole, "{retrieved:?}");
    assert_eq!(retrieved.files, 11);
    let mut contents: Vec<_> = bench.tree().into_values().collect();
    contents.sort();
    let mut expected: Vec<_> = names.iter().map(|name| (*name).to_owned()).collect();
    expected.extend(["1", "2", "3", "4"].map(str::to_owned));
    expected.sort();
    assert_eq!(contents, expected);
    let folded = bench.tree().into_keys().map(|path| path.to_lowercase());
    let folded: std::collections::BTreeSet<_> = folded.collect();
    assert_eq!(
        folded.len(),
        11,
        "a disk without upper case has room for all"
    );
    assert_eq!(retrieved.renamed_count, 2);
    assert_eq!(retrieved.renamed[0].of.feed, feed("a"));
}
