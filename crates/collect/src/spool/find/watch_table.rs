//! Which folders are watched, and what each watch means.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use inotify::{WatchDescriptor, WatchMask, Watches};

use super::folder::Folder;

/// What a watched folder is to us.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Place {
    /// A folder above the root, which is not there yet: the next one on the way is awaited.
    Above { awaited: OsString },
    /// The root of the spool.
    Root,
    /// A folder of the spool.
    Folder(Folder),
}

/// Every watch there is. The system's list and ours change together, under one lock.
#[derive(Debug)]
pub(super) struct WatchTable {
    watches: Watches,
    entries: BTreeMap<i32, Entry>,
    /// How many entries mean each place: for a moment two, when a folder was replaced.
    places: BTreeMap<Place, usize>,
    /// Counts the sweeps: what a whole sweep did not come by is no longer there.
    sweep: u64,
    /// How many there are, for who does not hold the lock.
    count: Arc<AtomicU64>,
}

/// What came of watching a folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watched {
    /// It was watched before.
    Known,
    /// It was not watched, or under another name: no event can have told of its content.
    New {
        /// The name it had. Nothing is watched there any more.
        left: Option<Folder>,
    },
    /// Not watched: the folder above is not any more, so this one could go away with it unnoticed. Whoever took that watch
    /// away has asked to look there again.
    Orphan,
}

#[derive(Debug)]
struct Entry {
    descriptor: WatchDescriptor,
    place: Place,
    sweep: u64,
}

impl WatchTable {
    pub(super) fn new(watches: Watches, count: Arc<AtomicU64>) -> Self {
        Self {
            watches,
            entries: BTreeMap::new(),
            places: BTreeMap::new(),
            sweep: 0,
            count,
        }
    }

    fn count(&self) {
        let count = self.entries.len() as u64;
        self.count.store(count, Ordering::Relaxed);
    }

    /// What the watch of an event means; nothing when it has been removed since.
    pub(super) fn place(&self, id: i32) -> Option<&Place> {
        self.entries.get(&id).map(|entry| &entry.place)
    }

    /// Watches a folder of the spool. `above_watched` says whether the folder above is, as far as the caller knows.
    pub(super) fn watch(
        &mut self,
        path: &Path,
        folder: Folder,
        above_watched: bool,
    ) -> io::Result<Watched> {
        let above = folder.parent().map_or(Place::Root, Place::Folder);
        if above_watched && !self.places.contains_key(&above) {
            return Ok(Watched::Orphan);
        }
        let own = WatchMask::DONT_FOLLOW | WatchMask::EXCL_UNLINK;
        let wanted = match folder {
            Folder::Day(..) => WatchMask::CLOSE_WRITE | WatchMask::MOVED_TO,
            Folder::Datatype(_) | Folder::Year(..) | Folder::Month(..) => arrivals(),
        };
        let place = Place::Folder(folder);
        let (_, before) = self.add(path, place.clone(), own | wanted)?;
        Ok(match before {
            Some(before) if before == place => Watched::Known,
            Some(Place::Folder(left)) => {
                self.remove_within(left);
                Watched::New { left: Some(left) }
            }
            Some(Place::Above { .. } | Place::Root) | None => Watched::New { left: None },
        })
    }

    /// Watches the root, or what is there on the way to it. True when the root is there. Links on the way are followed: the
    /// root is the operator's word.
    pub(super) fn watch_root(&mut self, root: &Path) -> io::Result<bool> {
        let way: Vec<&Path> = root.ancestors().collect();
        let mut climbed = 0;
        let mut lowest = loop {
            match self.watch_step(&way, climbed)? {
                Some(id) => break id,
                None if climbed + 1 == way.len() => return Err(io::ErrorKind::NotFound.into()),
                None => climbed += 1,
            }
        };
        // What appeared below before that folder was watched is told by no event.
        while climbed > 0 {
            let Some(id) = self.watch_step(&way, climbed - 1)? else {
                break;
            };
            (lowest, climbed) = (id, climbed - 1);
        }
        self.remove(|id, entry| matches!(entry.place, Place::Above { .. }) && id != lowest);
        Ok(climbed == 0)
    }

    /// Watches one folder on the way to the root, so many above it. Nothing when there is none.
    fn watch_step(&mut self, way: &[&Path], above: usize) -> io::Result<Option<i32>> {
        let place = match above.checked_sub(1) {
            None => Place::Root,
            Some(next) => Place::Above {
                awaited: way[next].file_name().unwrap_or(OsStr::new("")).into(),
            },
        };
        match self.add(way[above], place, arrivals()) {
            Ok((id, _)) => Ok(Some(id)),
            Err(error) if is_absent(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The number of the watch, and what it meant before.
    fn add(
        &mut self,
        path: &Path,
        place: Place,
        mask: WatchMask,
    ) -> io::Result<(i32, Option<Place>)> {
        let always = WatchMask::ONLYDIR | WatchMask::MOVE_SELF;
        let descriptor = self.watches.add(path, mask | always)?;
        let id = descriptor.get_watch_descriptor_id();
        let before = self.forget(id);
        *self.places.entry(place.clone()).or_default() += 1;
        let entry = Entry {
            descriptor,
            place,
            sweep: self.sweep,
        };
        self.entries.insert(id, entry);
        self.count();
        Ok((id, before))
    }

    /// A watch is no more. What it meant, unless that was known already.
    pub(super) fn forget(&mut self, id: i32) -> Option<Place> {
        let place = self.entries.remove(&id)?.place;
        uncount(&mut self.places, &place);
        self.count();
        Some(place)
    }

    /// Stops watching a folder and all in it: it was moved, and its watches would follow it wherever it goes.
    pub(super) fn remove_within(&mut self, folder: Folder) {
        self.remove(|_, entry| match entry.place {
            Place::Folder(inner) => folder.contains(inner),
            Place::Above { .. } | Place::Root => false,
        });
    }

    /// Stops watching anything.
    pub(super) fn remove_all(&mut self) {
        self.remove(|_, _| true);
    }

    /// A sweep begins.
    pub(super) fn begin_sweep(&mut self) {
        self.sweep += 1;
    }

    /// A sweep came by every folder there is: the others, whose end no event told, are watched no more.
    pub(super) fn end_sweep(&mut self) {
        let sweep = self.sweep;
        self.remove(|_, entry| entry.sweep < sweep);
    }

    fn remove(&mut self, which: impl Fn(i32, &Entry) -> bool) {
        let (watches, places) = (&mut self.watches, &mut self.places);
        self.entries.retain(|id, entry| {
            let goes = which(*id, entry);
            if goes {
                uncount(places, &entry.place);
                // It may be gone already with its folder, and the event that says so be still unread.
                watches.remove(entry.descriptor.clone()).ok();
            }
            !goes
        });
        self.count();
    }
}

fn uncount(places: &mut BTreeMap<Place, usize>, place: &Place) {
    if let Some(count) = places.get_mut(place) {
        *count -= 1;
        if *count == 0 {
            places.remove(place);
        }
    }
}

/// Something came into the folder.
fn arrivals() -> WatchMask {
    WatchMask::CREATE | WatchMask::MOVED_TO
}

/// Whether there is no folder at a path.
pub(super) fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}
