//! The `file:` lake: a folder of plain files that is durable and honours every condition an S3 store does.
//!
//! Own code because `object_store`'s local store cannot replace by version, names versions by file times, and syncs only
//! when asked. An object is a file of the same name.
//! It is written aside, synced, renamed into place and its folder synced; what replaces does so under a lock shared with other
//! processes.
//! The version of an object is the SHA-256 of its content. `.store/` holds locks and files in the making.
//!
//! Folders are created and never removed, so a folder that this process has once made durable stays so.

use std::collections::HashSet;
use std::fmt;
use std::io;
use std::path::{Path as FsPath, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use async_trait::async_trait;
use cannery_formats::{Digest, Hasher};
use cannery_runtime::Rng;
use cannery_runtime::disk::{Disk, DiskDir, DiskFile, Kind, Open, Wait, is_sync_failure};
use futures::stream::{BoxStream, StreamExt as _};
use object_store::path::Path;
use object_store::{
    CopyMode, CopyOptions, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
};

mod folder_sync;
mod list;
mod read;
mod temp;
mod upload;

use folder_sync::FolderSyncs;
pub(crate) use read::AsFile;
use temp::{TempArea, TempFile};

const PRIVATE: &str = ".store";

/// Writers of different objects rarely wait for each other.
const LOCKS: u8 = 64;

/// The set of known folders is forgotten at this size; knowing them again costs a few syncs.
const DURABLE_FOLDERS_MAX: usize = 10_000;

/// A store in a folder.
#[derive(Clone)]
pub struct DiskStore(Arc<Inner>);

struct Inner {
    disk: Arc<dyn Disk>,
    root: PathBuf,
    rng: Rng,
    temp: Mutex<Option<Arc<TempArea>>>,
    durable: Mutex<HashSet<PathBuf>>,
    syncs: FolderSyncs,
    failed: OnceLock<String>,
}

/// The folder of the store does not exist.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("folder `{0}` does not exist")]
pub(crate) struct FolderMissing(String);

/// A name that cannot be both an object and a folder of objects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is a folder in this lake, so it cannot be an object")]
pub(crate) struct IsFolder(String);

/// Something in the folder that is neither an object nor a folder of objects.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is a link, a pipe or a device; move it out of the lake's folder")]
pub(crate) struct Stranger(String);

/// A sync failed: what is on the disk is in doubt, so nothing may be believed any more.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the disk failed to make a write durable ({0}); check the disk, then start again")]
pub(crate) struct DiskFailed(String);

impl DiskStore {
    /// A store in `root`, which is created by the first write.
    #[must_use]
    pub fn new(disk: Arc<dyn Disk>, root: impl Into<PathBuf>, rng: Rng) -> Self {
        Self(Arc::new(Inner {
            disk,
            root: root.into(),
            rng,
            temp: Mutex::default(),
            durable: Mutex::default(),
            syncs: FolderSyncs::default(),
            failed: OnceLock::new(),
        }))
    }

    async fn blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Inner) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let inner = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || {
            inner.check_disk()?;
            work(&inner)
        })
        .await?
    }
}

impl Inner {
    fn check_disk(&self) -> Result<()> {
        match self.failed.get() {
            Some(reason) => Err(generic(DiskFailed(reason.clone()))),
            None => Ok(()),
        }
    }

    /// Remembers a failed sync for good: reading back what it covered would prove nothing.
    fn sync_failed(&self, error: &io::Error) -> object_store::Error {
        let reason = self.failed.get_or_init(|| error.to_string());
        generic(DiskFailed(reason.clone()))
    }

    /// A rename that reports an error may have taken effect. Whoever finds the object then must find it after a power cut.
    fn in_doubt(&self, folder: &dyn DiskDir, error: io::Error) -> object_store::Error {
        match folder.sync() {
            Ok(()) => generic(error),
            Err(failed) => self.sync_failed(&failed),
        }
    }

    fn object_path(&self, location: &Path) -> Result<PathBuf> {
        let private = location
            .parts()
            .next()
            .is_some_and(|first| first.as_ref() == PRIVATE);
        if location.is_root() || private {
            return Err(object_store::Error::NotSupported {
                source: format!("`{location}` is not the name of an object").into(),
            });
        }
        self.refuse_links(location)?;
        Ok(self.root.join(location.as_ref()))
    }

    /// A link on the way to an object leads out of the lake.
    fn refuse_links(&self, location: &Path) -> Result<()> {
        let mut folder = self.root.clone();
        let mut parts: Vec<_> = location.parts().collect();
        parts.pop();
        for part in parts {
            folder.push(part.as_ref());
            match self.disk.metadata(&folder) {
                Ok(found) if found.kind == Kind::Other => {
                    return Err(generic(Stranger(folder.display().to_string())));
                }
                Ok(_) => {}
                // What is not there yet is no link.
                Err(_) => return Ok(()),
            }
        }
        Ok(())
    }

    fn temp(&self) -> Result<Arc<TempArea>> {
        let mut slot = self.temp.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(area) = &*slot {
            return Ok(Arc::clone(area));
        }
        let area =
            TempArea::open(&self.disk, &self.root.join(PRIVATE), &self.rng).map_err(|error| {
                if is_sync_failure(&error) {
                    self.sync_failed(&error)
                } else {
                    generic(error)
                }
            })?;
        Ok(Arc::clone(slot.insert(Arc::new(area))))
    }

    /// Moves a finished file into place. After `Ok` it survives a power cut; after `AlreadyExists` what is there does.
    fn commit(&self, temp: &mut TempFile, location: &Path, mode: &PutMode) -> Result<PutResult> {
        let target = self.object_path(location)?;
        let folder = target.parent().expect("an object lies below the root");
        self.make_durable(folder)?;
        let opened = self
            .disk
            .open_dir(folder)
            .map_err(|error| self.folder_error(error, folder))?;
        // Creating is one rename, which has one winner; the others look before they write.
        let _lock = match mode {
            PutMode::Create => None,
            PutMode::Overwrite | PutMode::Update(_) => Some(self.lock(location)?),
        };
        let exists = match mode {
            PutMode::Overwrite => {
                self.refuse_folder(&target, location)?;
                let renamed = self.disk.rename(temp.path(), &target);
                renamed.map_err(|error| self.in_doubt(&*opened, error))?;
                false
            }
            PutMode::Create => match self.disk.rename_new(temp.path(), &target) {
                Ok(()) => false,
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    self.refuse_folder(&target, location)?;
                    true
                }
                Err(error) => return Err(self.in_doubt(&*opened, error)),
            },
            PutMode::Update(expected) => {
                let found = self.digest_at(&target)?.map(|digest| digest.to_string());
                if found.is_none() || found != expected.e_tag {
                    return Err(object_store::Error::Precondition {
                        path: location.to_string(),
                        source: "another version is there".into(),
                    });
                }
                let renamed = self.disk.rename(temp.path(), &target);
                renamed.map_err(|error| self.in_doubt(&*opened, error))?;
                false
            }
        };
        if !exists {
            temp.moved();
        }
        // Also when the object was there before: its writer may have died between the rename and this.
        self.sync_shared(folder, &*opened)?;
        if exists {
            return Err(object_store::Error::AlreadyExists {
                path: location.to_string(),
                source: "the file exists".into(),
            });
        }
        Ok(PutResult {
            e_tag: temp.digest().map(|digest| digest.to_string()),
            version: None,
            extensions: object_store::Extensions::default(),
        })
    }

    fn refuse_folder(&self, target: &FsPath, location: &Path) -> Result<()> {
        match self.disk.metadata(target) {
            Ok(found) if found.kind == Kind::Dir => Err(generic(IsFolder(location.to_string()))),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Creates `folder` and makes its whole path durable, once for this process.
    fn make_durable(&self, folder: &FsPath) -> Result<()> {
        if self
            .durable
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .contains(folder)
        {
            return Ok(());
        }
        self.temp()?;
        let below = folder
            .strip_prefix(&self.root)
            .expect("folders of objects lie below the root");
        let mut path = self.root.clone();
        for component in below.components() {
            let parent = path.clone();
            path.push(component);
            match self.disk.create_dir(&path) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                    return Err(generic(error));
                }
                Err(_) | Ok(()) => {}
            }
            if self.disk.metadata(&path).map_err(generic)?.kind != Kind::Dir {
                return Err(generic(io::Error::from(io::ErrorKind::NotADirectory)));
            }
            // Also what was there before: whoever made it may have died before syncing it.
            let opened = self.disk.open_dir(&parent).map_err(generic)?;
            opened.sync().map_err(|error| self.sync_failed(&error))?;
        }
        let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
        if durable.len() >= DURABLE_FOLDERS_MAX {
            durable.clear();
        }
        durable.insert(folder.to_owned());
        Ok(())
    }

    fn lock(&self, location: &Path) -> Result<Box<dyn cannery_runtime::disk::DiskLock>> {
        let area = self.temp()?;
        let shard = Digest::of(location.as_ref().as_bytes()).first_byte() % LOCKS;
        self.disk
            .lock(&area.lock_path(shard), Wait::Yes)
            .map_err(generic)
    }

    fn digest_at(&self, target: &FsPath) -> Result<Option<Digest>> {
        match self.disk.open(target, Open::Read) {
            Ok(file) => digest_of(&*file).map(Some).map_err(generic),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(generic(error)),
        }
    }

    fn delete(&self, location: &Path) -> Result<()> {
        let target = self.object_path(location)?;
        let folder = target.parent().expect("an object lies below the root");
        let opened = match self.disk.open_dir(folder) {
            Ok(opened) => opened,
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(generic(error)),
        };
        if self
            .disk
            .metadata(&target)
            .is_ok_and(|found| found.kind == Kind::Dir)
        {
            return Ok(());
        }
        let _lock = self.lock(location)?;
        // Synced also when it is gone already: whoever removed it may have died before that.
        match self.disk.remove_file(&target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(generic(error)),
            Err(_) | Ok(()) => {}
        }
        self.sync_shared(folder, &*opened)
    }

    /// Makes what was done in a folder durable, together with what others have done there.
    fn sync_shared(&self, path: &FsPath, folder: &dyn DiskDir) -> Result<()> {
        let synced = self.syncs.sync(path, folder);
        synced.map_err(|error| self.sync_failed(&error))
    }

    /// A folder that was made durable and is gone was removed by hand: it is made again at the next attempt.
    fn folder_error(&self, error: io::Error, folder: &FsPath) -> object_store::Error {
        if error.kind() == io::ErrorKind::NotFound {
            self.durable
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .remove(folder);
        }
        generic(error)
    }

    fn copy(&self, from: &Path, to: &Path, mode: CopyMode) -> Result<()> {
        let source = self
            .disk
            .open(&self.object_path(from)?, Open::Read)
            .map_err(|e| Self::read_error(e, from))?;
        let mut temp = self
            .temp()?
            .create(&self.disk, &self.rng, true)
            .map_err(generic)?;
        each_chunk(&*source, |chunk| temp.append(chunk)).map_err(generic)?;
        temp.finish().map_err(generic)?;
        let mode = match mode {
            CopyMode::Overwrite => PutMode::Overwrite,
            CopyMode::Create => PutMode::Create,
        };
        self.commit(&mut temp, to, &mode).map(drop)
    }

    fn put(&self, location: &Path, payload: &PutPayload, mode: &PutMode) -> Result<PutResult> {
        let mut temp = self
            .temp()?
            .create(&self.disk, &self.rng, true)
            .map_err(generic)?;
        for chunk in payload {
            temp.append(chunk).map_err(generic)?;
        }
        temp.finish().map_err(generic)?;
        self.commit(&mut temp, location, mode)
    }

    /// A folder that the first write will make has no objects; only a listing must tell it from an empty one.
    fn read_error(error: io::Error, location: &Path) -> object_store::Error {
        if !is_absent(&error) {
            return generic(error);
        }
        object_store::Error::NotFound {
            path: location.to_string(),
            source: error.into(),
        }
    }

    fn folder_missing(&self) -> FolderMissing {
        FolderMissing(self.root.display().to_string())
    }
}

/// A path through a file is as absent as one that ends nowhere.
fn is_absent(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
    )
}

fn generic(source: impl std::error::Error + Send + Sync + 'static) -> object_store::Error {
    object_store::Error::Generic {
        store: "file",
        source: Box::new(source),
    }
}

fn digest_of(file: &dyn DiskFile) -> io::Result<Digest> {
    let mut hasher = Hasher::default();
    each_chunk(file, |chunk| {
        hasher.update(chunk);
        Ok(())
    })?;
    Ok(hasher.finish())
}

fn each_chunk(
    file: &dyn DiskFile,
    mut visit: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    let room = file.len()?.clamp(1, 256 * 1024);
    let mut buffer = vec![0; usize::try_from(room).map_err(io::Error::other)?];
    let mut offset = 0;
    loop {
        match file.read_at(offset, &mut buffer)? {
            0 => return Ok(()),
            n => {
                visit(&buffer[..n])?;
                offset += n as u64;
            }
        }
    }
}

fn refuse_attributes(attributes: &object_store::Attributes) -> Result<()> {
    if attributes.is_empty() {
        return Ok(());
    }
    Err(object_store::Error::NotSupported {
        source: "a `file:` lake keeps no attributes".into(),
    })
}

#[async_trait]
#[deny(clippy::missing_trait_methods)]
impl ObjectStore for DiskStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        opts: PutOptions,
    ) -> Result<PutResult> {
        refuse_attributes(&opts.attributes)?;
        let location = location.clone();
        self.blocking(move |inner| inner.put(&location, &payload, &opts.mode))
            .await
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        refuse_attributes(&opts.attributes)?;
        let temp = self
            .blocking(|inner| {
                inner
                    .temp()?
                    .create(&inner.disk, &inner.rng, false)
                    .map_err(generic)
            })
            .await?;
        Ok(Box::new(upload::DiskUpload::new(
            self.clone(),
            location.clone(),
            temp,
        )))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        let location = location.clone();
        self.blocking(move |inner| inner.get(&location, &options))
            .await
    }

    async fn get_ranges(
        &self,
        location: &Path,
        ranges: &[std::ops::Range<u64>],
    ) -> Result<Vec<bytes::Bytes>> {
        let mut parts = Vec::with_capacity(ranges.len());
        for range in ranges {
            let options = GetOptions::new().with_range(Some(range.clone()));
            parts.push(self.get_opts(location, options).await?.bytes().await?);
        }
        Ok(parts)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let store = self.clone();
        locations
            .map(move |location| {
                let store = store.clone();
                async move {
                    let location = location?;
                    let target = location.clone();
                    store.blocking(move |inner| inner.delete(&target)).await?;
                    Ok(location)
                }
            })
            .buffered(8)
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.walk(prefix)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let offset = offset.clone();
        self.walk(prefix)
            .filter(move |found| {
                let wanted = found.as_ref().map_or(true, |meta| meta.location > offset);
                futures::future::ready(wanted)
            })
            .boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let prefix = prefix.cloned().unwrap_or_default();
        self.blocking(move |inner| inner.list_folder(&prefix)).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let (from, to) = (from.clone(), to.clone());
        self.blocking(move |inner| inner.copy(&from, &to, options.mode))
            .await
    }

    async fn rename_opts(
        &self,
        from: &Path,
        to: &Path,
        options: object_store::RenameOptions,
    ) -> Result<()> {
        let mode = match options.target_mode {
            object_store::RenameTargetMode::Overwrite => CopyMode::Overwrite,
            object_store::RenameTargetMode::Create => CopyMode::Create,
        };
        let (from, to) = (from.clone(), to.clone());
        self.blocking(move |inner| {
            inner.copy(&from, &to, mode)?;
            inner.delete(&from)
        })
        .await
    }
}

impl fmt::Display for DiskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file:{}", self.0.root.display())
    }
}

impl fmt::Debug for DiskStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DiskStore({})", self.0.root.display())
    }
}
