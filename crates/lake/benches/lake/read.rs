//! Reading what is in the page cache: the cost of our way to it.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;

use bytes::Bytes;
use cannery_formats::Key;
use cannery_lake::{Lake, PutNew};

use crate::bench::{Bench, KIB, MIB, key};
use crate::row::Row;

const OBJECTS: u64 = 100;
const RANGE_BYTES: u64 = 64 * KIB;
const RANGED_BYTES: u64 = 64 * MIB;

pub(crate) fn whole(bench: &Bench) -> Row {
    let folder = bench.folder();
    let lake = bench.lake(&folder);
    let keys: Vec<Key> = (0..OBJECTS).map(|n| key(&format!("{n}.json"))).collect();
    for key in &keys {
        create(bench, &lake, key, 4 * KIB);
    }
    let reads = bench.effort.reads;
    let in_turn = |n: u64| &keys[usize::try_from(n % OBJECTS).unwrap()];
    let ours = || {
        bench.rate(reads, || {
            bench.runtime.block_on(async {
                for n in 0..reads {
                    let object = lake.get(in_turn(n), MIB).await.unwrap();
                    assert_eq!(object.bytes.len() as u64, 4 * KIB);
                }
            });
        })
    };
    let reference = || {
        bench.rate(reads, || {
            for n in 0..reads {
                let content = fs::read(folder.join(in_turn(n).as_str())).unwrap();
                assert_eq!(content.len() as u64, 4 * KIB);
            }
        })
    };
    let name = "get 4 KiB, warm, with its SHA-256 as version / fs::read";
    Row::measure(name, "gets/s", bench.effort.rounds, ours, reference)
}

pub(crate) fn range(bench: &Bench) -> Row {
    let folder = bench.folder();
    let lake = bench.lake(&folder);
    let key = key("ranged");
    create(bench, &lake, &key, RANGED_BYTES);
    let file = File::open(folder.join(key.as_str())).unwrap();
    let reads = bench.effort.reads;
    let offset = || bench.rng.below(RANGED_BYTES - RANGE_BYTES);
    let ours = || {
        bench.rate(reads, || {
            bench.runtime.block_on(async {
                for _ in 0..reads {
                    let start = offset();
                    lake.get_range(&key, start..start + RANGE_BYTES)
                        .await
                        .unwrap();
                }
            });
        })
    };
    let reference = || {
        bench.rate(reads, || {
            for _ in 0..reads {
                let mut piece = vec![0; usize::try_from(RANGE_BYTES).unwrap()];
                file.read_exact_at(&mut piece, offset()).unwrap();
            }
        })
    };
    let name = "get_range 64 KiB of 64 MiB, warm / pread of an open file";
    Row::measure(name, "gets/s", bench.effort.rounds, ours, reference)
}

fn create(bench: &Bench, lake: &Lake, key: &Key, bytes: u64) {
    let content = Bytes::from(bench.content(bytes));
    let put = bench.runtime.block_on(lake.put_new(key, content));
    assert_eq!(put.unwrap(), PutNew::Created);
}
