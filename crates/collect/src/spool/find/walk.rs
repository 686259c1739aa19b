//! Looking into folders: watched first, listed second, one name at a time.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::Ordering;

use cannery_runtime::disk::{DirEntry, Kind, Metadata};

use super::folder::{DateFolder, Folder, is_good_name, is_hidden};
use super::shared::{Age, Shared};
use super::spent::{is_past, remove_empty};
use super::watch_table::{Watched, is_absent};
use super::{Evidence, Found, Oddity, Sighting};

/// Which files a scan tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Manner {
    /// All of them.
    Everything,
    /// Those that every event should have told long ago.
    Overdue,
}

impl Manner {
    pub(super) const COUNT: usize = 2;
}

/// Where something appeared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Errand {
    /// On the way to the root, or at it.
    Root,
    /// A folder of the spool.
    Folder(Folder),
}

/// Scans whenever it is asked to, until the end.
pub(super) fn run_sweeps(shared: &Shared) {
    while let Some(manner) = shared.sweeps.next(&shared.stop) {
        let number = shared.census.begin_scan();
        shared.watches().begin_sweep();
        let mut walk = Walk::new(shared, manner);
        walk.whole = true;
        let flow = walk.root();
        let flow = walk.tell_rest(flow);
        let whole = walk.report();
        if flow.is_break() {
            return;
        }
        // After a failure nobody knows which folders are still there.
        if whole {
            shared.watches().end_sweep();
        }
        shared.census.end_scan(number, manner, shared.clock.now());
    }
}

/// Looks into folders that appeared, until the end. Another thread than the sweeps': a long one must not keep a new folder
/// waiting.
pub(super) fn run_errands(shared: &Shared) {
    while let Some(errand) = shared.errands.next(&shared.stop) {
        let mut walk = Walk::new(shared, Manner::Everything);
        let flow = match errand {
            Errand::Root => walk.root(),
            Errand::Folder(folder) => walk.enter(folder, true),
        };
        let flow = walk.tell_rest(flow);
        walk.report();
        if flow.is_break() {
            return;
        }
    }
}

struct Walk<'a> {
    shared: &'a Shared,
    manner: Manner,
    /// It is a scan of everything, and counts.
    whole: bool,
    failures: u64,
    first_failure: Option<String>,
    untold: Vec<Sighting>,
}

/// A folder while it is listed.
#[derive(Clone, Copy)]
struct Listed<'a> {
    folder: Folder,
    path: &'a Path,
    /// It is watched, as it could not be where watches have run out.
    watched: bool,
    /// It was not watched until now.
    new: bool,
}

impl<'a> Walk<'a> {
    fn new(shared: &'a Shared, manner: Manner) -> Self {
        Self {
            shared,
            manner,
            whole: false,
            failures: 0,
            first_failure: None,
            untold: Vec::new(),
        }
    }

    /// The whole spool.
    fn root(&mut self) -> ControlFlow<()> {
        let root = &self.shared.layout.root;
        let watched = self.shared.watches().watch_root(root);
        match &watched {
            Ok(true) => {}
            Ok(false) => return ControlFlow::Continue(()),
            Err(error) => self.fail("watch", root, error),
        }
        self.shared
            .layout
            .datatypes()
            .try_for_each(|datatype| self.enter(datatype, watched.is_ok()))
    }

    /// One folder and all in it.
    fn enter(&mut self, folder: Folder, above_watched: bool) -> ControlFlow<()> {
        let path = self.shared.layout.path(folder);
        let watch = self.shared.watches().watch(&path, folder, above_watched);
        let (watched, new) = match watch {
            Ok(Watched::Known) => (true, false),
            Ok(Watched::New { left }) => {
                self.look_where_it_was(left, &path);
                (true, true)
            }
            Ok(Watched::Orphan) => return ControlFlow::Continue(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return ControlFlow::Continue(());
            }
            Err(error) => {
                // A watch is never put on a link; without one we must ask.
                match self.shared.disk.metadata(&path) {
                    Ok(found) if found.kind == Kind::Dir => self.fail("watch", &path, &error),
                    Ok(found) => return self.no_folder(folder, &path, &found),
                    Err(error) => return self.unless_gone("ask", &path, &error),
                }
                (false, false)
            }
        };
        self.list(Listed {
            folder,
            path: &path,
            watched,
            new,
        })
    }

    /// A folder came here from elsewhere in the spool, and the event that says so is still unread. Unless it is in both
    /// places, mounted twice: looking there would bring us back here, for ever.
    fn look_where_it_was(&self, left: Option<Folder>, path: &Path) {
        let Some(left) = left else { return };
        let id = |path: &Path| self.shared.disk.metadata(path).ok().map(|found| found.id);
        let there = id(&self.shared.layout.path(left));
        if there.is_none() || there != id(path) {
            self.shared.look_into(Errand::Folder(left));
        }
    }

    fn list(&mut self, listed: Listed<'_>) -> ControlFlow<()> {
        let shared = self.shared;
        let mut flow = ControlFlow::Continue(());
        let mut is_empty = true;
        let visited = shared
            .disk
            .visit_dir_asking(listed.path, &mut |entry, found| {
                is_empty = false;
                flow = self.entry(listed, entry, found);
                flow
            });
        if let Err(error) = visited {
            // Some file systems fail so when a single name vanishes: then the rest of the list is missing.
            let gone = is_absent(&error)
                && shared
                    .disk
                    .metadata(listed.path)
                    .is_err_and(|error| is_absent(&error));
            if !gone {
                self.fail("list", listed.path, &error);
            }
        } else if is_empty && self.whole {
            self.remove_if_past(listed);
        }
        flow
    }

    /// An empty folder goes when its dates are past and it was not changed a moment ago. What the system does not let us
    /// remove is watched on: that is no failure of the scan.
    fn remove_if_past(&self, listed: Listed<'_>) {
        let shared = self.shared;
        let is_old = |found: Metadata| shared.age(found.modified) == Age::Old;
        if !is_past(listed.folder, shared.clock.now())
            || !shared.disk.metadata(listed.path).is_ok_and(is_old)
        {
            return;
        }
        if let Err(error) = remove_empty(&*shared.disk, listed.path)
            && !shared.cannot_remove.swap(true, Ordering::Relaxed)
        {
            tracing::warn!(folder = %listed.path.display(), %error, "cannot remove an empty date folder; it stays and is watched, as others may");
        }
    }

    fn entry(
        &mut self,
        listed: Listed<'_>,
        entry: DirEntry,
        found: io::Result<Metadata>,
    ) -> ControlFlow<()> {
        if self.shared.stop.is_cancelled() {
            return ControlFlow::Break(());
        }
        let DirEntry { name, kind } = entry;
        if is_hidden(&name) {
            return ControlFlow::Continue(());
        }
        match (listed.folder, kind) {
            (Folder::Day(datatype, date), Kind::File) if is_good_name(&name) => {
                self.file(listed, datatype, date, name, found)
            }
            (Folder::Day(..), Kind::File) => self.odd(listed, &name, found, Oddity::BadName),
            (_, Kind::File) | (Folder::Day(..), Kind::Dir) => {
                self.odd(listed, &name, found, Oddity::WrongDepth)
            }
            (_, Kind::Dir) => match listed.folder.child(&name) {
                Some(folder) => self.enter(folder, listed.watched),
                None => self.odd(listed, &name, found, Oddity::NotADate),
            },
            (_, Kind::Other) => {
                let fault = link_or_special(&listed.path.join(&name));
                self.odd(listed, &name, found, fault)
            }
        }
    }

    fn file(
        &mut self,
        listed: Listed<'_>,
        datatype: usize,
        date: DateFolder,
        name: OsString,
        found: io::Result<Metadata>,
    ) -> ControlFlow<()> {
        let found = match found {
            Ok(found) => found,
            Err(error) if self.manner == Manner::Overdue => {
                return self.unless_gone("ask", &listed.path.join(&name), &error);
            }
            // The consumer finds out.
            Err(_) => return self.tell_file(datatype, date, name, Evidence::Scanned),
        };
        self.count(datatype, &found);
        let evidence = match self.manner {
            Manner::Everything => Evidence::Scanned,
            Manner::Overdue => match self.shared.age(found.modified) {
                Age::Old => Evidence::Missed,
                Age::Unknown => Evidence::Scanned,
                Age::Young if listed.new => Evidence::Scanned,
                // Its folder is watched: an event told.
                Age::Young => return ControlFlow::Continue(()),
            },
        };
        self.tell_file(datatype, date, name, evidence)
    }

    fn count(&self, datatype: usize, found: &Metadata) {
        let census = &self.shared.census;
        if self.whole {
            census.listed(datatype, found.len, found.modified);
        } else {
            census.heard_of(datatype, found.len, found.modified);
        }
    }

    fn tell_file(
        &mut self,
        datatype: usize,
        date: DateFolder,
        name: OsString,
        evidence: Evidence,
    ) -> ControlFlow<()> {
        self.tell(Sighting::File(Found {
            datatype,
            date,
            name,
            evidence,
        }))
    }

    /// Tells it soon: with what follows, or at the end of the walk.
    fn tell(&mut self, sighting: Sighting) -> ControlFlow<()> {
        self.untold.push(sighting);
        if self.untold.len() < self.shared.batch {
            return ControlFlow::Continue(());
        }
        self.tell_now()
    }

    /// At the end.
    fn tell_rest(&mut self, flow: ControlFlow<()>) -> ControlFlow<()> {
        flow?;
        self.tell_now()
    }

    fn tell_now(&mut self) -> ControlFlow<()> {
        if self.untold.is_empty() {
            return ControlFlow::Continue(());
        }
        self.shared.tell_blocking(std::mem::take(&mut self.untold))
    }

    /// Something that does not belong in a folder.
    fn odd(
        &mut self,
        listed: Listed<'_>,
        name: &OsString,
        found: io::Result<Metadata>,
        fault: Oddity,
    ) -> ControlFlow<()> {
        let path = listed.path.join(name);
        match found {
            Ok(found) => {
                if self.whole && found.kind == Kind::File {
                    let census = &self.shared.census;
                    census.listed_odd(listed.folder.datatype(), found.len);
                }
                self.tell_odd(&path, &found, fault)
            }
            Err(error) => self.unless_gone("ask", &path, &error),
        }
    }

    /// Something that stands where a folder of the spool does.
    fn no_folder(&mut self, folder: Folder, path: &Path, found: &Metadata) -> ControlFlow<()> {
        match (folder, found.kind) {
            // Its folder is listed too, and tells it.
            (Folder::Year(..) | Folder::Month(..) | Folder::Day(..), _) | (_, Kind::Dir) => {
                ControlFlow::Continue(())
            }
            (_, Kind::File) => self.tell_odd(path, found, Oddity::WrongDepth),
            (_, Kind::Other) => self.tell_odd(path, found, link_or_special(path)),
        }
    }

    fn tell_odd(&mut self, path: &Path, found: &Metadata, fault: Oddity) -> ControlFlow<()> {
        if self.shared.age(found.modified) != Age::Old {
            return ControlFlow::Continue(());
        }
        let below = path
            .strip_prefix(&self.shared.layout.root)
            .expect("every path that is looked at lies below the root")
            .into();
        self.tell(Sighting::Odd { below, fault })
    }

    fn unless_gone(&mut self, doing: &str, path: &Path, error: &io::Error) -> ControlFlow<()> {
        if !is_absent(error) {
            self.fail(doing, path, error);
        }
        ControlFlow::Continue(())
    }

    fn fail(&mut self, doing: &str, path: &Path, error: &io::Error) {
        self.failures += 1;
        self.first_failure
            .get_or_insert_with(|| format!("cannot {doing} `{}`: {error}", path.display()));
    }

    /// Says once what went wrong, however often. True when nothing did.
    fn report(&self) -> bool {
        let Some(first) = &self.first_failure else {
            return true;
        };
        self.shared.census.failed(self.failures);
        tracing::warn!(
            first,
            failures = self.failures,
            "a part of the spool could not be watched or read; the next scan tries again"
        );
        false
    }
}

/// The disk has one word for both. A thing that is gone by now is told as the lesser evil, and not found later.
fn link_or_special(path: &Path) -> Oddity {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_symlink() => Oddity::Link,
        _ => Oddity::Special,
    }
}
