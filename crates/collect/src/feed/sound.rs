//! Whether an archive on the disk is still what its name says: after it was shipped nobody could mend it any more.

use std::io::{self, Read};

use cannery_formats::feed::{ArchiveName, Holding};
use cannery_formats::hour_archive::{ArchiveFault, Limits, Survey, survey};

/// We wrote it ourselves: no hour is too large to be ours.
const OWN: Limits = Limits {
    entry_bytes_max: 1 << 50,
    entries_max: 1 << 50,
    total_bytes_max: 1 << 50,
};

/// What an archive turns out to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Sound,
    /// Because.
    Damaged(String),
}

/// Reads an archive from end to end.
///
/// # Errors
/// What says nothing of the archive: it could not be read, or a newer version wrote it.
pub(super) fn examine(input: impl Read, name: &ArchiveName) -> io::Result<Verdict> {
    match survey(input, &name.feed, name.hour, &OWN) {
        Ok(found) => Ok(compare(&found, name)),
        Err(fault @ (ArchiveFault::Io(_) | ArchiveFault::Newer(_))) => Err(fault.into()),
        Err(
            fault @ (ArchiveFault::Damaged(_)
            | ArchiveFault::Hostile(_)
            | ArchiveFault::TooLarge(_)),
        ) => Ok(Verdict::Damaged(fault.to_string())),
    }
}

fn compare(found: &Survey, name: &ArchiveName) -> Verdict {
    match &name.holding {
        // Only what is in the lake has such a name.
        Holding::Primary => Verdict::Damaged("no archive on the disk has this name".to_owned()),
        Holding::Set(hash, codec) if *hash == found.set.hash() && *codec == found.codec => {
            Verdict::Sound
        }
        Holding::Set(..) => Verdict::Damaged("damaged: it holds not what its name says".to_owned()),
    }
}
