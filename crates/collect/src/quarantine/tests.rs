use std::time::Duration;

use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::disk::write_durably;
use cannery_testkit::sim_disk::SimDisk;

use super::*;

const HOME: &str = "/spool";
const FILE: &str = "ndt/foo1/2026/11/15/a.json";

struct Bench {
    disk: SimDisk,
    simulated: SimulatedClock,
}

impl Bench {
    fn new() -> Self {
        Self {
            disk: SimDisk::new(1),
            simulated: SimulatedClock::starting_at("2026-11-15T12:00:00Z".parse().unwrap()),
        }
    }

    fn open(&self, bytes_max: u64) -> Quarantine {
        let disk = Arc::new(self.disk.clone());
        Quarantine::open(disk, self.simulated.clock(), Path::new(HOME), bytes_max).unwrap()
    }

    fn after_crash(&self, seed: u64) -> Self {
        Self {
            disk: self.disk.crash_with(seed),
            simulated: self.simulated.clone(),
        }
    }

    fn file(&self, file: &str, bytes: usize) -> PathBuf {
        let path = Path::new(HOME).join(file);
        create_dir_all(&self.disk, path.parent().unwrap()).unwrap();
        write_durably(&self.disk, &path, &vec![b'x'; bytes]).unwrap();
        path
    }
}

#[test]
fn a_file_is_kept_with_its_reason_and_can_go_back() {
    let bench = Bench::new();
    let mut quarantine = bench.open(1 << 20);
    assert_eq!(quarantine.list().unwrap(), []);
    let path = bench.file(FILE, 10);
    quarantine
        .put(&path, FILE, "json", "it is not JSON")
        .unwrap();
    assert!(bench.disk.metadata(&path).is_err());
    let listed = bench.open(1 << 20).list().unwrap();
    assert_eq!((listed.len(), listed[0].bytes), (1, 10));
    let reason = listed[0].reason.clone().unwrap();
    assert_eq!(
        (reason.reason.as_str(), reason.file.as_str()),
        ("json", FILE)
    );
    assert_eq!(listed[0].id, "20261115/20261115T120000.000000Z-a.json");

    assert_eq!(quarantine.release(&listed[0].id).unwrap(), FILE);
    assert_eq!(bench.disk.metadata(&path).unwrap().len, 10);
    assert_eq!(
        (quarantine.list().unwrap(), quarantine.bytes()),
        (vec![], 0)
    );
    for wrong in [
        listed[0].id.as_str(),
        "../../etc/passwd",
        "x",
        "20261115/..",
    ] {
        let error = quarantine.release(wrong).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound, "{wrong}");
    }
}

#[tokio::test]
async fn the_oldest_go_when_there_is_no_room() {
    let bench = Bench::new();
    let mut quarantine = bench.open(5_000);
    let mut evicted = 0;
    for number in 0..20 {
        let file = format!("ndt/foo1/2026/11/15/{number}.json");
        let path = bench.file(&file, 500);
        evicted += quarantine
            .put(&path, &file, "empty", "it is empty")
            .unwrap();
        bench.simulated.advance(Duration::from_secs(7_200)).await;
    }
    let listed = quarantine.list().unwrap();
    assert_eq!(listed.len() as u64 + evicted, 20);
    assert!(quarantine.bytes() <= 5_000 && listed.len() >= 5);
    let newest = &listed.last().unwrap().reason.as_ref().unwrap().file;
    assert_eq!(newest, "ndt/foo1/2026/11/15/19.json");
    assert_eq!(
        bench.open(5_000).bytes(),
        quarantine.bytes(),
        "counted again at a start"
    );
}

/// The rename was done and its folder not synced. On the file systems there are a rename is atomic; the simulated disk
/// knows two folders, and may have written only the one that the file left.
fn is_torn_rename(log: &[String]) -> bool {
    let rename = log.len().checked_sub(2).map(|at| &log[at]);
    rename.is_some_and(|line| line.contains(" rename ") && !line.contains("os error"))
}

/// Wherever the power goes, the file is in its place or in quarantine with its reason, and in one of them.
#[test]
fn a_power_cut_loses_neither_file_nor_reason() {
    for number in 1.. {
        let bench = Bench::new();
        let path = bench.file(FILE, 10);
        let at = bench.disk.operations() + number;
        bench.disk.power_off_at(at);
        let disk: Arc<dyn Disk> = Arc::new(bench.disk.clone());
        let clock = bench.simulated.clock();
        let put = Quarantine::open(disk, clock, Path::new(HOME), 1 << 20)
            .and_then(|mut quarantine| quarantine.put(&path, FILE, "json", "text"));
        if bench.disk.operations() < at {
            put.unwrap();
            assert!(number > 8, "only {number} operations");
            break;
        }
        for seed in 0..20 {
            let after = bench.after_crash(seed);
            let kept = after.open(1 << 20).list().unwrap();
            let in_place = after.disk.metadata(&path).is_ok();
            let log = bench.disk.log();
            assert!(
                in_place || kept.len() == 1 || is_torn_rename(&log),
                "at {number}, seed {seed}: lost\n{}",
                log.join("\n")
            );
            assert!(
                kept.iter().all(|file| file.reason.is_some()),
                "at {number}, seed {seed}: without a reason"
            );
        }
    }
}

/// An error may come before the deed or after it: a file in quarantine has its reason all the same, and can be put again.
#[test]
fn a_disk_that_fails_leaves_no_file_without_its_reason() {
    for after in [false, true] {
        for number in 1.. {
            let bench = Bench::new();
            let path = bench.file(FILE, 10);
            let mut quarantine = bench.open(1 << 20);
            let at = bench.disk.operations() + number;
            if after {
                bench.disk.fail_after(at, io::ErrorKind::StorageFull);
            } else {
                bench.disk.fail_at(at, io::ErrorKind::StorageFull);
            }
            let put = quarantine.put(&path, FILE, "json", "text");
            if bench.disk.operations() < at {
                put.unwrap();
                break;
            }
            if bench.disk.metadata(&path).is_ok() {
                quarantine.put(&path, FILE, "json", "text").unwrap();
            }
            let kept = quarantine.list().unwrap();
            assert_eq!(kept.len(), 1, "at {number}, after: {after}");
            assert!(kept[0].reason.is_some(), "at {number}, after: {after}");
        }
    }
}

/// Two spools share a home, and judge files of one name in the same moment.
#[test]
fn two_that_share_a_home_take_no_name_twice() {
    let bench = Bench::new();
    let (mut one, mut other) = (bench.open(1 << 20), bench.open(1 << 20));
    for (number, quarantine) in [&mut one, &mut other].into_iter().enumerate() {
        let file = format!("exp{number}/foo1/2026/11/15/a.json");
        let path = bench.file(&file, 10 + number);
        quarantine.put(&path, &file, "json", "text").unwrap();
    }
    let mut found: Vec<_> = one
        .list()
        .unwrap()
        .into_iter()
        .map(|kept| (kept.reason.unwrap().file, kept.bytes))
        .collect();
    found.sort();
    assert_eq!(
        found,
        [
            ("exp0/foo1/2026/11/15/a.json".to_owned(), 10),
            ("exp1/foo1/2026/11/15/a.json".to_owned(), 11)
        ]
    );
}

#[tokio::test]
async fn two_that_share_a_home_keep_one_quota() {
    let bench = Bench::new();
    let (mut one, mut other) = (bench.open(5_000), bench.open(5_000));
    for number in 0..8 {
        for quarantine in [&mut one, &mut other] {
            let file = format!("ndt/foo1/2026/11/15/{number}.json");
            let path = bench.file(&file, 400);
            quarantine.put(&path, &file, "json", "text").unwrap();
            bench.simulated.advance(Duration::from_secs(60)).await;
        }
    }
    assert!(
        bench.open(u64::MAX).bytes() > 5_000,
        "neither knows of the other"
    );
    let evicted = one.refresh().unwrap();
    assert_eq!((evicted > 0, one.evictions()), (true, evicted));
    assert_eq!(one.bytes(), bench.open(u64::MAX).bytes());
    assert!(one.bytes() <= 5_000);
    // The other knows too little now, or too much, until it looks.
    assert_eq!(other.refresh().unwrap(), 0);
    assert_eq!(other.bytes(), one.bytes());
}

/// The power goes, or the disk fails, while room is made: what is left has its reasons, and the next attempt goes on.
#[test]
fn making_room_can_be_broken_off_anywhere() {
    for number in 1.. {
        let bench = Bench::new();
        let mut quarantine = bench.open(1 << 20);
        for name in ["a", "b", "c"] {
            let file = format!("ndt/foo1/2026/11/15/{name}.json");
            let path = bench.file(&file, 100);
            quarantine.put(&path, &file, "json", "text").unwrap();
        }
        let good = bench.file(FILE, 10);
        let at = bench.disk.operations() + number;
        bench.disk.power_off_at(at);
        let shrunk = quarantine.shrink_to(0);
        if bench.disk.operations() < at {
            assert_eq!((shrunk.unwrap(), quarantine.bytes()), (3, 0));
            assert!(number > 6, "only {number} operations");
            break;
        }
        for seed in 0..10 {
            let after = bench.after_crash(seed);
            let mut quarantine = after.open(1 << 20);
            let kept = quarantine.list().unwrap();
            assert!(kept.iter().all(|file| file.reason.is_some()), "at {number}");
            quarantine.shrink_to(0).unwrap();
            assert_eq!(quarantine.list().unwrap(), [], "at {number}");
            assert_eq!(after.disk.metadata(&good).unwrap().len, 10);
        }
    }
}

/// A folder that was quarantined whole, and a reason that lost its file, go like everything else.
#[tokio::test]
async fn folders_and_lone_reasons_make_room_too() {
    let bench = Bench::new();
    let mut quarantine = bench.open(3_000);
    bench.file("ndt/foo1/2026/11/15/16/deep.json", 100);
    let folder = "ndt/foo1/2026/11/15/16";
    let path = Path::new(HOME).join(folder);
    quarantine.put(&path, folder, "depth", "a folder").unwrap();
    let lone = Path::new(HOME).join(".quarantine/20261101/x.reason.json");
    create_dir_all(&bench.disk, lone.parent().unwrap()).unwrap();
    write_durably(&bench.disk, &lone, &[b'x'; 500]).unwrap();
    let mut quarantine = bench.open(3_000);
    for number in 0..10 {
        bench.simulated.advance(Duration::from_secs(86_400)).await;
        let file = format!("ndt/foo1/2026/11/15/{number}.json");
        let path = bench.file(&file, 800);
        quarantine
            .put(&path, &file, "empty", "it is empty")
            .unwrap();
    }
    assert!(quarantine.bytes() <= 3_000);
    assert!(bench.disk.metadata(&lone).is_err());
    let kept = quarantine.list().unwrap();
    assert!(
        kept.iter().all(|kept| !kept.id.ends_with("-16")),
        "{kept:?}"
    );
}
