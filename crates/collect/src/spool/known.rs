//! What the lake has already, read from the lake itself when the outbox that knew was lost or damaged.
//!
//! A bundle's data goes into every mirror first, then its index, and only then may its files go. So what a lost outbox
//! leaves of a bundle is one of three: nothing; data alone, an orphan; or both, perhaps not in every mirror yet. In the last
//! two its files are in the lake, and taking them again would make every row twice.
//!
//! | look here | for |
//! |---|---|
//! | `survey.rs` | which objects of this node there are, and in which mirrors |
//! | `objects.rs` | reading them, and bringing mirrors to the same state |
//! | `../../gzip_lines.rs`, `../../row.rs` | the lines of an object, one at a time, and rows taken apart |
//! | `orphan.rs` | whether the files of an orphan are still what its rows say |
//! | `strays.rs` | files that were being removed when the outbox was lost |

use std::collections::{BTreeSet, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::Arc;

use cannery_formats::spool::{BundleName, IndexLine, SpoolDate};
use cannery_formats::{Digest, Key};
use cannery_lake::Mirrors;
use cannery_runtime::disk::Disk;

mod objects;
mod orphan;
mod strays;
mod survey;

#[cfg(test)]
mod tests;

pub(super) use orphan::{Mended, Orphan};

use crate::gzip_lines::{Line, Lines};
use objects::Read;
use survey::Whereabouts;

use super::settings::SpoolSettings;
use crate::blocking::blocking;
use crate::row::name_in;

/// An index line is shorter, also one that is a row.
const INDEX_LINE_BYTES_MAX: usize = 64 * 1024;

/// Looks into the lake for what is there of this node.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) mirrors: Mirrors,
    pub(super) disk: Arc<dyn Disk>,
    pub(super) settings: Arc<SpoolSettings>,
    /// Bundles that the outbox still has. They are shipped from there: nothing is said of them here, and above all no index
    /// is written for them, which would not be the sealed one.
    pub(super) in_outbox: BTreeSet<BundleName>,
}

/// The files of one datatype and date that every mirror has, and that were still in the spool.
///
/// No name is kept: a file takes 32 bytes and its share of the table.
#[derive(Debug, Default)]
pub(super) struct DateKnown {
    files: HashSet<Digest>,
    orphans: Vec<Orphan>,
    damaged: Vec<Damage>,
}

/// What is wrong with an object of this node. What it says does not count.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Damage {
    #[error("the index `{0}` has no data; compare with the inventory by `cannery spool check`")]
    IndexWithoutData(Key),
    #[error("`{key}` in `{lake}` cannot be read: {why}")]
    Unreadable { key: Key, lake: String, why: String },
    #[error("{count} lines of `{key}` in `{lake}` are damaged")]
    Lines { key: Key, lake: String, count: u64 },
    #[error("`{key}` is another object in `{lake}` than elsewhere")]
    Conflict { key: Key, lake: String },
}

/// Why it is not known what the lake has. Asking again may help; until then no file of the date may be bundled.
#[derive(Debug, thiserror::Error)]
pub(super) enum KnownError {
    #[error("cannot find out what is in the lake already: {0}")]
    Lake(#[from] cannery_lake::Error),
    #[error(transparent)]
    Inventory(#[from] crate::inventory::InventoryError),
    #[error("cannot compare the spool with the lake: {0}")]
    Disk(#[from] io::Error),
}

impl DateKnown {
    /// Whether a file with this name in the date's folder, and this content, is in every mirror.
    pub(super) fn has(&self, name: &str, sha256: &Digest) -> bool {
        self.files.contains(&mark_of(name, sha256))
    }

    /// How many files are known.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.files.len()
    }

    /// Bundles whose data has no index that can be read.
    #[cfg(test)]
    pub(super) fn orphans(&self) -> &[Orphan] {
        &self.orphans
    }

    /// What was found to be wrong; it was logged.
    #[cfg(test)]
    pub(super) fn damaged(&self) -> &[Damage] {
        &self.damaged
    }

    fn report(&mut self, damage: Damage) {
        tracing::error!(%damage, "an object of this node is damaged; it does not count as shipped");
        self.damaged.push(damage);
    }
}

/// A file as it is remembered: the digest of its content and its name together.
fn mark_of(name: &str, sha256: &Digest) -> Digest {
    Digest::of(format!("{sha256} {name}").as_bytes())
}

impl Known {
    /// What the lake has of the files in a date's folder, with every orphan mended that can be. To be called before the
    /// first file of the date is bundled; may be called again.
    ///
    /// # Errors
    /// [`KnownError`]: nothing is known then.
    pub(super) async fn recall(
        &self,
        datatype: usize,
        date: SpoolDate,
    ) -> Result<DateKnown, KnownError> {
        let mut known = self.load(datatype, date).await?;
        for orphan in std::mem::take(&mut known.orphans) {
            match self.mend(&orphan, &mut known).await? {
                Mended::Indexed { files } => {
                    tracing::info!(bundle = %orphan.key(), files, "wrote the index that was missing");
                }
                Mended::Left(left) => {
                    tracing::error!(bundle = %orphan.key(), ?left, "data without a usable index stays so: its files are not proved to be the ones in it");
                    known.orphans.push(orphan);
                }
                Mended::Unreadable => known.orphans.push(orphan),
            }
        }
        Ok(known)
    }

    /// The same without looking at the orphans.
    ///
    /// # Errors
    /// As [`Known::recall`].
    pub(super) async fn load(
        &self,
        datatype: usize,
        date: SpoolDate,
    ) -> Result<DateKnown, KnownError> {
        let mut known = DateKnown::default();
        let waiting = Arc::new(self.waiting(datatype, date).await?);
        for (name, found) in self.survey(datatype, date).await? {
            if self.in_outbox.contains(&name) {
                continue;
            }
            match (found.data.is_empty(), found.index.is_empty()) {
                (true, _) => known.report(Damage::IndexWithoutData(name.index_key())),
                (false, true) => known.orphans.push(Orphan::without_index(name, found.data)),
                (false, false) => self.add(name, found, &waiting, &mut known).await?,
            }
        }
        Ok(known)
    }

    /// Adds a bundle that has both objects. Where one mirror lacks any it is put there first: until then its files must
    /// stay. A bundle without waiting files is let be, because its files went with a receipt.
    async fn add(
        &self,
        name: BundleName,
        found: Whereabouts,
        waiting: &Arc<Waiting>,
        known: &mut DateKnown,
    ) -> Result<(), KnownError> {
        let index = self.read_index(&name, &found, waiting, known).await?;
        if !index.files.is_empty() {
            let data = self.level(&name.data_key(), &found.data).await?;
            let levelled = match data {
                // What is damaged is not spread.
                Ok(()) if index.is_whole => self.level(&name.index_key(), &found.index).await?,
                data => data,
            };
            if let Err(damage) = levelled {
                known.report(damage);
                return Ok(());
            }
            known.files.extend(index.files);
        }
        if !index.is_whole {
            // Its rows tell what its index does not.
            known.orphans.push(Orphan::with_bad_index(name, found.data));
        }
        Ok(())
    }

    /// Reads an index from the first mirror that has it whole.
    async fn read_index(
        &self,
        name: &BundleName,
        found: &Whereabouts,
        waiting: &Arc<Waiting>,
        known: &mut DateKnown,
    ) -> Result<IndexRead, KnownError> {
        let key = name.index_key();
        let mut best = IndexRead::default();
        for mirror in &found.index {
            let content = match self.get(&key, *mirror).await? {
                Read::Content(content) => content,
                Read::Damaged(damage) => {
                    known.report(damage);
                    continue;
                }
            };
            let (waiting, date) = (Arc::clone(waiting), name.date);
            let read = blocking(move || Ok(read_index(&content, date, &waiting))).await?;
            match read {
                Ok((files, 0)) => {
                    let is_whole = true;
                    return Ok(IndexRead { files, is_whole });
                }
                Ok((files, count)) => {
                    let (key, lake) = (key.clone(), self.id_of(*mirror));
                    known.report(Damage::Lines { key, lake, count });
                    best.files.extend(files);
                }
                Err(error) => known.report(self.unreadable(&key, *mirror, &error)),
            }
        }
        Ok(best)
    }

    /// The files that lie in the folder of a date now.
    async fn waiting(&self, datatype: usize, date: SpoolDate) -> io::Result<Waiting> {
        let (disk, folder) = (Arc::clone(&self.disk), self.folder(datatype));
        blocking(move || Waiting::read(&*disk, &folder.join(date.to_string()))).await
    }

    fn folder(&self, datatype: usize) -> PathBuf {
        let name = self.settings.datatypes[datatype].name.as_str();
        self.settings.root().join(name)
    }
}

#[derive(Debug, Default)]
struct IndexRead {
    files: Vec<Digest>,
    is_whole: bool,
}

/// Which files of an index are waiting, and how many of its lines are none.
fn read_index(gzip: &[u8], date: SpoolDate, waiting: &Waiting) -> io::Result<(Vec<Digest>, u64)> {
    let (mut files, mut damaged) = (Vec::new(), 0);
    let mut lines = Lines::new(gzip, INDEX_LINE_BYTES_MAX);
    while let Some(line) = lines.next_line()? {
        let line = match line {
            Line::Text(text) => IndexLine::parse(text).ok(),
            Line::TooLong => None,
        };
        match line
            .as_ref()
            .and_then(|line| Some((name_in(&line.filename, date)?, line)))
        {
            Some((name, line)) if waiting.may_have(name) => files.push(mark_of(name, &line.sha256)),
            Some(_) => {}
            None => damaged += 1,
        }
    }
    Ok((files, damaged))
}

/// The names in a folder, eight bytes each; two that are taken for one only make a file known that is not there.
#[derive(Debug, Default)]
struct Waiting(HashSet<u64>);

impl Waiting {
    fn read(disk: &dyn Disk, folder: &std::path::Path) -> io::Result<Self> {
        let mut names = HashSet::new();
        let visited = disk.visit_dir(folder, &mut |entry| {
            names.extend(entry.name.to_str().map(short_hash));
            ControlFlow::Continue(())
        });
        match visited {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(Self(names)),
        }
    }

    fn may_have(&self, name: &str) -> bool {
        self.0.contains(&short_hash(name))
    }
}

fn short_hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}
