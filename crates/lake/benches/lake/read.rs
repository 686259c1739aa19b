//! Reading what is in the page cache: the cost of our way to it.

use std::fs::{self, File};
use std::hint::black_box;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use bytes::Bytes;
use cannery_formats::Key;
use cannery_lake::{Lake, PutNew};

use crate::bench::{Bench, KIB, MIB, fresh_name, key};
use crate::row::Row;

const UNIT: &str = "gets/s";
const OBJECTS: u64 = 100;
const RANGE_BYTES: u64 = 64 * KIB;
const RANGED_BYTES: u64 = 64 * MIB;

pub(crate) fn whole(bench: &Bench) -> Row {
    let small = Small::create(bench);
    let reference = || {
        bench.rate(bench.effort.reads, || {
            for n in 0..bench.effort.reads {
                black_box(fs::read(small.path(n)).unwrap());
            }
        })
    };
    let name = "get 4 KiB, warm, with its SHA-256 as version / fs::read";
    Row::measure(
        name,
        UNIT,
        bench.effort.rounds,
        || small.ours(bench),
        reference,
    )
}

pub(crate) fn whole_beside_async(bench: &Bench) -> Row {
    let small = Small::create(bench);
    let reference = || {
        bench.rate(bench.effort.reads, || {
            bench.runtime.block_on(async {
                for n in 0..bench.effort.reads {
                    black_box(tokio::fs::read(small.path(n)).await.unwrap());
                }
            });
        })
    };
    let name = "get 4 KiB, warm, with its SHA-256 as version / tokio::fs::read";
    Row::measure(
        name,
        UNIT,
        bench.effort.rounds,
        || small.ours(bench),
        reference,
    )
}

/// Small objects, read one after the other.
struct Small {
    folder: PathBuf,
    lake: Lake,
    keys: Vec<Key>,
}

impl Small {
    fn create(bench: &Bench) -> Self {
        let folder = bench.folder();
        let lake = bench.lake(&folder);
        let keys: Vec<Key> = (0..OBJECTS).map(|_| key(&fresh_name())).collect();
        for key in &keys {
            create(bench, &lake, key, 4 * KIB);
        }
        Self { folder, lake, keys }
    }

    fn key(&self, n: u64) -> &Key {
        &self.keys[usize::try_from(n % OBJECTS).unwrap()]
    }

    fn path(&self, n: u64) -> PathBuf {
        self.folder.join(self.key(n).as_str())
    }

    fn ours(&self, bench: &Bench) -> f64 {
        bench.rate(bench.effort.reads, || {
            bench.runtime.block_on(async {
                for n in 0..bench.effort.reads {
                    black_box(self.lake.get(self.key(n), MIB).await.unwrap());
                }
            });
        })
    }
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
    Row::measure(name, UNIT, bench.effort.rounds, ours, reference)
}

fn create(bench: &Bench, lake: &Lake, key: &Key, bytes: u64) {
    let content = Bytes::from(bench.content(bytes));
    let put = bench.runtime.block_on(lake.put_new(key, content));
    assert_eq!(put.unwrap(), PutNew::Created);
}
