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

/// How many milliseconds each sync takes, over a while: what nothing durable can be faster than.
pub(crate) fn times(bench: &Bench, turn: Duration) -> Vec<f64> {
    let mut sectors = Sectors::make(bench);
    let until = bench.until(turn);
    let mut times = vec![bench.seconds(|| sectors.sync_next()) * 1e3];
    while !until.is_past() {
        times.push(bench.seconds(|| sectors.sync_next()) * 1e3);
    }
    times
}

impl Contestant for Fdatasync<'_> {
    fn name(&self) -> &'static str {
        "fdatasync"
    }

    fn can(&self, work: Work) -> bool {
        work == Work::new(Kind::Put, 1, 1)
    }

    fn open(&self) -> Box<dyn Side + '_> {
        Box::new(Sectors::make(self.0))
    }

    fn pace(&self, _work: Work) -> u64 {
        0
    }
}

impl<'a> Sectors<'a> {
    fn make(bench: &'a Bench) -> Self {
        let path = bench.folder().join("sectors");
        let mut file = File::options()
            .create_new(true)
            .write(true)
            .open(path)
            .unwrap();
        // Written, not only reserved: the first write to a reserved block changes the file system too.
        let zeros = vec![0; 1 << 20];
        for _ in 0..(SECTOR * SECTORS) >> 20 {
            file.write_all(&zeros).unwrap();
        }
        file.sync_all().unwrap();
        Self {
            bench,
            file,
            next: 0,
        }
    }

    fn sync_next(&mut self) {
        let sector = [b'x'; 512];
        let offset = self.next % SECTORS * SECTOR;
        self.file.write_all_at(&sector, offset).unwrap();
        self.file.sync_data().unwrap();
        self.next += 1;
    }
}

impl Side for Sectors<'_> {
    fn fill(&mut self, _count: u64) {}

    fn rate(&mut self, _work: Work, turn: Duration) -> f64 {
        let until = self.bench.until(turn);
        let before = self.next;
        let bench = self.bench;
        let seconds = bench.seconds(|| {
            while !until.is_past() {
                self.sync_next();
            }
        });
        (self.next - before) as f64 / seconds
    }

    fn waiting(&self) -> u64 {
        0
    }
}
