//! What is in an archive: it is read once from end to end, and every body is hashed.

use std::io::Read;

use super::fault::ArchiveFault;
use super::reader::{ArchiveEntry, ArchiveReader};
use super::{Limits, Origin};
use crate::feed::{Codec, ContentSet, Coverage, FeedId, Hour, Member};

/// The coverage of an hour with a poll every 100 ms has about 1 MiB.
const COVERAGE_BYTES_MAX: u64 = 4 << 20;

/// Of all coverage together; what is beyond it is a member like any other.
const ALL_COVERAGE_BYTES_MAX: u64 = 64 << 20;

/// What is in an archive that was read to its end without any fault.
#[derive(Clone, Debug)]
pub struct Survey {
    /// Its members.
    pub set: ContentSet,
    /// Whether it has our manifest.
    pub origin: Origin,
    /// How it is compressed.
    pub codec: Codec,
    /// Whether the members lie in the order of the set, each once.
    pub in_order: bool,
    /// The coverage of this feed and hour that could be read.
    pub coverage: Vec<Coverage>,
    /// The length of all members of the set together.
    pub bytes: u64,
    /// What just suffices to read it again.
    pub(super) extent: Limits,
}

/// Reads an archive from end to end.
///
/// # Errors
/// [`ArchiveFault`] when it is not sound, or beyond the limits.
pub fn survey(
    input: impl Read,
    feed: &FeedId,
    hour: Hour,
    limits: &Limits,
) -> Result<Survey, ArchiveFault> {
    let mut reader = ArchiveReader::open(input, feed, hour, limits)?;
    let mut found = Found::default();
    while let Some(entry) = reader.next()? {
        found.take(entry, feed, hour)?;
    }
    let Found {
        set,
        is_mixed,
        coverage,
        ..
    } = found;
    Ok(Survey {
        origin: reader.origin(),
        codec: reader.codec(),
        in_order: !is_mixed,
        coverage,
        bytes: set.iter().map(Member::size).sum(),
        extent: reader.extent(),
        set,
    })
}

#[derive(Default)]
struct Found {
    set: ContentSet,
    last: Option<Member>,
    is_mixed: bool,
    coverage: Vec<Coverage>,
    coverage_bytes: u64,
}

impl Found {
    fn take<R: Read>(
        &mut self,
        mut entry: ArchiveEntry<'_, R>,
        feed: &FeedId,
        hour: Hour,
    ) -> Result<(), ArchiveFault> {
        let mut json = Vec::new();
        let is_coverage = self.has_room_for(&entry);
        if is_coverage {
            entry.read_to_end(&mut json)?;
        }
        let member = entry.finish()?;
        let is_new = self.set.insert(member.clone());
        if is_coverage && is_new {
            self.coverage_bytes += member.size();
            let coverage = Coverage::parse(&json).ok();
            let ours = |coverage: &Coverage| coverage.feed == *feed && coverage.hour == hour;
            self.coverage.extend(coverage.filter(ours));
        }
        self.is_mixed |= self.last.as_ref().is_some_and(|last| *last >= member);
        self.last = Some(member);
        Ok(())
    }

    fn has_room_for<R: Read>(&self, entry: &ArchiveEntry<'_, R>) -> bool {
        Coverage::is_member(entry.name())
            && entry.size() <= COVERAGE_BYTES_MAX
            && self.coverage_bytes + entry.size() <= ALL_COVERAGE_BYTES_MAX
    }
}
