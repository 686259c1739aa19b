//! Where files of a [`super::DiskStore`] are written before they get their name.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_formats::{Digest, Hasher};
use cannery_runtime::Rng;
use cannery_runtime::disk::{Disk, DiskFile, DiskLock, Kind, Open, Wait, create_dir_all};

/// One process's own folder for files in the making. Its lock says that the process lives; without it the folder is
/// rubbish, and the next one to open a store removes it.
#[derive(Debug)]
pub(super) struct TempArea {
    folder: PathBuf,
    locks: PathBuf,
    _alive: Box<dyn DiskLock>,
}

impl TempArea {
    pub(super) fn open(disk: &Arc<dyn Disk>, private: &Path, rng: &Rng) -> io::Result<Self> {
        let (locks, temps) = (private.join("lock"), private.join("tmp"));
        create_dir_all(&**disk, &locks)?;
        create_dir_all(&**disk, &temps)?;
        // Held while looking for the dead and being born, so that nobody takes a new folder for a dead one.
        let _census = disk.lock(&locks.join("census"), Wait::Yes)?;
        bury_the_dead(&**disk, &temps)?;
        let folder = temps.join(rng.id());
        disk.create_dir(&folder)?;
        let alive = disk.lock(&folder.join("lock"), Wait::No)?;
        Ok(Self {
            folder,
            locks,
            _alive: alive,
        })
    }

    pub(super) fn lock_path(&self, shard: u8) -> PathBuf {
        self.locks.join(format!("{shard:02}"))
    }

    /// A new file; with `hashing` its digest is known when it is finished.
    pub(super) fn create(
        &self,
        disk: &Arc<dyn Disk>,
        rng: &Rng,
        hashing: bool,
    ) -> io::Result<TempFile> {
        let path = self.folder.join(rng.id());
        let file = disk.open(&path, Open::CreateNew)?;
        Ok(TempFile {
            disk: Arc::clone(disk),
            path,
            file,
            length: 0,
            state: State::Open(hashing.then(Hasher::default)),
            moved: false,
        })
    }
}

fn bury_the_dead(disk: &dyn Disk, temps: &Path) -> io::Result<()> {
    for entry in disk
        .read_dir(temps)?
        .into_iter()
        .filter(|entry| entry.kind == Kind::Dir)
    {
        let folder = temps.join(entry.name);
        // What cannot be removed, such as another user's, is in nobody's way.
        if let Err(error) = bury(disk, &folder) {
            tracing::warn!(folder = %folder.display(), %error, "rubbish of a dead process is left over");
        }
    }
    Ok(())
}

fn bury(disk: &dyn Disk, folder: &Path) -> io::Result<()> {
    let _lock = match disk.lock(&folder.join("lock"), Wait::No) {
        Ok(lock) => lock,
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
        Err(error) => return Err(error),
    };
    for file in disk.read_dir(folder)? {
        disk.remove_file(&folder.join(file.name))?;
    }
    disk.remove_dir(folder)
}

/// A file in the making; removed when dropped before it was renamed.
#[derive(Debug)]
pub(super) struct TempFile {
    disk: Arc<dyn Disk>,
    path: PathBuf,
    file: Box<dyn DiskFile>,
    length: u64,
    state: State,
    moved: bool,
}

#[derive(Debug)]
enum State {
    /// Without a hasher for an upload, whose version nobody asks for.
    Open(Option<Hasher>),
    Finished(Option<Digest>),
}

impl TempFile {
    pub(super) fn append(&mut self, chunk: &[u8]) -> io::Result<()> {
        let State::Open(hasher) = &mut self.state else {
            return Err(io::Error::other("the file is finished"));
        };
        self.file.write_all_at(self.length, chunk)?;
        if let Some(hasher) = hasher {
            hasher.update(chunk);
        }
        self.length += chunk.len() as u64;
        Ok(())
    }

    /// Makes the content durable. From now on it does not change. A failure puts nothing in doubt: the file has no name
    /// yet, and is written anew.
    pub(super) fn finish(&mut self) -> io::Result<()> {
        if let State::Open(hasher) = &self.state {
            self.file.sync()?;
            self.state = State::Finished(hasher.clone().map(Hasher::finish));
        }
        Ok(())
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// It has its name now: there is nothing to remove.
    pub(super) fn moved(&mut self) {
        self.moved = true;
    }

    /// The digest of a finished file, if it was asked for.
    pub(super) fn digest(&self) -> Option<Digest> {
        match &self.state {
            State::Finished(digest) => *digest,
            State::Open(_) => None,
        }
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if !self.moved {
            // What this cannot remove, the next start does.
            self.disk.remove_file(&self.path).ok();
        }
    }
}
