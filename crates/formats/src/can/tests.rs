//! Cans written and read again, and cans that are not what their index says.

use std::io::Read;

use proptest::prelude::*;

use super::*;
use crate::Key;
use crate::checksum::Sums;
use crate::frames::{FrameCodec, FrameEncoder, FrameFile, FrameReader};
use crate::gz_lines::{GzLines, IndexLimits};
use crate::hour_archive::ArchiveFault;

fn name(text: &str) -> TextName {
    TextName::new(text).unwrap()
}

/// Writes a can as a stage does.
fn can(filename: &str, reports: &[(&str, &[u8])], frame_bytes: usize) -> (Vec<u8>, CannedFile) {
    let filename: BucketFile = filename.parse().unwrap();
    let codec = filename.name.codec();
    let encoder = FrameEncoder::new(codec, 5).unwrap();
    let mut file = FrameFile::new(Vec::new(), codec);
    let mut push = |text: Vec<u8>| {
        let frame = encoder.encode(&text).unwrap();
        file.push(&frame, text.len() as u64).unwrap();
    };
    let mut text = match filename.name.is_tar() {
        true => CanText::tar(frame_bytes),
        false => CanText::plain(frame_bytes),
    };
    for (report, body) in reports {
        text.begin(&name(report), body.len() as u64, 1_483_142_430)
            .unwrap();
        for piece in body.chunks(7_777) {
            text.write(piece).unwrap();
            std::iter::from_fn(|| text.take_frame()).for_each(&mut push);
        }
        text.end().unwrap();
    }
    let CanTexts { canned, frames } = text.finish().unwrap();
    frames.into_iter().for_each(&mut push);
    let (bytes, sums) = file.finish().unwrap();
    let record = CannedFile {
        filename,
        file: sums,
        canned,
    };
    (bytes, record)
}

type Reports = Vec<(String, Vec<u8>)>;

/// With both readers, which must agree.
fn read(bytes: &[u8], record: &CannedFile) -> Result<Reports, ArchiveFault> {
    let quick = read_with(CanReader::quick(bytes, record)?);
    let read = read_with(CanReader::new(bytes, record)?);
    let text = |fault: &ArchiveFault| fault.to_string();
    assert_eq!(
        quick.as_ref().map_err(text),
        read.as_ref().map_err(text),
        "a quick reader finds the same"
    );
    read
}

fn read_with(mut reader: CanReader<'_, &[u8]>) -> Result<Reports, ArchiveFault> {
    let mut reports = Vec::new();
    while let Some(mut entry) = reader.next()? {
        let mut body = Vec::new();
        entry.read_to_end(&mut body)?;
        reports.push((entry.text().textname.to_string(), body));
    }
    assert!(reader.next()?.is_none());
    Ok(reports)
}

/// The decompressed text.
fn text_of(bytes: &[u8], codec: FrameCodec) -> Vec<u8> {
    let mut text = Vec::new();
    let mut reader = FrameReader::new(bytes, codec, 1 << 30).unwrap();
    reader.read_to_end(&mut text).unwrap();
    text
}

/// A can of this text that its record describes rightly, whatever the text is.
fn forged(text: &[u8], record: &CannedFile) -> (Vec<u8>, CannedFile) {
    let bytes = FrameEncoder::new(FrameCodec::Lz4, 1)
        .unwrap()
        .encode(text)
        .unwrap();
    let mut record = record.clone();
    record.file = Sums::of(&bytes);
    if let Canned::Tar { text_size, .. } = &mut record.canned {
        *text_size = text.len() as u64;
    }
    (bytes, record)
}

fn two() -> (Vec<u8>, CannedFile) {
    can(
        "2017-01-01/ndt.0.tar.lz4",
        &[
            ("2017-01-01/a.json", b"one\n"),
            ("2017-01-01/b.json", b"two\n"),
        ],
        1_000,
    )
}

#[test]
fn a_tar_is_what_another_reader_of_tars_reads() {
    let long = format!("2017-01-01/{}", "n".repeat(200));
    let fits = format!("2017-01-01/{}", "m".repeat(89));
    assert_eq!(fits.len(), 100);
    let big = b"0123456789abcdef".repeat(5_000);
    let reports: [(&str, &[u8]); 4] = [
        ("2017-01-01/a", b""),
        (&fits, b"one\n"),
        (&long, &big),
        ("b/c", b"x"),
    ];
    for end in ["lz4", "zst"] {
        let (bytes, record) = can(&format!("2017-01-01/ndt.0.tar.{end}"), &reports, 4_096);
        let text = text_of(&bytes, record.filename.name.codec());
        assert_eq!(text.len() as u64, record.text_size());
        assert_eq!(text.len() % 10_240, 0);
        let mut archive = ::tar::Archive::new(text.as_slice());
        let mut read_back = Vec::new();
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let head = entry.header();
            assert_eq!(
                (
                    head.mode().unwrap(),
                    head.uid().unwrap(),
                    head.mtime().unwrap()
                ),
                (0o644, 0, 1_483_142_430)
            );
            let name = String::from_utf8(entry.path_bytes().into_owned()).unwrap();
            let mut body = Vec::new();
            entry.read_to_end(&mut body).unwrap();
            read_back.push((name, body));
        }
        let expected: Vec<(String, Vec<u8>)> = reports
            .iter()
            .map(|(n, b)| ((*n).into(), b.to_vec()))
            .collect();
        assert_eq!(read_back, expected);
        assert_eq!(read(&bytes, &record).unwrap(), expected);
        assert_eq!(
            can(&format!("2017-01-01/ndt.0.tar.{end}"), &reports, 4_096).0,
            bytes
        );
    }
}

#[test]
fn a_long_name_stands_1536_bytes_before_its_text() {
    let long = format!("2017-01-01/{}", "n".repeat(200));
    let (bytes, _) = can(
        "2017-01-01/ndt.0.tar.lz4",
        &[(&long, b"text"), ("b", b"")],
        9_999,
    );
    let text = text_of(&bytes, FrameCodec::Lz4);
    assert_eq!(&text[..13], b"././@LongLink");
    assert_eq!(&text[1_536..1_540], b"text");
}

#[test]
fn a_record_says_where_a_report_begins() {
    let long = format!("2017-01-01/{}", "n".repeat(200));
    let reports: [(&str, &[u8]); 4] = [
        ("2017-01-01/a", b""),
        ("2017-01-01/b", &[b'b'; 512]),
        ("2017-01-01/c", b"c"),
        (&long, b"after a long name"),
    ];
    let (bytes, record) = can("2017-01-01/ndt.0.tar.lz4", &reports, 700);
    let text = text_of(&bytes, FrameCodec::Lz4);
    for (report, body) in reports {
        let from = usize::try_from(record.text_off(&name(report)).unwrap()).unwrap();
        assert_eq!(&text[from..from + body.len()], body, "{report}");
    }
    assert_eq!(record.text_off(&name("2017-01-01/d")), None);
    let (_, plain) = can("2017-01-01/a.lz4", &[("2017-01-01/a", b"x")], 700);
    assert_eq!(plain.text_off(&name("2017-01-01/a")), Some(0));
}

#[test]
fn a_report_of_its_own_is_plain_even_if_it_is_empty() {
    for body in [b"".as_slice(), b"{}\n", &[7; 50_000]] {
        let (bytes, record) = can(
            "2017-01-01/x.json.lz4",
            &[("2017-01-01/x.json", body)],
            4_096,
        );
        assert_eq!(text_of(&bytes, FrameCodec::Lz4), body);
        assert_eq!(
            read(&bytes, &record).unwrap(),
            [("2017-01-01/x.json".to_owned(), body.to_vec())]
        );
    }
}

#[test]
fn the_index_has_its_exact_shape_and_is_read_again() {
    let (_, tar) = two();
    let (_, plain) = can(
        "2017-01-01/x.json.lz4",
        &[("2017-01-01/x.json", b"{}\n")],
        4_096,
    );
    let inputs = vec![Input {
        key: Key::new("reports-raw/2017-01-01/a.json").unwrap(),
        size: 4,
        version: "\"e1\"".into(),
    }];
    let index = CannedIndex {
        files: vec![tar, plain],
        inputs: Some(inputs),
    };
    let object = index.to_object().unwrap();
    assert_eq!(
        read_canned_index(object.as_slice(), IndexLimits::default()).unwrap(),
        index
    );
    let mut text = String::new();
    flate2::read::GzDecoder::new(object.as_slice())
        .read_to_string(&mut text)
        .unwrap();
    insta::assert_snapshot!(text);
}

#[test]
fn an_index_of_the_original_is_read() {
    let line = br#"{"canned": [{"text_crc32": -1, "text_sha1": "98O8HYCOBHMqBeZZUMKfcrnmNQ0=", "text_size": 9, "textname": "2017-01-01/a.yaml"}], "file_crc32": 5, "file_sha1": "98O8HYCOBHMqBeZZUMKfcrnmNQ0=", "file_size": 7, "filename": "2017-01-01/ndt.00.tar.lz4", "text_size": 10240, "later": 1}"#;
    let file = CannedFile::parse(line).unwrap();
    assert_eq!(file.texts()[0].text.crc32, -1);
    assert_eq!(file.text_size(), 10_240);
}

#[test]
fn indexes_that_lie_are_refused() {
    let good = String::from_utf8(two().1.to_line()).unwrap();
    for (from, to, what) in [
        ("2017-01-01/a.json", "../a.json", "`..` component"),
        ("2017-01-01/ndt", "/etc/ndt", "invalid file name"),
        ("ndt.0.tar.lz4", "ndt.0.tar.gz", "invalid file name"),
        (
            "\"file_size\":",
            "\"file_size\":99999999999999999999",
            "invalid type",
        ),
        ("\"file_size\":", "\"file_size\":-", "invalid value"),
        ("\"file_size\"", "\"file_crc32\"", "duplicate field"),
        ("\"filename\"", "\"name\"", "missing field"),
        (
            "\"text_size\":10240",
            "\"text_size\":10240,\"text_crc32\":1",
            "neither of a tar",
        ),
        ("{\"canned\"", "{\"cans\"", "neither of a tar"),
        ("}\n", "\n", "EOF"),
    ] {
        let line = good.replacen(from, to, 1);
        assert_ne!(line, good, "{from}");
        let mut gz = GzLines::new(Vec::new());
        gz.write(line.as_bytes()).unwrap();
        let gz = gz.finish().unwrap();
        let fault = read_canned_index(gz.as_slice(), IndexLimits::default()).unwrap_err();
        let text = fault.to_string();
        assert!(matches!(fault, ArchiveFault::Damaged(_)), "{text}");
        assert!(text.contains(what), "{what}: {text}");
    }
}

#[test]
fn a_can_that_is_not_what_its_record_says_is_damaged() {
    let (bytes, record) = two();
    let text = text_of(&bytes, FrameCodec::Lz4);
    let changed = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut text = text.clone();
        change(&mut text);
        forged(&text, &record)
    };
    let cases = [
        (
            "the checksum of report `2017-01-01/a.json`",
            changed(&|text| text[512] = b'O'),
        ),
        ("checksum of a tar header", changed(&|text| text[0] = b'x')),
        ("between two members", changed(&|text| text[1_000] = 1)),
        (
            "follows the last report",
            changed(&|text| *text.last_mut().unwrap() = 1),
        ),
        ("has no end", changed(&|text| text.truncate(2_048 + 512))),
        ("ends too early", changed(&|text| text.truncate(1_100))),
        ("ends within a report", changed(&|text| text.truncate(513))),
    ];
    for (what, (bytes, record)) in cases {
        let fault = read(&bytes, &record).unwrap_err().to_string();
        assert!(fault.contains(what), "{what}: {fault}");
    }
}

#[test]
fn a_record_that_is_not_what_the_can_holds_is_found_out() {
    let (bytes, record) = two();
    let changed = |change: &dyn Fn(&mut CannedFile)| {
        let mut record = record.clone();
        change(&mut record);
        record
    };
    fn texts(file: &mut CannedFile) -> &mut Vec<CannedText> {
        match &mut file.canned {
            Canned::Tar { texts, .. } => texts,
            Canned::Plain(_) => unreachable!(),
        }
    }
    let cases = [
        (
            "the name of report",
            changed(&|file| texts(file)[1].textname = name("z")),
        ),
        (
            "the length of report",
            changed(&|file| texts(file)[0].text.size = 3),
        ),
        (
            "the checksum of report",
            changed(&|file| texts(file)[0].text.crc32 ^= 1),
        ),
        (
            "follows the last report",
            changed(&|file| drop(texts(file).pop())),
        ),
        (
            "the file has not the checksum",
            changed(&|file| file.file.sha1 = Sums::of(b"").sha1),
        ),
        (
            "more than 10000 bytes",
            changed(&|file| {
                if let Canned::Tar { text_size, .. } = &mut file.canned {
                    *text_size = 10_000;
                }
            }),
        ),
        (
            "not the length that the index says",
            changed(&|file| {
                if let Canned::Tar { text_size, .. } = &mut file.canned {
                    *text_size = 20_480;
                }
            }),
        ),
    ];
    for (what, record) in cases {
        let fault = read(&bytes, &record).unwrap_err().to_string();
        assert!(fault.contains(what), "{what}: {fault}");
    }
    let fault = read(&bytes[..bytes.len() - 1], &record)
        .unwrap_err()
        .to_string();
    assert!(fault.contains("ends too early"), "{fault}");
}

#[test]
fn reports_that_are_passed_over_are_verified_too() {
    let (bytes, mut record) = two();
    let mut reader = CanReader::new(bytes.as_slice(), &record).unwrap();
    while reader.next().unwrap().is_some() {}
    if let Canned::Tar { texts, .. } = &mut record.canned {
        texts[0].text.sha1 = Sums::of(b"").sha1;
    }
    let mut reader = CanReader::new(bytes.as_slice(), &record).unwrap();
    assert!(reader.next().unwrap().is_some());
    assert!(reader.next().is_err());
    assert!(reader.next().is_err());
}

#[test]
fn a_report_that_grows_or_shrinks_or_comes_out_of_order_is_refused() {
    let mut text = CanText::tar(100);
    assert!(text.write(b"x").is_err());
    assert!(text.end().is_err());
    text.begin(&name("b"), 2, 0).unwrap();
    assert!(text.begin(&name("c"), 2, 0).is_err());
    text.write(b"x").unwrap();
    assert_eq!(
        text.end().unwrap_err().kind(),
        std::io::ErrorKind::InvalidData
    );
    let mut text = CanText::tar(100);
    text.begin(&name("b"), 2, 0).unwrap();
    assert_eq!(
        text.write(b"xyz").unwrap_err().kind(),
        std::io::ErrorKind::InvalidData
    );
    let mut text = CanText::tar(100);
    text.begin(&name("b"), 0, 0).unwrap();
    text.end().unwrap();
    assert!(text.begin(&name("b"), 0, 0).is_err());
    assert!(text.begin(&name("a"), 0, 0).is_err());
    let mut text = CanText::plain(100);
    text.begin(&name("a"), 0, 0).unwrap();
    text.end().unwrap();
    assert!(text.begin(&name("b"), 0, 0).is_err());
    assert!(CanText::tar(1).finish().is_err());
}

proptest! {
    #[test]
    fn what_is_canned_is_read(
        reports in prop::collection::btree_map("[a-z]{1,120}", prop::collection::vec(any::<u8>(), 0..2_000), 2..6),
        frame_bytes in 1_usize..5_000,
        is_zstd: bool,
    ) {
        let filename = if is_zstd { "2017-01-01/k.0.tar.zst" } else { "2017-01-01/k.0.tar.lz4" };
        let slices: Vec<(&str, &[u8])> = reports.iter().map(|(name, body)| (name.as_str(), body.as_slice())).collect();
        let (bytes, record) = can(filename, &slices, frame_bytes.max(200));
        prop_assert_eq!(read(&bytes, &record).unwrap(), reports.into_iter().collect::<Vec<_>>());
        prop_assert_eq!(record.file, Sums::of(&bytes));
        let line = record.to_line();
        prop_assert_eq!(CannedFile::parse(&line[..line.len() - 1]).unwrap(), record);
    }
}
