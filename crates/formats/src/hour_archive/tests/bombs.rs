//! Archives that are small and want much.

use std::io::{self, Read};

use super::support::*;
use crate::feed::Codec;
use crate::hour_archive::{ArchiveFault, Limits, survey};

/// Counts what is read.
struct Counting<'a>(&'a [u8], usize);

impl Read for Counting<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        self.1 += count;
        Ok(count)
    }
}

#[test]
fn a_bomb_is_refused_before_it_is_read_to_its_end() {
    const BOMB_BYTES: u32 = 1 << 20;
    let mut bomb = Blocks::default().with(b'0', "a", b"", |header| {
        header.set_size(u64::from(BOMB_BYTES));
    });
    // Noise, so that the archive itself is long and it shows how much of it was read.
    let noise = (0..BOMB_BYTES / 4).map(|n: u32| n.wrapping_mul(2_654_435_761));
    bomb.0.extend(noise.flat_map(u32::to_be_bytes));
    for codec in Codec::ALL {
        let archive = compress(&bomb.0, codec);
        let mut input = Counting(&archive, 0);
        let limits = Limits {
            total_bytes_max: 150_000,
            ..Limits::default()
        };
        let fault = survey(&mut input, &feed(), hour(), &limits).unwrap_err();
        assert!(
            matches!(fault, ArchiveFault::TooLarge(_)),
            "{codec}: {fault}"
        );
        assert!(
            input.1 <= archive.len() / 2,
            "{codec}: {} of {}",
            input.1,
            archive.len()
        );
    }
}

#[test]
fn a_stream_that_needs_too_much_memory_is_refused() {
    // A frame with a window of 2 GiB.
    let window = [0x28, 0xb5, 0x2f, 0xfd, 0, 21 << 3, 1, 0, 0];
    needs_too_much(&window);
    // A block with a dictionary of 4 GiB: the headers of stream and block, each with its CRC.
    let mut xz = b"\xfd7zXZ\0\0\x04".to_vec();
    xz.extend(crc32fast::hash(&xz[6..]).to_le_bytes());
    let block = [2, 0, 0x21, 1, 40, 0, 0, 0];
    xz.extend(block);
    xz.extend(crc32fast::hash(&block).to_le_bytes());
    xz.extend([1, 0, 0, b'x', 0]);
    needs_too_much(&xz);
}

#[track_caller]
fn needs_too_much(archive: &[u8]) {
    let fault = look(archive).unwrap_err();
    assert!(matches!(fault, ArchiveFault::TooLarge(_)), "{fault}");
    assert!(fault.to_string().contains("too much memory"), "{fault}");
}
