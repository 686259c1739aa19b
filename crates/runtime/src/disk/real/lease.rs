//! Whether a file is being written: a read lease is given only while nobody has it open for writing.

use std::fs::File;
use std::io;

/// Asks for a read lease and gives it back at once. Nothing where leases are not given: on a file of somebody else, without
/// the right to take them, and on file systems that have none.
pub(super) fn has_writer(file: &File) -> io::Result<Option<bool>> {
    match crate::sys::set_lease(file, crate::sys::Lease::Read) {
        Ok(()) => {
            crate::sys::set_lease(file, crate::sys::Lease::None)?;
            Ok(Some(false))
        }
        Err(error) if error.raw_os_error() == Some(libc::EAGAIN) => Ok(Some(true)),
        Err(error)
            if matches!(
                error.raw_os_error(),
                Some(libc::EACCES | libc::EINVAL | libc::EPERM | libc::ENOLCK | libc::EOPNOTSUPP)
            ) =>
        {
            Ok(None)
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_noticed_until_it_has_closed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        let writer = File::create(&path).unwrap();
        let reader = File::open(&path).unwrap();
        assert_ne!(has_writer(&reader).unwrap(), Some(false));
        drop(writer);
        assert_ne!(has_writer(&reader).unwrap(), Some(true));
    }
}
