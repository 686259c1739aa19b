//! Listing a whole lake.

use std::path::Path;

use crate::bench::Bench;
use crate::plain;
use crate::row::Row;

const OBJECTS_PER_FOLDER: u64 = 100;

pub(crate) fn all(bench: &Bench) -> Row {
    let folder = bench.folder();
    let lake = bench.lake(&folder);
    let objects = bench.effort.listed_folders * OBJECTS_PER_FOLDER;
    fill(&folder, bench.effort.listed_folders);
    let ours = || {
        bench.rate(objects, || {
            let found = bench.runtime.block_on(lake.list_all(None)).unwrap();
            assert_eq!(found.len() as u64, objects);
        })
    };
    let reference = || {
        bench.rate(objects, || {
            let mut found = Vec::new();
            plain::walk(&folder, &mut found);
            assert_eq!(found.len() as u64, objects);
        })
    };
    let name = format!("list {objects} objects in key order / read_dir and metadata, no order");
    Row::measure(name, "objects/s", bench.effort.rounds, ours, reference)
}

/// Objects of a `file:` lake are plain files, so they need not be put one by one.
fn fill(root: &Path, folders: u64) {
    for number in 0..folders {
        let folder = root.join(format!("feed/{number:04}"));
        std::fs::create_dir_all(&folder).unwrap();
        for object in 0..OBJECTS_PER_FOLDER {
            std::fs::File::create_new(folder.join(format!("{object:04}.json"))).unwrap();
        }
    }
}
