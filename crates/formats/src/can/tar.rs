//! The little of GNU tar that is written: regular files that nobody in particular owns.

use crate::hour_archive::header::{self, BLOCK_BYTES, Header};

/// What GNU tar fills up with zeros.
const RECORD_BYTES: u64 = 10_240;

/// The longest name that a header holds.
const NAME_BYTES_MAX: usize = 100;

const LONG_NAME: &str = "././@LongLink";

/// What stands before the body of a member.
pub(crate) fn head(name: &str, size: u64, mtime: u64) -> Vec<u8> {
    let mut head = Vec::with_capacity(BLOCK_BYTES);
    if name.len() > NAME_BYTES_MAX {
        let length = name.len() as u64 + 1;
        let block = Header::write_gnu(LONG_NAME, length, 0, header::GNU_NAME);
        head.extend_from_slice(&block);
        head.extend_from_slice(name.as_bytes());
        let end = head.len() + 1 + header::padding(length);
        head.resize(end, 0);
    }
    let block = Header::write_gnu(header::start_of(name), size, mtime, header::FILE);
    head.extend_from_slice(&block);
    head
}

/// How many zeros follow a body of this size.
pub(crate) fn padding(size: u64) -> usize {
    header::padding(size)
}

/// How many zeros end a tar that has this many bytes: two blocks, and as many as fill up a record.
pub(crate) fn end(size: u64) -> usize {
    let with_blocks = size + 2 * BLOCK_BYTES as u64;
    let whole = with_blocks.div_ceil(RECORD_BYTES) * RECORD_BYTES;
    usize::try_from(whole - size).expect("it is less than two records")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_of_any_size_has_a_header() {
        for size in [0, 0o777_7777_7777, 0o1_0000_0000_0000, u64::MAX] {
            let head = head("a", size, 7);
            let header = ::tar::Header::from_byte_slice(&head);
            assert_eq!(header.entry_size().unwrap(), size);
            assert!(header.as_gnu().is_some());
        }
    }

    #[test]
    fn a_tar_ends_with_two_blocks_and_a_whole_record() {
        for (size, zeros) in [(512, 9_728), (9_216, 1_024), (9_728, 10_752)] {
            assert_eq!(end(size), zeros, "{size}");
        }
    }
}
