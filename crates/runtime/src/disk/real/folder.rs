//! Folders worked on by their descriptor, one component at a time.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write as _};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Component, Path};

use jiff::Timestamp;
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps, fchmod, futimens, linkat,
    mkdirat, openat, renameat_with, syncfs, unlinkat,
};
use rustix::io::Errno;

use super::RealFile;
use crate::disk::{DiskFile, DiskFolder, NewFile};

/// What a new file may be used for: nobody's umask and nobody's setuid.
const FILE_MODE: Mode = Mode::from_raw_mode(0o644);
const FOLDER_MODE: Mode = Mode::from_raw_mode(0o777);

#[derive(Debug)]
pub(super) struct RealFolder(OwnedFd);

/// Opens a folder; links on the way to it are whoever named it's choice.
pub(super) fn open(path: &Path) -> io::Result<RealFolder> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(RealFolder(openat(CWD, path, flags, Mode::empty())?))
}

impl RealFolder {
    fn enter(&self, name: &OsStr) -> Result<OwnedFd, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match openat(&self.0, name, flags, Mode::empty()) {
            // What a link gives depends on the file system.
            Err(Errno::LOOP) => Err(Errno::NOTDIR),
            entered => entered,
        }
    }

    fn named(&self, temp: &OsStr) -> io::Result<RealNewFile> {
        let flags =
            OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = openat(&self.0, temp, flags, FILE_MODE)?.into();
        let folder = self.0.try_clone()?;
        let temp = Some(temp.to_owned());
        Ok(RealNewFile { file, folder, temp })
    }
}

/// A single component that names something in the folder itself.
fn checked(name: &OsStr) -> io::Result<&OsStr> {
    let mut components = Path::new(name).components();
    match (components.next(), components.next()) {
        (Some(Component::Normal(only)), None) if only == name => Ok(name),
        _ => Err(io::ErrorKind::InvalidInput.into()),
    }
}

impl DiskFolder for RealFolder {
    fn folder(&self, name: &OsStr) -> io::Result<Box<dyn DiskFolder>> {
        let name = checked(name)?;
        let entered = match self.enter(name) {
            Err(Errno::NOENT) => {
                match mkdirat(&self.0, name, FOLDER_MODE) {
                    Ok(()) | Err(Errno::EXIST) => {}
                    Err(error) => return Err(error.into()),
                }
                self.enter(name)
            }
            entered => entered,
        };
        Ok(Box::new(Self(entered?)))
    }

    fn open(&self, name: &OsStr) -> io::Result<Box<dyn DiskFile>> {
        let flags =
            OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = openat(&self.0, checked(name)?, flags, Mode::empty())?;
        Ok(Box::new(RealFile(file.into())))
    }

    fn new_file(&self, temp: &OsStr) -> io::Result<Box<dyn NewFile>> {
        let temp = checked(temp)?;
        let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
        match openat(&self.0, ".", flags, FILE_MODE) {
            // Not every file system has files without names, and old ones take it for opening the folder.
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL | Errno::NOENT) => {
                Ok(Box::new(self.named(temp)?))
            }
            nameless => Ok(Box::new(RealNewFile {
                file: nameless?.into(),
                folder: self.0.try_clone()?,
                temp: None,
            })),
        }
    }

    fn sync_file_system(&self) -> io::Result<()> {
        Ok(syncfs(&self.0)?)
    }
}

#[derive(Debug)]
struct RealNewFile {
    file: File,
    folder: OwnedFd,
    /// Its name until it gets its own; none for a file without one.
    temp: Option<OsString>,
}

impl NewFile for RealNewFile {
    fn write_all(&mut self, data: &[u8]) -> io::Result<()> {
        self.file.write_all(data)
    }

    fn publish(self: Box<Self>, name: &OsStr, modified: Timestamp) -> io::Result<()> {
        let name = checked(name)?;
        fchmod(&self.file, FILE_MODE)?;
        futimens(&self.file, &times(modified))?;
        match &self.temp {
            None => link(&self.file, &self.folder, name),
            Some(temp) => rename_new(&self.folder, temp, name),
        }
    }
}

impl Drop for RealNewFile {
    fn drop(&mut self) {
        if let Some(temp) = &self.temp {
            // After a rename there is none; if it cannot be removed, it is left as a kill would leave it.
            unlinkat(&self.folder, temp, AtFlags::empty()).ok();
        }
    }
}

fn times(modified: Timestamp) -> Timestamps {
    let mut time = Timespec {
        tv_sec: modified.as_second(),
        tv_nsec: i64::from(modified.subsec_nanosecond()),
    };
    // Before 1970 the fraction is negative, which the system does not take.
    if time.tv_nsec < 0 {
        time.tv_sec -= 1;
        time.tv_nsec += 1_000_000_000;
    }
    Timestamps {
        last_access: time,
        last_modification: time,
    }
}

/// Names a file that has none. Without privileges that goes by the folder of open files alone.
fn link(file: &File, folder: &OwnedFd, name: &OsStr) -> io::Result<()> {
    let open = format!("/proc/self/fd/{}", file.as_raw_fd());
    match linkat(CWD, open, folder, name, AtFlags::SYMLINK_FOLLOW) {
        Err(Errno::NOENT) => Ok(linkat(file, "", folder, name, AtFlags::EMPTY_PATH)?),
        linked => Ok(linked?),
    }
}

fn rename_new(folder: &OwnedFd, from: &OsStr, to: &OsStr) -> io::Result<()> {
    match renameat_with(folder, from, folder, to, RenameFlags::NOREPLACE) {
        // Not every file system knows the flag; a hard link is as exclusive, and the old name goes with the handle.
        Err(Errno::INVAL | Errno::NOSYS) => Ok(linkat(folder, from, folder, to, AtFlags::empty())?),
        renamed => Ok(renamed?),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{MetadataExt as _, symlink};

    use super::*;

    fn at() -> Timestamp {
        "2026-11-15T18:24:03.85Z".parse().unwrap()
    }

    fn name(text: &str) -> &OsStr {
        OsStr::new(text)
    }

    /// With and without a name until it is published.
    fn new_files(folder: &RealFolder) -> [Box<dyn NewFile>; 2] {
        let named = folder.named(name(".temp")).unwrap();
        [folder.new_file(name(".other")).unwrap(), Box::new(named)]
    }

    #[test]
    fn a_file_is_seen_when_it_is_whole_and_not_before() {
        let dir = tempfile::tempdir().unwrap();
        let folder = open(dir.path()).unwrap();
        for (number, mut file) in new_files(&folder).into_iter().enumerate() {
            let path = dir.path().join(format!("file{number}"));
            file.write_all(b"ab").unwrap();
            file.write_all(b"c").unwrap();
            assert!(!path.exists());
            file.publish(path.file_name().unwrap(), at()).unwrap();
            assert_eq!(std::fs::read(&path).unwrap(), b"abc");
            let found = path.metadata().unwrap();
            assert_eq!(found.mode() & 0o7777, 0o644);
            assert_eq!(found.nlink(), 1);
            assert_eq!(
                (found.mtime(), found.mtime_nsec()),
                (at().as_second(), 850_000_000)
            );
        }
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn nothing_is_replaced_and_nothing_is_left_of_the_attempt() {
        let dir = tempfile::tempdir().unwrap();
        let folder = open(dir.path()).unwrap();
        let outside = tempfile::tempdir().unwrap();
        symlink(outside.path().join("new"), dir.path().join("dangling")).unwrap();
        File::create(dir.path().join("taken")).unwrap();
        for taken in ["dangling", "taken"] {
            for mut file in new_files(&folder) {
                file.write_all(b"abc").unwrap();
                let error = file.publish(name(taken), at()).unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::AlreadyExists, "{taken}");
            }
        }
        drop(new_files(&folder));
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 2);
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
        assert_eq!(dir.path().join("taken").metadata().unwrap().len(), 0);
    }

    #[test]
    fn links_are_not_followed_and_names_are_single_components() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        File::create(outside.path().join("file")).unwrap();
        symlink(outside.path(), dir.path().join("link")).unwrap();
        symlink(outside.path().join("file"), dir.path().join("name")).unwrap();
        let root = open(dir.path()).unwrap();
        let error = root.folder(name("link")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotADirectory);
        assert!(root.open(name("name")).is_err());
        for wrong in ["..", ".", "", "a/b", "/etc", "a/"] {
            let is_refused = |error: io::Error| error.kind() == io::ErrorKind::InvalidInput;
            assert!(root.folder(name(wrong)).is_err_and(is_refused), "{wrong}");
            assert!(root.open(name(wrong)).is_err_and(is_refused), "{wrong}");
            assert!(root.new_file(name(wrong)).is_err_and(is_refused), "{wrong}");
            let file = root.new_file(name(".temp")).unwrap();
            assert!(
                file.publish(name(wrong), at()).is_err_and(is_refused),
                "{wrong}"
            );
        }
    }

    #[test]
    fn an_open_folder_stays_the_same_when_a_link_takes_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let outside = tempfile::tempdir().unwrap();
        let root = open(dir.path()).unwrap();
        let inner = root.folder(name("inner")).unwrap();
        std::fs::rename(dir.path().join("inner"), dir.path().join("moved")).unwrap();
        symlink(outside.path(), dir.path().join("inner")).unwrap();
        let file = inner.new_file(name(".temp")).unwrap();
        file.publish(name("file"), at()).unwrap();
        assert!(dir.path().join("moved/file").exists());
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
        root.sync_file_system().unwrap();
    }
}
