use std::time::Duration;

use cannery_runtime::clock::SimulatedClock;
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
            break;
        }
        let after = Bench {
            disk: bench.disk.crash_with(number),
            ..bench
        };
        let kept = after.open(1 << 20).list().unwrap();
        let in_place = after.disk.metadata(&path).is_ok();
        assert!(in_place || kept.len() == 1, "at {number}: lost");
        assert!(
            kept.iter().all(|file| file.reason.is_some()),
            "at {number}: without a reason"
        );
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
