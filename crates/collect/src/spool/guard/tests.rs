use std::path::{Path, PathBuf};

use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::disk::{Disk as _, create_dir_all, write_durably};
use cannery_testkit::sim_disk::SimDisk;

use super::super::crash_tests::settings;
use super::super::progress::tests::at;
use super::*;

struct Bench {
    disk: SimDisk,
    time: SimulatedClock,
    quarantine: Arc<Mutex<Quarantine>>,
    progress: Arc<Progress>,
    guard: Guard,
}

impl Bench {
    fn new(bytes_max: u64, policy: SpoolFull) -> Self {
        let disk = SimDisk::new(1);
        let time = SimulatedClock::starting_at(at(0));
        let mut settings = settings();
        settings.spool_bytes_max = Some(bytes_max);
        settings.spool_full = policy;
        let shared = Arc::new(disk.clone());
        let quarantine = Quarantine::open(shared, time.clock(), &settings.home, 1 << 20).unwrap();
        let quarantine = Arc::new(Mutex::new(quarantine));
        let progress = Arc::new(Progress::new(&settings));
        let guard = Guard::new(&settings, Arc::clone(&quarantine), Arc::clone(&progress));
        Self {
            disk,
            time,
            quarantine,
            progress,
            guard,
        }
    }

    /// A bad file, in quarantine.
    async fn bad(&self, name: &str, bytes: usize) {
        self.time.advance(Duration::from_secs(1)).await;
        let path = self.file(name, bytes);
        let mut quarantine = self.quarantine.lock().unwrap();
        quarantine.put(&path, name, "json", "text").unwrap();
    }

    fn file(&self, name: &str, bytes: usize) -> PathBuf {
        let path = Path::new("/spool/ndt/foo1/2026/11/15").join(name);
        create_dir_all(&self.disk, path.parent().unwrap()).unwrap();
        write_durably(&self.disk, &path, &vec![b'x'; bytes]).unwrap();
        path
    }

    fn kept(&self) -> Vec<String> {
        let kept = self.quarantine.lock().unwrap().list().unwrap();
        let file = |reason: crate::quarantine::Reason| reason.file;
        kept.into_iter()
            .filter_map(|kept| kept.reason.map(file))
            .collect()
    }

    /// Whether the spool is full, and what was evicted so far.
    fn look(&mut self) -> (bool, u64) {
        self.progress.census().scan_again();
        self.guard.look_if_due();
        let snapshot = self.progress.snapshot();
        assert_eq!(snapshot.full, snapshot.spool_bytes > 20_000);
        (snapshot.full, snapshot.quarantine_evictions)
    }
}

#[tokio::test]
async fn a_spool_that_refuses_says_that_it_is_full_and_deletes_nothing() {
    let mut bench = Bench::new(20_000, SpoolFull::Refuse);
    assert_eq!(bench.look(), (false, 0));
    bench.bad("a", 9_000).await;
    bench.bad("b", 9_000).await;
    assert_eq!(bench.look(), (false, 0));
    bench.progress.census().heard_of(0, 3_000, at(0));
    assert_eq!(bench.look(), (true, 0));
    assert_eq!(bench.look(), (true, 0));
    assert_eq!(bench.kept(), ["a", "b"]);
    // The file is shipped.
    bench.progress.census().gone(0, 1, 3_000);
    assert_eq!(bench.look(), (false, 0));
}

#[tokio::test]
async fn the_oldest_bad_files_go_and_never_a_good_one() {
    let mut bench = Bench::new(20_000, SpoolFull::DropOldestBad);
    for name in ["a", "b", "c"] {
        bench.bad(name, 5_000).await;
    }
    let good = bench.file("good.json", 9_000);
    bench.progress.census().heard_of(0, 9_000, at(0));
    assert_eq!(bench.look(), (false, 1));
    assert_eq!(bench.kept(), ["b", "c"]);
    // Good files alone are too many.
    bench.progress.census().heard_of(0, 30_000, at(0));
    assert_eq!(bench.look(), (true, 3));
    assert_eq!(bench.kept(), [""; 0]);
    assert_eq!(bench.disk.metadata(&good).unwrap().len, 9_000);
}

#[tokio::test]
async fn what_others_put_into_the_quarantine_counts() {
    let mut bench = Bench::new(20_000, SpoolFull::Refuse);
    let (disk, clock) = (Arc::new(bench.disk.clone()), bench.time.clock());
    let mut other = Quarantine::open(disk, clock, Path::new("/spool"), 1 << 20).unwrap();
    let path = bench.file("a", 30_000);
    other.put(&path, "wehe/a", "json", "text").unwrap();
    assert_eq!(bench.look(), (true, 0));
    assert_eq!(bench.progress.snapshot().quarantine_bytes, other.bytes());
}

/// A disk that fails while room is made: nothing is deleted but what was said, and the next look makes it good.
#[tokio::test]
async fn a_disk_that_fails_is_looked_at_again() {
    for number in 1.. {
        let mut bench = Bench::new(20_000, SpoolFull::DropOldestBad);
        for name in ["a", "b", "c"] {
            bench.bad(name, 8_000).await;
        }
        let operation = bench.disk.operations() + number;
        bench
            .disk
            .fail_at(operation, io::ErrorKind::PermissionDenied);
        bench.look();
        let failed = bench.disk.operations() >= operation;
        let (full, _) = bench.look();
        assert!(!full, "at {number}");
        assert_eq!(bench.kept(), ["b", "c"], "at {number}");
        if !failed {
            assert!(number > 1);
            break;
        }
    }
}
