//! The files of an embedded journal: segments of batches, each batch one commit.
//!
//! A segment is a file `<number>-<salt>.log`. Its first 4,096 bytes are the header; batches follow, each at a multiple of
//! 512 bytes, so that a sector that was committed is never written again. A file is used again and again: what an earlier
//! life left behind it has another number and another salt, and does not count.

use std::fmt;
use std::str::FromStr;

/// Where the first batch begins.
pub const HEADER_BYTES: u64 = 4_096;

/// Batches begin at multiples of this: what a disk writes whole or not at all.
pub const SECTOR_BYTES: u64 = 512;

/// The length of what stands before the records of a batch.
pub const BATCH_HEADER_BYTES: usize = 32;

/// The version of the format. A segment with a larger one is refused.
pub const FORMAT: u32 = 1;

const SEGMENT_MAGIC: [u8; 8] = *b"CANJRNL\n";
const BATCH_MAGIC: [u8; 4] = *b"CJB\n";

/// Which segment a file is: numbers only grow, and the salt is drawn by chance, so that nobody can write data that looks
/// like a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId {
    /// Its number.
    pub number: u32,
    /// Its salt.
    pub salt: u64,
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}-{:016x}.log", self.number, self.salt)
    }
}

/// A name that is not that of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotASegment;

impl FromStr for SegmentId {
    type Err = NotASegment;

    fn from_str(name: &str) -> Result<Self, NotASegment> {
        let parse = || {
            let (number, salt) = name.strip_suffix(".log")?.split_once('-')?;
            Some(Self {
                number: u32::from_str_radix(number, 16).ok()?,
                salt: u64::from_str_radix(salt, 16).ok()?,
            })
        };
        // Only the one spelling counts: no file has two names.
        parse()
            .filter(|id| id.to_string() == name)
            .ok_or(NotASegment)
    }
}

/// What a header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// It belongs to this segment.
    Good,
    /// It cannot be read; the name of the file says the same.
    Damaged,
    /// A later version of the program wrote it.
    Newer(u32),
}

/// The first bytes of a segment that begins at a date (milliseconds since 1970).
#[must_use]
pub fn encode_header(id: SegmentId, begun: i64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(usize::try_from(HEADER_BYTES).unwrap_or_default());
    bytes.extend(SEGMENT_MAGIC);
    bytes.extend(FORMAT.to_le_bytes());
    bytes.extend(id.number.to_le_bytes());
    bytes.extend(id.salt.to_le_bytes());
    bytes.extend(begun.to_le_bytes());
    bytes.extend(crc32fast::hash(&bytes).to_le_bytes());
    bytes.resize(bytes.capacity(), 0);
    bytes
}

/// Reads a header; of a damaged one nothing is believed.
#[must_use]
pub fn check_header(id: SegmentId, bytes: &[u8]) -> Header {
    let Some((content, crc)) = bytes
        .get(..36)
        .and_then(|bytes| bytes.split_last_chunk::<4>())
    else {
        return Header::Damaged;
    };
    if crc32fast::hash(content).to_le_bytes() != *crc || content[..8] != SEGMENT_MAGIC {
        return Header::Damaged;
    }
    let format = u32::from_le_bytes(four(content, 8));
    if format > FORMAT {
        return Header::Newer(format);
    }
    let same =
        content[12..16] == id.number.to_le_bytes() && content[16..24] == id.salt.to_le_bytes();
    if same { Header::Good } else { Header::Damaged }
}

/// The header of a batch with its records; `records` stands behind [`BATCH_HEADER_BYTES`] bytes of room in `batch`.
pub fn seal_batch(id: SegmentId, number: u64, batch: &mut [u8]) {
    let length =
        u32::try_from(batch.len() - BATCH_HEADER_BYTES).expect("a batch fits into a segment");
    batch[..4].copy_from_slice(&BATCH_MAGIC);
    batch[8..12].copy_from_slice(&length.to_le_bytes());
    batch[12..16].copy_from_slice(&id.number.to_le_bytes());
    batch[16..24].copy_from_slice(&id.salt.to_le_bytes());
    batch[24..32].copy_from_slice(&number.to_le_bytes());
    let crc = crc32fast::hash(&batch[8..]);
    batch[4..8].copy_from_slice(&crc.to_le_bytes());
}

/// A batch that is whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch<'a> {
    /// Its number: numbers count the batches of a journal, over all segments.
    pub number: u64,
    /// Its records.
    pub records: &'a [u8],
}

impl Batch<'_> {
    /// Where the next batch begins, after one that begins at `offset`.
    #[must_use]
    pub fn end(&self, offset: u64) -> u64 {
        batch_end(offset, self.records.len())
    }
}

/// Where the next batch begins, after one at `offset` with so many bytes of records.
#[must_use]
pub fn batch_end(offset: u64, record_bytes: usize) -> u64 {
    (offset + (BATCH_HEADER_BYTES + record_bytes) as u64).next_multiple_of(SECTOR_BYTES)
}

/// What is found where a batch may begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found<'a> {
    /// A whole batch.
    Whole(Batch<'a>),
    /// The begin of a batch of this segment that is not whole.
    Broken,
    /// Nothing of this segment.
    Nothing,
}

/// Looks for a batch of a segment at the begin of `bytes`.
#[must_use]
pub fn find_batch(id: SegmentId, bytes: &[u8]) -> Found<'_> {
    let Some(header) = bytes.get(..BATCH_HEADER_BYTES) else {
        return Found::Nothing;
    };
    // Two of three: a header with a wrong bit is a broken one of ours, and not nothing.
    let marks = [
        header[..4] == BATCH_MAGIC,
        header[12..16] == id.number.to_le_bytes(),
        header[16..24] == id.salt.to_le_bytes(),
    ];
    match marks.iter().filter(|mark| **mark).count() {
        0 | 1 => return Found::Nothing,
        2 => return Found::Broken,
        _ => {}
    }
    let length = u32::from_le_bytes(four(header, 8)) as usize;
    let end = BATCH_HEADER_BYTES.saturating_add(length);
    match bytes.get(8..end) {
        Some(covered) if crc32fast::hash(covered).to_le_bytes() == header[4..8] => {
            let mut number = [0; 8];
            number.copy_from_slice(&header[24..32]);
            Found::Whole(Batch {
                number: u64::from_le_bytes(number),
                records: &bytes[BATCH_HEADER_BYTES..end],
            })
        }
        Some(_) | None => Found::Broken,
    }
}

fn four(bytes: &[u8], at: usize) -> [u8; 4] {
    let mut four = [0; 4];
    four.copy_from_slice(&bytes[at..at + 4]);
    four
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: SegmentId = SegmentId {
        number: 7,
        salt: 0xfeed,
    };

    fn batch(number: u64, records: &[u8]) -> Vec<u8> {
        let mut bytes = vec![0; BATCH_HEADER_BYTES];
        bytes.extend(records);
        seal_batch(ID, number, &mut bytes);
        bytes
    }

    #[test]
    fn a_name_has_one_spelling() {
        let name = "00000007-000000000000feed.log";
        assert_eq!(ID.to_string(), name);
        assert_eq!(name.parse(), Ok(ID));
        for name in [
            "7-feed.log",
            "00000007-000000000000FEED.log",
            "spare",
            "",
            "-.log",
        ] {
            assert_eq!(name.parse::<SegmentId>(), Err(NotASegment), "{name}");
        }
    }

    #[test]
    fn any_flipped_bit_of_header_and_batch_is_seen() {
        let header = encode_header(ID, 1_000);
        assert_eq!(header.len() as u64, HEADER_BYTES);
        assert_eq!(check_header(ID, &header), Header::Good);
        let whole = batch(3, b"records");
        for (place, bit) in (0..36).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
            let mut broken = header.clone();
            broken[place] ^= 1 << bit;
            assert_eq!(check_header(ID, &broken), Header::Damaged, "byte {place}");
        }
        for (place, bit) in (0..whole.len()).flat_map(|place| (0..8).map(move |bit| (place, bit))) {
            let mut broken = whole.clone();
            broken[place] ^= 1 << bit;
            assert!(
                !matches!(find_batch(ID, &broken), Found::Whole(_)),
                "byte {place}"
            );
        }
    }

    #[test]
    fn a_newer_format_is_told_from_damage() {
        let mut header = encode_header(ID, 0);
        header[8..12].copy_from_slice(&2_u32.to_le_bytes());
        let crc = crc32fast::hash(&header[..32]);
        header[32..36].copy_from_slice(&crc.to_le_bytes());
        assert_eq!(check_header(ID, &header), Header::Newer(2));
    }

    #[test]
    fn a_batch_of_another_life_of_the_file_does_not_count() {
        let whole = batch(3, b"records");
        let later = SegmentId {
            number: 8,
            salt: 0xbeef,
        };
        assert_eq!(find_batch(later, &whole), Found::Nothing);
        let found = Found::Whole(Batch {
            number: 3,
            records: b"records",
        });
        assert_eq!(find_batch(ID, &whole), found);
        assert_eq!(find_batch(ID, &whole[..20]), Found::Nothing);
        assert_eq!(find_batch(ID, &whole[..36]), Found::Broken);
        assert_eq!(batch_end(4_096, 7), 4_608);
    }

    proptest! {
        #[test]
        fn no_bytes_make_the_reader_fail(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let mut ours = batch(1, b"x");
            ours[8..].iter_mut().zip(&bytes).for_each(|(to, from)| *to = *from);
            prop_assert!(!matches!(find_batch(ID, &bytes), Found::Whole(_)));
            let _ = (find_batch(ID, &ours), check_header(ID, &bytes));
        }
    }
}
