//! The files of an inventory on the local disk: `<folder>/<yyyy>-<mm>-<dd>.jsonl`.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_formats::Digest;
use cannery_formats::spool::SpoolDate;
use cannery_runtime::disk::{Disk, Kind, Open, create_dir_all, read, write_durably};

use super::day::Day;

/// No day has more lines, half a million: compressed, they can still be replaced at once.
pub(super) const TEXT_BYTES_MAX: u64 = 160 << 20;

/// Where copies go of what cannot be understood.
const DAMAGED: &str = "damaged";

#[derive(Clone, Debug)]
pub(super) struct Local {
    pub(super) disk: Arc<dyn Disk>,
    pub(super) folder: PathBuf,
}

impl Local {
    fn path(&self, day: SpoolDate) -> PathBuf {
        self.folder.join(format!("{}.jsonl", day.dashed()))
    }

    /// Makes the folder; may be called again.
    pub(super) fn create(&self) -> io::Result<()> {
        create_dir_all(&*self.disk, &self.folder)
    }

    /// The days that have a file.
    pub(super) fn days(&self) -> io::Result<BTreeSet<SpoolDate>> {
        let mut days = BTreeSet::new();
        for entry in self.disk.read_dir(&self.folder)? {
            let name = entry.name.to_str().and_then(|n| n.strip_suffix(".jsonl"));
            let day = name.and_then(|name| SpoolDate::from_path(&name.replace('-', "/")).ok());
            if let Some(day) = day
                && entry.kind == Kind::File
                && self.path(day).file_name() == Some(&entry.name)
            {
                days.insert(day);
            }
        }
        Ok(days)
    }

    /// The lines of a day; none if it has no file.
    pub(super) fn read(&self, day: SpoolDate) -> io::Result<Day> {
        Ok(Day::read(&self.content(day)?))
    }

    fn content(&self, day: SpoolDate) -> io::Result<Vec<u8>> {
        match read(&*self.disk, &self.path(day), TEXT_BYTES_MAX) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                // Nothing of ours is so long.
                self.move_aside(day)?;
                Ok(Vec::new())
            }
            content => content,
        }
    }

    /// The lines of a day, and a report of what else was there; a copy of a damaged file is kept.
    pub(super) fn recover(&self, day: SpoolDate) -> io::Result<Day> {
        let content = self.content(day)?;
        let found = Day::read(&content);
        let (path, bad) = (self.path(day), found.bad);
        if bad > 0 {
            let copy = self.set_aside(day, &content)?;
            tracing::error!(file = %path.display(), lines = bad, copy = %copy.display(), "the inventory of a day is damaged; a copy was set aside");
        } else if found.torn {
            tracing::warn!(file = %path.display(), "cut off a line that was never finished");
        }
        Ok(found)
    }

    /// Named by its content: what is found twice is kept once.
    fn set_aside(&self, day: SpoolDate, content: &[u8]) -> io::Result<PathBuf> {
        let folder = self.folder.join(DAMAGED);
        create_dir_all(&*self.disk, &folder)?;
        let digest = Digest::of(content).to_string();
        let copy = folder.join(format!("{}-{}.jsonl", day.dashed(), &digest[..16]));
        write_durably(&*self.disk, &copy, content)?;
        Ok(copy)
    }

    fn move_aside(&self, day: SpoolDate) -> io::Result<()> {
        let (path, folder) = (self.path(day), self.folder.join(DAMAGED));
        tracing::error!(file = %path.display(), "too long for an inventory; it was set aside");
        create_dir_all(&*self.disk, &folder)?;
        let aside = folder.join(format!("{}-long.jsonl", day.dashed()));
        self.disk.rename(&path, &aside)?;
        self.disk.sync_dir(&folder)?;
        self.disk.sync_dir(&self.folder)
    }

    /// Makes `text` the file of a day, whole or not at all; without any text there is none.
    pub(super) fn replace(&self, day: SpoolDate, text: &[u8]) -> io::Result<()> {
        if text.is_empty() {
            return self.remove(day);
        }
        write_durably(&*self.disk, &self.path(day), text)
    }

    /// Adds to a file of `bytes` bytes. After an error the file must be read again and replaced: what is in it need not be
    /// on the disk.
    pub(super) fn extend(&self, day: SpoolDate, bytes: u64, text: &[u8]) -> io::Result<()> {
        let file = self.disk.open(&self.path(day), Open::ReadWrite)?;
        if file.len()? != bytes {
            let why = "somebody else wrote to the inventory of this node";
            return Err(io::Error::new(io::ErrorKind::InvalidData, why));
        }
        file.write_all_at(bytes, text)?;
        file.sync_data()
    }

    /// The first `bytes` of a file.
    pub(super) fn beginning(&self, day: SpoolDate, bytes: Option<u64>) -> io::Result<Vec<u8>> {
        let mut content = self.content(day)?;
        if let Some(bytes) = bytes {
            let bytes = usize::try_from(bytes).map_err(io::Error::other)?;
            if content.len() < bytes {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            content.truncate(bytes);
        }
        Ok(content)
    }

    /// Removes the file of a day, durably; may be called again.
    pub(super) fn remove(&self, day: SpoolDate) -> io::Result<()> {
        remove_if_there(&*self.disk, &self.path(day))?;
        self.disk.sync_dir(&self.folder)
    }

    pub(super) fn has(&self, day: SpoolDate) -> io::Result<bool> {
        match self.disk.metadata(&self.path(day)) {
            Ok(_) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
