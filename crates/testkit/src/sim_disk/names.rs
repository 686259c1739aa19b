//! What a program can do to names, with the answers of Linux.

use std::io;
use std::path::Path;
use std::time::{Duration, SystemTime};

use cannery_runtime::disk::{DirEntry, FileId, Kind, Metadata};
use rustix::io::Errno;

use super::inode::{Body, File, Folder, NodeId};
use super::place::Place;
use super::tree::{Handle, Tree};

/// The start of 2020: modified times are this and one second for every change.
const MODIFIED_BASE: Duration = Duration::from_secs(1_577_836_800);

impl Tree {
    /// Opens a file or, as Linux does for reading, a folder.
    pub(super) fn open(&self, path: &Path) -> io::Result<Handle> {
        Ok(self.handle(self.find(path)?))
    }

    /// Opens a file for writing.
    pub(super) fn open_file(&self, path: &Path) -> io::Result<Handle> {
        let node = self.find(path)?;
        if !self.is_file(node) {
            return Err(Errno::ISDIR.into());
        }
        Ok(self.handle(node))
    }

    pub(super) fn create_file(&mut self, path: &Path) -> io::Result<Handle> {
        let node = self.create(path, Body::File(File::default()))?;
        Ok(self.handle(node))
    }

    pub(super) fn create_dir(&mut self, path: &Path) -> io::Result<()> {
        self.create(path, Body::Folder(Folder::default())).map(drop)
    }

    fn create(&mut self, path: &Path, body: Body) -> io::Result<NodeId> {
        let place = self.place(path, Errno::EXIST)?;
        if place.node.is_some() {
            return Err(Errno::EXIST.into());
        }
        let node = self.add(body);
        self.change(place.folder, vec![(place.name, Some(node))]);
        Ok(node)
    }

    pub(super) fn remove_file(&mut self, path: &Path) -> io::Result<()> {
        let place = self.place(path, Errno::ISDIR)?;
        if !self.is_file(place.node.ok_or(Errno::NOENT)?) {
            return Err(Errno::ISDIR.into());
        }
        self.change(place.folder, vec![(place.name, None)]);
        Ok(())
    }

    pub(super) fn remove_dir(&mut self, path: &Path) -> io::Result<()> {
        let place = self.place(path, Errno::BUSY)?;
        if !self.names(place.node.ok_or(Errno::NOENT)?)?.is_empty() {
            return Err(Errno::NOTEMPTY.into());
        }
        self.change(place.folder, vec![(place.name, None)]);
        Ok(())
    }

    pub(super) fn rename(&mut self, from: &Path, to: &Path, replace: bool) -> io::Result<()> {
        let from = self.place(from, Errno::BUSY)?;
        let to = self.place(to, Errno::BUSY)?;
        let node = from.node.ok_or(Errno::NOENT)?;
        if to.node.is_some() && !replace {
            return Err(Errno::EXIST.into());
        }
        if to.trail.contains(&node) {
            return Err(Errno::INVAL.into());
        }
        if let Some(target) = to.node {
            if target == node {
                // Two names of one file, as a crash can leave them: POSIX wants both kept.
                return Ok(());
            }
            self.check_replaceable(node, target, &from)?;
        }
        let (set, unset) = ((to.name, Some(node)), (from.name, None));
        if from.folder == to.folder {
            self.change(to.folder, vec![unset, set]);
        } else {
            self.change(to.folder, vec![set]);
            self.change(from.folder, vec![unset]);
        }
        Ok(())
    }

    fn check_replaceable(&self, node: NodeId, target: NodeId, from: &Place) -> Result<(), Errno> {
        if from.trail.contains(&target) {
            return Err(Errno::NOTEMPTY);
        }
        match (self.names(node).is_ok(), self.names(target)) {
            (true, Ok(names)) if !names.is_empty() => Err(Errno::NOTEMPTY),
            (true, Err(not_a_folder)) => Err(not_a_folder),
            (false, Ok(_)) => Err(Errno::ISDIR),
            (true, Ok(_)) | (false, Err(_)) => Ok(()),
        }
    }

    pub(super) fn list(&self, path: &Path) -> io::Result<Vec<DirEntry>> {
        let names = self.names(self.find(path)?)?.iter();
        Ok(names
            .map(|(name, id)| DirEntry {
                name: name.clone(),
                kind: self.kind(*id),
            })
            .collect())
    }

    pub(super) fn metadata(&self, path: &Path) -> io::Result<Metadata> {
        self.metadata_of(self.find(path)?)
    }

    pub(super) fn metadata_of(&self, id: NodeId) -> io::Result<Metadata> {
        let since_base = Duration::from_secs(self.node(id).modified);
        let modified = SystemTime::UNIX_EPOCH + MODIFIED_BASE + since_base;
        let modified = modified
            .try_into()
            .expect("no test makes changes for centuries");
        Ok(Metadata {
            kind: self.kind(id),
            len: self.len(id),
            modified,
            id: FileId {
                device: 1,
                inode: id,
            },
            links: 1,
            owner: 0,
        })
    }

    fn kind(&self, id: NodeId) -> Kind {
        if self.is_file(id) {
            Kind::File
        } else {
            Kind::Dir
        }
    }
}
