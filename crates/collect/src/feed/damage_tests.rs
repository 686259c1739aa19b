//! What the disk changes between packing and shipping.

use std::path::Path;
use std::sync::{Arc, Mutex};

use cannery_formats::Key;
use cannery_formats::feed::{ArchiveName, Codec};
use cannery_formats::hour_archive::Compression;
use cannery_lake::fault::{Fault, Faults, Request};
use cannery_lake::{Lake, Mirrors};
use cannery_runtime::disk::{Disk, create_dir_all, read, write_durably};
use cannery_testkit::sim_disk::SimDisk;
use object_store::memory::InMemory;

use super::crash_tests::{Told, WORKSPACE, bodies, depot, feed, held, hour, lake, live};
use super::pack::pack;
use super::shared::Habit;
use super::ship::{Pens, Ship, Shipped};

const BYTES_MAX: u64 = 1 << 20;

fn sound_lake(id: &str) -> Lake {
    lake(id, &Faults::none(), &Arc::new(InMemory::new()))
}

/// A disk with an archive that waits.
fn packed(codec: Codec) -> (SimDisk, ArchiveName) {
    let disk = SimDisk::new(1);
    disk.create_dir(Path::new(WORKSPACE)).unwrap();
    bodies(&disk);
    let habit = Habit {
        compression: Compression::of(codec),
        periodicity: None,
    };
    let packed = pack(&depot(&disk), (&feed(), hour()), "node", habit, None).unwrap();
    (disk, packed.unwrap().name)
}

fn flip(disk: &SimDisk, name: &ArchiveName, at: usize) -> Vec<u8> {
    let path = depot(disk).archive(name);
    let mut content = read(disk, &path, BYTES_MAX).unwrap();
    content[at] ^= 1;
    write_durably(disk, &path, &content).unwrap();
    content
}

/// What lies in the folder of what is damaged: the names, and the content of each.
fn aside(disk: &SimDisk) -> Vec<(String, Vec<u8>)> {
    let paths = depot(disk).damaged().unwrap().into_iter();
    let read = paths.map(|path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        (name, read(disk, &path, BYTES_MAX).unwrap())
    });
    read.collect()
}

/// Ships one archive to every mirror; what was told of it.
async fn ship(disk: &SimDisk, name: &ArchiveName, mirrors: &Mirrors) -> Vec<String> {
    let (depot, uploads, pens) = (depot(disk), Told::default(), Pens::default());
    let heard = Mutex::new(Vec::new());
    let ship = Ship {
        depot: &depot,
        mirrors,
        pens: &pens,
        uploads: &uploads,
        told: &|_, store, uploaded| {
            let said = match uploaded {
                Ok(_) => "stored".to_owned(),
                Err(error) => error.to_string(),
            };
            heard.lock().unwrap().push(format!("{store}: {said}"));
        },
    };
    let ships = mirrors.iter().map(|lake| ship.ship(name, lake));
    let shipped = futures::future::join_all(ships).await.into_iter();
    let shipped: Vec<_> = shipped.map(Result::unwrap).collect();
    assert!(
        shipped.contains(&Shipped::Everywhere),
        "the last of them has left nothing"
    );
    heard.into_inner().unwrap()
}

#[tokio::test]
async fn an_archive_that_the_disk_changed_is_set_aside_told_of_once_and_shipped_nowhere() {
    for codec in [Codec::Gzip, Codec::Zstd, Codec::Xz, Codec::Bzip2] {
        let length = {
            let (disk, name) = packed(codec);
            let path = depot(&disk).archive(&name);
            read(&disk, &path, BYTES_MAX).unwrap().len()
        };
        let mut refused = 0;
        for at in (0..length).step_by(length / 40) {
            let (disk, name) = packed(codec);
            let damaged = flip(&disk, &name, at);
            let mirrors = Mirrors::new(vec![sound_lake("main"), sound_lake("two")]).unwrap();
            let heard = ship(&disk, &name, &mirrors).await;
            assert_eq!(depot(&disk).waiting().unwrap(), []);
            let shipped = mirrors.first().list_all(None).await.unwrap();
            if heard.iter().all(|said| said.ends_with(": stored")) {
                // Some bits say nothing of what is in it: what the archive holds is what its name says.
                assert_eq!(held(mirrors.first()).await.len(), 4, "{codec:?} at {at}");
                assert_eq!(aside(&disk), []);
                continue;
            }
            refused += 1;
            assert_eq!(shipped, [], "{codec:?} at {at}");
            assert_eq!(heard.len(), 1, "{heard:?}");
            assert!(heard[0].contains("it was set aside as"), "{heard:?}");
            assert!(
                heard[0].contains("no object storage is known to have it"),
                "{heard:?}"
            );
            assert_eq!(aside(&disk), [(name.to_string(), damaged)]);
        }
        assert!(refused > 30, "{codec:?}: only {refused} were noticed");
    }
}

#[tokio::test]
async fn a_mirror_that_has_the_archive_keeps_it_and_is_named() {
    let (disk, name) = packed(Codec::Gzip);
    let good = sound_lake("main");
    let faults = Faults::none();
    let bad = lake("two", &faults, &Arc::new(InMemory::new()));
    let mirrors = Mirrors::new(vec![good.clone(), bad.clone()]).unwrap();
    faults.next(Request::Put, Fault::ErrorBefore, 10);
    live(&disk, &mirrors).await.unwrap_err();
    faults.stop();
    flip(&disk, &name, 100);
    let heard = ship(&disk, &name, &mirrors).await;
    let said = "and `main` has it: run `cannery audit --fix`";
    assert!(heard.len() == 1 && heard[0].contains(said), "{heard:?}");
    assert_eq!(held(&good).await.len(), 4);
    assert_eq!(bad.list_all(None).await.unwrap(), []);
    assert_eq!(aside(&disk).len(), 1);
    // Its receipt went with it.
    let archives = Path::new(WORKSPACE).join("archives");
    assert_eq!(disk.read_dir(&archives).unwrap(), []);
}

#[tokio::test]
async fn what_was_set_aside_before_under_the_same_name_stays() {
    let (disk, name) = packed(Codec::Gzip);
    let folder = Path::new(WORKSPACE).join("damaged");
    create_dir_all(&disk, &folder).unwrap();
    write_durably(&disk, &folder.join(name.to_string()), b"older").unwrap();
    let damaged = flip(&disk, &name, 100);
    let mirrors = Mirrors::new(vec![sound_lake("main")]).unwrap();
    ship(&disk, &name, &mirrors).await;
    let expected = [
        (name.to_string(), b"older".to_vec()),
        (format!("{name}.2"), damaged),
    ];
    assert_eq!(aside(&disk), expected);
}

#[tokio::test]
async fn a_damaged_archive_is_not_lost_when_the_power_goes_at_any_operation() {
    for at in 1.. {
        let (mut disk, name) = packed(Codec::Gzip);
        let damaged = flip(&disk, &name, 100);
        let mirrors = Mirrors::new(vec![sound_lake("main")]).unwrap();
        let end = disk.operations() + at;
        disk.power_off_at(end);
        live(&disk, &mirrors).await.ok();
        let whole = disk.operations() < end;
        disk = disk.crash();
        live(&disk, &mirrors).await.unwrap();
        let kept = aside(&disk);
        assert!(
            !kept.is_empty() && kept.iter().all(|(_, content)| *content == damaged),
            "power off at {at}: {kept:?}"
        );
        assert_eq!(depot(&disk).waiting().unwrap(), []);
        assert_eq!(mirrors.first().list_all(None).await.unwrap(), []);
        if whole {
            assert!(at > 5, "only {at} operations");
            return;
        }
    }
}

#[tokio::test]
async fn a_damaged_receipt_proves_nothing_and_everything_is_shipped_again() {
    for text in [&b""[..], b"{\"stores\":[\"ma", b"\0\0\0\0", b"[1]"] {
        let (disk, name) = packed(Codec::Gzip);
        let faults = Faults::none();
        let good = sound_lake("main");
        let bad = lake("two", &faults, &Arc::new(InMemory::new()));
        let mirrors = Mirrors::new(vec![good.clone(), bad.clone()]).unwrap();
        faults.next(Request::Put, Fault::ErrorBefore, 10);
        live(&disk, &mirrors).await.unwrap_err();
        faults.stop();
        // Taken away meanwhile: only who ships it again brings it back.
        good.delete(&Key::feed_archive(&name)).await.unwrap();
        write_durably(&disk, &depot(&disk).receipt(&name), text).unwrap();
        live(&disk, &mirrors).await.unwrap();
        for lake in [&good, &bad] {
            assert_eq!(held(lake).await.len(), 4, "{text:?}");
        }
        assert_eq!(depot(&disk).waiting().unwrap(), []);
        assert_eq!(aside(&disk), []);
    }
}
