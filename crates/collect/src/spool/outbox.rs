//! Sealed bundles: bytes that never change, until the lake has them and the files they came from are gone.
//!
//! ```text
//! <outbox>/<id>/data.jsonl.gz
//!              /index1.jsonl.gz
//!              /bundle.jsonl     the commit: what the bundle is, then one line a file
//!              /shipped          the receipt: every mirror has both objects
//! ```
//! A folder without `bundle.jsonl` is a bundle that was never sealed, or one that is done: rubbish either way, since the
//! files are still where they were, or gone with the receipt.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cannery_formats::spool::{BundleName, Part};
use cannery_formats::{Digest, Key};
use cannery_runtime::disk::{Disk, FileId, Kind, create_dir_all, read, write_durably};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::take::Mark;

const DATA: &str = "data.jsonl.gz";
const INDEX: &str = "index1.jsonl.gz";
const BUNDLE: &str = "bundle.jsonl";
const SHIPPED: &str = "shipped";
/// Says that the outbox knows of every bundle.
const COMPLETE: &str = ".complete";
/// Where folders go that cannot be understood.
const DAMAGED: &str = ".damaged";
/// A list of files is shorter: a bundle has a bounded number of them, each with a bounded name.
const BUNDLE_BYTES_MAX: u64 = 1 << 30;

/// The outbox of one spool.
#[derive(Clone, Debug)]
pub(crate) struct Outbox {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
}

/// What a bundle is; the first line of `bundle.jsonl`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Header {
    format: u32,
    data_key: Key,
    data: Stored,
    index: Stored,
    files: usize,
}

const FORMAT: u32 = 1;

/// An object as it lies in the outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stored {
    pub(crate) bytes: u64,
    pub(crate) sha256: Digest,
}

/// One file of a bundle.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileRecord {
    pub(crate) name: Box<str>,
    device: u64,
    inode: u64,
    pub(crate) size: u64,
    modified: Timestamp,
    /// When it was read.
    pub(crate) read: Timestamp,
    pub(crate) sha256: Digest,
}

impl FileRecord {
    pub(crate) fn new(name: &str, mark: Mark, read: Timestamp, sha256: Digest) -> Self {
        Self {
            name: name.into(),
            device: mark.id.device,
            inode: mark.id.inode,
            size: mark.size,
            modified: mark.modified,
            read,
            sha256,
        }
    }

    pub(crate) fn mark(&self) -> Mark {
        Mark {
            id: FileId {
                device: self.device,
                inode: self.inode,
            },
            size: self.size,
            modified: self.modified,
        }
    }
}

/// A sealed bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sealed {
    pub(crate) id: String,
    pub(crate) name: BundleName,
    pub(crate) data: Stored,
    pub(crate) index: Stored,
    pub(crate) files: Vec<FileRecord>,
}

/// What lies in the outbox at a start.
#[derive(Debug, Default)]
pub(crate) struct Found {
    pub(crate) sealed: Vec<Sealed>,
    /// Folders that were set aside, with the reason.
    pub(crate) damaged: Vec<(String, String)>,
}

impl Outbox {
    /// Opens the outbox, which is made if it is not there.
    pub(crate) fn open(disk: Arc<dyn Disk>, dir: &Path) -> io::Result<Self> {
        create_dir_all(&*disk, dir)?;
        Ok(Self::at(disk, dir))
    }

    /// The same for who only looks: nothing is made.
    pub(crate) fn at(disk: Arc<dyn Disk>, dir: &Path) -> Self {
        Self {
            disk,
            dir: dir.to_owned(),
        }
    }

    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    fn folder(&self, id: &str) -> PathBuf {
        self.dir.join(id)
    }

    /// Where an object of a bundle lies.
    pub(crate) fn object(&self, id: &str, part: Part) -> PathBuf {
        let name = match part {
            Part::Data => DATA,
            Part::Index => INDEX,
        };
        self.folder(id).join(name)
    }

    /// Makes the folder of a new bundle; its name outlives a power cut.
    pub(crate) fn begin(&self, id: &str) -> io::Result<()> {
        self.disk.create_dir(&self.folder(id))?;
        self.disk.sync_dir(&self.dir)
    }

    /// The commit: from here on the bundle is shipped as it is. Both objects are durable before.
    pub(crate) fn commit(&self, sealed: &Sealed) -> io::Result<()> {
        let header = Header {
            format: FORMAT,
            data_key: sealed.name.data_key(),
            data: sealed.data.clone(),
            index: sealed.index.clone(),
            files: sealed.files.len(),
        };
        let mut text = line_of(&header)?;
        for file in &sealed.files {
            text.extend(line_of(file)?);
        }
        write_durably(&*self.disk, &self.folder(&sealed.id).join(BUNDLE), &text)
    }

    /// The receipt: every mirror has both objects, and the files may go.
    pub(crate) fn confirm(&self, id: &str, now: Timestamp) -> io::Result<()> {
        let text = format!("{{\"shipped\":\"{now}\"}}\n");
        write_durably(&*self.disk, &self.folder(id).join(SHIPPED), text.as_bytes())
    }

    /// Whether there is a receipt.
    pub(crate) fn is_confirmed(&self, id: &str) -> io::Result<bool> {
        exists(&*self.disk, &self.folder(id).join(SHIPPED))
    }

    /// The files are gone, durably: so is the bundle.
    pub(crate) fn forget(&self, id: &str) -> io::Result<()> {
        // First what makes it a bundle: the rest is rubbish then.
        remove_if_there(&*self.disk, &self.folder(id).join(BUNDLE))?;
        self.disk.sync_dir(&self.folder(id))?;
        self.remove(id)
    }

    /// Removes a folder with whatever is in it.
    pub(crate) fn remove(&self, id: &str) -> io::Result<()> {
        let folder = self.folder(id);
        for entry in self.disk.read_dir(&folder)? {
            self.disk.remove_file(&folder.join(entry.name))?;
        }
        self.disk.remove_dir(&folder)?;
        self.disk.sync_dir(&self.dir)
    }

    /// Reads a sealed bundle; none when it is not there.
    ///
    /// # Errors
    /// `InvalidData` when it cannot be understood.
    pub(crate) fn sealed(&self, id: &str) -> io::Result<Option<Sealed>> {
        let path = self.folder(id).join(BUNDLE);
        match read(&*self.disk, &path, BUNDLE_BYTES_MAX) {
            Ok(text) => self.parse(id, &text).map(Some),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn parse(&self, id: &str, text: &[u8]) -> io::Result<Sealed> {
        let damaged = |why: &str| io::Error::new(io::ErrorKind::InvalidData, why.to_owned());
        let mut lines = text.split(|byte| *byte == b'\n');
        let header: Header = serde_json::from_slice(lines.next().unwrap_or_default())?;
        if header.format != FORMAT {
            return Err(damaged("it was written by another version of this program"));
        }
        let name = match BundleName::parse(&header.data_key) {
            Some((name, Part::Data)) => name,
            Some((_, Part::Index)) | None => return Err(damaged("its name is none of a bundle")),
        };
        let files = lines
            .filter(|line| !line.is_empty())
            .map(serde_json::from_slice)
            .collect::<Result<Vec<FileRecord>, _>>()?;
        if files.len() != header.files {
            return Err(damaged("it lists another number of files than it says"));
        }
        for (part, stored) in [(Part::Data, &header.data), (Part::Index, &header.index)] {
            let found = self.disk.metadata(&self.object(id, part))?;
            if found.len != stored.bytes {
                return Err(damaged("an object in it has another length than it says"));
            }
        }
        Ok(Sealed {
            id: id.to_owned(),
            name,
            data: header.data,
            index: header.index,
            files,
        })
    }

    /// Whether the outbox knows of every bundle: not when it is new, or was lost and made again.
    pub(crate) fn is_complete(&self) -> io::Result<bool> {
        exists(&*self.disk, &self.dir.join(COMPLETE))
    }

    /// From now on it does: everything that lay in the spool was compared with the lake.
    pub(crate) fn set_complete(&self) -> io::Result<()> {
        write_durably(&*self.disk, &self.dir.join(COMPLETE), b"")
    }

    /// What is there at a start: sealed bundles in the order in which they were opened. Rubbish is removed, and what
    /// cannot be understood is set aside.
    pub(crate) fn recover(&self) -> io::Result<Found> {
        let mut found = Found::default();
        for id in self.ids()? {
            match self.sealed(&id) {
                Ok(Some(sealed)) => found.sealed.push(sealed),
                Ok(None) => self.remove(&id)?,
                Err(error) if is_damage(&error) => {
                    self.set_aside_damaged(&id)?;
                    found.damaged.push((id, error.to_string()));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// The sealed bundles that are there, in the order in which they were opened; for who ends. Nothing is changed, since
    /// somebody may still be at it.
    pub(crate) fn left(&self) -> io::Result<Vec<String>> {
        let mut left = Vec::new();
        for id in self.ids()? {
            if exists(&*self.disk, &self.folder(&id).join(BUNDLE))? {
                left.push(id);
            }
        }
        Ok(left)
    }

    fn ids(&self) -> io::Result<Vec<String>> {
        let mut ids = Vec::new();
        for entry in self.disk.read_dir(&self.dir)? {
            if entry.kind == Kind::Dir
                && let Ok(id) = entry.name.into_string()
                && !id.starts_with('.')
            {
                ids.push(id);
            }
        }
        ids.sort();
        Ok(ids)
    }

    /// Sets a folder aside whose bundle cannot be used.
    pub(crate) fn set_aside_damaged(&self, id: &str) -> io::Result<()> {
        // What it held may be in the lake, and nobody here knows any more.
        remove_if_there(&*self.disk, &self.dir.join(COMPLETE))?;
        self.disk.sync_dir(&self.dir)?;
        self.set_aside(id)
    }

    /// Removes what may be left of a folder that is no bundle any more.
    pub(crate) fn remove_rest(&self, id: &str) -> io::Result<()> {
        match self.remove(id) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            removed => removed,
        }
    }

    fn set_aside(&self, id: &str) -> io::Result<()> {
        let aside = self.dir.join(DAMAGED);
        create_dir_all(&*self.disk, &aside)?;
        self.disk.rename(&self.folder(id), &aside.join(id))?;
        self.disk.sync_dir(&aside)?;
        self.disk.sync_dir(&self.dir)
    }
}

fn is_damage(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::InvalidData | io::ErrorKind::UnexpectedEof | io::ErrorKind::NotFound
    )
}

fn line_of(value: &impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(value)?;
    line.push(b'\n');
    Ok(line)
}

pub(super) fn exists(disk: &dyn Disk, path: &Path) -> io::Result<bool> {
    match disk.metadata(path) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

pub(super) fn remove_if_there(disk: &dyn Disk, path: &Path) -> io::Result<()> {
    match disk.remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}
