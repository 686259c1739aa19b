//! Report files in a folder: each is taken away from its name before it is compared, so that nobody replaces it in between.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};

use cannery_formats::{BucketDate, Summer, Sums};
use cannery_runtime::Disk;
use cannery_runtime::disk::{Kind, Open, Wait, create_dir_all};

use super::Fate;

/// Beside the folders of dates. What lies there belongs to whoever holds the lock.
const CLEARING: &str = ".clearing";
const LOCK: &str = ".lock";
const BUFFER_BYTES: usize = 256 << 10;

/// A folder of report files.
pub(super) struct Shelf<'d> {
    disk: &'d dyn Disk,
    root: &'d Path,
}

impl<'d> Shelf<'d> {
    pub(super) fn new(disk: &'d dyn Disk, root: &'d Path) -> Self {
        Self { disk, root }
    }

    /// What was taken away from its name by one who died then.
    pub(super) fn aside(&self, date: Option<BucketDate>) -> io::Result<Vec<(BucketDate, String)>> {
        let clearing = self.root.join(CLEARING);
        let dates = match date {
            Some(date) => vec![date],
            None => self
                .names(&clearing)?
                .iter()
                .filter_map(|name| name.parse().ok())
                .collect(),
        };
        let mut aside = Vec::new();
        for date in dates {
            let names = self.names(&clearing.join(date.to_string()))?.into_iter();
            aside.extend(names.map(|name| (date, name)));
        }
        Ok(aside)
    }

    fn names(&self, folder: &Path) -> io::Result<Vec<String>> {
        let entries = match self.disk.read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?.into_iter(),
        };
        let names = entries.filter_map(|entry| entry.name.into_string().ok());
        Ok(names.collect())
    }

    /// Removes those of these report files that are what was canned; what became of each. It may be called again after a
    /// crash at any point.
    pub(super) fn remove(&self, files: &[(BucketDate, String, Sums)]) -> io::Result<Vec<Fate>> {
        let clearing = self.root.join(CLEARING);
        create_dir_all(self.disk, &clearing)?;
        // Two that clear the same folder would find each other's files there.
        let lock = self.disk.lock(&clearing.join(LOCK), Wait::Yes)?;
        let dates: BTreeSet<BucketDate> = files.iter().map(|(date, _, _)| *date).collect();
        for date in &dates {
            create_dir_all(self.disk, &clearing.join(date.to_string()))?;
        }
        let fates = files.iter().map(|(date, name, sums)| {
            let below = PathBuf::from(date.to_string()).join(name);
            self.take(&self.root.join(&below), &clearing.join(&below), *sums)
        });
        let fates = fates.collect::<io::Result<Vec<Fate>>>()?;
        for date in &dates {
            match self.disk.remove_dir(&clearing.join(date.to_string())) {
                Err(error) if is_in_use(&error) => {}
                removed => removed?,
            }
        }
        drop(lock);
        Ok(fates)
    }

    fn take(&self, from: &Path, to: &Path, sums: Sums) -> io::Result<Fate> {
        let begun_before = match self.is_the_same(to, sums)? {
            Some(_) => self.settle(from, to, sums)?,
            None => Fate::Gone,
        };
        match begun_before {
            Fate::Gone | Fate::Removed => {}
            Fate::Changed | Fate::SetAside(_) => return Ok(begun_before),
        }
        // What is known to have changed is not even touched.
        match self.is_the_same(from, sums)? {
            Some(true) => {}
            Some(false) => return Ok(Fate::Changed),
            None => return Ok(begun_before),
        }
        match self.disk.rename_new(from, to) {
            Ok(()) => self.settle(from, to, sums),
            Err(error) if is_absent(&error) => Ok(begun_before),
            Err(error) => Err(error),
        }
    }

    /// A file that nobody else reaches: gone if it is what was canned, back if it is not.
    fn settle(&self, from: &Path, to: &Path, sums: Sums) -> io::Result<Fate> {
        match self.is_the_same(to, sums)? {
            Some(true) => {
                self.disk.remove_file(to)?;
                return Ok(Fate::Removed);
            }
            Some(false) => {}
            None => return Ok(Fate::Gone),
        }
        let folders = [from, to].into_iter().filter_map(Path::parent);
        for folder in folders.clone() {
            create_dir_all(self.disk, folder)?;
        }
        match self.disk.rename_new(to, from) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Ok(Fate::SetAside(to.to_owned()));
            }
            Err(error) => return Err(error),
        }
        for folder in folders {
            self.disk.sync_dir(folder)?;
        }
        Ok(Fate::Changed)
    }

    /// Whether a file is what was canned; nothing when it is not there.
    fn is_the_same(&self, path: &Path, sums: Sums) -> io::Result<Option<bool>> {
        let found = match self.disk.metadata(path) {
            Err(error) if is_absent(&error) => return Ok(None),
            found => found?,
        };
        if found.kind != Kind::File || found.len != sums.size {
            return Ok(Some(false));
        }
        let file = self.disk.open(path, Open::Read)?;
        let (mut summer, mut buffer, mut at) = (Summer::default(), vec![0; BUFFER_BYTES], 0);
        loop {
            match file.read_at(at, &mut buffer)? {
                0 => return Ok(Some(summer.finish() == sums)),
                count => {
                    summer.update(&buffer[..count]);
                    at += count as u64;
                }
            }
        }
    }
}

fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Whether a folder cannot be removed because it is gone, or something is in it.
fn is_in_use(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::DirectoryNotEmpty
    )
}

#[cfg(test)]
mod tests;
