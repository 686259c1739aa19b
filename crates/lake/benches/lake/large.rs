//! Creating one object that is too large for a single put.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::Write as _;

use cannery_lake::{Body, PutNew};

use crate::bench::{Bench, MIB, fresh_name, key};
use crate::plain;
use crate::row::Row;

pub(crate) fn put(bench: &Bench) -> Row {
    let folder = bench.folder();
    let lake = bench.lake(&bench.folder());
    let bytes = bench.effort.large_bytes;
    let source = folder.join("source");
    let mut file = File::create_new(&source).unwrap();
    file.write_all(&bench.content(bytes)).unwrap();
    file.sync_all().unwrap();
    let ours = || {
        let key = key(&fresh_name());
        let rate = bench.rate(bytes / MIB, || {
            let put = bench
                .runtime
                .block_on(lake.put_new(&key, Body::File(source.clone())));
            assert_eq!(put.unwrap(), PutNew::Created);
        });
        bench.runtime.block_on(lake.delete(&key)).unwrap();
        rate
    };
    let reference = || {
        let copy = folder.join(fresh_name());
        let rate = bench.rate(bytes / MIB, || {
            black_box(plain::copy_and_hash(&source, &copy));
        });
        fs::remove_file(copy).unwrap();
        rate
    };
    let name = format!(
        "put_new {} MiB file, digest included / copy, SHA-256 and fsync",
        bytes / MIB
    );
    Row::measure(name, "MiB/s", bench.effort.rounds, ours, reference)
}
