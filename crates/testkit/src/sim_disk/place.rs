//! From a path to a node, as Linux looks names up.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path};

use rustix::io::Errno;

use super::inode::NodeId;
use super::tree::{ROOT, Tree};

const NAME_BYTES_MAX: usize = 255;
const PATH_BYTES_MAX: usize = 4095;

/// A place for a name: its folder, the way there from the root, and what has the name now.
pub(super) struct Place {
    pub(super) trail: Vec<NodeId>,
    pub(super) folder: NodeId,
    pub(super) name: OsString,
    pub(super) node: Option<NodeId>,
}

impl Tree {
    /// What a path leads to.
    pub(super) fn find(&self, path: &Path) -> io::Result<NodeId> {
        check(path)?;
        Ok(*self
            .walk(path)?
            .last()
            .expect("every trail begins at the root"))
    }

    /// The nodes from the root to `path`; the empty path is the root.
    fn walk(&self, path: &Path) -> Result<Vec<NodeId>, Errno> {
        let mut trail = vec![ROOT];
        for component in path.components() {
            let here = *trail.last().expect("the root is never popped");
            match component {
                Component::Prefix(_) | Component::RootDir | Component::CurDir => {}
                Component::ParentDir => {
                    self.names(here)?;
                    trail.truncate(1.max(trail.len() - 1));
                }
                Component::Normal(name) => trail.push(self.child(here, name)?.ok_or(Errno::NOENT)?),
            }
        }
        Ok(trail)
    }

    fn child(&self, folder: NodeId, name: &OsStr) -> Result<Option<NodeId>, Errno> {
        let names = self.names(folder)?;
        if name.len() > NAME_BYTES_MAX {
            return Err(Errno::NAMETOOLONG);
        }
        Ok(names.get(name).copied())
    }

    /// The place `path` speaks of; `nameless` is the error when it is the root or ends in `..`.
    pub(super) fn place(&self, path: &Path, nameless: Errno) -> io::Result<Place> {
        check(path)?;
        let (Some(parent), Some(name)) = (path.parent(), path.file_name()) else {
            self.walk(path)?;
            return Err(nameless.into());
        };
        let trail = self.walk(parent)?;
        let folder = *trail.last().expect("every trail begins at the root");
        let node = self.child(folder, name)?;
        Ok(Place {
            trail,
            folder,
            name: name.to_owned(),
            node,
        })
    }
}

fn check(path: &Path) -> Result<(), Errno> {
    let text = path.as_os_str().as_encoded_bytes();
    if text.is_empty() {
        Err(Errno::NOENT)
    } else if text.contains(&0) {
        Err(Errno::INVAL)
    } else if text.len() > PATH_BYTES_MAX {
        Err(Errno::NAMETOOLONG)
    } else {
        Ok(())
    }
}
