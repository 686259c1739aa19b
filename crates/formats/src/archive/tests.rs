//! Archives written and read again, those of the original, and those that lie.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::can::{BucketFile, TextName};
use crate::checksum::{Sha1, Sums};
use crate::frames::{FrameCodec, FrameEncoder, FrameReader, FrameSpan};
use crate::gz_lines::{GzLines, IndexLimits};
use crate::hour_archive::ArchiveFault;
use crate::{Digest, Uid};

const TEXT_MAX: u64 = 1 << 20;

/// A report and its measurements.
type Reports = BTreeMap<String, Vec<Vec<u8>>>;

fn uid(text: &[u8]) -> Uid {
    Uid::from_bytes(*Sha1::of(text).as_bytes())
}

fn origin(at: usize, text: &[u8]) -> Origin {
    Origin {
        src_off: at as u64,
        src_size: text.len() as u64,
        orig_sha1: Sha1::of(text),
    }
}

fn report(name: &str, src_size: u64) -> Report {
    Report {
        textname: TextName::new(name).unwrap(),
        src_size,
        orig_sha1: Some(Sha1::of(name.as_bytes())),
    }
}

/// Writes an archive as a stage does.
fn archive(filename: &str, reports: &Reports, frame_bytes: usize) -> FinishedArchive<Vec<u8>> {
    let filename: BucketFile = filename.parse().unwrap();
    let encoder = FrameEncoder::new(filename.name.codec(), 5).unwrap();
    let is_tar = filename.name.is_tar();
    let mut text = match is_tar {
        true => ArchiveText::tar(frame_bytes),
        false => ArchiveText::plain(frame_bytes),
    };
    let mut file = ArchiveFile::new(Vec::new(), filename).unwrap();
    let mut push = |frame: TextFrame| {
        let compressed = encoder.encode(frame.text()).unwrap();
        file.push(&frame, &compressed).unwrap();
    };
    for (name, data) in reports {
        let size: usize = data.iter().map(|datum| datum.len() + 1).sum();
        let head = report(name, 1_000 + size as u64);
        match is_tar {
            true => text.begin_member(head, size as u64, 1_483_142_430).unwrap(),
            false => text.begin_report(head).unwrap(),
        }
        text.bad_blob("not JSON".into(), origin(0, b"bad\n"))
            .unwrap();
        for datum in data {
            text.datum(uid(datum), datum, true, Some(origin(4, datum)))
                .unwrap();
            std::iter::from_fn(|| text.take_frame()).for_each(&mut push);
        }
        text.end_report().unwrap();
    }
    let mut end = text.finish().unwrap();
    std::mem::take(&mut end.frames)
        .into_iter()
        .for_each(&mut push);
    let lookups = BTreeMap::from([("asn".into(), "2026-11".into())]);
    file.finish(&end, "3", Digest::of(b"rules"), &lookups)
        .unwrap()
}

fn entries(index: &[u8]) -> Result<Vec<Entry>, ArchiveFault> {
    let mut reader = IndexReader::new(index, IndexLimits::default());
    let mut entries = Vec::new();
    while let Some(entry) = reader.next()? {
        entries.push(entry);
    }
    Ok(entries)
}

/// The measurements of an archive by report, read along its index.
fn read(file: &[u8], index: &[u8], codec: FrameCodec) -> Result<Reports, ArchiveFault> {
    let index = IndexReader::new(index, IndexLimits::default());
    let mut reader = ArchiveReader::new(file, index, codec, TEXT_MAX);
    let mut reports = Reports::new();
    let mut name = String::new();
    while let Some(ArchiveItem { entry, text }) = reader.next()? {
        match entry {
            Entry::Report(report) => {
                name = report.textname.to_string();
                reports.insert(name.clone(), Vec::new());
            }
            Entry::Datum { datum, place } => {
                let text = text.unwrap();
                assert!(datum.id.is_none_or(|id| id == uid(text)));
                let from = usize::try_from(place.frame_off).unwrap();
                let frame = &file[from..from + usize::try_from(place.frame_size).unwrap()];
                assert_eq!(place.extract(frame, codec, TEXT_MAX).unwrap(), text);
                reports.get_mut(&name).unwrap().push(text.to_vec());
            }
            _ => assert!(text.is_none()),
        }
    }
    assert!(reader.next()?.is_none());
    Ok(reports)
}

fn lines(index: &[u8]) -> String {
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(index)
        .read_to_string(&mut text)
        .unwrap();
    text
}

fn gz(lines: &[Value]) -> Vec<u8> {
    let mut out = GzLines::new(Vec::new());
    for line in lines {
        out.write(format!("{line}\n").as_bytes()).unwrap();
    }
    out.finish().unwrap()
}

fn text_of(file: &[u8], codec: FrameCodec) -> Vec<u8> {
    let mut text = Vec::new();
    FrameReader::new(file, codec, TEXT_MAX)
        .unwrap()
        .read_to_end(&mut text)
        .unwrap();
    text
}

fn two_reports() -> Reports {
    let long = format!("2017-01-01/{}.json", "n".repeat(100));
    BTreeMap::from([
        (
            "2017-01-01/a.json".to_owned(),
            vec![
                b"{\"a\":1}".to_vec(),
                vec![b'x'; 600],
                b"{\"a\":3}".to_vec(),
            ],
        ),
        (long, vec![b"{}".to_vec()]),
    ])
}

#[test]
fn the_indexes_have_their_exact_shape() {
    let made = archive("2017-01-01/ndt.0.tar.lz4", &two_reports(), 1_000);
    insta::assert_snapshot!("public", lines(&made.index));
    insta::assert_snapshot!("private", lines(&made.private_index));
    // Nothing that was not sanitised has a hash in public.
    assert!(!lines(&made.index).contains("orig_sha1"));
}

#[test]
fn the_private_index_leads_back_to_the_raw_report() {
    let made = archive("2017-01-01/ndt.0.tar.lz4", &two_reports(), 1_000);
    let find = |report: &str, uid: &str| {
        let (report, uid) = (TextName::new(report).unwrap(), uid.parse().unwrap());
        let index = &made.private_index[..];
        Origin::find(index, IndexLimits::default(), &report, uid).unwrap()
    };
    let uid = "wgsk6watq3tiugvyr3va24iya2aholck";
    let found = find("2017-01-01/a.json", uid).unwrap();
    assert_eq!((found.src_off, found.src_size), (4, 600));
    assert_eq!(found.orig_sha1.to_string(), "saSvWBOG5ooauI7qDXEYBoB3LEo=");
    assert_eq!(find("2017-01-01/b.json", uid), None, "of another report");
    let nobody = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";
    assert_eq!(find("2017-01-01/a.json", nobody), None);
    let report = TextName::new("2017-01-01/a.json").unwrap();
    let damaged = Origin::find(
        &b"x"[..],
        IndexLimits::default(),
        &report,
        uid.parse().unwrap(),
    );
    assert!(damaged.is_err());
}

#[test]
fn a_tar_of_frames_is_a_tar() {
    for end in ["lz4", "zst"] {
        let name = format!("2017-01-01/ndt.0.tar.{end}");
        let made = archive(&name, &two_reports(), 1_000);
        let codec = name.parse::<BucketFile>().unwrap().name.codec();
        let text = text_of(&made.out, codec);
        assert_eq!(
            (made.text, made.file),
            (Sums::of(&text), Sums::of(&made.out))
        );
        let mut members = Reports::new();
        for entry in tar::Archive::new(text.as_slice()).entries().unwrap() {
            let mut entry = entry.unwrap();
            let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            let mut body = Vec::new();
            entry.read_to_end(&mut body).unwrap();
            let body = body.strip_suffix(b"\n").unwrap();
            members.insert(
                name,
                body.split(|byte| *byte == b'\n')
                    .map(<[u8]>::to_vec)
                    .collect(),
            );
        }
        assert_eq!(members, two_reports());
        assert_eq!(read(&made.out, &made.index, codec).unwrap(), two_reports());
        let again = archive(&name, &two_reports(), 1_000);
        assert_eq!(
            (again.out, again.index, again.private_index),
            (made.out, made.index, made.private_index)
        );
    }
}

#[test]
fn the_private_index_follows_from_the_raw_reports_alone() {
    let one = archive("2017-01-01/ndt.0.tar.lz4", &two_reports(), 1);
    let other = archive("2017-01-01/ndt.0.tar.lz4", &two_reports(), 100_000);
    assert_ne!(one.index, other.index);
    assert_eq!(one.private_index, other.private_index);
}

#[test]
fn a_plain_file_is_the_lines_and_may_be_empty() {
    for data in [vec![], vec![b"{}".to_vec(), b"[1]".to_vec()]] {
        let reports = BTreeMap::from([("2017-01-01/x.json".to_owned(), data)]);
        let made = archive("2017-01-01/x.json.lz4", &reports, 3);
        let lines: Vec<u8> = reports["2017-01-01/x.json"]
            .iter()
            .flat_map(|datum| [datum, &b"\n"[..]].concat())
            .collect();
        assert_eq!(text_of(&made.out, FrameCodec::Lz4), lines);
        assert_eq!(
            read(&made.out, &made.index, FrameCodec::Lz4).unwrap(),
            reports
        );
    }
}

#[test]
fn a_frame_ends_when_its_size_is_just_reached() {
    let mut text = ArchiveText::plain(6);
    text.begin_report(report("a", 0)).unwrap();
    for datum in [&b"{}"[..], b"{}", b"[1]", b"{}"] {
        text.datum(uid(datum), datum, true, None).unwrap();
    }
    text.end_report().unwrap();
    let end = text.finish().unwrap();
    let texts: Vec<&[u8]> = end.frames.iter().map(TextFrame::text).collect();
    assert_eq!(texts, [&b"{}\n{}\n"[..], b"[1]\n{}\n"]);
}

#[test]
fn what_is_no_json_is_passed_through_unchanged() {
    let mut text = ArchiveText::tar(1);
    text.begin_member(report("f/a.pb", 4), 4, 0).unwrap();
    text.datum(uid(b"a\n\n\0"), b"a\n\n\0", false, None)
        .unwrap();
    text.end_report().unwrap();
    let frame = text.take_frame().unwrap();
    assert_eq!(&frame.text()[512..], b"a\n\n\0");
    // An empty one is a measurement too.
    text.begin_member(report("f/b.pb", 0), 0, 0).unwrap();
    text.datum(uid(b""), b"", false, None).unwrap();
    text.end_report().unwrap();
    assert_eq!(text.finish().unwrap().frames.len(), 2);
}

#[test]
fn a_report_that_is_not_what_was_said_is_refused() {
    let mut text = ArchiveText::tar(10);
    assert!(text.datum(uid(b""), b"", true, None).is_err());
    assert!(text.end_report().is_err());
    assert!(text.begin_report(report("a", 0)).is_err());
    text.begin_member(report("b", 0), 3, 0).unwrap();
    assert!(text.begin_member(report("c", 0), 3, 0).is_err());
    assert!(text.datum(uid(b""), b"abc", true, None).is_err());
    text.datum(uid(b""), b"a", true, None).unwrap();
    assert!(text.end_report().is_err());
    let mut text = ArchiveText::tar(10);
    text.begin_member(report("b", 0), 0, 0).unwrap();
    text.end_report().unwrap();
    assert!(text.begin_member(report("b", 0), 0, 0).is_err());
    let mut text = ArchiveText::plain(10);
    assert!(text.begin_member(report("a", 0), 0, 0).is_err());
    text.begin_report(report("a", 0)).unwrap();
    assert!(text.begin_report(report("b", 0)).is_err());
    assert!(text.finish().is_err());
    assert!(ArchiveText::plain(1).finish().is_err());
}

#[test]
fn a_frame_that_was_forgotten_is_noticed() {
    let mut text = ArchiveText::plain(1);
    text.begin_report(report("a", 0)).unwrap();
    text.datum(uid(b""), b"{}", true, None).unwrap();
    text.end_report().unwrap();
    let file = ArchiveFile::new(Vec::new(), "2017-01-01/a.lz4".parse().unwrap()).unwrap();
    let end = text.finish().unwrap();
    assert!(
        file.finish(&end, "", Digest::of(b""), &BTreeMap::new())
            .is_err()
    );
}

/// An archive as the original made it: linked blocks with the 4 MB id, the newline of a measurement at the start of the next
/// frame, hashes of the raw data in the index, no ids.
fn original() -> (Vec<u8>, Vec<u8>) {
    let frame = |text: &[u8]| {
        let mut encoder = lz4::EncoderBuilder::new()
            .level(5)
            .block_size(lz4::BlockSize::Max4MB)
            .block_mode(lz4::BlockMode::Linked)
            .block_checksum(lz4::liblz4::BlockChecksum::NoBlockChecksum)
            .content_size(text.len() as u64)
            .build(Vec::new())
            .unwrap();
        encoder.write_all(text).unwrap();
        encoder.finish().0
    };
    let texts: [&[u8]; 3] = [b"{\"n\":1}\n{\"n\":2}", b"\n{\"n\":3}", b"\n"];
    let frames = texts.map(frame);
    let sha1 = Sha1::of(b"raw").to_string();
    let mut index = vec![
        json!({"filename": "2017-01-01/x.json.lz4", "type": "file"}),
        json!({"file_off": 0, "file_size": frames[0].len(), "text_off": 0, "text_size": 15, "type": "frame"}),
        json!({"orig_sha1": sha1, "src_size": 99, "textname": "2017-01-01/x.json", "type": "report"}),
        json!({"orig_sha1": sha1, "text_off": 0, "text_size": 7, "type": "datum"}),
        json!({"orig_sha1": sha1, "text_off": 8, "text_size": 7, "type": "datum"}),
        json!({"type": "/frame"}),
        json!({"file_off": frames[0].len(), "file_size": frames[1].len(), "text_off": 15, "text_size": 8, "type": "frame"}),
        json!({"orig_sha1": sha1, "text_off": 16, "text_size": 7, "type": "datum"}),
        json!({"orig_sha1": sha1, "info": "<class 'ValueError'>", "src_off": 7, "src_size": 2, "type": "badblob"}),
        json!({"type": "/frame"}),
        json!({"file_off": frames[0].len() + frames[1].len(), "file_size": frames[2].len(), "text_off": 23, "text_size": 1, "type": "frame"}),
        json!({"type": "/report"}),
        json!({"type": "/frame"}),
    ];
    let file = frames.concat();
    let sums = Sums::of(&file);
    index.push(json!({"file_crc32": sums.crc32, "file_sha1": sums.sha1.to_string(), "file_size": sums.size, "type": "/file"}));
    (file, gz(&index))
}

#[test]
fn an_archive_of_the_original_is_read() {
    let (file, index) = original();
    assert_eq!(file[5], 0x70);
    let reports = read(&file, &index, FrameCodec::Lz4).unwrap();
    let data = [
        b"{\"n\":1}".to_vec(),
        b"{\"n\":2}".to_vec(),
        b"{\"n\":3}".to_vec(),
    ];
    assert_eq!(reports["2017-01-01/x.json"], data);
    let entries = entries(&index).unwrap();
    let hashes = entries.iter().filter(|entry| match entry {
        Entry::Datum { datum, .. } => datum.orig_sha1 == Some(Sha1::of(b"raw")),
        _ => false,
    });
    assert_eq!(hashes.count(), 3);
}

#[test]
fn joined_indexes_are_read_as_several_files() {
    let made = archive("2017-01-01/ndt.0.tar.lz4", &two_reports(), 100);
    let (_, other) = original();
    let count = |index: &[u8]| entries(index).unwrap().len();
    let both = [&made.index[..], &other].concat();
    assert_eq!(count(&both), count(&made.index) + count(&other));
}

#[test]
fn the_part_of_a_file_is_taken_out_of_a_joined_index() {
    let made = archive("2017-01-01/ndt.0.tar.lz4", &two_reports(), 100);
    let next = archive("2017-01-01/ndt.1.tar.lz4", &two_reports(), 100);
    let (_, other) = original();
    let both = [&other[..], &made.index, &next.index].concat();
    for (name, index) in [
        ("2017-01-01/ndt.0.tar.lz4", &made.index),
        ("2017-01-01/ndt.1.tar.lz4", &next.index),
    ] {
        let part = part_of_index(&both[..], &name.parse().unwrap()).unwrap();
        assert_eq!(lines(&part.unwrap()), lines(index));
    }
    let first = match &entries(&other).unwrap()[0] {
        Entry::File(name) => name.clone(),
        entry => panic!("{entry:?}"),
    };
    let part = part_of_index(&both[..], &first).unwrap().unwrap();
    assert_eq!(entries(&part).unwrap(), entries(&other).unwrap());
    let absent = "2017-01-01/ndt.2.tar.lz4".parse().unwrap();
    assert_eq!(part_of_index(&both[..], &absent).unwrap(), None);
    let torn = &both[..both.len() - 20];
    assert!(part_of_index(torn, &absent).is_err());
}

#[test]
fn lines_of_later_versions_are_passed_over() {
    let (_, index) = original();
    let with_more = lines(&index).replacen(
        "{\"type\":\"/frame\"}\n",
        "{\"type\":\"/frame\",\"x\":1}\n{\"type\":\"later\",\"y\":[]}\n",
        1,
    );
    let mut out = GzLines::new(Vec::new());
    out.write(with_more.as_bytes()).unwrap();
    assert_eq!(
        entries(&out.finish().unwrap()).unwrap(),
        entries(&index).unwrap()
    );
}

#[test]
fn an_index_that_lies_is_refused() {
    let (_, index) = original();
    let good = lines(&index);
    for (from, to, what) in [
        (
            "\"text_off\":8,\"text_size\":7",
            "\"text_off\":8,\"text_size\":8",
            "not within its frame",
        ),
        (
            "\"text_off\":8,\"text_size\":7",
            "\"text_off\":8,\"text_size\":18446744073709551615",
            "not within its frame",
        ),
        (
            "\"text_off\":8,",
            "\"text_off\":6,",
            "begins within another",
        ),
        (
            "\"text_off\":16,",
            "\"text_off\":14,",
            "not within its frame",
        ),
        (
            "\"file_off\":0,",
            "\"file_off\":1,",
            "where the one before ends",
        ),
        (
            "\"text_off\":15,",
            "\"text_off\":16,",
            "where the one before ends",
        ),
        (
            "\"text_off\":23,\"text_size\":1,",
            "\"text_off\":23,\"text_size\":18446744073709551600,",
            "beyond everything",
        ),
        (
            "{\"type\":\"/frame\"}\n",
            "",
            "a frame begins within another",
        ),
        ("{\"type\":\"/report\"}\n", "", "within a frame or a report"),
        (
            "{\"type\":\"/report\"}\n",
            "{\"type\":\"/report\"}\n{\"type\":\"/report\"}\n",
            "of no report",
        ),
        (
            "{\"type\":\"/frame\"}\n",
            "{\"type\":\"/frame\"}\n{\"type\":\"/frame\"}\n",
            "did not begin",
        ),
        (
            "{\"filename\"",
            "{\"filename\":\"2017-01-01/x.json.lz4\",\"type\":\"file\"}\n{\"filename\"",
            "in the index of another",
        ),
        (
            "{\"filename\":\"2017-01-01/x.json.lz4\",\"type\":\"file\"}\n",
            "",
            "of no file",
        ),
        (
            "2017-01-01/x.json.lz4",
            "2017-01-01/../x.lz4",
            "invalid file name",
        ),
        ("2017-01-01/x.json\"", "/etc/passwd\"", "invalid object key"),
        ("\"src_size\":99,", "", "lacks something that `report` has"),
        ("\"src_size\":99,", "\"src_size\":-1,", "invalid value"),
        (",\"type\":\"file\"", "", "lacks something"),
        ("\"file_size\"", "\"file_off\"", "duplicate field"),
    ] {
        let text = good.replacen(from, to, 1);
        assert_ne!(text, good, "{from}");
        let mut out = GzLines::new(Vec::new());
        out.write(text.as_bytes()).unwrap();
        let fault = entries(&out.finish().unwrap()).unwrap_err();
        assert!(
            matches!(fault, ArchiveFault::Damaged(_)) && fault.to_string().contains(what),
            "{what}: {fault}"
        );
    }
    let mut short = GzLines::new(Vec::new());
    short
        .write(&good.as_bytes()[..good.rfind("{\"file_crc32\"").unwrap()])
        .unwrap();
    let short = short.finish().unwrap();
    let mut reader = IndexReader::new(short.as_slice(), IndexLimits::default());
    let fault = loop {
        match reader.next() {
            Ok(entry) => assert!(entry.is_some()),
            Err(fault) => break fault,
        }
    };
    assert!(fault.to_string().contains("ends within a file"), "{fault}");
    assert!(reader.next().is_err());
}

#[test]
fn a_file_that_is_not_what_its_index_says_is_refused() {
    let (file, index) = original();
    let mut other = file.clone();
    *other.last_mut().unwrap() ^= 1;
    let trailing = [&file[..], b"x"].concat();
    let huge = lines(&index).replacen("\"text_size\":15,", "\"text_size\":1000000000000000,", 1);
    let huge = huge.replace("\"text_off\":15,", "\"text_off\":1000000000000000,");
    let mut out = GzLines::new(Vec::new());
    out.write(huge.as_bytes()).unwrap();
    let huge = out.finish().unwrap();
    for (what, file, index) in [
        ("ends within a frame", &file[..file.len() - 1], &index),
        ("a lz4 frame", &other, &index),
        ("the file has not the sums", &trailing, &index),
        ("more than 1048576 bytes", &file, &huge),
        ("the index is of no file", &file, &gz(&[])),
        ("more than one file", &file, &[&index[..], &index].concat()),
    ] {
        let fault = read(file, index, FrameCodec::Lz4).unwrap_err().to_string();
        assert!(fault.contains(what), "{what}: {fault}");
    }
    let made = archive(
        "2017-01-01/x.json.lz4",
        &BTreeMap::from([("x".to_owned(), vec![b"{}".to_vec()])]),
        10,
    );
    let wrong = lines(&made.index).replace(&made.text.sha1.to_string(), &Sha1::of(b"").to_string());
    let mut out = GzLines::new(Vec::new());
    out.write(wrong.as_bytes()).unwrap();
    let fault = read(&made.out, &out.finish().unwrap(), FrameCodec::Lz4).unwrap_err();
    assert!(
        fault.to_string().contains("the text has not the sums"),
        "{fault}"
    );
}

/// The frames, and the measurements in each.
fn framed(index: &[u8]) -> Vec<(FrameSpan, Vec<Datum>)> {
    let mut frames = Vec::new();
    for entry in entries(index).unwrap() {
        match entry {
            Entry::Frame(span) => frames.push((span, Vec::new())),
            Entry::Datum { datum, .. } => frames.last_mut().unwrap().1.push(datum),
            _ => {}
        }
    }
    frames
}

proptest! {
    #[test]
    fn what_is_archived_is_read_and_frames_end_as_early_as_they_may(
        reports in prop::collection::btree_map("[a-z]{1,120}", prop::collection::vec("[a-z{}\":, ]{0,300}", 0..8), 1..5),
        frame_bytes in 1_usize..3_000,
        is_zstd: bool,
    ) {
        let reports: Reports = reports
            .into_iter()
            .map(|(name, data)| (name, data.into_iter().map(String::into_bytes).collect()))
            .collect();
        let name = if is_zstd { "2017-01-01/k.0.tar.zst" } else { "2017-01-01/k.0.tar.lz4" };
        let codec = name.parse::<BucketFile>().unwrap().name.codec();
        let made = archive(name, &reports, frame_bytes);
        prop_assert_eq!(read(&made.out, &made.index, codec).unwrap(), reports);
        let frames = framed(&made.index);
        for (at, (span, data)) in frames.iter().enumerate() {
            let end = span.text_off + span.text_size;
            if at + 1 < frames.len() {
                prop_assert!(span.text_size >= frame_bytes as u64);
                let last = data.last().unwrap();
                prop_assert_eq!(last.text_off + last.text_size + 1, end);
            }
            for earlier in data.iter().take(data.len().saturating_sub(1)) {
                let boundary = earlier.text_off + earlier.text_size + 1;
                prop_assert!(boundary - span.text_off < frame_bytes as u64);
            }
        }
    }

    #[test]
    fn any_line_is_read_without_a_panic(line in "\\PC{0,60}", kind in "(file|frame|datum|report|/file|rules)", number: u64) {
        let _result = Record::parse(line.as_bytes());
        let line = json!({"type": kind, "text_off": number, "text_size": number, "file_off": 0, "file_size": number, "filename": line});
        let _result = Record::parse(line.to_string().as_bytes());
        let _result = entries(&gz(&[line.clone(), line]));
    }
}
