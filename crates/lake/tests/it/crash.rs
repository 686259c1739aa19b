//! The local directory on a disk that forgets what was not synced.

use std::path::Path;
use std::sync::Arc;

use cannery_formats::Key;
use cannery_lake::{ErrorKind, Lake, PutNew, Swap};
use cannery_testkit::sim_disk::SimDisk;

use crate::engines::Engine;

const MIB: u64 = 1024 * 1024;

fn lake(disk: &SimDisk) -> Lake {
    Engine::on_disk(Arc::new(disk.clone()), Path::new("/lake")).impatient_lake("")
}

fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

fn seeds() -> std::ops::Range<u64> {
    0..if cannery_testkit::long_run() { 200 } else { 10 }
}

/// What the program below was told about each of its steps before the power went.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    created: bool,
    other: bool,
    swapped: bool,
    deleted: bool,
}

async fn program(lake: &Lake) -> Told {
    let mut told = Told::default();
    let Ok(PutNew::Created) = lake
        .put_new(&key("a/b/object"), b"version one".to_vec())
        .await
    else {
        return told;
    };
    told.created = true;
    let Ok(_) = lake.put_new(&key("a/other"), b"other".to_vec()).await else {
        return told;
    };
    told.other = true;
    let Ok(object) = lake.get(&key("a/b/object"), MIB).await else {
        return told;
    };
    let Ok(Swap::Swapped(_)) = lake
        .put_if_version(&key("a/b/object"), &object.version, "version two".into())
        .await
    else {
        return told;
    };
    told.swapped = true;
    let Ok(()) = lake.delete(&key("a/other")).await else {
        return told;
    };
    told.deleted = true;
    told
}

/// What was acknowledged is there; what was not is there whole, or not at all.
async fn check(lake: &Lake, told: Told, context: &str) {
    let object = lake
        .get(&key("a/b/object"), MIB)
        .await
        .map(|object| object.bytes);
    match object {
        Ok(bytes) if told.swapped => assert_eq!(&bytes[..], b"version two", "{context}"),
        Ok(bytes) => assert!(
            &bytes[..] == b"version one" || &bytes[..] == b"version two",
            "{context}: {bytes:?}"
        ),
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::Absent, "{context}: {error}");
            assert!(!told.created, "{context}: an acknowledged object is gone");
        }
    }
    match lake
        .get(&key("a/other"), MIB)
        .await
        .map(|object| object.bytes)
    {
        Ok(bytes) => {
            assert_eq!(&bytes[..], b"other", "{context}");
            assert!(!told.deleted, "{context}: a deleted object is back");
        }
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::Absent, "{context}: {error}");
            // Between the swap and the answer to the delete it may be gone already.
            assert!(
                !told.other || told.swapped,
                "{context}: an acknowledged object is gone"
            );
        }
    }
}

#[tokio::test]
async fn a_power_cut_at_any_operation_loses_nothing_acknowledged() {
    let whole = SimDisk::new(0);
    assert!(program(&lake(&whole)).await.deleted);
    let operations = whole.operations();
    assert!(operations > 20, "{operations}");
    for seed in seeds() {
        for n in 1..=operations {
            let disk = SimDisk::new(seed);
            disk.power_off_at(n);
            let told = program(&lake(&disk)).await;
            let after = lake(&disk.crash());
            let context = format!("seed {seed}, power off at operation {n}");
            check(&after, told, &context).await;
            // And the lake goes on by itself.
            after
                .put_new(&key("a/next"), b"next".to_vec())
                .await
                .expect(&context);
            assert!(after.list_all(None).await.unwrap().len() <= 3, "{context}");
        }
    }
}

#[tokio::test]
async fn an_error_at_any_operation_is_reported_and_leaves_whole_objects() {
    let whole = SimDisk::new(0);
    program(&lake(&whole)).await;
    for n in 1..=whole.operations() {
        for after_the_effect in [false, true] {
            let disk = SimDisk::new(n);
            if after_the_effect {
                disk.fail_after(n, std::io::ErrorKind::Other);
            } else {
                disk.fail_at(n, std::io::ErrorKind::Other);
            }
            let told = program(&lake(&disk)).await;
            let context = format!("error at operation {n}, after the effect: {after_the_effect}");
            check(&lake(&disk), told, &context).await;
            check(
                &lake(&disk.crash()),
                told,
                &format!("{context}, then a power cut"),
            )
            .await;
        }
    }
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_believed_any_more() {
    let disk = SimDisk::new(1);
    let lake = lake(&disk);
    lake.put_new(&key("before"), b"x".to_vec()).await.unwrap();
    // The last operation of a put is the sync of the folder.
    let before = disk.operations();
    lake.put_new(&key("count"), b"x".to_vec()).await.unwrap();
    let per_put = disk.operations() - before;
    disk.fail_at(disk.operations() + per_put, std::io::ErrorKind::Other);
    let error = lake
        .put_new(&key("doubtful"), b"x".to_vec())
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Failed, "{error}\n{:#?}", disk.log());
    assert_eq!(
        lake.get(&key("doubtful"), MIB).await.unwrap_err().kind,
        ErrorKind::Failed
    );
}

#[tokio::test]
async fn a_full_disk_is_told_and_leaves_nothing_half_written() {
    let disk = SimDisk::new(1);
    let lake = lake(&disk);
    lake.put_new(&key("fits"), vec![1; 1_000]).await.unwrap();
    disk.set_capacity(5_000);
    let error = lake
        .put_new(&key("large"), vec![2; 100_000])
        .await
        .unwrap_err();
    assert_eq!(error.kind, ErrorKind::Full);
    assert_eq!(lake.list_all(None).await.unwrap().len(), 1);
    lake.put_new(&key("small"), vec![3; 1_000]).await.unwrap();
}

#[tokio::test]
async fn what_a_dead_process_left_in_the_making_is_removed() {
    let disk = SimDisk::new(1);
    lake(&disk).put_new(&key("x"), vec![1; 100]).await.unwrap();
    let written = disk.operations();
    let disk = SimDisk::new(1);
    // Dies while the content is being written: its temp file stays.
    disk.power_off_at(written - 3);
    program(&lake(&disk)).await;
    let disk = disk.crash();
    lake(&disk).put_new(&key("y"), b"y".to_vec()).await.unwrap();
    lake(&disk).put_new(&key("z"), b"z".to_vec()).await.unwrap();
    let left = cannery_runtime::Disk::read_dir(&disk, Path::new("/lake/.store/tmp")).unwrap();
    assert!(left.len() <= 1, "{left:?}");
}

#[tokio::test]
async fn a_name_cannot_be_an_object_and_a_folder() {
    let lake = lake(&SimDisk::new(1));
    lake.put_new(&key("a/b"), b"x".to_vec()).await.unwrap();
    assert_eq!(
        lake.put_new(&key("a"), b"x".to_vec())
            .await
            .unwrap_err()
            .kind,
        ErrorKind::Invalid
    );
    assert_eq!(
        lake.put_new(&key("a/b/c"), b"x".to_vec())
            .await
            .unwrap_err()
            .kind,
        ErrorKind::Invalid
    );
    assert_eq!(
        lake.get(&key("a"), MIB).await.unwrap_err().kind,
        ErrorKind::Absent
    );
    assert_eq!(
        lake.get(&key("a/b/c"), MIB).await.unwrap_err().kind,
        ErrorKind::Absent
    );
}
