//! Taking a file: opened, read, and checked against everything that a loader would refuse.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::Digest;
use cannery_formats::spool::json_line;
use cannery_formats::table_schema::RowCheck;
use cannery_runtime::Clock;
use cannery_runtime::disk::{Disk, DiskFile, FileId, Kind, Metadata, read_file};
use jiff::Timestamp;

use super::fault::Fault;
use super::place::FilePlace;
use super::settings::SpoolSettings;

/// What makes a file this one and no other, in the state in which it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) id: FileId,
    pub(crate) size: u64,
    pub(crate) modified: Timestamp,
}

impl From<&Metadata> for Mark {
    fn from(found: &Metadata) -> Self {
        Self {
            id: found.id,
            size: found.len,
            modified: found.modified,
        }
    }
}

/// A file whose content goes into a bundle.
#[derive(Debug)]
pub(crate) struct Taken {
    pub(crate) place: FilePlace,
    pub(crate) mark: Mark,
    pub(crate) read: Timestamp,
    pub(crate) sha256: Digest,
    /// Its JSON on one line.
    pub(crate) raw: Vec<u8>,
}

/// How an attempt to take a file ended.
#[derive(Debug)]
pub(crate) enum Take {
    Taken(Taken),
    /// It will never be taken as it is.
    Bad(Fault),
    /// It may still be written to, or be a producer's temporary file: an event will tell, or a scan when it is older.
    NotYet,
    /// It changed a moment ago, and nobody can tell whether it is still written to.
    Settling,
    Gone,
}

/// How a file came to be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Its writer closed it, or it was renamed into its place.
    Finished,
    /// It was only seen.
    Seen,
}

pub(crate) struct Taker {
    disk: Arc<dyn Disk>,
    clock: Clock,
    root: PathBuf,
    datatypes: Vec<(String, RowCheck)>,
    extensions: Vec<String>,
    bytes_max: u64,
    min_file_age: Duration,
    settle: Duration,
}

impl Taker {
    pub(crate) fn new(settings: &SpoolSettings, disk: Arc<dyn Disk>, clock: Clock) -> Self {
        let datatypes = settings.datatypes.iter().map(|datatype| {
            let check = RowCheck::new(&datatype.fields);
            (datatype.name.as_str().to_owned(), check)
        });
        Self {
            disk,
            clock,
            root: settings.root(),
            datatypes: datatypes.collect(),
            extensions: settings.extensions.clone(),
            bytes_max: settings.bundle_bytes_max,
            min_file_age: settings.min_file_age,
            settle: settings.settle,
        }
    }

    /// Takes a file if it can be taken now.
    pub(crate) fn take(&self, place: &FilePlace, heard: Heard) -> Take {
        let below = Path::new(&self.datatypes[place.datatype].0).join(place.below_datatype());
        let file = match self.disk.open_beneath(&self.root, &below) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Take::Gone,
            Err(error) => return self.judge(&below, &error),
        };
        match self.read(&*file, place, &below, heard) {
            Ok(Ok(taken)) => Take::Taken(taken),
            Ok(Err(Refused::NotYet)) => Take::NotYet,
            Ok(Err(Refused::Settling)) => Take::Settling,
            Ok(Err(Refused::Fault(fault))) => self.bad_unless_young(&below, fault),
            Err(error) => self.judge(&below, &error),
        }
    }

    fn read(
        &self,
        file: &dyn DiskFile,
        place: &FilePlace,
        below: &Path,
        heard: Heard,
    ) -> io::Result<Result<Taken, Refused>> {
        let found = file.metadata()?;
        if let Some(fault) = self.fault_of(place, below, &found)? {
            return Ok(Err(fault.into()));
        }
        if heard == Heard::Seen {
            match file.has_writer()? {
                Some(false) => {}
                Some(true) => return Ok(Err(Refused::NotYet)),
                None if self.age(found.modified) < self.settle => {
                    return Ok(Err(Refused::Settling));
                }
                None => {}
            }
        }
        let read = self.clock.now();
        let content = read_file(file, self.bytes_max)?;
        let mark = Mark::from(&found);
        let after = Mark::from(&file.metadata()?);
        if after != mark || content.len() as u64 != mark.size {
            // Somebody writes to it; when he has done, there is an event.
            return Ok(Err(Refused::NotYet));
        }
        let raw = match self.check(place.datatype, &content) {
            Ok(raw) => raw,
            Err(fault) => return Ok(Err(fault.into())),
        };
        Ok(Ok(Taken {
            place: place.clone(),
            mark,
            read,
            sha256: Digest::of(&content),
            raw,
        }))
    }

    /// What can be told without reading it.
    fn fault_of(
        &self,
        place: &FilePlace,
        below: &Path,
        found: &Metadata,
    ) -> io::Result<Option<Fault>> {
        let is_wanted = |extension: &String| place.name.ends_with(extension.as_str());
        Ok(if found.kind != Kind::File {
            Some(Fault::Special)
        } else if !self.extensions.iter().any(is_wanted) {
            Some(Fault::Extension)
        } else if found.len == 0 {
            Some(Fault::Empty)
        } else if found.len > self.bytes_max {
            Some(Fault::TooLarge { bytes: found.len })
        } else if found.links > 1 && found.owner != self.owner_of_folder(below)? {
            Some(Fault::ForeignLink)
        } else {
            None
        })
    }

    /// Who files into this folder.
    fn owner_of_folder(&self, below: &Path) -> io::Result<u32> {
        let folder = below.parent().unwrap_or(Path::new(""));
        Ok(self.disk.metadata(&self.root.join(folder))?.owner)
    }

    fn check(&self, datatype: usize, content: &[u8]) -> Result<Vec<u8>, Fault> {
        let raw = json_line(content).map_err(|fault| Fault::Json(fault.to_string()))?;
        let fits = self.datatypes[datatype].1.fits(&raw);
        fits.map_err(|misfit| Fault::Schema(misfit.to_string()))?;
        Ok(raw.into_owned())
    }

    /// What an error of the system says of a file, or of the system alone: that passes, and the file is looked at again.
    fn judge(&self, below: &Path, error: &io::Error) -> Take {
        match fault_in(error) {
            // A folder on the way was replaced by a link: what lies behind it is not ours to touch.
            Some(Fault::Link) if !self.is_reached(below) => Take::NotYet,
            Some(fault) => self.bad_unless_young(below, fault),
            None => {
                tracing::warn!(file = %below.display(), %error, "cannot be read now; trying again");
                Take::Settling
            }
        }
    }

    /// Whether the folder of a file lies below the root, with no link on the way.
    fn is_reached(&self, below: &Path) -> bool {
        let folder = below.parent().unwrap_or(Path::new(""));
        self.disk.open_beneath(&self.root, folder).is_ok()
    }

    /// A young file may be half written, or wait for its real name.
    fn bad_unless_young(&self, below: &Path, fault: Fault) -> Take {
        match self.disk.metadata(&self.root.join(below)) {
            Ok(found) if self.age(found.modified) < self.min_file_age => Take::NotYet,
            Ok(_) => Take::Bad(fault),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Take::Gone,
            Err(_) => Take::Bad(fault),
        }
    }

    /// How long ago that was; nothing for what is to come.
    fn age(&self, date: Timestamp) -> Duration {
        let age = self.clock.now().duration_since(date);
        Duration::try_from(age).unwrap_or(Duration::ZERO)
    }
}

enum Refused {
    NotYet,
    Settling,
    Fault(Fault),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Self::Fault(fault)
    }
}

/// What is wrong with a file that cannot be opened or read; none when it is the system that is at a loss.
fn fault_in(error: &io::Error) -> Option<Fault> {
    match error.raw_os_error()? {
        // A link is refused as a loop; one in the middle as leading out.
        libc::ELOOP | libc::EXDEV | libc::ENOTDIR => Some(Fault::Link),
        // Opening a socket, or a device without a driver.
        libc::ENXIO | libc::ENODEV => Some(Fault::Special),
        libc::EACCES | libc::EPERM => Some(Fault::Unreadable(error.to_string())),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use cannery_formats::spool::SpoolDate;
    use cannery_runtime::RealDisk;
    use cannery_runtime::disk::Open;

    use super::*;
    use crate::spool::crash_tests::settings;

    /// A folder on the way is replaced by a link after a file in it was told.
    #[test]
    fn what_lies_behind_a_link_is_not_even_judged() {
        let folder = tempfile::tempdir().unwrap();
        let mut settings = settings();
        settings.home = folder.path().to_owned();
        settings.min_file_age = Duration::ZERO;
        let month = settings.root().join(settings.datatypes[0].name.as_str());
        let month = month.join("2026/11");
        std::fs::create_dir_all(&month).unwrap();
        let victim = folder.path().join("victim");
        std::fs::create_dir(&victim).unwrap();
        RealDisk
            .open(&victim.join("a.json"), Open::CreateNew)
            .unwrap();
        std::os::unix::fs::symlink(&victim, month.join("15")).unwrap();
        let taker = Taker::new(&settings, Arc::new(RealDisk), Clock::real());
        let place = FilePlace {
            datatype: 0,
            date: SpoolDate::from_path("2026/11/15").unwrap(),
            name: "a.json".into(),
        };
        let taken = taker.take(&place, Heard::Seen);
        assert!(matches!(taken, Take::NotYet), "{taken:?}");
    }

    #[test]
    fn an_error_of_the_system_is_no_fault_of_a_file() {
        let fault = |code| fault_in(&io::Error::from_raw_os_error(code));
        for code in [
            libc::EMFILE,
            libc::ENFILE,
            libc::ENOMEM,
            libc::EIO,
            libc::ESTALE,
        ] {
            assert_eq!(fault(code), None);
        }
        assert_eq!(fault(libc::ELOOP), Some(Fault::Link));
        assert!(matches!(fault(libc::EACCES), Some(Fault::Unreadable(_))));
    }
}
