//! What feeds have on the local disk.
//!
//! ```text
//! <workspace>/downloads/<feed>/<yyyy>/<mm>/<dd>/<hh>/<bodies>, .slots
//!            /archives/<feed>/<yyyy>/<mm>/<dd>/<archives>, .<archive>.receipt
//!            /damaged/<bodies and archives that are not what their names say>
//! ```

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_formats::Digest;
use cannery_formats::feed::{ArchiveName, FeedId, FoundName, Hour, Member};
use cannery_runtime::disk::{Disk, Kind, create_dir_all, space};

/// The folders of all feeds of a workspace; clones are the same.
#[derive(Clone, Debug)]
pub struct Depot {
    disk: Arc<dyn Disk>,
    workspace: PathBuf,
}

impl Depot {
    /// The folders in `workspace`; nothing is made yet.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, workspace: &Path) -> Self {
        Self {
            disk,
            workspace: workspace.to_owned(),
        }
    }

    pub(super) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// Where bodies are, below a folder for each feed.
    pub(super) fn downloads(&self) -> PathBuf {
        self.workspace.join("downloads")
    }

    fn archives(&self) -> PathBuf {
        self.workspace.join("archives")
    }

    /// Where the bodies of an hour are.
    pub(super) fn hour(&self, feed: &FeedId, hour: Hour) -> PathBuf {
        self.downloads().join(feed.as_str()).join(hour.folder())
    }

    /// Where an archive waits for being shipped.
    pub(super) fn archive(&self, name: &ArchiveName) -> PathBuf {
        self.archives()
            .join(name.feed.as_str())
            .join(name.hour.day_folder())
            .join(name.to_string())
    }

    /// What says which stores have an archive.
    pub(super) fn receipt(&self, name: &ArchiveName) -> PathBuf {
        self.archive(name)
            .with_file_name(format!(".{name}.receipt"))
    }

    /// Sets a file aside that is not what its name says. It stays for a person to look at, and takes the place of no other.
    pub(super) fn set_aside(&self, path: &Path) -> io::Result<PathBuf> {
        let folder = self.workspace.join("damaged");
        create_dir_all(&*self.disk, &folder)?;
        let name = path.file_name().unwrap_or_default();
        let mut aside = folder.join(name);
        let mut number = 1;
        while self.disk.metadata(&aside).is_ok() {
            number += 1;
            let mut other = name.to_owned();
            other.push(format!(".{number}"));
            aside = folder.join(other);
        }
        self.disk.rename(path, &aside)?;
        self.disk.sync_dir(&folder)?;
        Ok(aside)
    }

    /// What was set aside because it is not what its name says, now or before.
    ///
    /// # Errors
    /// As the disk says; never a part of it.
    pub fn damaged(&self) -> io::Result<Vec<PathBuf>> {
        let folder = self.workspace.join("damaged");
        let entries = self.entries(&folder)?.into_iter();
        let mut damaged: Vec<_> = entries.map(|(_, name)| folder.join(name)).collect();
        damaged.sort();
        Ok(damaged)
    }

    /// The hours that have a folder, in order of feeds; folders that are no feed's are passed over.
    ///
    /// # Errors
    /// As the disk says; never a part of them.
    pub fn hours(&self) -> io::Result<Vec<(FeedId, Hour)>> {
        let mut hours = Vec::new();
        for feed in self.feeds_in(&self.downloads())? {
            let root = self.downloads().join(feed.as_str());
            for folder in self.folders_below(&root, 4)? {
                hours.extend(Hour::from_folder(&folder).map(|hour| (feed.clone(), hour)));
            }
        }
        Ok(hours)
    }

    /// What is not packed: the hours that have something to pack, and what lies in the folders of hours and never will be packed.
    ///
    /// # Errors
    /// As the disk says; never a part of it.
    pub fn unpacked(&self) -> io::Result<Unpacked> {
        let mut found = Unpacked::default();
        for (feed, hour) in self.hours()? {
            let folder = self.hour(&feed, hour);
            let entries = self.entries(&folder)?;
            let count = entries.len();
            let odd = entries
                .into_iter()
                .filter(|(kind, name)| !is_ours(*kind, name));
            let odd: Vec<PathBuf> = odd.map(|(_, name)| folder.join(name)).collect();
            if odd.len() < count || count == 0 {
                found.hours.push((feed, hour));
            }
            found.odd.extend(odd);
        }
        found.odd.sort();
        Ok(found)
    }

    /// The archives that wait for being shipped.
    ///
    /// # Errors
    /// As the disk says; never a part of them.
    pub fn waiting(&self) -> io::Result<Vec<ArchiveName>> {
        let mut waiting = Vec::new();
        for feed in self.feeds_in(&self.archives())? {
            let root = self.archives().join(feed.as_str());
            for day in self.folders_below(&root, 3)? {
                for entry in self.entries(&root.join(&day))? {
                    let name = entry.1.to_str().filter(|_| entry.0 == Kind::File);
                    waiting.extend(name.and_then(|name| archive_of_day(&feed, &day, name)));
                }
            }
        }
        waiting.sort();
        Ok(waiting)
    }

    /// Removes archives that were never finished. Nobody may be packing.
    pub(super) fn tidy(&self) -> io::Result<()> {
        for feed in self.feeds_in(&self.archives())? {
            let root = self.archives().join(feed.as_str());
            for day in self.folders_below(&root, 3)? {
                let folder = root.join(&day);
                let entries = self.entries(&folder)?.into_iter();
                let unfinished =
                    entries.filter(|(kind, name)| *kind == Kind::File && is_unfinished(name));
                for (_, name) in unfinished {
                    self.disk.remove_file(&folder.join(name))?;
                }
                self.prune(&folder)?;
            }
        }
        Ok(())
    }

    /// How many bytes can still be written.
    pub(super) fn room(&self) -> io::Result<u64> {
        Ok(space(&self.workspace)?.free_bytes)
    }

    fn feeds_in(&self, folder: &Path) -> io::Result<Vec<FeedId>> {
        let names = self.entries(folder)?;
        let folders = names.iter().filter(|(kind, _)| *kind == Kind::Dir);
        let mut feeds: Vec<_> = folders
            .filter_map(|(_, name)| FeedId::new(name.to_str()?).ok())
            .collect();
        feeds.sort();
        Ok(feeds)
    }

    /// The folders `depth` levels below, as relative paths.
    fn folders_below(&self, root: &Path, depth: usize) -> io::Result<Vec<String>> {
        let mut found = vec![String::new()];
        for _ in 0..depth {
            let mut deeper = Vec::new();
            for path in &found {
                for (kind, name) in self.entries(&root.join(path))? {
                    let name = name.to_str().filter(|_| kind == Kind::Dir);
                    deeper.extend(name.map(|name| match path.as_str() {
                        "" => name.to_owned(),
                        path => format!("{path}/{name}"),
                    }));
                }
            }
            found = deeper;
        }
        found.sort();
        Ok(found)
    }

    /// The names in a folder; none when there is no folder.
    fn entries(&self, folder: &Path) -> io::Result<Vec<(Kind, std::ffi::OsString)>> {
        match self.disk.read_dir(folder) {
            Ok(entries) => Ok(entries
                .into_iter()
                .map(|entry| (entry.kind, entry.name))
                .collect()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
            Err(error) => Err(error),
        }
    }

    /// Removes a folder of an hour or a day, and those above it, as far as they are empty.
    pub(super) fn prune(&self, folder: &Path) -> io::Result<()> {
        let mut folder = folder;
        loop {
            let is_ours = folder.parent().is_some_and(|parent| {
                parent != self.workspace && parent.starts_with(&self.workspace)
            });
            if !is_ours {
                return Ok(());
            }
            match self.disk.remove_dir(folder) {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                // Something is in it, or somebody made something just now.
                Err(_) => return Ok(()),
            }
            folder = folder.parent().unwrap_or(Path::new(""));
        }
    }
}

/// What [`Depot::unpacked`] finds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unpacked {
    /// The hours that have something to pack, in order of feeds.
    pub hours: Vec<(FeedId, Hour)>,
    /// Links, pipes, folders, and files whose names no archive can hold. Nobody opens, follows or removes them.
    pub odd: Vec<PathBuf>,
}

/// Whether it can be packed, or is removed when the hour is packed.
fn is_ours(kind: Kind, name: &OsStr) -> bool {
    let fits = |name: &str| Member::new(name, 0, Digest::of(b"")).is_ok();
    kind == Kind::File && (is_unfinished(name) || name.to_str().is_some_and(fits))
}

/// The archive of a name in the folder of a day.
fn archive_of_day(feed: &FeedId, day: &str, name: &str) -> Option<ArchiveName> {
    (0..24)
        .filter_map(|hour| Hour::from_folder(&format!("{day}/{hour:02}")).ok())
        .find_map(|hour| match FoundName::of(feed, hour, name) {
            FoundName::Ours(name) => Some(name),
            FoundName::Foreign
            | FoundName::Tombstone
            | FoundName::SetAside(_)
            | FoundName::Unknown => None,
        })
}

/// Whether a name is one that the product gives to what is not finished.
pub(super) fn is_unfinished(name: &OsStr) -> bool {
    name.to_str()
        .is_some_and(|name| name.starts_with('.') && name.ends_with(super::writer::PART))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cannery_formats::feed::{Codec, ContentSet, Holding};
    use cannery_runtime::RealDisk;
    use cannery_runtime::disk::write_durably;

    #[test]
    fn only_what_is_a_feeds_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let depot = Depot::new(Arc::new(RealDisk), dir.path());
        assert_eq!(depot.hours().unwrap(), []);
        assert_eq!(depot.waiting().unwrap(), []);
        let (feed, hour) = (
            FeedId::new("a").unwrap(),
            "20261115T18Z".parse::<Hour>().unwrap(),
        );
        let name = ArchiveName {
            feed: feed.clone(),
            hour,
            holding: Holding::Set(ContentSet::default().hash(), Codec::Zstd),
        };
        let archive = depot.archive(&name);
        create_dir_all(&RealDisk, archive.parent().unwrap()).unwrap();
        write_durably(&RealDisk, &archive, b"x").unwrap();
        write_durably(&RealDisk, &depot.receipt(&name), b"x").unwrap();
        create_dir_all(&RealDisk, &depot.hour(&feed, hour)).unwrap();
        for odd in ["a/2026/11/15/99", "a/2026/11/x/1", "..b/2026/11/15/18", "c"] {
            create_dir_all(&RealDisk, &dir.path().join("downloads").join(odd)).unwrap();
        }
        assert_eq!(depot.hours().unwrap(), [(feed.clone(), hour)]);
        assert_eq!(depot.waiting().unwrap(), [name]);
        depot.prune(&depot.hour(&feed, hour)).unwrap();
        assert_eq!(depot.hours().unwrap(), []);
    }

    #[test]
    fn an_archive_that_was_never_finished_goes_and_its_folder_too() {
        let dir = tempfile::tempdir().unwrap();
        let depot = Depot::new(Arc::new(RealDisk), dir.path());
        let archives = dir.path().join("archives");
        for name in [
            "a/2026/11/15/.x.part",
            "a/2026/11/16/.x.part",
            "a/2026/11/16/y",
        ] {
            let path = archives.join(name);
            create_dir_all(&RealDisk, path.parent().unwrap()).unwrap();
            write_durably(&RealDisk, &path, b"x").unwrap();
        }
        depot.tidy().unwrap();
        assert!(!archives.join("a/2026/11/15").exists());
        let left = depot.entries(&archives.join("a/2026/11/16")).unwrap();
        assert_eq!(left, [(Kind::File, "y".into())]);
    }

    #[test]
    fn what_is_no_file_of_ours_is_not_waited_for_and_named() {
        let dir = tempfile::tempdir().unwrap();
        let depot = Depot::new(Arc::new(RealDisk), dir.path());
        let (feed, hour) = (
            FeedId::new("a").unwrap(),
            "20261115T18Z".parse::<Hour>().unwrap(),
        );
        let folder = depot.hour(&feed, hour);
        let pipe = folder.join(".slots");
        create_dir_all(&RealDisk, &folder.join("folder")).unwrap();
        create_dir_all(&RealDisk, &folder.join(".x.part")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", folder.join("link")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &pipe,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RWXU,
            0,
        )
        .unwrap();
        let odd = [".slots", ".x.part", "folder", "link"].map(|name| folder.join(name));
        let only_odd = Unpacked {
            hours: Vec::new(),
            odd: odd.to_vec(),
        };
        assert_eq!(depot.unpacked().unwrap(), only_odd);
        // Nothing is opened, and nothing is changed.
        let habit = super::super::shared::Habit::default();
        let packed = super::super::pack::pack(&depot, (&feed, hour), "r", habit, None).unwrap();
        assert_eq!(packed, None);
        write_durably(&RealDisk, &folder.join("body"), b"x").unwrap();
        assert_eq!(depot.unpacked().unwrap().hours, [(feed.clone(), hour)]);
        let packed = super::super::pack::pack(&depot, (&feed, hour), "r", habit, None).unwrap();
        assert_eq!(packed.unwrap().bodies, 1);
        assert_eq!(depot.unpacked().unwrap(), only_odd);
    }
}
