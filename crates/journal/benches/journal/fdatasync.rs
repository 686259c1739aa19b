//! The limit: how often a second the disk makes a sector durable.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

use crate::bench::Bench;
use crate::work::{Contestant, Kind, Side, Work};

const SECTOR: u64 = 512;
const SECTORS: u64 = 65_536;

/// Overwrites the sectors of a file that is there already, one after the other, each with a sync.
pub(crate) struct Fdatasync<'a>(pub(crate) &'a Bench);

struct Sectors<'a> {
    bench: &'a Bench,
    file: File,
    next: u64,
}

impl Contestant for Fdatasync<'_> {
    fn name(&self) -> &'static str {
        "fdatasync"
    }

    fn can(&self, work: Work) -> bool {
        work == Work::new(Kind::Put, 1, 1)
    }

    fn open(&self) -> Box<dyn Side + '_> {
        let path = self.0.folder().join("sectors");
        let mut file = File::options()
            .create_new(true)
            .write(true)
            .open(path)
            .unwrap();
        // Written, not only reserved: the first write to a reserved block changes the file system too.
        let zeros = vec![0; 1 << 20];
        for _ in 0..SECTOR * SECTORS >> 20 {
            file.write_all(&zeros).unwrap();
        }
        file.sync_all().unwrap();
        Box::new(Sectors {
            bench: self.0,
            file,
            next: 0,
        })
    }

    fn pace(&self, _work: Work) -> u64 {
        0
    }
}

impl Side for Sectors<'_> {
    fn fill(&mut self, _count: u64) {}

    fn rate(&mut self, _work: Work, turn: Duration) -> f64 {
        let until = self.bench.until(turn);
        let sector = [b'x'; SECTOR as usize];
        let mut syncs = 0;
        let seconds = self.bench.seconds(|| {
            while !until.is_past() {
                let offset = self.next % SECTORS * SECTOR;
                self.file.write_all_at(&sector, offset).unwrap();
                self.file.sync_data().unwrap();
                self.next += 1;
                syncs += 1;
            }
        });
        f64::from(syncs) / seconds
    }

    fn waiting(&self) -> u64 {
        0
    }
}
