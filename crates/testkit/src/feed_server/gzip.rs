//! A compressed bomb, made without inflating it first.

use flate2::{Compress, Compression, Crc, FlushCompress};

const MIB: usize = 1024 * 1024;

/// One gzip member of zeros, `unpacked_bytes` rounded up to whole MiB.
///
/// A full flush ends a deflate block on a byte and forgets the history, so one compressed MiB can be repeated.
pub(super) fn bomb(unpacked_bytes: u64) -> Vec<u8> {
    let zeros = vec![0; MIB];
    let mut mib = Crc::new();
    mib.update(&zeros);
    let (block, mut crc) = (compressed(&zeros), Crc::new());
    let mut bomb = vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    for _ in 0..unpacked_bytes.div_ceil(MIB as u64) {
        bomb.extend_from_slice(&block);
        crc.combine(&mib);
    }
    bomb.extend_from_slice(&[3, 0]); // the empty last block
    bomb.extend_from_slice(&crc.sum().to_le_bytes());
    bomb.extend_from_slice(&crc.amount().to_le_bytes());
    bomb
}

fn compressed(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(64 * 1024);
    Compress::new(Compression::best(), false)
        .compress_vec(bytes, &mut out, FlushCompress::Full)
        .expect("zeros compress");
    out
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use super::*;

    #[test]
    fn a_bomb_is_one_valid_member_far_smaller_than_its_content() {
        let bomb = bomb(20 * MIB as u64 + 1);
        assert!(bomb.len() < 32 * 1024, "{}", bomb.len());
        let mut content = Vec::new();
        let mut reader = flate2::bufread::GzDecoder::new(bomb.as_slice());
        // Reading to the end also checks CRC and length.
        reader.read_to_end(&mut content).unwrap();
        assert_eq!(content.len(), 21 * MIB);
        assert!(reader.into_inner().is_empty());
    }
}
