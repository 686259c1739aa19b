use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::future::Future;
use std::path::{Path, PathBuf};

use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::disk::{Open, RealDisk};
use tempfile::TempDir;

use super::*;

mod arrivals;
mod limits;
mod random;
mod scans;
mod spent;

const INTERVAL: Duration = Duration::from_secs(3_600);
const MIN_AGE: Duration = Duration::from_secs(1_800);
/// Long beyond anything that works.
const PATIENCE: Duration = Duration::from_secs(120);

/// A spool on the real disk, and a finder whose clock stands still: no scan runs but the first and those asked for.
struct Bench {
    folder: TempDir,
    time: SimulatedClock,
    finder: Finder,
    sightings: Sightings,
}

impl Bench {
    /// The spool is filled before the finder starts.
    fn with(capacity: usize, fill: impl FnOnce(&Path)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("home/exp");
        fill(&root);
        let time = SimulatedClock::starting_at(Clock::real().now());
        let parts = FinderParts {
            root,
            datatypes: vec!["foo1".into(), "bar1".into()],
            scan_interval: INTERVAL,
            min_file_age: MIN_AGE,
            disk: Arc::new(RealDisk),
            clock: time.clock(),
            census: Arc::new(Census::new(2)),
        };
        let (finder, sightings) = Finder::start(parts, capacity).unwrap();
        Self {
            folder,
            time,
            finder,
            sightings,
        }
    }

    /// An empty spool that has been scanned once.
    async fn watched() -> Self {
        let bench = Self::with(64, |root| {
            std::fs::create_dir_all(root.join("foo1")).unwrap();
        });
        bench.until(|counters| counters.scans == 1).await;
        bench
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("home/exp")
    }

    fn day(&self) -> PathBuf {
        self.root().join("foo1/2026/11/15")
    }

    async fn next(&mut self) -> Sighting {
        patiently(self.sightings.recv()).await.unwrap()
    }

    /// The next sighting, which must be of a file: `foo1/2026/11/15/a.json` and how it was found.
    async fn file(&mut self) -> (String, Evidence) {
        match self.next().await {
            Sighting::File(found) => (name_of(&found), found.evidence),
            odd @ Sighting::Odd { .. } => panic!("{odd:?}"),
        }
    }

    /// Reads on until a file has been told.
    async fn file_named(&mut self, wanted: &str) -> Evidence {
        loop {
            let (name, evidence) = self.file().await;
            if name == wanted {
                return evidence;
            }
        }
    }

    /// Waits for a state of the counters.
    async fn until(&self, reached: impl Fn(&Counters) -> bool) {
        patiently(async {
            while !reached(&self.finder.counters()) {
                Clock::real().sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }

    /// Scans once more and collects all that is told until the end of the scan.
    async fn sightings_of_next_scan(&mut self, begin: impl AsyncFnOnce(&Self)) -> Vec<Sighting> {
        let scans = self.finder.counters().scans;
        begin(self).await;
        let mut told = Vec::new();
        loop {
            let over = self.finder.counters().scans > scans;
            while let Ok(sighting) = self.sightings.try_recv() {
                told.push(sighting);
            }
            if over {
                told.sort();
                return told;
            }
            Clock::real().sleep(Duration::from_millis(1)).await;
        }
    }
}

async fn patiently<T>(work: impl Future<Output = T>) -> T {
    Clock::real().timeout(PATIENCE, work).await.unwrap()
}

fn name_of(found: &Found) -> String {
    let datatype = ["foo1", "bar1"][found.datatype];
    format!("{datatype}/{}/{}", found.date, found.name.display())
}

fn scanned(name: &str) -> Sighting {
    file(name, Evidence::Scanned)
}

/// A file of `foo1/2026/11/15`.
fn file(name: impl AsRef<OsStr>, evidence: Evidence) -> Sighting {
    let [year, month, day] = ["2026", "11", "15"].map(OsStr::new);
    Sighting::File(Found {
        datatype: 0,
        date: DateFolder::from_components(year, month, day).unwrap(),
        name: name.as_ref().into(),
        evidence,
    })
}

/// Writes a file and closes it.
fn write(path: &Path) {
    let file = RealDisk.open(path, Open::CreateNew).unwrap();
    file.write_all_at(0, b"{}").unwrap();
}

/// Makes a folder and at once a file in it.
fn write_in(folder: &Path, name: &str) {
    std::fs::create_dir_all(folder).unwrap();
    write(&folder.join(name));
}

fn rename(from: &Path, to: &Path) {
    RealDisk.rename(from, to).unwrap();
}
