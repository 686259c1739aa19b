//! The file system of the machine.
#![allow(clippy::disallowed_methods, reason = "this is the door itself")]

use std::fs::{self, File};
use std::io;
use std::ops::ControlFlow;
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use jiff::Timestamp;
use rustix::fs::{CWD, FlockOperation, OFlags, RenameFlags, flock, renameat_with};

mod beneath;
mod folder;
mod lease;

#[cfg(test)]
mod tests;

use super::{
    DirEntry, Disk, DiskDir, DiskFile, DiskFolder, DiskLock, FileId, Kind, Metadata, Open, Wait,
};
use crate::sys;

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct RealDisk;

/// A pipe that somebody has put in the way must not keep anybody waiting, either.
fn no_follow() -> i32 {
    OFlags::NOFOLLOW
        .union(OFlags::NONBLOCK)
        .bits()
        .cast_signed()
}

impl Disk for RealDisk {
    fn open(&self, path: &Path, how: Open) -> io::Result<Box<dyn DiskFile>> {
        let mut options = fs::OpenOptions::new();
        options.read(true).custom_flags(no_follow());
        match how {
            Open::Read => {}
            Open::ReadWrite => {
                options.write(true);
            }
            Open::CreateNew => {
                options.write(true).create_new(true);
            }
            Open::CreatePrivate => {
                options.write(true).create_new(true).mode(0o600);
            }
        }
        Ok(Box::new(RealFile(options.open(path)?)))
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn rename_new(&self, from: &Path, to: &Path) -> io::Result<()> {
        match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
            // Not every file system knows the flag; a hard link is as exclusive.
            Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS) => {
                fs::hard_link(from, to)?;
                fs::remove_file(from)
            }
            renamed => Ok(renamed?),
        }
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn create_dir(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }

    fn remove_dir(&self, path: &Path) -> io::Result<()> {
        fs::remove_dir(path)
    }

    fn open_dir(&self, path: &Path) -> io::Result<Box<dyn DiskDir>> {
        Ok(Box::new(RealDir(File::open(path)?)))
    }

    fn read_dir(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        fs::read_dir(path)?
            .filter_map(|entry| entry.and_then(|entry| named(&entry)).transpose())
            .collect()
    }

    fn visit_dir(
        &self,
        path: &Path,
        visit: &mut dyn FnMut(DirEntry) -> ControlFlow<()>,
    ) -> io::Result<()> {
        for entry in fs::read_dir(path)? {
            if let Some(entry) = named(&entry?)?
                && visit(entry).is_break()
            {
                break;
            }
        }
        Ok(())
    }

    fn visit_dir_asking(
        &self,
        path: &Path,
        visit: &mut dyn FnMut(DirEntry, io::Result<Metadata>) -> ControlFlow<()>,
    ) -> io::Result<()> {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            let Some(name) = named(&entry)? else { continue };
            let found = entry.metadata().and_then(|found| metadata_of(&found));
            if visit(name, found).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn open_beneath(&self, root: &Path, below: &Path) -> io::Result<Box<dyn DiskFile>> {
        Ok(Box::new(RealFile(beneath::open(root, below)?)))
    }

    fn open_folder(&self, path: &Path) -> io::Result<Box<dyn DiskFolder>> {
        Ok(Box::new(folder::open(path)?))
    }

    fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        metadata_of(&fs::symlink_metadata(path)?)
    }

    fn lock(&self, path: &Path, wait: Wait) -> io::Result<Box<dyn DiskLock>> {
        let mut options = fs::OpenOptions::new();
        options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .custom_flags(no_follow());
        let file = match options.open(path) {
            // Another user's lock file can be locked without being written.
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => fs::OpenOptions::new()
                .read(true)
                .custom_flags(no_follow())
                .open(path)?,
            opened => opened?,
        };
        let operation = match wait {
            Wait::Yes => FlockOperation::LockExclusive,
            Wait::No => FlockOperation::NonBlockingLockExclusive,
        };
        rustix::io::retry_on_intr(|| flock(&file, operation))?;
        Ok(Box::new(RealLock(RealFile(file))))
    }
}

/// A name with what it is; nothing for one that is gone by now, where the file system does not tell along with the name.
fn named(entry: &fs::DirEntry) -> io::Result<Option<DirEntry>> {
    match entry.file_type() {
        Ok(found) => Ok(Some(DirEntry {
            name: entry.file_name(),
            kind: kind_of(found),
        })),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn metadata_of(found: &fs::Metadata) -> io::Result<Metadata> {
    Ok(Metadata {
        kind: kind_of(found.file_type()),
        len: found.len(),
        modified: Timestamp::try_from(found.modified()?).map_err(io::Error::other)?,
        id: FileId {
            device: found.dev(),
            inode: found.ino(),
        },
        links: found.nlink(),
        owner: found.uid(),
    })
}

fn kind_of(found: fs::FileType) -> Kind {
    if found.is_file() {
        Kind::File
    } else if found.is_dir() {
        Kind::Dir
    } else {
        Kind::Other
    }
}

#[derive(Debug)]
struct RealFile(File);

impl DiskFile for RealFile {
    fn metadata(&self) -> io::Result<Metadata> {
        metadata_of(&self.0.metadata()?)
    }

    fn has_writer(&self) -> io::Result<Option<bool>> {
        lease::has_writer(&self.0)
    }

    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        self.0.read_at(buffer, offset)
    }

    fn write_all_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }

    fn set_len(&self, bytes: u64) -> io::Result<()> {
        self.0.set_len(bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn begin_sync(&self, offset: u64, bytes: u64) -> io::Result<()> {
        sys::begin_writing(&self.0, offset, bytes)
    }

    fn system_file(&self) -> io::Result<Option<File>> {
        self.0.try_clone().map(Some)
    }
}

#[derive(Debug)]
struct RealDir(File);

impl DiskDir for RealDir {
    fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// `flock` belongs to the open file, so closing it lets go of the lock, also when the process is killed.
#[derive(Debug)]
struct RealLock(RealFile);

impl DiskLock for RealLock {
    fn file(&self) -> &dyn DiskFile {
        &self.0
    }
}
