//! The folder that gets the tree. Nothing in it is replaced, nothing is reached through a link, no file is seen half.

use std::ffi::OsStr;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use cannery_formats::{Digest, Hasher};
use cannery_runtime::Rng;
use cannery_runtime::disk::{Disk, DiskFile, DiskFolder, Kind, NewFile, create_dir_all};

use super::arrange::Placement;
use super::error::Error;

const CHUNK_BYTES: usize = 64 * 1024;

/// The target, open. Clones are the same.
#[derive(Clone, Debug)]
pub(super) struct Target {
    folder: Arc<dyn DiskFolder>,
    path: PathBuf,
    rng: Rng,
}

impl Target {
    /// Makes the folder if needed. It blocks.
    pub(super) fn open(disk: &dyn Disk, path: PathBuf, rng: Rng) -> Result<Self, Error> {
        let opened = create_dir_all(disk, &path).and_then(|()| disk.open_folder(&path));
        match opened {
            Ok(folder) => {
                let folder = folder.into();
                Ok(Self { folder, path, rng })
            }
            Err(why) => Err(Error::target(path, why)),
        }
    }

    /// Enters a folder below it, made where it is missing.
    pub(super) fn enter(&self, name: &str) -> Result<Self, Error> {
        let path = self.path.join(name);
        match self.folder.folder(OsStr::new(name)) {
            Ok(folder) => {
                let (folder, rng) = (folder.into(), self.rng.clone());
                Ok(Self { folder, path, rng })
            }
            Err(why) => Err(Error::target(path, why)),
        }
    }

    pub(super) fn path_of(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Whether the file is there with exactly this content.
    pub(super) fn has(&self, name: &str, placement: &Placement) -> Result<bool, Error> {
        let occupied = |what: String| {
            let path = self.path_of(name);
            Err(Error::Occupied { path, what })
        };
        let file = match self.folder.open(OsStr::new(name)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            Err(error) => return occupied(format!("what is there cannot be read: {error}")),
        };
        match is_same(&*file, placement) {
            Ok(true) => Ok(true),
            Ok(false) => occupied("something else is there".to_owned()),
            Err(why) => Err(Error::target(self.path_of(name), why)),
        }
    }

    /// Begins a file that nobody sees yet. `name` is for the message.
    pub(super) fn begin(&self, name: &str) -> Result<Box<dyn NewFile>, Error> {
        let temp = format!(".{}.part", self.rng.id());
        let begun = self.folder.new_file(OsStr::new(&temp));
        begun.map_err(|why| Error::target(self.path_of(name), why))
    }

    /// Names the file; false when somebody else has just put the same.
    pub(super) fn publish(
        &self,
        file: Box<dyn NewFile>,
        name: &str,
        placement: &Placement,
    ) -> Result<bool, Error> {
        match file.publish(OsStr::new(name), placement.modified) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                match self.has(name, placement)? {
                    true => Ok(false),
                    false => Err(Error::target(self.path_of(name), error)),
                }
            }
            Err(why) => Err(Error::target(self.path_of(name), why)),
        }
    }

    /// Makes everything survive a power cut.
    pub(super) fn sync(&self) -> Result<(), Error> {
        let synced = self.folder.sync_file_system();
        synced.map_err(|why| Error::target(self.path.clone(), why))
    }
}

fn is_same(file: &dyn DiskFile, placement: &Placement) -> io::Result<bool> {
    let found = file.metadata()?;
    let member = &placement.member;
    if found.kind != Kind::File || found.len != member.size() {
        return Ok(false);
    }
    Ok(digest(file, member.size())? == member.sha256())
}

/// Of the first bytes: it may grow meanwhile.
fn digest(file: &dyn DiskFile, bytes_max: u64) -> io::Result<Digest> {
    let mut hasher = Hasher::default();
    let mut buffer = vec![0; CHUNK_BYTES];
    let mut at = 0;
    while at < bytes_max {
        match file.read_at(at, &mut buffer)? {
            0 => break,
            count => {
                hasher.update(&buffer[..count]);
                at += count as u64;
            }
        }
    }
    Ok(hasher.finish())
}
