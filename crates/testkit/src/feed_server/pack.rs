//! Bodies packed for the wire, and bombs in every coding.

use flate2::Compression;
use flate2::write::{DeflateEncoder, GzEncoder, ZlibEncoder};

use super::gzip;

const MIB: usize = 1024 * 1024;
/// Bytes of one block of a bomb in zstd, the most that a block may have.
const ZSTD_BLOCK_BYTES: usize = 128 * 1024;

/// How a body is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// `gzip`
    Gzip,
    /// `deflate`, in the zlib format, as the standard says
    Deflate,
    /// `deflate` without the zlib format around it, as some servers send it
    BareDeflate,
    /// `br`
    Brotli,
    /// `zstd`
    Zstd,
}

impl Coding {
    /// Every one.
    pub const ALL: [Self; 5] = [
        Self::Gzip,
        Self::Deflate,
        Self::BareDeflate,
        Self::Brotli,
        Self::Zstd,
    ];

    /// As it stands in `Content-Encoding`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Deflate | Self::BareDeflate => "deflate",
            Self::Brotli => "br",
            Self::Zstd => "zstd",
        }
    }
}

/// `content`, packed.
#[must_use]
pub fn pack(coding: Coding, content: &[u8]) -> Vec<u8> {
    let fast = Compression::fast();
    let packed = match coding {
        Coding::Gzip => written(GzEncoder::new(Vec::new(), fast), content, GzEncoder::finish),
        Coding::Deflate => written(
            ZlibEncoder::new(Vec::new(), fast),
            content,
            ZlibEncoder::finish,
        ),
        Coding::BareDeflate => written(
            DeflateEncoder::new(Vec::new(), fast),
            content,
            DeflateEncoder::finish,
        ),
        Coding::Brotli => written(
            brotli::CompressorWriter::new(Vec::new(), 4096, 1, 22),
            content,
            |encoder| Ok(encoder.into_inner()),
        ),
        Coding::Zstd => zstd::encode_all(content, 1),
    };
    packed.expect("memory takes everything")
}

fn written<W: std::io::Write>(
    mut encoder: W,
    content: &[u8],
    finish: impl FnOnce(W) -> std::io::Result<Vec<u8>>,
) -> std::io::Result<Vec<u8>> {
    encoder.write_all(content)?;
    finish(encoder)
}

/// Zeros, `unpacked_bytes` rounded up, in a body far smaller.
pub(super) fn bomb(coding: Coding, unpacked_bytes: u64) -> Vec<u8> {
    match coding {
        Coding::Gzip => gzip::bomb(unpacked_bytes),
        Coding::Zstd => zstd_bomb(unpacked_bytes),
        Coding::Deflate | Coding::BareDeflate | Coding::Brotli => {
            let mebibytes = usize::try_from(unpacked_bytes).map_or(0, |all| all.div_ceil(MIB));
            pack(coding, &vec![0; mebibytes * MIB])
        }
    }
}

/// One frame with a window of 128 KiB; each block says "128 KiB of zeros" in four bytes.
fn zstd_bomb(unpacked_bytes: u64) -> Vec<u8> {
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 7 << 3];
    for _ in 0..unpacked_bytes.div_ceil(ZSTD_BLOCK_BYTES as u64) {
        bomb.extend_from_slice(&zstd_block(false, ZSTD_BLOCK_BYTES));
    }
    bomb.extend_from_slice(&zstd_block(true, 0));
    bomb
}

fn zstd_block(last: bool, zeros: usize) -> [u8; 4] {
    let header = u32::from(last) | 1 << 1 | u32::try_from(zeros << 3).expect("it is one block");
    let [first, second, third, _] = header.to_le_bytes();
    [first, second, third, 0]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_zstd_bomb_is_one_valid_frame_far_smaller_than_its_content() {
        let bomb = bomb(Coding::Zstd, 20 * MIB as u64);
        assert!(bomb.len() < 1024, "{}", bomb.len());
        let content = zstd::decode_all(bomb.as_slice()).unwrap();
        assert!(content.len() == 20 * MIB && content.iter().all(|byte| *byte == 0));
    }
}
