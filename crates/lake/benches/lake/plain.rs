//! The references: what a program does that asks the file system and nothing else.

use std::fs::{self, File};
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sha2::{Digest as _, Sha256};

use crate::bench::MIB;

/// The least that makes a new file survive a power cut whole: write aside, sync, rename, sync of the folder.
pub(crate) fn put(folder: &Path, name: &str, content: &[u8]) {
    let temp = folder.join(format!(".{name}"));
    let mut file = File::create_new(&temp).unwrap();
    file.write_all(content).unwrap();
    file.sync_all().unwrap();
    rename(&temp, &folder.join(name));
    File::open(folder).unwrap().sync_all().unwrap();
}

#[allow(
    clippy::disallowed_methods,
    reason = "the reference is the bare system call"
)]
fn rename(from: &Path, to: &Path) {
    fs::rename(from, to).unwrap();
}

/// Copies a file durably and hashes it on the way, in one pass.
pub(crate) fn copy_and_hash(from: &Path, to: &Path) -> [u8; 32] {
    let (mut source, mut target) = (File::open(from).unwrap(), File::create_new(to).unwrap());
    let mut hasher = Sha256::new();
    let mut buffer = vec![0; usize::try_from(MIB).unwrap()];
    loop {
        match source.read(&mut buffer).unwrap() {
            0 => break,
            n => {
                hasher.update(&buffer[..n]);
                target.write_all(&buffer[..n]).unwrap();
            }
        }
    }
    target.sync_all().unwrap();
    hasher.finalize().into()
}

/// Every file below a folder, with its length and time.
pub(crate) fn walk(folder: &Path, found: &mut Vec<(PathBuf, u64, SystemTime)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_dir() {
            walk(&entry.path(), found);
        } else {
            let metadata = entry.metadata().unwrap();
            found.push((entry.path(), metadata.len(), metadata.modified().unwrap()));
        }
    }
}
