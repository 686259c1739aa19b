//! Data without an index: its rows are in the lake, and say which files they were.
//!
//! An index says size and digest of every file as it was. Of a file that is still there they can be found again; of one that
//! is gone or was written anew they cannot, since a row does not tell the white space around its JSON.

use std::io;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use cannery_formats::spool::{Archiver, BundleName, IndexLine, RowWriter, json_line};
use cannery_formats::{Digest, Key};
use cannery_runtime::disk::{Disk, Kind, read_file};
use flate2::Compression;
use flate2::write::GzEncoder;

use super::objects::Read;
use super::{DateKnown, Known, KnownError, blocking, mark_of};
use crate::gzip_lines::{Line, Lines};
use crate::row::Row;

/// A row is longer than its file by what stands before the JSON: shorter than this.
const ROW_HEAD_BYTES_MAX: u64 = 64 * 1024;

/// A bundle whose data has no index, or none that can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::spool) struct Orphan {
    name: BundleName,
    /// The mirrors that have the data, by their number.
    mirrors: Vec<usize>,
    /// Under the name of the index there lies something damaged, which is never replaced.
    index_is_taken: bool,
}

/// What became of an orphan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::spool) enum Mended {
    /// All files are as they were: every mirror has data and index now.
    Indexed { files: u64 },
    /// The index cannot be known or not be written. Files that are as their rows say are known.
    Left(Left),
    /// The data itself is damaged, or another in another mirror: nothing is known.
    Unreadable,
}

/// What the files of an orphan are, one each for a row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::spool) struct Left {
    pub(in crate::spool) unchanged: u64,
    pub(in crate::spool) gone: u64,
    /// Something else has the name now.
    pub(in crate::spool) changed: u64,
    /// Rows that are none.
    pub(in crate::spool) damaged: u64,
}

impl Orphan {
    pub(super) fn without_index(name: BundleName, mirrors: Vec<usize>) -> Self {
        Self {
            name,
            mirrors,
            index_is_taken: false,
        }
    }

    pub(super) fn with_bad_index(name: BundleName, mirrors: Vec<usize>) -> Self {
        Self {
            name,
            mirrors,
            index_is_taken: true,
        }
    }

    /// Where its rows lie.
    pub(in crate::spool) fn key(&self) -> Key {
        self.name.data_key()
    }
}

/// What was found out by comparing rows with files.
#[derive(Debug, Default)]
struct Compared {
    files: Vec<Digest>,
    left: Left,
    /// Lines for the files that are as they were.
    index: Bytes,
}

impl Compared {
    fn is_complete(&self) -> bool {
        let Left {
            unchanged,
            gone,
            changed,
            damaged,
        } = self.left;
        unchanged > 0 && gone + changed + damaged == 0
    }
}

impl Known {
    /// Brings an orphan to the state that shipping would have brought it to, as far as that can be known; files whose rows
    /// are in every mirror become known. May be called again after any error.
    ///
    /// # Errors
    /// [`KnownError`]: nothing more is known than before.
    pub(in crate::spool) async fn mend(
        &self,
        orphan: &Orphan,
        known: &mut DateKnown,
    ) -> Result<Mended, KnownError> {
        let Some((content, compared)) = self.compare(orphan, known).await? else {
            return Ok(Mended::Unreadable);
        };
        let everywhere: Vec<usize> = (0..self.mirrors.iter().count()).collect();
        // Also where it lies already: every mirror must have this data, not only some.
        if let Err(damage) = self.put(&orphan.key(), &content, &everywhere).await? {
            known.report(damage);
            return Ok(Mended::Unreadable);
        }
        let mended = if compared.is_complete() && !orphan.index_is_taken {
            let key = orphan.name.index_key();
            match self.put(&key, &compared.index, &everywhere).await? {
                Ok(()) => Mended::Indexed {
                    files: compared.left.unchanged,
                },
                Err(damage) => {
                    known.report(damage);
                    Mended::Left(compared.left)
                }
            }
        } else {
            Mended::Left(compared.left)
        };
        known.files.extend(compared.files);
        Ok(mended)
    }

    /// Compares rows and files, by the first mirror whose data is whole.
    async fn compare(
        &self,
        orphan: &Orphan,
        known: &mut DateKnown,
    ) -> Result<Option<(Bytes, Compared)>, KnownError> {
        let key = orphan.key();
        for mirror in &orphan.mirrors {
            let content = match self.get(&key, *mirror).await? {
                Read::Content(content) => content,
                Read::Damaged(damage) => {
                    known.report(damage);
                    continue;
                }
            };
            let comparison = self.comparison(&orphan.name);
            let rows = content.clone();
            match blocking(move || comparison.run(&rows)).await? {
                Ok(compared) => return Ok(Some((content, compared))),
                Err(error) => known.report(self.unreadable(&key, *mirror, &error)),
            }
        }
        Ok(None)
    }

    fn comparison(&self, name: &BundleName) -> Comparison {
        let settings = &self.settings;
        let rows = settings.index_loadable.then(|| {
            let url = self.mirrors.first().url().trim_end_matches('/');
            let archiver = Archiver {
                version: settings.version.clone(),
                git_commit: settings.git_commit.clone(),
                archive_url: format!("{url}/{}", name.index_key()),
            };
            // The table of indexes has no `id`.
            RowWriter::new(name.date, &archiver, false)
        });
        Comparison {
            disk: Arc::clone(&self.disk),
            root: settings.root(),
            name: name.clone(),
            bytes_max: settings.bundle_bytes_max,
            rows,
        }
    }
}

/// Compares the rows of one bundle with the files of the spool.
struct Comparison {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    name: BundleName,
    bytes_max: u64,
    /// For an index that is a table too.
    rows: Option<RowWriter>,
}

/// What lies where a row's file was.
enum Found {
    Content(Vec<u8>),
    Gone,
    /// Nothing that could be the file.
    Other,
}

impl Comparison {
    /// The inner error says that the data is damaged, the outer that the disk does not answer.
    fn run(&self, gzip: &[u8]) -> io::Result<io::Result<Compared>> {
        let mut compared = Compared::default();
        let mut index = GzEncoder::new(Vec::new(), Compression::default());
        let row_bytes_max = self.bytes_max.saturating_add(ROW_HEAD_BYTES_MAX);
        let mut lines = Lines::new(gzip, usize::try_from(row_bytes_max).unwrap_or(usize::MAX));
        loop {
            let row = match lines.next_line() {
                Ok(Some(Line::Text(text))) => Row::parse(text, self.name.date),
                Ok(Some(Line::TooLong)) => None,
                Ok(None) => break,
                Err(damage) => return Ok(Err(damage)),
            };
            match row {
                Some(row) => self.add(&row, &mut compared, &mut index)?,
                None => compared.left.damaged += 1,
            }
        }
        compared.index = index.finish()?.into();
        Ok(Ok(compared))
    }

    fn add(
        &self,
        row: &Row<'_>,
        compared: &mut Compared,
        index: &mut GzEncoder<Vec<u8>>,
    ) -> io::Result<()> {
        match self.read(&row.name)? {
            Found::Content(content) if json_line(&content).is_ok_and(|raw| *raw == *row.raw) => {
                let sha256 = Digest::of(&content);
                compared.left.unchanged += 1;
                compared.files.push(mark_of(&row.name, &sha256));
                index.write_all(&self.index_line(&row.name, content.len() as u64, sha256))?;
            }
            Found::Content(_) | Found::Other => compared.left.changed += 1,
            Found::Gone => compared.left.gone += 1,
        }
        Ok(())
    }

    fn index_line(&self, name: &str, size: u64, sha256: Digest) -> Vec<u8> {
        let line = IndexLine {
            filename: format!("{}/{name}", self.name.date),
            size,
            sha256,
            // When exactly is lost; it was not before.
            time_added: self.name.opened.timestamp(),
        };
        let mut text = Vec::new();
        match &self.rows {
            Some(rows) => line.append_wrapped(rows, &mut text),
            None => line.append_to(&mut text),
        }
        text
    }

    fn read(&self, name: &str) -> io::Result<Found> {
        let below = Path::new(self.name.datatype.as_str())
            .join(self.name.date.to_string())
            .join(name);
        let read = self.disk.open_beneath(&self.root, &below).and_then(|file| {
            match file.metadata()?.kind {
                Kind::File => read_file(&*file, self.bytes_max).map(Some),
                Kind::Dir | Kind::Other => Ok(None),
            }
        });
        match read {
            Ok(Some(content)) => Ok(Found::Content(content)),
            Ok(None) => Ok(Found::Other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Found::Gone),
            Err(error) if is_never_collected(&error) => Ok(Found::Other),
            Err(error) => Err(error),
        }
    }
}

/// Whether this is a link, a socket, a file that may not be read or is too large: such a file is not taken either. What
/// else goes wrong tells nothing of the file.
fn is_never_collected(error: &io::Error) -> bool {
    let special = [
        libc::ELOOP,
        libc::EXDEV,
        libc::ENOTDIR,
        libc::ENXIO,
        libc::ENODEV,
    ];
    let kinds = [io::ErrorKind::PermissionDenied, io::ErrorKind::FileTooLarge];
    special.map(Some).contains(&error.raw_os_error()) || kinds.contains(&error.kind())
}
