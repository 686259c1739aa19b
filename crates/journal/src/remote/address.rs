//! Where the socket is. The kernel takes 107 bytes of path; a longer one goes through the open folder.

use std::io;
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};

/// The longest path that a socket address holds.
const PATH_BYTES_MAX: usize = 107;

/// A path to a socket that the kernel takes, for as long as this lives.
#[derive(Debug)]
pub(super) struct Address {
    path: PathBuf,
    /// Keeps the number in `path` from meaning something else.
    _folder: Option<OwnedFd>,
}

impl Address {
    /// The address of a socket, which need not exist; its folder must where the path is long.
    pub(super) fn of(socket: &Path) -> io::Result<Self> {
        if socket.as_os_str().len() <= PATH_BYTES_MAX {
            return Ok(Self {
                path: socket.to_owned(),
                _folder: None,
            });
        }
        let (Some(folder), Some(name)) = (socket.parent(), socket.file_name()) else {
            return Err(io::Error::from(io::ErrorKind::InvalidFilename));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(folder, flags, Mode::empty())?;
        let path = PathBuf::from(format!("/proc/self/fd/{}", folder.as_raw_fd())).join(name);
        Ok(Self {
            path,
            _folder: Some(folder),
        })
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}
