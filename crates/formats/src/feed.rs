//! Feeds: what is downloaded again and again, packed by the hour, and united between replicas.
//!
//! | file | what it holds |
//! |---|---|
//! | `feed_id.rs`, `hour.rs` | which feed, which hour |
//! | `download_name.rs` | the name of one downloaded body |
//! | `content_set.rs` | what an hour's archive holds, and the hash of that |
//! | `archive_name.rs` | the names of archives, ours and Hoard's |
//! | `manifest.rs` | the first member of an archive |
//! | `coverage.rs` | which polls of an hour were made, and what came of them |
//! | `tombstone.rs` | an hour that was deleted on purpose |
//! | `primaries.rs` | how primaries are replaced in a lake |
//! | `set_aside.rs` | an archive that cannot be read |

mod archive_name;
mod content_set;
mod coverage;
mod download_name;
mod feed_id;
mod hour;
mod manifest;
mod primaries;
pub(crate) mod set_aside;
mod tombstone;

pub use archive_name::{ArchiveName, Codec, FoundName, Holding};
pub use content_set::{ContentSet, Member, SetHash};
pub use coverage::{Coverage, CoverageError, CoverageSpan, Slot, SlotRun, merge_slots};
pub use download_name::{BodyHash, DownloadName, POSTFIX_BYTES_MAX};
pub use feed_id::{FeedId, InvalidFeedId};
pub use hour::{Hour, InvalidHour};
pub use manifest::{Manifest, ManifestError};
pub use primaries::{Primaries, Replaced};
pub use set_aside::{SET_ASIDE_FOLDER, SetAside};
pub use tombstone::{TOMBSTONE_NAME, Tombstone};

/// The first member of an archive: what else is in it.
pub const MANIFEST_NAME: &str = ".manifest.json";

/// The folder of coverage within an archive.
pub const COVERAGE_FOLDER: &str = ".coverage";

/// How many characters of a hash stand in a name: 130 bits, so that no two contents share it.
const HASH_CHARACTERS: usize = 26;

/// The first characters of the lower-case base32 of a SHA-256.
fn short_hash(digest: &crate::Digest) -> String {
    let mut text = data_encoding::BASE32_NOPAD
        .encode(digest.as_bytes())
        .to_ascii_lowercase();
    text.truncate(HASH_CHARACTERS);
    text
}

/// Whether a text could be one that [`short_hash`] makes.
fn is_short_hash(text: &str) -> bool {
    text.len() == HASH_CHARACTERS && text.bytes().all(is_base32)
}

fn is_base32(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'2'..=b'7')
}
