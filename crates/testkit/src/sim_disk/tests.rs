//! The simulator is worth what it can refute: next to what must hold stand writers that are wrong, and are caught.

use std::io;
use std::path::Path;

use cannery_runtime::disk::{Disk, DiskFile, Open, create_dir_all, read, write_durably};

use super::SimDisk;

mod crashes;
mod durable_code;
mod faults;
mod in_place;
mod like_linux;
mod locks;

/// Enough that an outcome of one in ten is missed once in a billion.
const SEEDS: std::ops::Range<u64> = 0..200;

/// Longer than any file of these tests.
const BYTES_MAX: u64 = 1 << 20;

fn content(disk: &SimDisk, path: &str) -> io::Result<Vec<u8>> {
    read(disk, Path::new(path), BYTES_MAX)
}

fn exists(disk: &SimDisk, path: &str) -> bool {
    match disk.metadata(Path::new(path)) {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
            false
        }
    }
}

/// A new file with content, and nothing synced.
fn create(disk: &SimDisk, path: &str, content: &[u8]) -> Box<dyn DiskFile> {
    let file = disk.open(Path::new(path), Open::CreateNew).unwrap();
    file.write_all_at(0, content).unwrap();
    file
}

fn sync_dir(disk: &SimDisk, path: &str) {
    disk.sync_dir(Path::new(path)).unwrap();
}

/// A disk with the folders `a` and `b`, durable.
fn disk_with_folders() -> SimDisk {
    let disk = SimDisk::new(0);
    create_dir_all(&disk, Path::new("a")).unwrap();
    create_dir_all(&disk, Path::new("b")).unwrap();
    disk
}

/// How often each outcome came, over all seeds.
fn outcomes<T: Ord>(
    disk: &SimDisk,
    of: impl Fn(&SimDisk) -> T,
) -> std::collections::BTreeMap<T, usize> {
    let mut counts = std::collections::BTreeMap::new();
    for seed in SEEDS {
        *counts.entry(of(&disk.crash_with(seed))).or_default() += 1;
    }
    counts
}

/// Everything on a disk as text: folders with their names, files with their bytes.
fn dump(disk: &SimDisk) -> String {
    fn add(disk: &SimDisk, path: &Path, text: &mut String) {
        for entry in disk.read_dir(path).unwrap() {
            let path = path.join(entry.name);
            let found = disk.metadata(&path).unwrap();
            text.push_str(&format!(
                "{} {:?} {}",
                path.display(),
                found.kind,
                found.modified
            ));
            match entry.kind {
                cannery_runtime::disk::Kind::Dir => {
                    text.push('\n');
                    add(disk, &path, text);
                }
                cannery_runtime::disk::Kind::File | cannery_runtime::disk::Kind::Other => {
                    text.push_str(&format!(" {:?}\n", read(disk, &path, BYTES_MAX).unwrap()));
                }
            }
        }
    }
    let mut text = String::new();
    add(disk, Path::new("."), &mut text);
    text
}

#[test]
fn a_path_may_be_spelled_in_several_ways() {
    let disk = SimDisk::new(0);
    create_dir_all(&disk, Path::new("/x/y")).unwrap();
    write_durably(&disk, Path::new("./x/y/file"), b"text").unwrap();
    for path in ["x/y/file", "/x/y/file", "x/./y/../y/file", "/../x/y/file"] {
        assert_eq!(content(&disk, path).unwrap(), b"text", "{path}");
    }
}
