//! The power goes, or the disk fails, at every operation: each file is in the lake exactly once all the same.

use std::collections::BTreeMap;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cannery_formats::NodeName;
use cannery_formats::spool::{
    BundleName, BundleTime, Datatype, Experiment, IndexLine, ObjectHome, Part, SpoolDate,
};
use cannery_formats::table_schema::parse_datatype;
use cannery_lake::{Lake, LakeMetrics, Mirrors, Parts, RetryPolicy};
use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::disk::{Disk, create_dir_all, write_durably};
use cannery_runtime::{Clock, Rng};
use cannery_testkit::sim_disk::SimDisk;
use flate2::read::MultiGzDecoder;
use object_store::memory::InMemory;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::inventory::{self, Inventory, InventoryParts};

use super::bundle::{OpenBundle, RowStyle};
use super::held::Held;
use super::outbox::Outbox;
use super::place::FilePlace;
use super::progress::Progress;
use super::settings::{BadFiles, DatatypeSettings, SpoolFull, SpoolSettings};
use super::shipper::Shipper;
use super::take::{Heard, Take, Taker};
use crate::turns::Turns;

const ROOT: &str = "/spool/ndt";
const DATE: &str = "2026/11/15";

pub(super) fn settings() -> SpoolSettings {
    SpoolSettings {
        experiment: Experiment::new("ndt").unwrap(),
        home: PathBuf::from("/spool"),
        object_home: ObjectHome::V1,
        node: NodeName::parse("mlab1-lga01").unwrap(),
        datatypes: vec![DatatypeSettings {
            name: Datatype::new("foo1").unwrap(),
            fields: parse_datatype(br#"[{"name":"n","type":"INTEGER"}]"#).unwrap(),
        }],
        extensions: vec![".json".to_owned()],
        bundle_bytes_max: 1 << 20,
        bundle_age_max: Duration::from_secs(3_600),
        min_file_age: Duration::ZERO,
        scan_interval: Duration::from_secs(300),
        settle: Duration::ZERO,
        bad_files: BadFiles::Quarantine,
        quarantine_bytes_max: 1 << 20,
        spool_bytes_max: None,
        spool_full: SpoolFull::Refuse,
        id_column: false,
        index_loadable: false,
        version: "cannery@0.1.0".to_owned(),
        git_commit: "0".repeat(40),
    }
}

fn folder() -> PathBuf {
    Path::new(ROOT).join("foo1").join(DATE)
}

fn lake() -> Mirrors {
    let lake = Lake::new(Parts {
        id: "main".to_owned(),
        url: "memory:".to_owned(),
        store: Arc::new(InMemory::new()),
        prefix: String::new(),
        clock: Clock::real(),
        rng: Rng::seeded(3),
        retry: RetryPolicy::default(),
        metrics: LakeMetrics::default(),
    });
    Mirrors::new(vec![lake.unwrap()]).unwrap()
}

/// One life of a process: takes up what is left, then collects what is there.
async fn live(disk: &SimDisk, mirrors: &Mirrors, life: u64) -> io::Result<()> {
    let simulated = SimulatedClock::starting_at("2026-11-15T12:00:00Z".parse().unwrap());
    simulated.advance(Duration::from_secs(life)).await;
    let clock = simulated.clock();
    let shared: Arc<dyn Disk> = Arc::new(disk.clone());
    let settings = settings();
    let outbox = Outbox::open(Arc::clone(&shared), Path::new("/node/outbox"))?;
    let inventory = Inventory::new(InventoryParts {
        folder: PathBuf::from("/node/inventory"),
        disk: Arc::clone(&shared),
        clock: clock.clone(),
        mirrors: mirrors.clone(),
        home: settings.inventory_home(),
    });
    let (events, _kept) = mpsc::unbounded_channel();
    let shipper = Shipper {
        outbox: outbox.clone(),
        mirrors: mirrors.clone(),
        inventory: inventory.clone(),
        root: settings.root(),
        datatypes: vec!["foo1".to_owned()],
        held: Arc::new(Held::default()),
        clock: clock.clone(),
        rng: Rng::seeded(5),
        turns: Turns::default(),
        give_up: CancellationToken::new(),
        progress: Arc::new(Progress::new(&settings)),
        events,
    };
    for sealed in outbox.recover()?.sealed {
        let done = shipper.finish(&sealed.id).await;
        done.map_err(io::Error::other)?;
    }
    let names = disk.read_dir(&folder())?;
    if names.is_empty() {
        return inventory.upload().await.map_err(io::Error::other);
    }
    let name = BundleName {
        home: settings.object_home.clone(),
        experiment: settings.experiment.clone(),
        datatype: settings.datatypes[0].name.clone(),
        date: SpoolDate::from_path(DATE).unwrap(),
        opened: BundleTime::from_timestamp(clock.now()),
        node: settings.node.clone(),
    };
    let style = RowStyle {
        version: settings.version.clone(),
        git_commit: settings.git_commit.clone(),
        lake_url: "memory:".to_owned(),
        id_column: false,
        index_loadable: false,
    };
    let mut bundle = OpenBundle::begin(&outbox, name, &style)?;
    let taker = Taker::new(&settings, shared, clock.clone());
    for name in names {
        let place = FilePlace {
            datatype: 0,
            date: SpoolDate::from_path(DATE).unwrap(),
            name: name.name.into_string().unwrap().into(),
        };
        match taker.take(&place, Heard::Finished) {
            Take::Taken(taken) => bundle.add(&taken, clock.now())?,
            other => return Err(io::Error::other(format!("{other:?}"))),
        }
    }
    let sealed = bundle.seal(&outbox)?;
    let done = shipper.finish(&sealed.id).await;
    done.map_err(io::Error::other)?;
    inventory.upload().await.map_err(io::Error::other)
}

fn filled(seed: u64) -> SimDisk {
    let disk = SimDisk::new(seed);
    create_dir_all(&disk, &folder()).unwrap();
    for number in 0..3 {
        let path = folder().join(format!("{number}.json"));
        let text = format!("{{\"n\":{number}}}\n");
        write_durably(&disk, &path, text.as_bytes()).unwrap();
    }
    disk
}

/// Every line of all objects of one kind: the file names in them, with how often.
async fn lines(mirrors: &Mirrors, wanted: Part) -> BTreeMap<String, u32> {
    let mut names = BTreeMap::new();
    for entry in mirrors.first().list_all(None).await.unwrap() {
        let Some((_, part)) = BundleName::parse(&entry.key) else {
            continue;
        };
        if part != wanted {
            continue;
        }
        let object = mirrors.first().get(&entry.key, 1 << 20).await.unwrap();
        let mut text = String::new();
        let mut gzip = MultiGzDecoder::new(&object.bytes[..]);
        gzip.read_to_string(&mut text).unwrap();
        for line in text.lines() {
            let name = match wanted {
                Part::Index => IndexLine::parse(line.as_bytes()).unwrap().filename,
                Part::Data => {
                    let row: serde_json::Value = serde_json::from_str(line).unwrap();
                    row["archiver"]["Filename"].as_str().unwrap().to_owned()
                }
            };
            *names.entry(name).or_default() += 1;
        }
    }
    names
}

async fn check(disk: &SimDisk, mirrors: &Mirrors, context: &str) {
    let log = || disk.log().join("\n");
    let expected: BTreeMap<String, u32> = (0..3)
        .map(|number| (format!("{DATE}/{number}.json"), 1))
        .collect();
    for part in [Part::Data, Part::Index] {
        let found = lines(mirrors, part).await;
        assert_eq!(found, expected, "{context}, {part:?}: {}", log());
    }
    assert_eq!(disk.read_dir(&folder()).unwrap(), [], "{context}");
    check_inventory(mirrors, context).await;
    let outbox = disk.read_dir(Path::new("/node/outbox")).unwrap();
    assert_eq!(outbox, [], "{context}");
    let sent = disk.read_dir(&Path::new(ROOT).join("foo1/.sent")).unwrap();
    assert_eq!(sent, [], "{context}");
}

/// Every object has exactly one line, and the lines hang together.
async fn check_inventory(mirrors: &Mirrors, context: &str) {
    let lake = mirrors.first();
    let objects = lake.list_all(None).await.unwrap();
    let bundles = objects
        .iter()
        .filter(|entry| BundleName::parse(&entry.key).is_some());
    let report = inventory::check(lake, &settings().inventory_home())
        .await
        .unwrap();
    assert!(report.is_clean(), "{context}: {report:?}");
    assert_eq!(report.lines, bundles.count() as u64, "{context}");
}

/// How a disk fails at its n-th operation.
#[derive(Clone, Copy, Debug)]
enum Trouble {
    PowerCut,
    ErrorBefore,
    ErrorAfter,
}

#[tokio::test]
async fn exactly_once_whatever_fails_and_whenever() {
    for trouble in [Trouble::PowerCut, Trouble::ErrorBefore, Trouble::ErrorAfter] {
        for number in 1.. {
            if !survives(trouble, number).await {
                assert!(number > 30, "{trouble:?}: only {number} operations");
                break;
            }
        }
    }
}

/// Lives through one trouble; false when it never came to that.
async fn survives(trouble: Trouble, number: u64) -> bool {
    let context = format!("{trouble:?} at {number}");
    let mut disk = filled(number);
    let mirrors = lake();
    let at = disk.operations() + number;
    let full = io::ErrorKind::StorageFull;
    match trouble {
        Trouble::PowerCut => disk.power_off_at(at),
        Trouble::ErrorBefore => disk.fail_at(at, full),
        Trouble::ErrorAfter => disk.fail_after(at, full),
    }
    let first = live(&disk, &mirrors, 0).await;
    if disk.operations() < at {
        first.unwrap();
        check(&disk, &mirrors, &context).await;
        return false;
    }
    if matches!(trouble, Trouble::PowerCut) {
        disk = disk.crash_with(number);
    }
    for life in 1..=2 {
        let lived = live(&disk, &mirrors, life).await;
        assert!(
            lived.is_ok(),
            "{context}: {lived:?}\n{}",
            disk.log().join("\n")
        );
    }
    check(&disk, &mirrors, &context).await;
    true
}
