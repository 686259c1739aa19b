//! Packing and shipping, broken off at every operation of the disk and at every request to the lake.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use cannery_formats::feed::{Codec, Coverage, DownloadName, FeedId, Hour};
use cannery_formats::hour_archive::{Compression, Limits, survey};
use cannery_formats::{Digest, Key, LakeManifest};
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_lake::{Lake, LakeMetrics, Mirrors, Parts, RetryPolicy};
use cannery_runtime::disk::{Disk, create_dir_all, write_durably};
use cannery_runtime::{Clock, Rng};
use cannery_testkit::sim_disk::SimDisk;
use object_store::memory::InMemory;

use super::depot::Depot;
use super::pack::pack;
use super::shared::Habit;
use super::ship::{Pens, Ship, Shipped, Uploads};
use super::slots::SLOTS_NAME;

pub(super) const WORKSPACE: &str = "/w";

pub(super) fn feed() -> FeedId {
    FeedId::new("f").unwrap()
}

pub(super) fn hour() -> Hour {
    "20261115T18Z".parse().unwrap()
}

#[derive(Default)]
pub(super) struct Told(Mutex<Vec<String>>);

#[async_trait]
impl Uploads for Told {
    async fn uploaded(&self, store: &str, _feed: &FeedId, _hour: Hour) {
        self.0.lock().unwrap().push(store.to_owned());
    }
}

/// Names of bodies that were acknowledged as stored.
pub(super) fn bodies(disk: &SimDisk) -> BTreeSet<String> {
    let depot = depot(disk);
    let folder = depot.hour(&feed(), hour());
    create_dir_all(disk, &folder).unwrap();
    let mut names = BTreeSet::new();
    for number in 0..4_u8 {
        let body = vec![number; 300];
        let time = format!("2026-11-15T18:00:0{number}Z").parse().unwrap();
        let name = DownloadName::new(feed(), time, &Digest::of(&body), ".json").to_string();
        write_durably(disk, &folder.join(&name), &body).unwrap();
        names.insert(name);
    }
    let lines = b"0 1000 stored\n1000 1000 stored\n2000 1000 stored\n3000 1000 stored\n";
    write_durably(disk, &folder.join(SLOTS_NAME), lines).unwrap();
    names
}

pub(super) fn depot(disk: &SimDisk) -> Depot {
    Depot::new(Arc::new(disk.clone()), Path::new(WORKSPACE))
}

pub(super) fn lake(id: &str, faults: &Faults, inner: &Arc<InMemory>) -> Lake {
    let store = FaultStore::new(Arc::clone(inner) as _, faults.clone(), Clock::real());
    Lake::new(Parts {
        id: id.to_owned(),
        url: "memory:".to_owned(),
        store: Arc::new(store),
        prefix: String::new(),
        clock: Clock::real(),
        rng: Rng::seeded(3),
        retry: RetryPolicy {
            deadline: Duration::ZERO,
            attempt: Duration::from_millis(50),
            ..RetryPolicy::default()
        },
        metrics: LakeMetrics::default(),
    })
    .unwrap()
}

/// One life of a process: packs what is there, ships what waits.
pub(super) async fn live(disk: &SimDisk, mirrors: &Mirrors) -> io::Result<()> {
    live_with(None, disk, mirrors).await
}

/// The same, where there is room for so many bytes.
async fn live_with(room: Option<u64>, disk: &SimDisk, mirrors: &Mirrors) -> io::Result<()> {
    let depot = depot(disk);
    for (feed, hour) in depot.hours()? {
        let pack = || pack(&depot, (&feed, hour), "node", Habit::default(), room);
        while pack()?.is_some_and(|packed| packed.is_part) {}
    }
    let (uploads, pens) = (Told::default(), Pens::default());
    let ship = Ship {
        depot: &depot,
        mirrors,
        pens: &pens,
        uploads: &uploads,
        told: &|_, _, _| {},
    };
    for name in depot.waiting()? {
        let ships = mirrors.iter().map(|lake| ship.ship(&name, lake));
        for shipped in futures::future::join_all(ships).await {
            shipped.map_err(io::Error::other)?;
        }
    }
    Ok(())
}

/// The bodies that a lake holds, each in an archive that is whole.
pub(super) async fn held(lake: &Lake) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    let entries = lake.list_all(None).await.unwrap().into_iter();
    for entry in entries.filter(|entry| entry.key != Key::lake_manifest()) {
        let object = lake.get(&entry.key, 1 << 20).await.unwrap();
        let survey = survey(&*object.bytes, &feed(), hour(), &Limits::default()).unwrap();
        let members = survey.set.iter().map(|member| member.name().to_owned());
        names.extend(members.filter(|name| !Coverage::is_member(name)));
    }
    names
}

#[tokio::test]
async fn nothing_is_lost_when_the_power_goes_at_any_operation() {
    for room in [None, Some(1), Some(400)] {
        lose_power_at_any_operation(room).await;
    }
}

async fn lose_power_at_any_operation(room: Option<u64>) {
    for at in 1.. {
        let mut disk = SimDisk::new(at);
        disk.create_dir(Path::new(WORKSPACE)).unwrap();
        let bodies = bodies(&disk);
        let stores = [Arc::new(InMemory::new()), Arc::new(InMemory::new())];
        let lakes: Vec<_> = stores
            .iter()
            .zip(["main", "mirror"])
            .map(|(store, id)| lake(id, &Faults::none(), store))
            .collect();
        let mirrors = Mirrors::new(lakes.clone()).unwrap();
        let end = disk.operations() + at;
        disk.power_off_at(end);
        live_with(room, &disk, &mirrors).await.ok();
        let whole = disk.operations() < end;
        disk = disk.crash();
        live_with(room, &disk, &mirrors).await.unwrap();
        for lake in &lakes {
            assert_eq!(held(lake).await, bodies, "{room:?}, power off at {at}");
        }
        let depot = depot(&disk);
        assert_eq!(depot.hours().unwrap(), []);
        assert_eq!(depot.waiting().unwrap(), []);
        if whole {
            assert!(at > 15, "only {at} operations");
            return;
        }
    }
}

#[tokio::test]
async fn nothing_is_lost_by_a_store_that_fails_every_third_request() {
    let mut failed = 0;
    for seed in 0..100 {
        let disk = SimDisk::new(seed);
        disk.create_dir(Path::new(WORKSPACE)).unwrap();
        let bodies = bodies(&disk);
        let (faults, inner) = (Faults::by_seed(seed, 0.33), Arc::new(InMemory::new()));
        let shaky = lake("main", &faults, &inner);
        let mirrors = Mirrors::new(vec![shaky]).unwrap();
        let mut lives = 0;
        while live(&disk, &mirrors).await.is_err() {
            lives += 1;
            assert!(lives < 50, "seed {seed}");
        }
        failed += lives;
        let sound = lake("main", &Faults::none(), &inner);
        assert_eq!(held(&sound).await, bodies, "seed {seed}");
        assert_eq!(depot(&disk).waiting().unwrap(), []);
    }
    assert!(failed > 20, "only {failed} failures");
}

#[tokio::test]
async fn an_hour_that_was_deleted_stays_deleted_and_the_local_archive_goes() {
    let disk = SimDisk::new(1);
    disk.create_dir(Path::new(WORKSPACE)).unwrap();
    bodies(&disk);
    let lake = lake("main", &Faults::none(), &Arc::new(InMemory::new()));
    let mirrors = Mirrors::new(vec![lake.clone()]).unwrap();
    let tombstone = Key::feed_tombstone(&feed(), hour());
    lake.put_new(&tombstone, b"{}".to_vec()).await.unwrap();
    live(&disk, &mirrors).await.unwrap();
    let left = lake.list_all(None).await.unwrap();
    assert_eq!(left.len(), 1);
    assert_eq!(left[0].key, tombstone);
    assert_eq!(depot(&disk).waiting().unwrap(), []);
}

#[tokio::test]
async fn the_same_set_in_other_wrapping_is_the_same_archive_and_another_set_is_a_conflict() {
    let lake = lake("main", &Faults::none(), &Arc::new(InMemory::new()));
    let mirrors = Mirrors::new(vec![lake.clone()]).unwrap();
    let mut names = Vec::new();
    for level in [1, 9] {
        let disk = SimDisk::new(1);
        disk.create_dir(Path::new(WORKSPACE)).unwrap();
        bodies(&disk);
        let habit = Habit {
            compression: Compression {
                codec: Codec::Gzip,
                level: Some(level),
            },
            periodicity: None,
        };
        let depot = depot(&disk);
        let packed = pack(&depot, (&feed(), hour()), "node", habit, None).unwrap();
        names.push(packed.unwrap().name);
        live(&disk, &mirrors).await.unwrap();
    }
    assert_eq!(names[0], names[1]);
    assert_eq!(lake.list_all(None).await.unwrap().len(), 1);

    let key = Key::feed_archive(&names[0]);
    lake.delete(&key).await.unwrap();
    lake.put_new(&key, b"something else".to_vec())
        .await
        .unwrap();
    let disk = SimDisk::new(1);
    disk.create_dir(Path::new(WORKSPACE)).unwrap();
    bodies(&disk);
    let error = live(&disk, &mirrors).await.unwrap_err().to_string();
    assert!(
        error.contains("another archive of this name is there"),
        "{error}"
    );
    assert_eq!(depot(&disk).waiting().unwrap(), names[..1]);
}

#[tokio::test]
async fn a_mirror_that_has_it_is_not_asked_again() {
    let disk = SimDisk::new(1);
    disk.create_dir(Path::new(WORKSPACE)).unwrap();
    bodies(&disk);
    let good = lake("main", &Faults::none(), &Arc::new(InMemory::new()));
    let faults = Faults::none();
    let bad = lake("mirror", &faults, &Arc::new(InMemory::new()));
    let mirrors = Mirrors::new(vec![good.clone(), bad.clone()]).unwrap();
    faults.next(Request::Put, Fault::ErrorBefore, 10);
    live(&disk, &mirrors).await.unwrap_err();
    let waiting = depot(&disk).waiting().unwrap();
    assert_eq!(waiting.len(), 1);
    // Merged and removed by somebody meanwhile.
    good.delete(&Key::feed_archive(&waiting[0])).await.unwrap();
    faults.stop();
    live(&disk, &mirrors).await.unwrap();
    assert_eq!(good.list_all(None).await.unwrap(), []);
    assert_eq!(bad.list_all(None).await.unwrap().len(), 1);
}

/// Puts the manifest of a lake into a mirror that joined it in some year.
async fn join(lake: &Lake, year: u16) {
    let created = "2020-01-01T00:00:00Z".parse().unwrap();
    let joined = Some(format!("{year}-01-01T00:00:00Z").parse().unwrap());
    let manifest = LakeManifest {
        joined,
        ..LakeManifest::new("lake".to_owned(), created, "test".to_owned())
    };
    let key = Key::lake_manifest();
    lake.delete(&key).await.unwrap();
    lake.put_new(&key, manifest.to_bytes()).await.unwrap();
}

#[tokio::test]
async fn a_mirror_that_had_it_and_was_made_anew_gets_it_again() {
    let disk = SimDisk::new(1);
    disk.create_dir(Path::new(WORKSPACE)).unwrap();
    let bodies = bodies(&disk);
    let good = lake("main", &Faults::none(), &Arc::new(InMemory::new()));
    let faults = Faults::none();
    let bad = lake("mirror", &faults, &Arc::new(InMemory::new()));
    let mirrors = Mirrors::new(vec![good.clone(), bad.clone()]).unwrap();
    join(&good, 2021).await;
    faults.next(Request::Put, Fault::ErrorBefore, 10);
    live(&disk, &mirrors).await.unwrap_err();
    faults.stop();
    let name = depot(&disk).waiting().unwrap().remove(0);
    good.delete(&Key::feed_archive(&name)).await.unwrap();
    join(&good, 2022).await;
    // Who brings it to the other mirror does not trust the receipt.
    let (depot, uploads, pens) = (depot(&disk), Told::default(), Pens::default());
    let ship = Ship {
        depot: &depot,
        mirrors: &mirrors,
        pens: &pens,
        uploads: &uploads,
        told: &|_, _, _| {},
    };
    let again = Shipped::Again(vec!["main".to_owned()]);
    assert_eq!(ship.ship(&name, &bad).await.unwrap(), again);
    assert_eq!(depot.waiting().unwrap(), std::slice::from_ref(&name));
    assert_eq!(ship.ship(&name, &good).await.unwrap(), Shipped::Everywhere);
    for lake in [&good, &bad] {
        assert_eq!(held(lake).await, bodies);
    }
    assert_eq!(depot.waiting().unwrap(), []);
}

#[tokio::test]
async fn a_sound_archive_takes_the_place_of_one_that_was_set_aside_and_removed() {
    let mut failed = 0;
    for seed in 0..50 {
        let disk = SimDisk::new(seed);
        disk.create_dir(Path::new(WORKSPACE)).unwrap();
        bodies(&disk);
        let depot = depot(&disk);
        let packed = pack(&depot, (&feed(), hour()), "node", Habit::default(), None).unwrap();
        let key = Key::feed_archive(&packed.unwrap().name);
        let inner = Arc::new(InMemory::new());
        let sound = lake("main", &Faults::none(), &inner);
        let mark = Key::feed_set_aside(&key).unwrap();
        sound.put_new(&mark, b"{}".to_vec()).await.unwrap();
        let shaky = lake("main", &Faults::by_seed(seed, 0.33), &inner);
        let mirrors = Mirrors::new(vec![shaky]).unwrap();
        while live(&disk, &mirrors).await.is_err() {
            failed += 1;
        }
        let left = sound.list_all(None).await.unwrap().into_iter();
        assert!(left.map(|entry| entry.key).eq([key]), "seed {seed}");
    }
    assert!(failed > 20, "only {failed} failures");
}

#[tokio::test]
async fn an_hour_is_packed_in_parts_where_there_is_no_room_for_the_whole() {
    let disk = SimDisk::new(1);
    disk.create_dir(Path::new(WORKSPACE)).unwrap();
    let bodies = bodies(&disk);
    let depot = depot(&disk);
    let room_for = |bytes: u64| disk.set_capacity(4 * 300 + 64 + bytes);
    room_for(100);
    let full = pack(&depot, (&feed(), hour()), "node", Habit::default(), None);
    assert_eq!(full.unwrap_err().kind(), io::ErrorKind::StorageFull);
    room_for(1 << 20);
    let day = Path::new(WORKSPACE)
        .join("archives/f")
        .join(hour().day_folder());
    assert_eq!(disk.read_dir(&day).unwrap().len(), 0, "nothing takes room");
    let mut packed = Vec::new();
    while packed.last().is_none_or(|last| *last) {
        let part = pack(&depot, (&feed(), hour()), "node", Habit::default(), Some(1));
        packed.push(part.unwrap().unwrap().is_part);
    }
    assert_eq!(packed, [true, true, true, false]);
    let lake = lake("main", &Faults::none(), &Arc::new(InMemory::new()));
    let mirrors = Mirrors::new(vec![lake.clone()]).unwrap();
    live(&disk, &mirrors).await.unwrap();
    assert_eq!(held(&lake).await, bodies);
    let mut coverages = Vec::new();
    for entry in lake.list_all(None).await.unwrap() {
        let object = lake.get(&entry.key, 1 << 20).await.unwrap();
        let survey = survey(&*object.bytes, &feed(), hour(), &Limits::default()).unwrap();
        coverages.extend(survey.coverage);
    }
    assert_eq!(coverages.len(), 1, "it came with the last part");
}

#[tokio::test]
async fn a_body_that_the_disk_cannot_read_is_set_aside_and_the_others_are_packed() {
    let disk = SimDisk::new(1);
    disk.create_dir(Path::new(WORKSPACE)).unwrap();
    let mut bodies = bodies(&disk);
    let lost = bodies.pop_first().unwrap();
    let path = depot(&disk).hour(&feed(), hour()).join(&lost);
    disk.lose(&path).unwrap();
    let lake = lake("main", &Faults::none(), &Arc::new(InMemory::new()));
    let mirrors = Mirrors::new(vec![lake.clone()]).unwrap();
    live(&disk, &mirrors).await.unwrap();
    assert_eq!(held(&lake).await, bodies);
    let aside = Path::new(WORKSPACE).join("damaged").join(&lost);
    assert_eq!(depot(&disk).damaged().unwrap(), [aside]);
    assert_eq!(depot(&disk).hours().unwrap(), []);
}

#[tokio::test]
async fn a_body_that_the_disk_changed_is_set_aside_and_the_others_are_packed() {
    let disk = SimDisk::new(1);
    disk.create_dir(Path::new(WORKSPACE)).unwrap();
    let mut bodies = bodies(&disk);
    let damaged = bodies.pop_first().unwrap();
    let path = depot(&disk).hour(&feed(), hour()).join(&damaged);
    write_durably(&disk, &path, b"flipped").unwrap();
    let lake = lake("main", &Faults::none(), &Arc::new(InMemory::new()));
    let mirrors = Mirrors::new(vec![lake.clone()]).unwrap();
    live(&disk, &mirrors).await.unwrap();
    assert_eq!(held(&lake).await, bodies);
    let aside = disk
        .read_dir(&Path::new(WORKSPACE).join("damaged"))
        .unwrap();
    assert_eq!(aside[0].name.to_str(), Some(damaged.as_str()));
    assert_eq!(depot(&disk).hours().unwrap(), []);
}
