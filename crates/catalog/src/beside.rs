//! A catalog that is made anew beside another, and takes its place in one transaction.
//!
//! Until then the old one is as it was, for readers and for loads; a crash leaves it so. What a crash leaves of the new one
//! is removed by the next that is begun. Two at once are refused: neither would be whole.
//!
//! SQLite: the new one is a file in a folder beside the old one, and its tables are copied over. PostgreSQL: it stands in a
//! schema of its own, and its tables are moved.

use std::path::{Path, PathBuf};

use cannery_database::{Address, Session};
use cannery_runtime::folder_lock::{FolderLock, FolderLockError};
use cannery_runtime::{Clock, Disk as _, RealDisk};

use crate::catalog::Catalog;
use crate::error::{Error, ErrorKind};

mod postgres;
mod sqlite;

/// The schema of a new catalog in a PostgreSQL database.
const NEW_NAMESPACE: &str = "cannery_catalog_new";
/// What the folder of a new catalog is named, after the file of the old one.
const FOLDER_END: &str = ".rebuild";
const FILE: &str = "catalog.db";

/// A new catalog beside the old one.
pub struct Beside {
    old: Catalog,
    new: Catalog,
    hold: Hold,
}

/// What keeps others from doing the same, and where the new one is.
enum Hold {
    Folder { file: PathBuf, _lock: FolderLock },
    Server(Box<dyn Session>),
}

impl std::fmt::Debug for Beside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Beside")
            .field("old", &self.old)
            .finish_non_exhaustive()
    }
}

impl Beside {
    /// Opens the catalog at `address`, and an empty one beside it.
    ///
    /// # Errors
    /// `Conflict` when somebody else does the same; those of [`Catalog::open`].
    pub async fn open(address: &str, clock: Clock) -> Result<Self, Error> {
        let old = Catalog::open(address, clock.clone()).await?;
        let place = Address::parse(address, "cannery catalog")?;
        let Address::Sqlite(path) = place else {
            let mut session = old.database().writer().await?;
            postgres::begin(session.as_mut()).await?;
            let new = Catalog::open_in(address, NEW_NAMESPACE, clock).await?;
            let hold = Hold::Server(session);
            return Ok(Self { old, new, hold });
        };
        let mut folder = path.as_os_str().to_owned();
        folder.push(FOLDER_END);
        let folder = PathBuf::from(folder);
        let lock = FolderLock::acquire(&RealDisk, &folder, "cannery rebuild", &clock);
        let _lock = lock.map_err(|error| held(&error))?;
        let file = folder.join(FILE);
        remove(&file)?;
        let text = file.to_str().ok_or_else(|| {
            Error::invalid(format!("`{}` is no text; move the catalog", file.display()))
        })?;
        let new = Catalog::open(&format!("sqlite:{text}"), clock).await?;
        let hold = Hold::Folder { file, _lock };
        Ok(Self { old, new, hold })
    }

    /// The catalog that is there.
    #[must_use]
    pub fn old(&self) -> &Catalog {
        &self.old
    }

    /// The new one.
    #[must_use]
    pub fn new_one(&self) -> &Catalog {
        &self.new
    }

    /// Puts the new one in the place of the old one, in one transaction. The answer is the catalog as it is now.
    ///
    /// # Errors
    /// `Corrupt` when the new one contradicts itself, `Conflict` when something that is not ours depends on a table of the
    /// old one; by kind. The old one is then as it was; after `Unavailable` it may be the new one.
    pub async fn take_over(mut self) -> Result<Catalog, Error> {
        let findings = self.new.check().await?;
        if let Some(first) = findings.first() {
            return Err(Error::corrupt(format!(
                "the new catalog contradicts itself: {first}; the old one is as it was"
            )));
        }
        match &mut self.hold {
            Hold::Folder { file, .. } => {
                self.new.close().await;
                let mut session = self.old.database().writer().await?;
                sqlite::take_over(session.as_mut(), file).await?;
                remove(file)?;
            }
            Hold::Server(session) => {
                self.new.close().await;
                postgres::take_over(session.as_mut()).await?;
                postgres::end(session.as_mut()).await;
            }
        }
        Ok(self.old)
    }

    /// Removes the new one. The answer is the old one.
    ///
    /// # Errors
    /// By kind; the next one that is begun removes what is left.
    pub async fn discard(mut self) -> Result<Catalog, Error> {
        self.new.close().await;
        match &mut self.hold {
            Hold::Folder { file, .. } => remove(file)?,
            Hold::Server(session) => {
                postgres::discard(session.as_mut()).await?;
                postgres::end(session.as_mut()).await;
            }
        }
        Ok(self.old)
    }
}

fn held(error: &FolderLockError) -> Error {
    let kind = match error {
        FolderLockError::Held { .. } => ErrorKind::Conflict,
        FolderLockError::Io { .. } => ErrorKind::Denied,
    };
    Error::new(kind, format!("cannot make a new catalog: {error}"))
}

/// Removes a file of SQLite and what belongs to it.
fn remove(file: &Path) -> Result<(), Error> {
    for end in ["", "-wal", "-shm", "-journal"] {
        let mut path = file.as_os_str().to_owned();
        path.push(end);
        let path = PathBuf::from(path);
        match RealDisk.remove_file(&path) {
            Err(why) if why.kind() != std::io::ErrorKind::NotFound => {
                let message = format!("cannot remove `{}`: {why}", path.display());
                return Err(Error::new(ErrorKind::Denied, message));
            }
            Ok(()) | Err(_) => {}
        }
    }
    Ok(())
}
