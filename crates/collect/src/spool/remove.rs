//! Removing files that are provably in the lake, and only those.
//!
//! A file is renamed into `.sent/<id>/` beside its date folders, where nobody replaces it any more, compared with what was
//! read, and unlinked. Whatever else lies there by then is new work and goes back.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_formats::Digest;
use cannery_runtime::disk::{Disk, Kind, Open, create_dir_all, read_file};
use jiff::SignedDuration;

use super::outbox::{FileRecord, Sealed};
use super::take::Mark;

pub(super) const SENT: &str = ".sent";
/// A change so soon after a file was read may have left its date as it was.
const DOUBT: SignedDuration = SignedDuration::from_secs(1);

pub(super) struct Remover {
    disk: Arc<dyn Disk>,
    /// The folder of the datatype.
    folder: PathBuf,
}

/// What became of the files of a bundle.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Removed {
    pub(super) files: u64,
    /// Names of files that are not what was read: they are back in their folder.
    pub(super) back: Vec<Box<str>>,
}

impl Remover {
    pub(super) fn new(disk: Arc<dyn Disk>, folder: PathBuf) -> Self {
        Self { disk, folder }
    }

    /// Removes the files of a bundle that has its receipt. May be called again after a crash at any point; when it
    /// returns, no power cut brings a file back.
    pub(super) fn remove(&self, sealed: &Sealed) -> io::Result<Removed> {
        let date = self.folder.join(sealed.name.date.to_string());
        let sent = self.folder.join(SENT).join(&sealed.id);
        let begun_before = super::outbox::exists(&*self.disk, &sent)?;
        create_dir_all(&*self.disk, &sent)?;
        let mut removed = Removed::default();
        for file in &sealed.files {
            if begun_before && super::outbox::exists(&*self.disk, &sent.join(&*file.name))? {
                // Moved before a crash, which may have left both names.
                self.settle(file, &date, &sent, &mut removed)?;
            }
            match self
                .disk
                .rename_new(&date.join(&*file.name), &sent.join(&*file.name))
            {
                Ok(()) => self.settle(file, &date, &sent, &mut removed)?,
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        self.sync_date(&date)?;
        self.disk.sync_dir(&sent)?;
        self.disk.remove_dir(&sent)?;
        self.disk.sync_dir(&self.folder.join(SENT))?;
        Ok(removed)
    }

    /// Makes the absence of files from a date's folder durable. An empty one may have been removed meanwhile: then it is
    /// its own absence that counts, or a power cut would bring it back with files whose receipt is gone.
    fn sync_date(&self, date: &Path) -> io::Result<()> {
        let within = |folder: &&Path| folder.starts_with(&self.folder);
        for folder in date.ancestors().take_while(within) {
            match self.disk.sync_dir(folder) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                synced => return synced,
            }
        }
        Ok(())
    }

    /// A file that nobody else reaches: gone if it is the one that was read, back if it is not.
    fn settle(
        &self,
        file: &FileRecord,
        date: &Path,
        sent: &Path,
        removed: &mut Removed,
    ) -> io::Result<()> {
        let moved = sent.join(&*file.name);
        if self.is_the_same(file, &moved)? {
            self.disk.remove_file(&moved)?;
            removed.files += 1;
        } else {
            let name = self.give_back(&moved, date, &file.name)?;
            removed.back.push(name);
        }
        Ok(())
    }

    /// Whether a file is the one that was read, unchanged, or another with the same content: one that was only touched, or
    /// restored from a copy, is in the lake too.
    fn is_the_same(&self, file: &FileRecord, path: &Path) -> io::Result<bool> {
        let found = self.disk.metadata(path)?;
        if found.kind != Kind::File || found.len != file.size {
            return Ok(false);
        }
        let sure = file.read.duration_since(found.modified) > DOUBT;
        if sure && Mark::from(&found) == file.mark() {
            return Ok(true);
        }
        let open = self.disk.open(path, Open::Read)?;
        let content = read_file(&*open, file.size)?;
        Ok(Digest::of(&content) == file.sha256)
    }

    /// Puts a file back under its name, or under another where that is taken by a still newer one.
    fn give_back(&self, sent: &Path, date: &Path, name: &str) -> io::Result<Box<str>> {
        create_dir_all(&*self.disk, date)?;
        let mut free: Box<str> = name.into();
        for number in 1_u64.. {
            match self.disk.rename_new(sent, &date.join(&*free)) {
                Ok(()) => return Ok(free),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    free = numbered(name, number);
                }
                Err(error) => return Err(error),
            }
        }
        unreachable!("a folder does not hold so many files")
    }
}

/// `a.json` becomes `a~1.json`.
fn numbered(name: &str, number: u64) -> Box<str> {
    match name.rsplit_once('.') {
        Some((stem, extension)) if !stem.is_empty() => format!("{stem}~{number}.{extension}"),
        Some(_) | None => format!("{name}~{number}"),
    }
    .into()
}
