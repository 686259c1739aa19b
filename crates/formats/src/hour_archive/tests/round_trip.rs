//! What is written is read again, and is always the same bytes.

use std::io::{self, Read};

use super::support::*;
use crate::Digest;
use crate::feed::{BodyHash, Codec, ContentSet, MANIFEST_NAME};
use crate::hour_archive::{
    ArchiveFault, ArchiveReader, ArchiveWriter, Compression, Limits, Origin,
};

fn all_compressions() -> Vec<Compression> {
    let levels = Codec::ALL.into_iter().flat_map(|codec| {
        let levels = (0..=30).map(Some).chain([None]);
        levels.map(move |level| Compression { codec, level })
    });
    levels.filter(|some| some.check().is_ok()).collect()
}

#[test]
fn every_codec_and_level_reads_as_it_is_written_and_writes_the_same_twice() {
    let bodies = some_bodies();
    let compressions = all_compressions();
    assert_eq!(compressions.len(), 9 + 9 + 19 + 10 + 4);
    for compression in compressions {
        let archive = ours(&bodies, compression);
        assert_eq!(archive, ours(&bodies, compression), "{compression:?}");
        let survey = look(&archive).unwrap();
        assert_eq!(survey.set, set_of(&bodies), "{compression:?}");
        assert_eq!(survey.codec, compression.codec);
        assert_eq!(survey.origin, Origin::Ours);
        assert!(survey.in_order);
        assert_eq!(survey.coverage, [some_coverage()]);
        let length: usize = bodies.iter().map(|(_, content)| content.len()).sum();
        assert_eq!(survey.bytes, length as u64);
    }
}

#[test]
fn a_level_that_does_not_exist_is_refused() {
    for (codec, level) in [
        (Codec::Gzip, 0),
        (Codec::Gzip, 10),
        (Codec::Zstd, 20),
        (Codec::Xz, 10),
        (Codec::Bzip2, 0),
    ] {
        let compression = Compression {
            codec,
            level: Some(level),
        };
        let error = compression.check().unwrap_err();
        assert!(error.contains(&format!("level {level} is none")), "{error}");
        let set = ContentSet::default();
        let writer = ArchiveWriter::new(Vec::new(), &feed(), hour(), &set, &compression);
        assert_eq!(
            writer.err().unwrap().kind(),
            io::ErrorKind::InvalidInput,
            "{compression:?}"
        );
    }
}

#[test]
fn the_bytes_do_not_depend_on_how_the_bodies_come() {
    let noise: Vec<u8> = (0..150_000_u32)
        .map(|n| (n.wrapping_mul(2_654_435_761) >> 27).to_le_bytes()[0])
        .collect();
    let bodies = [body("a", &noise), body("b", &noise[..70_001])];
    for codec in Codec::ALL {
        let compression = Compression::of(codec);
        let whole = ours(&bodies, compression);
        let drops = write_with(&bodies, compression, |content| {
            Box::new(Drops(content, false))
        });
        assert!(whole == drops, "{codec}");
        assert_eq!(look(&whole).unwrap().set, set_of(&bodies));
    }
}

#[test]
fn an_archive_that_comes_in_drops_is_the_same() {
    let bodies = some_bodies();
    for codec in Codec::ALL {
        let archive = ours(&bodies, Compression::of(codec));
        let limits = Limits::default();
        let drops = Drops(&archive, false);
        let survey = crate::hour_archive::survey(drops, &feed(), hour(), &limits).unwrap();
        assert_eq!(survey.set, set_of(&bodies), "{codec}");
    }
}

#[test]
fn the_tar_is_the_one_of_version_1_for_ever() {
    let archive = ours(&some_bodies(), Compression::of(Codec::Gzip));
    let golden = include_bytes!("../../../fixtures/hour_archive/version-1.tar");
    assert!(decompress(&archive) == golden, "the tar has changed");
    assert_eq!(&archive[..10], &[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]);
    let survey = look(&compress(golden, Codec::Xz)).unwrap();
    assert_eq!(survey.set, set_of(&some_bodies()));
}

#[test]
fn the_reader_hands_out_names_and_paths() {
    let bodies = some_bodies();
    let archive = ours(&bodies, Compression::of(Codec::Zstd));
    let read = read_all(&archive).unwrap();
    let contents: Vec<_> = read
        .iter()
        .map(|(name, _, content)| (name.clone(), content.clone()))
        .collect();
    let mut sorted = bodies;
    sorted.sort_by_key(member);
    assert_eq!(contents, sorted);
    let twins: Vec<_> = read.iter().filter(|(name, ..)| name == "twin").collect();
    assert_eq!(twins[0].1, "twin");
    assert!(twins[1].1.starts_with("twin.~"), "{}", twins[1].1);
}

/// As archives were made before a genuine body had its name whatever the order.
#[test]
fn twins_that_lie_the_other_way_round_are_the_same_set() {
    let name = "f_20261115T182403.850Z_xj4bnp4pahh6uqkbidpf3lrceo.json";
    let bodies = [body(name, b"12"), body(name, b"abc")];
    let archive = ours(&bodies, Compression::of(Codec::Gzip));
    let paths = read_all(&archive).unwrap();
    assert!(paths[0].1.starts_with(&format!("{name}.~")), "{paths:?}");
    assert_eq!((paths[1].1.as_str(), &paths[1].2[..]), (name, &b"abc"[..]));

    let beside = format!("{name}.~{}", BodyHash::of(&Digest::of(b"abc")));
    let entry = |content: &[u8], path: Option<&str>| {
        let (size, sha256) = (content.len(), Digest::of(content));
        serde_json::json!({"name": name, "size": size, "sha256": sha256, "path": path})
    };
    let entries = [entry(b"12", None), entry(b"abc", Some(&beside))];
    let manifest =
        serde_json::json!({"format": 1, "feed": feed(), "hour": hour(), "entries": entries});
    let blocks = Blocks::default().file(MANIFEST_NAME, manifest.to_string().as_bytes());
    let blocks = blocks.file(name, b"12").file(&beside, b"abc");
    let survey = look(&blocks.end().gzip()).unwrap();
    assert_eq!(survey.set, set_of(&bodies));
    assert!(survey.in_order);
}

#[test]
fn long_names_are_kept() {
    let bodies = [
        body(&"n".repeat(100), b"1"),
        body(&"n".repeat(101), b"2"),
        body(&format!("{}/{}", "p".repeat(155), "n".repeat(100)), b"3"),
        body(&format!("{}/{}", "p".repeat(156), "n".repeat(100)), b"4"),
        body(&"ü".repeat(127), b"5"),
        body(
            &["d".repeat(200), "e".repeat(200), "f".repeat(200)].join("/"),
            b"6",
        ),
    ];
    let archive = ours(&bodies, Compression::of(Codec::Gzip));
    assert_eq!(look(&archive).unwrap().set, set_of(&bodies));
}

#[test]
fn an_empty_set_is_an_archive_too() {
    let archive = ours(&[], Compression::of(Codec::Bzip2));
    assert!(look(&archive).unwrap().set.is_empty());
    for bodies in [
        Blocks::default(),
        Blocks::default().file(".hoard_manifest.json", b"{}"),
    ] {
        let archive = bodies.end().gzip();
        assert!(look(&archive).unwrap().set.is_empty());
    }
}

#[test]
fn a_body_that_is_not_what_the_set_says_is_refused_and_ends_the_archive() {
    let set = set_of(&[body("a", b"right")]);
    let start = || {
        let compression = Compression::of(Codec::Gzip);
        ArchiveWriter::new(Vec::new(), &feed(), hour(), &set, &compression).unwrap()
    };
    for wrong in ["wrong", "righ", "right!", ""] {
        let mut writer = start();
        let error = writer.append(wrong.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{wrong}");
        assert!(error.to_string().contains("`a`"), "{error}");
        assert!(writer.append(b"right".as_slice()).is_err());
        assert!(writer.finish().is_err());
    }
    let mut writer = start();
    writer.append(b"right".as_slice()).unwrap();
    assert!(writer.next_member().is_none());
    assert!(writer.append(b"".as_slice()).is_err());
    assert!(start().finish().unwrap_err().to_string().contains("`a`"));
}

#[test]
fn what_a_writer_leaves_behind_is_no_archive() {
    let set = set_of(&[body("a", b"right"), body("b", b"")]);
    for codec in Codec::ALL {
        let mut out = Vec::new();
        let compression = Compression::of(codec);
        let mut writer = ArchiveWriter::new(&mut out, &feed(), hour(), &set, &compression).unwrap();
        writer.append(b"right".as_slice()).unwrap();
        drop(writer);
        assert!(
            matches!(look(&out), Err(ArchiveFault::Damaged(_))),
            "{codec}"
        );
    }
}

#[test]
fn an_output_that_is_full_is_an_error_wherever_it_happens() {
    let bodies = some_bodies();
    let set = set_of(&bodies);
    for codec in Codec::ALL {
        let compression = fast(codec);
        let length = ours(&bodies, compression).len();
        let write = |room| -> io::Result<Full> {
            let mut writer = ArchiveWriter::new(Full(room), &feed(), hour(), &set, &compression)?;
            while let Some(next) = writer.next_member() {
                let body = bodies.iter().find(|body| member(body) == *next).unwrap();
                writer.append(body.1.as_slice())?;
            }
            writer.finish()
        };
        // The end of the stream is where an error is lost most easily.
        for room in (0..length).step_by(29).chain(length - 20..length) {
            assert!(write(room).is_err(), "{codec} {room}");
        }
        assert!(write(length).is_ok(), "{codec}");
    }
}

#[test]
fn an_input_that_fails_is_not_called_damaged() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::new(io::ErrorKind::ConnectionReset, "gone"))
        }
    }
    for codec in Codec::ALL {
        let archive = ours(&some_bodies(), fast(codec));
        for length in 0..archive.len() {
            let input = archive[..length].chain(Failing);
            let fault = crate::hour_archive::survey(input, &feed(), hour(), &Limits::default());
            let fault = fault.unwrap_err();
            assert!(
                matches!(&fault, ArchiveFault::Io(error) if error.kind() == io::ErrorKind::ConnectionReset),
                "{codec} {length}: {fault}"
            );
        }
    }
}

#[test]
fn a_reader_does_not_read_on_after_a_fault() {
    let archive = Blocks::default()
        .file("a", b"1")
        .entry(b'2', "link", b"")
        .file("b", b"2")
        .end()
        .gzip();
    let limits = Limits::default();
    let mut reader = ArchiveReader::open(archive.as_slice(), &feed(), hour(), &limits).unwrap();
    assert!(reader.next().unwrap().is_some());
    assert!(matches!(reader.next(), Err(ArchiveFault::Hostile(_))));
    assert!(reader.next().is_err());
}

#[test]
fn all_of_it_can_go_to_another_thread() {
    fn check<T: Send>() {}
    check::<ArchiveReader<std::fs::File>>();
    check::<ArchiveWriter<'_, std::fs::File>>();
    check::<crate::hour_archive::Survey>();
    check::<ArchiveFault>();
}
