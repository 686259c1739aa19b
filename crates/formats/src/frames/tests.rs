//! Frames of all origins, whole and broken.

use std::io::{self, Read, Write};

use lz4::liblz4::BlockChecksum;
use lz4::{BlockMode, BlockSize, ContentChecksum};
use proptest::prelude::*;

use super::*;
use crate::checksum::Sums;
use crate::hour_archive::ArchiveFault;

const BOTH: [FrameCodec; 2] = [FrameCodec::Lz4, FrameCodec::Zstd];
const TEXT_MAX: u64 = 64 << 20;

fn encoder(codec: FrameCodec) -> FrameEncoder {
    FrameEncoder::new(codec, 5).unwrap()
}

/// A file of these texts, one a frame, and where the frames are.
fn file_of(texts: &[&[u8]], codec: FrameCodec) -> (Vec<u8>, Vec<FrameSpan>) {
    let mut file = FrameFile::new(Vec::new(), codec);
    let push = |text: &&[u8]| {
        let frame = encoder(codec).encode(text).unwrap();
        file.push(&frame, text.len() as u64).unwrap()
    };
    let spans = texts.iter().map(push).collect();
    let (bytes, sums) = file.finish().unwrap();
    assert_eq!(sums, Sums::of(&bytes));
    (bytes, spans)
}

fn read(file: &[u8], codec: FrameCodec) -> Result<Vec<u8>, ArchiveFault> {
    read_at_most(file, codec, TEXT_MAX)
}

fn read_at_most(file: &[u8], codec: FrameCodec, max: u64) -> Result<Vec<u8>, ArchiveFault> {
    let mut reader = FrameReader::new(file, codec, max)?;
    let mut text = Vec::new();
    reader.read_to_end(&mut text)?;
    assert!(reader.into_input().is_some_and(<[u8]>::is_empty));
    Ok(text)
}

/// Bytes that do not compress, the same every time.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()[3]
    };
    (0..length).map(|_| next()).collect()
}

/// A frame as the original's `lz4` made it: linked blocks of up to 4 MiB.
fn linked_frame(text: &[u8], block_checksum: BlockChecksum) -> Vec<u8> {
    let mut encoder = lz4::EncoderBuilder::new()
        .level(5)
        .block_size(BlockSize::Max4MB)
        .block_mode(BlockMode::Linked)
        .block_checksum(block_checksum)
        .checksum(ContentChecksum::ChecksumEnabled)
        .build(Vec::new())
        .unwrap();
    encoder.write_all(text).unwrap();
    let (frame, result) = encoder.finish();
    result.unwrap();
    frame
}

#[test]
fn all_frames_are_read_and_not_only_the_first() {
    for codec in BOTH {
        let (file, spans) = file_of(&[b"one\n", b"", b"two\n", b"three\n"], codec);
        assert_eq!(read(&file, codec).unwrap(), b"one\ntwo\nthree\n");
        assert_eq!(spans[3].text_off, 8);
        // Byte by byte too.
        struct Slow<'a>(&'a [u8]);
        impl Read for Slow<'_> {
            fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
                let room = buffer.len().min(1);
                self.0.read(&mut buffer[..room])
            }
        }
        let mut reader = FrameReader::new(Slow(&file), codec, TEXT_MAX).unwrap();
        let mut text = String::new();
        reader.read_to_string(&mut text).unwrap();
        assert_eq!(text, "one\ntwo\nthree\n");
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}

#[test]
fn a_decoder_of_one_frame_would_stop_there() {
    // This is why the layout is read here.
    let (file, _) = file_of(&[b"one\n", b"two\n"], FrameCodec::Lz4);
    let mut text = Vec::new();
    let mut decoder = lz4::Decoder::new(file.as_slice()).unwrap();
    decoder.read_to_end(&mut text).unwrap();
    assert_eq!(text, b"one\n");
}

#[test]
fn one_frame_is_read_alone() {
    for codec in BOTH {
        let texts: [&[u8]; 3] = [b"first", &noise(300_000), b"last"];
        let (file, spans) = file_of(&texts, codec);
        for (span, text) in spans.iter().zip(texts) {
            let from = usize::try_from(span.file_off).unwrap();
            let to = from + usize::try_from(span.file_size).unwrap();
            let frame = &file[from..to];
            assert_eq!(decode_frame(frame, codec, span.text_size).unwrap(), text);
            let fault = decode_frame(frame, codec, span.text_size - 1).unwrap_err();
            assert!(matches!(fault, ArchiveFault::TooLarge(_)), "{fault}");
            for wrong in [
                &frame[..frame.len() - 1],
                &file[from..to.min(file.len() - 1)][1..],
                b"",
            ] {
                let fault = decode_frame(wrong, codec, TEXT_MAX).unwrap_err();
                assert!(matches!(fault, ArchiveFault::Damaged(_)), "{fault}");
            }
            let fault = decode_frame(&[frame, frame].concat(), codec, TEXT_MAX).unwrap_err();
            assert!(fault.to_string().contains("follows"), "{fault}");
        }
    }
}

#[test]
fn an_lz4_frame_has_its_size_its_checksum_and_the_smallest_block() {
    for (length, descriptor) in [
        (5, 0x40),
        (65_536, 0x40),
        (65_537, 0x50),
        (270_000, 0x60),
        (2 << 20, 0x70),
    ] {
        let frame = encoder(FrameCodec::Lz4).encode(&noise(length)).unwrap();
        // Version 1, independent blocks, no checksums of blocks, content size, content checksum.
        assert_eq!(frame[4], 0b0110_1100);
        assert_eq!(frame[5], descriptor);
        assert_eq!(frame[6..14], (length as u64).to_le_bytes());
    }
}

#[test]
fn frames_of_the_original_are_read() {
    let text = [noise(100_000), b"abcdefgh".repeat(1_500_000)].concat();
    for checksum in [
        BlockChecksum::NoBlockChecksum,
        BlockChecksum::BlockChecksumEnabled,
    ] {
        let frame = linked_frame(&text, checksum);
        assert_eq!(frame[5], 0x70);
        let file = [
            linked_frame(b"x\n", BlockChecksum::NoBlockChecksum),
            frame.clone(),
        ]
        .concat();
        assert_eq!(
            read(&file, FrameCodec::Lz4).unwrap(),
            [b"x\n", &text[..]].concat()
        );
        assert_eq!(
            decode_frame(&frame, FrameCodec::Lz4, TEXT_MAX).unwrap(),
            text
        );
    }
}

#[test]
fn skippable_frames_are_passed_over() {
    for codec in BOTH {
        let skippable = |size: u32, there: usize| {
            let mut frame = 0x184D_2A57_u32.to_le_bytes().to_vec();
            frame.extend_from_slice(&size.to_le_bytes());
            frame.extend(vec![7; there]);
            frame
        };
        let one = encoder(codec).encode(b"one").unwrap();
        let file = [
            &skippable(3, 3)[..],
            &one,
            &skippable(0, 0),
            &one,
            &skippable(9, 9),
        ]
        .concat();
        assert_eq!(read(&file, codec).unwrap(), b"oneone");
        let cut = [&one[..], &skippable(u32::MAX, 3)].concat();
        let fault = read(&cut, codec).unwrap_err();
        assert!(
            matches!(fault, ArchiveFault::Damaged(_)),
            "{codec}: {fault}"
        );
    }
}

#[test]
fn a_zstd_file_ends_with_its_seek_table() {
    let (file, spans) = file_of(&[b"one", b"three"], FrameCodec::Zstd);
    let word = |at: usize| u64::from(u32::from_le_bytes(file[at..at + 4].try_into().unwrap()));
    let footer = file.len() - 9;
    assert_eq!(word(footer + 5), 0x8F92_EAB1);
    assert_eq!((word(footer), file[footer + 4]), (2, 0));
    let table = footer - 16;
    assert_eq!((word(table - 8), word(table - 4)), (0x184D_2A5E, 25));
    assert_eq!((word(table), word(table + 4)), (spans[0].file_size, 3));
    assert_eq!((word(table + 8), word(table + 12)), (spans[1].file_size, 5));
    assert_eq!((table - 8) as u64, spans[1].file_off + spans[1].file_size);
}

#[test]
fn a_bomb_is_refused_before_it_takes_memory() {
    for codec in BOTH {
        let bomb = encoder(codec).encode(&vec![0; 32 << 20]).unwrap();
        assert!(bomb.len() < 200_000);
        let fault = read_at_most(&bomb, codec, 1 << 20).unwrap_err();
        assert!(matches!(fault, ArchiveFault::TooLarge(_)), "{fault}");
        let fault = decode_frame(&bomb, codec, 1 << 20).unwrap_err();
        assert!(matches!(fault, ArchiveFault::TooLarge(_)), "{fault}");
    }
    // These do not say how long they are.
    let zeros = vec![0; 1 << 20];
    let lz4 = linked_frame(&zeros, BlockChecksum::NoBlockChecksum);
    let zstd = zstd::stream::encode_all(zeros.as_slice(), 5).unwrap();
    for (frame, codec) in [(lz4, FrameCodec::Lz4), (zstd, FrameCodec::Zstd)] {
        let text = decode_frame(&frame, codec, 1 << 20).unwrap();
        assert_eq!(text, zeros);
        let fault = decode_frame(&frame, codec, (1 << 20) - 1).unwrap_err();
        assert!(matches!(fault, ArchiveFault::TooLarge(_)), "{fault}");
    }
    // It says that it has 2^62 bytes, and the caller would take as many.
    let mut liar = encoder(FrameCodec::Lz4).encode(b"x").unwrap();
    liar[6..14].copy_from_slice(&(1_u64 << 62).to_le_bytes());
    let fault = decode_frame(&liar, FrameCodec::Lz4, u64::MAX).unwrap_err();
    assert!(matches!(fault, ArchiveFault::Damaged(_)), "{fault}");
}

#[test]
fn damaged_files_are_faults_and_stay_so() {
    let (good, _) = file_of(&[b"one\n", b"two\n"], FrameCodec::Lz4);
    let changed = |at: usize, byte: u8| {
        let mut file = good.clone();
        file[at] = byte;
        file
    };
    for (what, file) in [
        ("no frame", Vec::new()),
        ("no LZ4 frame", b"{\"not\": \"lz4\"}".to_vec()),
        ("no LZ4 frame", [&good[..], b"tail"].concat()),
        ("within the beginning", [&good[..], b"\x04\x22"].concat()),
        ("ends too early", good[..good.len() - 1].to_vec()),
        ("ends too early", [&good[..], &good[..9]].concat()),
        ("another version", changed(4, 0b1010_1100)),
        ("dictionary", changed(4, 0b0110_1101)),
        ("more than 4 MiB", changed(17, 0x7f)),
        ("a lz4 frame", changed(5, 0x50)),
        ("a lz4 frame", changed(20, b'!')),
    ] {
        let mut reader = FrameReader::new(file.as_slice(), FrameCodec::Lz4, TEXT_MAX).unwrap();
        let error = io::copy(&mut reader, &mut io::sink()).unwrap_err();
        let fault = ArchiveFault::from(error);
        assert!(
            matches!(fault, ArchiveFault::Damaged(_)) && fault.to_string().contains(what),
            "{what}: {fault}"
        );
        assert!(reader.read(&mut [0]).is_err());
        assert!(reader.into_input().is_none());
    }
}

#[test]
fn the_callers_own_error_is_told_apart() {
    struct Failing;
    impl Read for Failing {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is on fire"))
        }
    }
    for codec in BOTH {
        let fault = match FrameReader::new(Failing, codec, 1) {
            Ok(mut reader) => reader.read(&mut [0]).unwrap_err().into(),
            Err(fault) => fault,
        };
        assert!(matches!(fault, ArchiveFault::Io(_)), "{fault}");
        assert_eq!(fault.to_string(), "the disk is on fire");
    }
}

#[test]
fn levels_are_checked() {
    let error = FrameEncoder::new(FrameCodec::Lz4, 13).unwrap_err();
    assert_eq!(
        error.to_string(),
        "lz4 has no level 13; use one from 1 to 12"
    );
    assert!(FrameEncoder::new(FrameCodec::Zstd, 22).is_ok());
    assert!(FrameEncoder::new(FrameCodec::Zstd, 0).is_err());
}

proptest! {
    #[test]
    fn what_is_written_is_read(texts in prop::collection::vec(prop::collection::vec(0_u8..4, 0..2_000), 1..8), is_zstd: bool) {
        let codec = BOTH[usize::from(is_zstd)];
        let slices: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
        let (file, _) = file_of(&slices, codec);
        prop_assert_eq!(read(&file, codec).unwrap(), texts.concat());
    }

    #[test]
    fn a_flipped_bit_is_never_another_text(at: prop::sample::Index, bit in 0..8_u32, is_zstd: bool) {
        let codec = BOTH[usize::from(is_zstd)];
        let (mut file, _) = file_of(&[b"one measurement\n", b"another measurement\n"], codec);
        let at = at.index(file.len());
        file[at] ^= 1_u8 << bit;
        if let Ok(text) = read(&file, codec) {
            prop_assert_eq!(text, b"one measurement\nanother measurement\n");
        }
    }

    #[test]
    fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), is_zstd: bool) {
        let codec = BOTH[usize::from(is_zstd)];
        let frame = [&encoder(codec).encode(b"x").unwrap()[..10], &bytes].concat();
        for bytes in [&bytes, &frame] {
            let _result = read(bytes, codec);
            let _result = decode_frame(bytes, codec, TEXT_MAX);
        }
    }
}
