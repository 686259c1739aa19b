//! The archives of an hour, brought here; others may merge them meanwhile.

use std::collections::BTreeSet;
use std::io::{self, Read as _};
use std::sync::Arc;

use cannery_formats::feed::Member;
use cannery_formats::{Digest, Hasher, Key};
use cannery_lake::Lake;

use super::error::Error;
use super::plan::PlannedHour;
use super::report::Refused;
use crate::blocking::blocking;
use crate::fetched::{Fetch, Fetched, Fetcher, Subject};
use crate::hour_folder::HourFolder;
use crate::scratch::ScratchFile;

/// Each further round means that somebody merged the hour, or uploaded to it, since the last one.
const ROUNDS_MAX: u32 = 16;
const CHUNK_BYTES: usize = 64 * 1024;

/// What there is of an hour.
#[derive(Debug)]
pub(super) struct Brought {
    pub(super) planned: PlannedHour,
    pub(super) archives: Vec<Arc<Fetched>>,
    /// The archives themselves as files, if they are what goes to the tree; one for each of them.
    pub(super) whole: Vec<Member>,
    pub(super) refused: Vec<Refused>,
    pub(super) is_deleted: bool,
}

impl Brought {
    fn nothing(planned: PlannedHour) -> Self {
        Self {
            planned,
            archives: Vec::new(),
            whole: Vec::new(),
            refused: Vec::new(),
            is_deleted: false,
        }
    }

    pub(super) fn subject(&self) -> Subject {
        Subject {
            feed: self.planned.of.feed.clone(),
            hour: self.planned.of.hour,
        }
    }

    /// Whether this archive was read, usable or not.
    fn has(&self, key: &Key) -> bool {
        let mut refused = self.refused.iter().map(|refused| &refused.key);
        let mut archives = self.archives.iter().map(|archive| &archive.key);
        archives.any(|read| read == key) || refused.any(|read| read == key)
    }

    /// What could become files: of several archives their union.
    pub(super) fn members(&self) -> BTreeSet<Member> {
        if !self.whole.is_empty() {
            return self.whole.iter().cloned().collect();
        }
        let sets = self.archives.iter().map(|archive| archive.set());
        sets.flat_map(|set| set.iter()).cloned().collect()
    }
}

/// Brings the archives of the plan, those that took their place, and those that are there beside them by now.
///
/// The hour is listed again also when everything of the plan was there: a store lists in pages, and what is merged between
/// two of them may be in neither, because the archive that took it in has its place on the page before.
pub(super) async fn bring(
    lake: Lake,
    fetcher: Fetcher,
    planned: PlannedHour,
    as_files: bool,
) -> Result<Brought, Error> {
    let keys = planned.archives.iter().map(|archive| archive.key.clone());
    let mut missing: Vec<Key> = keys.collect();
    let mut brought = Brought::nothing(planned);
    for _ in 0..ROUNDS_MAX {
        let is_whole = fetch_all(&lake, &fetcher, &missing, &mut brought).await?;
        let of = &brought.planned.of;
        let folder = HourFolder::list(&lake, &of.feed, of.hour).await?;
        if folder.tombstone {
            let is_deleted = true;
            return Ok(Brought {
                is_deleted,
                ..Brought::nothing(brought.planned)
            });
        }
        if !is_whole {
            // What has vanished may be in an archive that was read before it was replaced.
            brought = Brought::nothing(brought.planned);
        }
        let now = folder.archives().into_iter().map(|entry| &entry.key);
        missing = now.filter(|key| !brought.has(key)).cloned().collect();
        if is_whole && missing.is_empty() {
            if as_files {
                brought.whole = files(&fetcher, &brought.archives).await?;
            }
            return Ok(brought);
        }
    }
    Err(Error::Stage(crate::Error::Restless {
        store: lake.id().to_owned(),
        feed: brought.planned.of.feed,
        hour: brought.planned.of.hour,
        rounds: ROUNDS_MAX,
    }))
}

/// False when an archive is gone by now: what was in it is in another one.
async fn fetch_all(
    lake: &Lake,
    fetcher: &Fetcher,
    keys: &[Key],
    brought: &mut Brought,
) -> Result<bool, Error> {
    let subject = brought.subject();
    for key in keys {
        match fetcher.fetch(lake, &subject, key).await? {
            Fetch::Archive(archive) => brought.archives.push(archive),
            Fetch::Unusable(fault) => brought.refused.push(Refused {
                key: key.clone(),
                why: fault.why,
            }),
            Fetch::Vanished => return Ok(false),
        }
    }
    Ok(true)
}

async fn files(fetcher: &Fetcher, archives: &[Arc<Fetched>]) -> Result<Vec<Member>, Error> {
    let archives = archives.to_vec();
    let files = blocking(move || archives.iter().map(|archive| file(archive)).collect());
    let files: io::Result<Vec<Member>> = files.await.and_then(|files| files);
    Ok(files.map_err(|why| fetcher.failed(why))?)
}

fn file(archive: &Fetched) -> io::Result<Member> {
    let size = archive.file.len()?;
    Member::new(archive.key.file_name(), size, digest(&archive.file)?).map_err(io::Error::other)
}

fn digest(file: &ScratchFile) -> io::Result<Digest> {
    let mut place = file.begin();
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; CHUNK_BYTES];
    loop {
        match place.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            count => hasher.update(&buffer[..count]),
        }
    }
}
