//! The folders of feeds, made durably and with few syncs: what is known to be durable is not synced again for each of a thousand
//! feeds that begin an hour at the same time.

use std::collections::HashSet;
use std::io;
use std::path::{Path, PathBuf};

use cannery_runtime::disk::{Disk, create_dir_all};

/// What is known is forgotten at this size; knowing it again costs a few syncs.
const KNOWN_MAX: usize = 10_000;

/// The folders that one thread makes. Others may only remove them.
#[derive(Debug)]
pub(super) struct Folders {
    root: PathBuf,
    durable: HashSet<PathBuf>,
}

impl Folders {
    pub(super) fn below(root: &Path) -> Self {
        Self {
            root: root.to_owned(),
            durable: HashSet::new(),
        }
    }

    /// Makes a folder that was not there a moment ago, with those above it, durably.
    pub(super) fn make(&mut self, disk: &dyn Disk, folder: &Path) -> io::Result<()> {
        if self.durable.len() >= KNOWN_MAX {
            self.durable.clear();
        }
        self.durable.remove(folder);
        match self.path(disk, folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Somebody removed those above it too.
                self.durable.clear();
                self.path(disk, folder)
            }
            made => made,
        }
    }

    fn path(&mut self, disk: &dyn Disk, folder: &Path) -> io::Result<()> {
        if self.durable.contains(folder) {
            return Ok(());
        }
        let parent = folder.parent().filter(|_| folder.starts_with(&self.root));
        match parent.filter(|_| folder != self.root) {
            None => create_dir_all(disk, folder)?,
            Some(parent) => {
                self.path(disk, parent)?;
                match disk.create_dir(folder) {
                    Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                        return Err(error);
                    }
                    // Whoever made it may have died before syncing it.
                    Err(_) | Ok(()) => disk.sync_dir(parent)?,
                }
            }
        }
        self.durable.insert(folder.to_owned());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use cannery_testkit::sim_disk::SimDisk;

    use super::*;

    #[test]
    fn the_next_hour_costs_two_operations_and_what_was_removed_is_made_again() {
        let disk = SimDisk::new(1);
        let mut folders = Folders::below(Path::new("/w/downloads"));
        let day = Path::new("/w/downloads/f/2026/11/15");
        folders.make(&disk, &day.join("18")).unwrap();
        let before = disk.operations();
        folders.make(&disk, &day.join("19")).unwrap();
        assert_eq!(disk.operations() - before, 2);
        for folder in [day.join("18"), day.join("19"), day.to_owned()] {
            disk.remove_dir(&folder).unwrap();
        }
        folders.make(&disk, &day.join("20")).unwrap();
        folders.make(&disk, &day.join("19")).unwrap();
        let after = disk.crash();
        for hour in ["19", "20"] {
            assert_eq!(after.read_dir(&day.join(hour)).unwrap(), []);
        }
    }
}
