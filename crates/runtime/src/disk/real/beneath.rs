//! Opening files in a folder that others write to.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// A pipe must not be waited for, a terminal not become ours.
fn flags() -> OFlags {
    OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC
}

pub(super) fn open(root: &Path, below: &Path) -> io::Result<File> {
    let folder = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat(CWD, root, folder, Mode::empty())?;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match openat2(&root, below, flags(), Mode::empty(), resolve) {
        // Before Linux 5.6, and where a sandbox does not know the call.
        Err(Errno::NOSYS | Errno::PERM) => walk(root, below),
        opened => Ok(File::from(opened?)),
    }
}

/// The same, one component at a time.
fn walk(root: OwnedFd, below: &Path) -> io::Result<File> {
    let mut folder = root;
    let mut components = below.components().peekable();
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else {
            return Err(Errno::XDEV.into());
        };
        if components.peek().is_none() {
            return Ok(File::from(openat(&folder, name, flags(), Mode::empty())?));
        }
        let through = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        folder = openat(&folder, name, through, Mode::empty())?;
    }
    Err(Errno::ISDIR.into())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    type Way<'a> = &'a dyn Fn(&Path) -> io::Result<File>;

    #[test]
    fn nothing_leads_out_and_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        std::fs::create_dir_all(root.join("a/b")).unwrap();
        File::create(root.join("a/b/file")).unwrap();
        File::create(folder.path().join("outside")).unwrap();
        symlink("b", root.join("a/link")).unwrap();
        symlink("file", root.join("a/b/name")).unwrap();
        let ways: [Way<'_>; 2] = [&|below| open(&root, below), &|below| {
            let folder = OFlags::PATH | OFlags::DIRECTORY;
            walk(openat(CWD, &root, folder, Mode::empty())?, below)
        }];
        for (place, way) in ways.iter().enumerate() {
            way(Path::new("a/b/file")).unwrap();
            for wrong in [
                "../outside",
                "a/link/file",
                "a/b/name",
                "/etc/hostname",
                "a/b/none",
                "a/b/../b/../../../outside",
            ] {
                assert!(way(Path::new(wrong)).is_err(), "{place}: {wrong}");
            }
        }
    }
}
