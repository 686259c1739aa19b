//! The 512 bytes before every member of a tar.

use std::ops::Range;

use super::fault::ArchiveFault;

/// Everything in a tar is a multiple of this.
pub(crate) const BLOCK_BYTES: usize = 512;

/// One of them.
pub(crate) type Block = [u8; BLOCK_BYTES];

const NAME: Range<usize> = 0..100;
const MODE: Range<usize> = 100..108;
const UID: Range<usize> = 108..116;
const GID: Range<usize> = 116..124;
const SIZE: Range<usize> = 124..136;
const MTIME: Range<usize> = 136..148;
const CHECKSUM: Range<usize> = 148..156;
const KIND: usize = 156;
const MAGIC: Range<usize> = 257..265;
const PREFIX: Range<usize> = 345..500;

const USTAR: &[u8] = b"ustar\x0000";
const GNU: &[u8] = b"ustar  \0";

/// The largest number that eleven octal digits hold: 8 GiB, or the year 2242.
pub(crate) const NUMBER_MAX: u64 = 0o777_7777_7777;

/// A regular file.
pub(crate) const FILE: u8 = b'0';
/// The same, as old tools write it.
pub(crate) const OLD_FILE: u8 = 0;
/// A folder.
pub(crate) const FOLDER: u8 = b'5';
/// PAX records for the next header.
pub(crate) const PAX: u8 = b'x';
/// PAX records for all further headers.
pub(crate) const PAX_FOR_ALL: u8 = b'g';
/// The name of the next member, as GNU tar writes it if it is long.
pub(crate) const GNU_NAME: u8 = b'L';

/// What a header says, as far as it matters here: nobody's mode, owner or time is taken over.
pub(crate) struct Header {
    pub(crate) name: Vec<u8>,
    pub(crate) size: u64,
    pub(crate) kind: u8,
}

impl Header {
    /// Reads a header.
    pub(crate) fn parse(block: &Block) -> Result<Self, ArchiveFault> {
        let damaged = |what: &str| Err(ArchiveFault::Damaged(what.into()));
        if octal(&block[CHECKSUM]) != Some(checksum(block)) {
            return damaged("the checksum of a tar header does not fit");
        }
        let mut name = text(&block[NAME]).to_vec();
        match &block[MAGIC] {
            USTAR => {
                let prefix = text(&block[PREFIX]);
                if !prefix.is_empty() {
                    name = [prefix, b"/", &name].concat();
                }
            }
            GNU => {}
            _ => return damaged("a tar header is neither of USTAR nor of GNU tar"),
        }
        let Some(size) = number(&block[SIZE]) else {
            return damaged("a tar header has no readable size");
        };
        let kind = block[KIND];
        Ok(Self { name, size, kind })
    }

    /// The header of a member that nobody in particular owns and everybody may read. The name has to fit; see [`split`].
    pub(crate) fn write(prefix: &str, name: &str, size: u64, mtime: u64, kind: u8) -> Block {
        Self::write_as(USTAR, prefix, name, size, mtime, kind)
    }

    /// The same as GNU tar writes it, which has no prefix.
    pub(crate) fn write_gnu(name: &str, size: u64, mtime: u64, kind: u8) -> Block {
        Self::write_as(GNU, "", name, size, mtime, kind)
    }

    fn write_as(magic: &[u8], prefix: &str, name: &str, size: u64, mtime: u64, kind: u8) -> Block {
        let mut block = [0; BLOCK_BYTES];
        let mut put = |at: Range<usize>, bytes: &[u8]| {
            block[at.start..at.start + bytes.len()].copy_from_slice(bytes);
        };
        put(NAME, name.as_bytes());
        put(PREFIX, prefix.as_bytes());
        put(MODE, b"0000644");
        put(UID, b"0000000");
        put(GID, b"0000000");
        put(SIZE, &size_field(size));
        put(MTIME, format!("{:011o}", mtime.min(NUMBER_MAX)).as_bytes());
        put(MAGIC, magic);
        block[KIND] = kind;
        let sum = format!("{:06o}\0 ", checksum(&block));
        block[CHECKSUM].copy_from_slice(sum.as_bytes());
        block
    }
}

/// Octal digits, or what GNU tar writes if they do not hold it.
fn size_field(size: u64) -> [u8; 12] {
    let mut field = [0; 12];
    match size > NUMBER_MAX {
        false => field[..11].copy_from_slice(format!("{size:011o}").as_bytes()),
        true => {
            field[0] = 0x80;
            field[4..].copy_from_slice(&size.to_be_bytes());
        }
    }
    field
}

/// Where a name is divided to fit into a header: at the first `/` that leaves at most 100 bytes behind it, if at most 155
/// are before. Nothing if it does not fit at all.
pub(crate) fn split(name: &str) -> Option<(&str, &str)> {
    if name.len() <= NAME.len() {
        return Some(("", name));
    }
    let from = name.len() - NAME.len() - 1;
    let at = from + name.as_bytes()[from..].iter().position(|b| *b == b'/')?;
    let fits = at <= PREFIX.len() && at + 1 < name.len();
    fits.then(|| (&name[..at], &name[at + 1..]))
}

/// As much of a name as fits into a header whose reader takes the name from elsewhere.
pub(crate) fn start_of(name: &str) -> &str {
    let mut end = name.len().min(NAME.len());
    while !name.is_char_boundary(end) {
        end -= 1;
    }
    &name[..end]
}

/// How many zeros follow a body of this size.
pub(crate) fn padding(size: u64) -> usize {
    let over = usize::try_from(size % BLOCK_BYTES as u64).expect("it is below 512");
    (BLOCK_BYTES - over) % BLOCK_BYTES
}

/// The sum of all bytes, with spaces in place of the sum itself.
fn checksum(block: &Block) -> u64 {
    let sum_of = |bytes: &[u8]| bytes.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    let spaces = CHECKSUM.len() as u64 * u64::from(b' ');
    sum_of(block) - sum_of(&block[CHECKSUM]) + spaces
}

fn text(field: &[u8]) -> &[u8] {
    let end = field.iter().position(|byte| *byte == 0);
    &field[..end.unwrap_or(field.len())]
}

/// Octal digits, between spaces or zero bytes.
fn octal(field: &[u8]) -> Option<u64> {
    let text = std::str::from_utf8(field).ok()?;
    let digits = text.trim_matches([' ', '\0']);
    match digits.bytes().all(|byte| matches!(byte, b'0'..=b'7')) {
        true => u64::from_str_radix(digits, 8).ok(),
        false => None,
    }
}

/// The same, or GNU's big-endian bytes behind a first one of 0x80. More than 64 bits are as many as there can be, so
/// that the limits refuse them.
fn number(field: &[u8]) -> Option<u64> {
    let Some((0x80, bytes)) = field.split_first() else {
        return octal(field);
    };
    let (high, low) = bytes.split_at(bytes.len() - 8);
    match high.iter().all(|byte| *byte == 0) {
        true => Some(u64::from_be_bytes(low.try_into().ok()?)),
        false => Some(u64::MAX),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_divided_as_late_as_needed() {
        let (x, y) = ("x".repeat(155), "y".repeat(100));
        assert_eq!(split(&y), Some(("", y.as_str())));
        assert_eq!(split(&format!("{x}/{y}")), Some((x.as_str(), y.as_str())));
        assert_eq!(split(&format!("{x}x/{y}")), None);
        assert_eq!(split(&format!("{x}/{y}y")), None);
        assert_eq!(split(&x), None);
        let short = format!("a/b/{y}");
        assert_eq!(split(&short), Some(("a/b", y.as_str())));
        let deep = format!("a/b/{}", "y".repeat(97));
        assert_eq!(split(&deep), Some(("a", &deep[2..])));
    }

    #[test]
    fn numbers_of_all_kinds() {
        assert_eq!(octal(b"00000000017\0"), Some(15));
        assert_eq!(octal(b"   17 \0"), Some(15));
        assert_eq!(octal(b"\0\0\0"), None);
        assert_eq!(octal(b"-7\0"), None);
        assert_eq!(octal(b"1 7\0"), None);
        assert_eq!(octal(b"18\0"), None);
        let mut big = [0; 12];
        big[0] = 0x80;
        big[11] = 7;
        assert_eq!(number(&big), Some(7));
        big[2] = 1;
        assert_eq!(number(&big), Some(u64::MAX));
        big[0] = 0xff;
        assert_eq!(number(&big), None);
    }
}
