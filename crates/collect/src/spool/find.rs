//! Finding the files of a spool: events for speed, scans for certainty.
//!
//! Three threads. One reads events (`find/events.rs`), one looks into folders that have just appeared, one scans
//! everything when that is due. All of them watch a folder first and list it second (`find/walk.rs`), and all of them tell
//! what they found through one bounded channel. A consumer that is slow stops them; then the kernel's queue runs over, which
//! leads to another scan. Nothing is remembered of a file, so the same one is told more than once.
//!
//! Scans also remove the empty folders of dates that are past (`find/spent.rs`).

use std::ffi::OsString;
use std::fmt;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use cannery_runtime::Clock;
use cannery_runtime::disk::Disk;

mod census;
mod events;
mod folder;
mod inbox;
mod shared;
mod sightings;
mod spent;
#[cfg(test)]
mod tests;
mod walk;
mod watch_table;

pub(crate) use census::{Census, Counters, Standing};
pub(crate) use folder::DateFolder;
pub(super) use folder::is_hidden;
pub(crate) use sightings::Sightings;

use folder::Layout;
use shared::Shared;
use walk::{Errand, Manner};

/// Something that lies in the spool.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sighting {
    /// A file where files belong. It may be gone, or be something else, when it is looked at.
    File(Found),
    /// What does not belong where it lies, and has lain there for at least the age a file must have. Told by scans alone: a
    /// producer may create a file in the wrong place and move it to the right one.
    Odd {
        /// Where, below the root.
        below: PathBuf,
        /// What is wrong with it.
        fault: Oddity,
    },
}

/// A file in a date folder.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    /// Which of the configured datatypes.
    pub(crate) datatype: usize,
    /// The folder it lies in.
    pub(crate) date: DateFolder,
    /// Its name: UTF-8 without control characters, at most 255 bytes.
    pub(crate) name: OsString,
    /// How it was found.
    pub(crate) evidence: Evidence,
}

/// How a file was found, and so what may be concluded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Evidence {
    /// A writer closed it.
    Closed,
    /// It was moved here.
    Moved,
    /// It was there: a writer may still have it open.
    Scanned,
    /// It was there, and its last change is as long ago as a missed file's must be.
    Missed,
}

/// What is wrong with a thing in the spool.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Oddity {
    /// A file above the date folders, or a folder below them.
    WrongDepth,
    /// A folder that stands where a year, month or day does, and is none.
    NotADate,
    /// A symbolic link. Not followed, whatever it points to.
    Link,
    /// A pipe, socket or device.
    Special,
    /// A name with control characters, that is not UTF-8, or of more than 255 bytes.
    BadName,
}

/// What a [`Finder`] is made of.
#[derive(Debug)]
pub(crate) struct FinderParts {
    /// `<home>/<experiment>`. Need not exist. Only the folders of the datatypes in it are ever looked into.
    pub(crate) root: PathBuf,
    /// The configured datatypes, each the name of a folder.
    pub(crate) datatypes: Vec<String>,
    /// How often to look for what no event told.
    pub(crate) scan_interval: Duration,
    /// How old a file must be that no event told, and anything odd.
    pub(crate) min_file_age: Duration,
    /// The disk to list and to ask. Events come from the operating system all the same.
    pub(crate) disk: Arc<dyn Disk>,
    /// For the interval and the ages.
    pub(crate) clock: Clock,
    /// Where it counts; for as many datatypes.
    pub(crate) census: Arc<Census>,
}

/// Finds files until it is stopped or dropped.
pub(crate) struct Finder {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

impl Finder {
    /// Starts to watch and scans at once. About `capacity` sightings wait in the channel; it ends after the finder does,
    /// and a dropped receiver ends the work of the finder.
    ///
    /// # Errors
    /// `InvalidInput` for parts that make no sense; or as the operating system says when it gives no events or no threads.
    pub(crate) fn start(parts: FinderParts, capacity: usize) -> io::Result<(Self, Sightings)> {
        check(&parts)?;
        let (events, watches) = events::open(parts.census.watches())?;
        let (sender, sightings, batch) = sightings::channel(capacity);
        let layout = Layout {
            root: std::path::absolute(&parts.root)?,
            datatypes: parts.datatypes.clone(),
        };
        let shared = Arc::new(Shared::new(parts, layout, watches, (sender, batch)));
        shared.sweeps.add(Manner::Everything);
        let mut finder = Self {
            shared,
            threads: Vec::new(),
        };
        let first_scan = finder.shared.next_scan();
        finder.thread("spool-sweep", walk::run_sweeps)?;
        finder.thread("spool-fresh", walk::run_errands)?;
        finder.thread("spool-events", move |shared| {
            events::run(shared, events, first_scan);
        })?;
        Ok((finder, sightings))
    }

    fn thread(
        &mut self,
        name: &str,
        work: impl FnOnce(&Shared) + Send + 'static,
    ) -> io::Result<()> {
        let shared = Arc::clone(&self.shared);
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(move || work(&shared))?;
        self.threads.push(thread);
        Ok(())
    }

    /// Scans everything once more, after the scan that runs.
    pub(crate) fn scan_now(&self) {
        self.shared.sweeps.add(Manner::Everything);
    }

    /// What happened so far.
    pub(crate) fn counters(&self) -> Counters {
        self.shared.census.counters()
    }

    /// Ends the threads and waits for them, also while they wait for the consumer. Takes no longer than a call of the
    /// operating system; what is in the channel stays there.
    pub(crate) fn stop(self) {
        drop(self);
    }
}

impl Drop for Finder {
    fn drop(&mut self) {
        self.shared.stop.cancel();
        for thread in self.threads.drain(..) {
            let name = thread.thread().name().unwrap_or_default().to_owned();
            if thread.join().is_err() {
                tracing::error!(
                    thread = name,
                    "a thread that finds files of the spool had panicked"
                );
            }
        }
    }
}

impl fmt::Debug for Finder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Finder")
            .field("root", &self.shared.layout.root)
            .field("counters", &self.counters())
            .finish_non_exhaustive()
    }
}

fn check(parts: &FinderParts) -> io::Result<()> {
    let invalid = |text: String| Err(io::Error::new(io::ErrorKind::InvalidInput, text));
    if parts.scan_interval.is_zero() {
        return invalid("the scan interval of a spool must not be zero".into());
    }
    for (index, name) in parts.datatypes.iter().enumerate() {
        let mut components = Path::new(name).components();
        let plain =
            components.next() == Some(Component::Normal(name.as_ref())) && !name.starts_with('.');
        if !plain || components.next().is_some() {
            return invalid(format!("`{name}` cannot be the folder of a datatype"));
        }
        if parts.datatypes[..index].contains(name) {
            return invalid(format!("the datatype `{name}` is named twice"));
        }
    }
    Ok(())
}
