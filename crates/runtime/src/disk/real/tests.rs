//! What the machine's file system answers where the product relies on it.

use super::*;
use crate::disk::{read, write_durably};

const BYTES_MAX: u64 = 1 << 20;

#[test]
fn a_file_is_overwritten_in_place() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    write_durably(&RealDisk, &path, b"one two three").unwrap();
    let file = RealDisk.open(&path, Open::ReadWrite).unwrap();
    file.write_all_at(4, b"TWO").unwrap();
    file.sync_data().unwrap();
    let mut found = [0; 7];
    assert_eq!(file.read_at(0, &mut found).unwrap(), 7);
    assert_eq!(&found, b"one TWO");
    assert_eq!(read(&RealDisk, &path, BYTES_MAX).unwrap(), b"one TWO three");
}

#[test]
fn overwriting_makes_no_file_and_follows_no_link() {
    let dir = tempfile::tempdir().unwrap();
    let (path, link) = (dir.path().join("file"), dir.path().join("link"));
    let missing = RealDisk.open(&path, Open::ReadWrite).unwrap_err();
    assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    assert!(!path.exists());
    write_durably(&RealDisk, &path, b"text").unwrap();
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let linked = RealDisk.open(&link, Open::ReadWrite).unwrap_err();
    assert_eq!(
        linked.raw_os_error(),
        Some(rustix::io::Errno::LOOP.raw_os_error())
    );
    let folder = RealDisk.open(dir.path(), Open::ReadWrite).unwrap_err();
    assert_eq!(folder.kind(), io::ErrorKind::IsADirectory);
}

#[test]
fn what_was_cut_off_is_zero_when_the_file_grows_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    let file = RealDisk.open(&path, Open::CreateNew).unwrap();
    file.write_all_at(0, &[1; 700]).unwrap();
    file.set_len(100).unwrap();
    assert_eq!(file.len().unwrap(), 100);
    file.set_len(900).unwrap();
    file.sync_data().unwrap();
    let expected = [[1; 100].as_slice(), &[0; 800]].concat();
    assert_eq!(read(&RealDisk, &path, BYTES_MAX).unwrap(), expected);
}

#[test]
fn a_file_opened_for_reading_keeps_its_length() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("file");
    write_durably(&RealDisk, &path, b"text").unwrap();
    let file = RealDisk.open(&path, Open::Read).unwrap();
    let refused = file.set_len(0).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    assert_eq!(file.len().unwrap(), 4);
}

#[test]
fn who_holds_a_lock_may_write_into_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("lock");
    write_durably(&RealDisk, &path, b"a longer name").unwrap();
    let held = RealDisk.lock(&path, Wait::No).unwrap();
    held.file().set_len(0).unwrap();
    held.file().write_all_at(0, b"me").unwrap();
    held.file().sync_data().unwrap();
    assert_eq!(read(&RealDisk, &path, BYTES_MAX).unwrap(), b"me");
    let refused = RealDisk.lock(&path, Wait::No).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::WouldBlock);
}
