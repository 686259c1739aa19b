//! Archives that broke on their way: cut off, with another byte, or never archives at all.

use proptest::prelude::*;

use super::support::*;
use crate::feed::Codec;
use crate::hour_archive::ArchiveFault;

fn few_bodies() -> Vec<Body> {
    vec![body("a", b"one"), body("a", b"two"), body("b", &[1; 600])]
}

#[test]
fn no_part_of_an_archive_is_an_archive() {
    for codec in Codec::ALL {
        for archive in [
            ours(&few_bodies(), fast(codec)),
            foreign(&few_bodies(), codec),
        ] {
            for length in 0..archive.len() {
                let fault = look(&archive[..length]).unwrap_err();
                assert!(
                    matches!(fault, ArchiveFault::Damaged(_)),
                    "{codec} {length}: {fault}"
                );
            }
        }
    }
}

#[test]
fn no_changed_byte_makes_it_another_archive() {
    let expected = set_of(&few_bodies());
    for codec in Codec::ALL {
        for mut archive in [
            ours(&few_bodies(), fast(codec)),
            foreign(&few_bodies(), codec),
        ] {
            for at in 0..archive.len() {
                for mask in [1, 0x10, 0x80, 0xff] {
                    archive[at] ^= mask;
                    if let Ok(survey) = look(&archive) {
                        assert_eq!(survey.set, expected, "{codec} byte {at} ^ {mask}");
                    }
                    archive[at] ^= mask;
                }
            }
        }
    }
}

#[test]
fn no_changed_byte_of_the_tar_makes_it_another_archive() {
    let expected = set_of(&few_bodies());
    let mut tar = decompress(&ours(&few_bodies(), fast(Codec::Gzip)));
    for at in 0..tar.len() {
        for mask in [1, 0xff] {
            tar[at] ^= mask;
            if let Ok(survey) = look(&compress(&tar, Codec::Gzip)) {
                assert_eq!(survey.set, expected, "byte {at} ^ {mask}");
            }
            tar[at] ^= mask;
        }
    }
}

fn magic() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        Just(vec![]),
        Just(vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255]),
        Just(vec![0x28, 0xb5, 0x2f, 0xfd]),
        Just(b"\xfd7zXZ\0\0\x04\xe6\xd6\xb4\x46".to_vec()),
        Just(b"BZh11AY&SY".to_vec()),
    ]
}

proptest! {
    #[test]
    fn random_bytes_are_a_fault(magic in magic(), rest in any::<Vec<u8>>()) {
        prop_assert!(look(&[magic, rest].concat()).is_err());
    }

    #[test]
    fn random_changes_of_a_tar_never_panic(
        changes in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
        with_sums in any::<bool>(),
    ) {
        let mut tar = decompress(&foreign(&few_bodies(), Codec::Gzip));
        for (at, byte) in &changes {
            let at = at.index(tar.len());
            tar[at] = *byte;
        }
        if with_sums {
            sign(&mut tar);
        }
        if let Ok(survey) = look(&compress(&tar, Codec::Gzip)) {
            prop_assert!(survey.set.len() <= 4);
        }
    }

    #[test]
    fn random_members_never_panic(
        members in proptest::collection::vec((any::<u8>(), ".{0,20}", any::<Vec<u8>>(), 0_u64..2_000), 0..6)
    ) {
        let mut blocks = Blocks::default();
        for (kind, name, content, size) in &members {
            blocks = blocks.with(*kind, name, content, |header| header.set_size(*size));
        }
        if let Ok(survey) = look(&blocks.end().gzip()) {
            prop_assert!(survey.set.len() <= members.len());
        }
    }
}

/// Makes the checksum of every block fit, so that what is behind it is looked at.
fn sign(tar: &mut [u8]) {
    for block in tar.chunks_exact_mut(512) {
        if block[257..262] == *b"ustar" {
            let mut header = tar::Header::new_old();
            header.as_mut_bytes().copy_from_slice(block);
            header.set_cksum();
            block.copy_from_slice(header.as_bytes());
        }
    }
}
