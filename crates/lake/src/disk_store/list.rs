//! Listing objects of a [`super::DiskStore`], in the order of their keys, without holding the list.

use std::io;
use std::path::PathBuf;

use cannery_runtime::disk::{DirEntry, Kind};
use futures::stream::{self, BoxStream, StreamExt as _, TryStreamExt as _};
use object_store::path::Path;
use object_store::{ListResult, ObjectMeta, Result};

use super::read::meta_of;
use super::{DiskStore, Inner, PRIVATE, Stranger, generic, is_absent};

const BATCH: usize = 512;

/// A walk through the tree: one open folder a level, each with the entries still to visit.
struct Walk {
    levels: Vec<Level>,
}

struct Level {
    key: String,
    folder: PathBuf,
    /// Last first, so that the next one is popped.
    entries: Vec<(String, Kind)>,
}

impl DiskStore {
    pub(super) fn walk(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let store = self.clone();
        let prefix = prefix.cloned().unwrap_or_default();
        stream::try_unfold(None, move |walk| {
            let (store, prefix) = (store.clone(), prefix.clone());
            async move {
                let (batch, walk) = store
                    .blocking(move |inner| {
                        let mut walk = match walk {
                            Some(walk) => walk,
                            None => inner.start(&prefix)?,
                        };
                        Ok((inner.next_batch(&mut walk)?, walk))
                    })
                    .await?;
                let more = !batch.is_empty();
                Ok::<_, object_store::Error>(
                    more.then(|| (stream::iter(batch.into_iter().map(Ok)), Some(walk))),
                )
            }
        })
        .try_flatten()
        .boxed()
    }
}

impl Inner {
    fn start(&self, prefix: &Path) -> Result<Walk> {
        match self.disk.metadata(&self.root) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(object_store::Error::NotFound {
                    path: prefix.to_string(),
                    source: self.folder_missing().into(),
                });
            }
            Err(error) => return Err(generic(error)),
            Ok(_) => {}
        }
        if !prefix.is_root() {
            // Nothing private is listed, and nothing beyond a link.
            let folder = self.object_path(prefix)?;
            if self
                .disk
                .metadata(&folder)
                .is_ok_and(|found| found.kind == Kind::Other)
            {
                return Err(generic(Stranger(folder.display().to_string())));
            }
        }
        let levels = self.level(prefix.to_string())?.into_iter().collect();
        Ok(Walk { levels })
    }

    /// The entries of one folder, or `None` if it is not there (any more).
    fn level(&self, key: String) -> Result<Option<Level>> {
        let folder = if key.is_empty() {
            self.root.clone()
        } else {
            self.root.join(&key)
        };
        let found = match self.disk.read_dir(&folder) {
            Ok(found) => found,
            Err(error) if is_absent(&error) => return Ok(None),
            Err(error) => return Err(generic(error)),
        };
        let mut entries = Vec::new();
        for entry in found {
            entries.extend(usable(&entry, key.is_empty(), &folder));
        }
        // Keys sort as a whole: below a folder everything begins with its name and a slash.
        let sort_key = |(name, kind): &(String, Kind)| match kind {
            Kind::Dir => format!("{name}/"),
            Kind::File | Kind::Other => name.clone(),
        };
        entries.sort_by_cached_key(sort_key);
        entries.reverse();
        Ok(Some(Level {
            key,
            folder,
            entries,
        }))
    }

    fn next_batch(&self, walk: &mut Walk) -> Result<Vec<ObjectMeta>> {
        let mut batch = Vec::new();
        while let Some(level) = walk.levels.last_mut() {
            let Some((name, kind)) = level.entries.pop() else {
                walk.levels.pop();
                continue;
            };
            let key = if level.key.is_empty() {
                name.clone()
            } else {
                format!("{}/{name}", level.key)
            };
            if kind == Kind::Dir {
                walk.levels.extend(self.level(key)?);
                continue;
            }
            match self.disk.metadata(&level.folder.join(&name)) {
                Ok(found) => batch.push(meta_of(Path::parse(key)?, &found)),
                // Deleted since the folder was read: as if it had been deleted before.
                Err(error) if is_absent(&error) => {}
                Err(error) => return Err(generic(error)),
            }
            if batch.len() >= BATCH {
                break;
            }
        }
        Ok(batch)
    }

    pub(super) fn list_folder(&self, prefix: &Path) -> Result<ListResult> {
        let mut result = ListResult {
            common_prefixes: Vec::new(),
            objects: Vec::new(),
            extensions: object_store::Extensions::default(),
        };
        let Some(mut level) = self.start(prefix)?.levels.pop() else {
            return Ok(result);
        };
        while let Some((name, kind)) = level.entries.pop() {
            let location = prefix.clone().join(name.as_str());
            if kind == Kind::Dir {
                // Folders stay when their last object goes; an object store would not show them.
                let mut walk = self.start(&location)?;
                if self.next_batch(&mut walk)?.is_empty() {
                    continue;
                }
                result.common_prefixes.push(location);
            } else {
                match self.disk.metadata(&level.folder.join(&name)) {
                    Ok(found) => result.objects.push(meta_of(location, &found)),
                    Err(error) if is_absent(&error) => {}
                    Err(error) => return Err(generic(error)),
                }
            }
        }
        Ok(result)
    }
}

/// What in a folder is an object or a folder of objects. A name that no key can have is passed over, loudly, and so are links, pipes and
/// the like: nothing of ours is behind them, since no path of a lake goes through one, and one of them must not hide all the rest.
fn usable(entry: &DirEntry, at_root: bool, folder: &std::path::Path) -> Option<(String, Kind)> {
    if at_root && entry.name == PRIVATE {
        return None;
    }
    let name = entry.name.to_str().filter(|name| Path::parse(name).is_ok());
    let name = name.filter(|_| entry.kind != Kind::Other);
    if name.is_none() {
        let folder = folder.display().to_string();
        tracing::warn!(folder = ?folder, name = ?entry.name, "passed over: not an object of this lake");
    }
    name.map(|name| (name.to_owned(), entry.kind))
}
