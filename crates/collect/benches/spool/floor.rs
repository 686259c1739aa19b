//! The least that has to be done, by one thread.

use std::io::Write as _;
use std::path::Path;

use cannery_runtime::disk::{Open, read_file};
use cannery_runtime::{Disk as _, RealDisk};
use flate2::Compression;
use flate2::write::GzEncoder;

use crate::FILE_BYTES;
use crate::usage::{Used, measure};

/// Reads, compresses and unlinks every file of a folder.
pub(crate) fn run(date: &Path, folder: &Path) -> Used {
    measure(|| {
        let out = std::fs::OpenOptions::new()
            .create_new(true)
            .write(true)
            .open(folder.join("all.jsonl.gz"))
            .unwrap();
        let mut gzip = GzEncoder::new(std::io::BufWriter::new(out), Compression::new(6));
        for entry in RealDisk.read_dir(date).unwrap() {
            let path = date.join(entry.name);
            let file = RealDisk.open(&path, Open::Read).unwrap();
            gzip.write_all(&read_file(&*file, FILE_BYTES as u64).unwrap())
                .unwrap();
            RealDisk.remove_file(&path).unwrap();
        }
        gzip.finish()
            .unwrap()
            .into_inner()
            .unwrap()
            .sync_all()
            .unwrap();
    })
}
