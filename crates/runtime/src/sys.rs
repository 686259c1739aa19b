//! System calls that no safe crate offers: the one place with `unsafe` code.
#![allow(unsafe_code, reason = "reviewed here, each call with its reason")]

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd as _;

/// What is asked of [`set_lease`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lease {
    /// To be told before somebody opens the file for writing; refused while somebody has.
    Read,
    /// To give it back.
    None,
}

/// Begins to write a range of a file to the disk (`sync_file_range`); where the system cannot, the sync does all of it.
pub(crate) fn begin_writing(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    let (Ok(offset), Ok(bytes)) = (i64::try_from(offset), i64::try_from(bytes)) else {
        return Err(io::ErrorKind::InvalidInput.into());
    };
    let flags = libc::SYNC_FILE_RANGE_WRITE;
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the call takes integers and touches no memory.
    let done = unsafe { libc::sync_file_range(file.as_raw_fd(), offset, bytes, flags) };
    match io::Error::last_os_error() {
        error if done == -1 && error.raw_os_error() != Some(libc::ENOSYS) => Err(error),
        _ => Ok(()),
    }
}

/// Takes or gives back a lease on an open file (`F_SETLEASE`).
pub(crate) fn set_lease(file: &File, lease: Lease) -> io::Result<()> {
    let kind = match lease {
        Lease::Read => libc::F_RDLCK,
        Lease::None => libc::F_UNLCK,
    };
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the call takes an int and touches no memory.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, kind) };
    if done == -1 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
