use cannery_testkit::feed_server::{Coding, pack};
use proptest::prelude::*;

use super::super::body::Body;
use super::super::error::{FetchError, FetchErrorKind};

const MIB: u64 = 1024 * 1024;

/// Unpacks `packed`, handed over in chunks of `chunk_bytes`.
fn unpack(
    coding: &str,
    packed: &[u8],
    chunk_bytes: usize,
    bytes_max: u64,
) -> Result<Vec<u8>, FetchError> {
    let mut body = Body::new(coding, bytes_max)?;
    for chunk in packed.chunks(chunk_bytes) {
        let pushed = futures::executor::block_on(body.push(chunk));
        let held = body.held_bytes() as u64;
        assert!(
            held <= 2 * bytes_max + 2 * 64 * 1024,
            "{held} of {bytes_max}"
        );
        pushed?;
    }
    Ok(body.finish()?.to_vec())
}

fn kind(result: Result<Vec<u8>, FetchError>) -> FetchErrorKind {
    result.unwrap_err().kind
}

proptest! {
    // Packing is slow where nothing is optimised.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_was_packed_comes_out_again_however_it_is_cut(
        content in proptest::collection::vec(0_u8..4, 0..100_000),
        chunk_bytes in 1_usize..5_000,
        coding in proptest::sample::select(&Coding::ALL),
    ) {
        let packed = pack(coding, &content);
        prop_assert_eq!(unpack(coding.name(), &packed, chunk_bytes, MIB).unwrap(), content);
    }

    #[test]
    fn noise_is_broken_or_small_but_never_a_panic(
        noise in proptest::collection::vec(any::<u8>(), 0..3_000),
        keep in 0_usize..64,
        chunk_bytes in 1_usize..500,
        coding in proptest::sample::select(&Coding::ALL),
    ) {
        // Noise after an honest beginning gets further than noise alone.
        let mut packed = pack(coding, b"an honest beginning, and some more of it");
        packed.truncate(keep);
        packed.extend_from_slice(&noise);
        if let Err(error) = unpack(coding.name(), &packed, chunk_bytes, MIB) {
            prop_assert!(
                matches!(error.kind, FetchErrorKind::Body | FetchErrorKind::TooLarge),
                "{error:?}"
            );
        }
    }
}

#[test]
fn a_limit_holds_to_the_byte() {
    for coding in Coding::ALL {
        let packed = pack(coding, &[b'x'; 200_000]);
        let unpacked = unpack(coding.name(), &packed, 100, 200_000).unwrap();
        assert_eq!(unpacked.len(), 200_000, "{coding:?}");
        let over = unpack(coding.name(), &packed, 100, 199_999);
        assert_eq!(kind(over), FetchErrorKind::TooLarge, "{coding:?}");
    }
    assert_eq!(unpack("", b"12345", 2, 5).unwrap(), b"12345");
    assert_eq!(kind(unpack("", b"12345", 2, 4)), FetchErrorKind::TooLarge);
}

#[test]
fn what_breaks_off_is_never_taken_for_whole() {
    let content: Vec<u8> = (0..50_000_u32).flat_map(u32::to_le_bytes).collect();
    for coding in Coding::ALL {
        let packed = pack(coding, &content);
        for length in [1, 2, packed.len() / 2, packed.len() - 1] {
            let cut = unpack(coding.name(), &packed[..length], 700, MIB);
            assert_eq!(kind(cut), FetchErrorKind::Body, "{coding:?} {length}");
        }
    }
}

#[test]
fn a_flipped_bit_of_a_gzip_body_is_seen() {
    let mut packed = pack(Coding::Gzip, b"a body with a checksum behind it");
    let checksum = packed.len() - 8;
    packed[checksum] ^= 1;
    assert_eq!(kind(unpack("gzip", &packed, 9, MIB)), FetchErrorKind::Body);
}

#[test]
fn members_and_frames_may_follow_each_other_and_gzip_may_be_padded() {
    for coding in [Coding::Gzip, Coding::Zstd] {
        let mut packed = pack(coding, b"one ");
        packed.extend(pack(coding, b"two"));
        let whole = unpack(coding.name(), &packed, 3, MIB).unwrap();
        assert_eq!(whole, b"one two", "{coding:?}");
        packed.extend_from_slice(b"garbage");
        let error = unpack(coding.name(), &packed, 3, MIB);
        assert_eq!(kind(error), FetchErrorKind::Body, "{coding:?}");
    }
    let mut packed = pack(Coding::Gzip, b"padded");
    packed.extend([0; 512]);
    assert_eq!(unpack("gzip", &packed, 100, MIB).unwrap(), b"padded");
    for coding in [Coding::Brotli, Coding::Deflate, Coding::BareDeflate] {
        let mut packed = pack(coding, b"one");
        packed.extend_from_slice(b"garbage");
        let error = unpack(coding.name(), &packed, 3, MIB);
        assert_eq!(kind(error), FetchErrorKind::Body, "{coding:?}");
    }
}

#[test]
fn nothing_is_nothing_however_it_is_packed() {
    for coding in Coding::ALL {
        assert_eq!(unpack(coding.name(), b"", 1, MIB).unwrap(), b"");
        let packed = pack(coding, b"");
        assert_eq!(unpack(coding.name(), &packed, 1, MIB).unwrap(), b"");
    }
}

#[test]
fn what_is_packed_without_end_and_unpacks_to_nothing_is_counted_as_sent() {
    // Stored blocks of no bytes, none of them the last one.
    let mut packed = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    packed.extend([0, 0, 0, 0xff, 0xff].repeat(1_000));
    let error = unpack("gzip", &packed, 64, 1_000);
    assert_eq!(kind(error), FetchErrorKind::TooLarge);
}

#[test]
fn a_window_of_gigabytes_is_refused_before_it_is_made() {
    // Zstandard: no single segment, window of 2^(10 + 21) bytes, one empty last block.
    let packed = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 21 << 3, 0x01, 0, 0];
    assert_eq!(kind(unpack("zstd", &packed, 9, MIB)), FetchErrorKind::Body);
    let small = [0x28, 0xb5, 0x2f, 0xfd, 0x00, 7 << 3, 0x01, 0, 0];
    assert_eq!(unpack("zstd", &small, 9, MIB).unwrap(), b"");
    // Brotli: the extension for large windows, 2^30 bytes, and an empty last block.
    let packed = [0x11, 30 | 0xc0];
    assert_eq!(kind(unpack("br", &packed, 5, MIB)), FetchErrorKind::Body);
}

#[test]
fn codings_nobody_knows_and_several_at_once_are_refused() {
    for coding in ["compress", "gzip, gzip", "gzip,br", "x", "\u{e4}"] {
        let error = unpack(coding, b"x", 1, MIB).unwrap_err();
        assert_eq!(error.kind, FetchErrorKind::Body, "{coding}");
        assert!(error.to_string().contains("unknown way"), "{error}");
    }
    for plain in ["", "identity", " Identity "] {
        assert_eq!(unpack(plain, b"x", 1, MIB).unwrap(), b"x");
    }
    let packed = pack(Coding::Gzip, b"x");
    assert_eq!(unpack("X-GZIP", &packed, 9, MIB).unwrap(), b"x");
}

#[tokio::test]
async fn others_have_their_turn_while_a_chunk_is_unpacked() {
    let packed = pack(Coding::Zstd, &vec![0; 4 << 20]);
    let mut body = Body::new("zstd", 8 * MIB).unwrap();
    let mut pushing = Box::pin(body.push(&packed));
    assert!(futures::poll!(&mut pushing).is_pending());
    pushing.await.unwrap();
    assert_eq!(body.finish().unwrap().len(), 4 << 20);
}
