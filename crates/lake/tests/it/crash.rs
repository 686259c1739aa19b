//! The local directory on a disk that forgets what was not synced.

use std::path::Path;
use std::sync::Arc;

use cannery_formats::Key;
use cannery_lake::{ErrorKind, Lake, Mirrors, PutNew, Swap};
use cannery_testkit::sim_disk::SimDisk;

use crate::engines::Engine;

const MIB: u64 = 1024 * 1024;

/// Stored as a large object because of how it begins, so that the path of large objects is cut off at every step too.
const MIMIC: &[u8] = b"{\"cannery\":\"large-object\", but not really";

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
    established: bool,
    created: bool,
    large: bool,
    other: bool,
    swapped: bool,
    deleted: bool,
}

async fn program(lake: &Lake) -> Told {
    let mut told = Told::default();
    let Ok(_) = Mirrors::new(vec![lake.clone()])
        .unwrap()
        .establish(None, "test")
        .await
    else {
        return told;
    };
    told.established = true;
    let Ok(PutNew::Created) = lake
        .put_new(&key("a/b/object"), b"version one".to_vec())
        .await
    else {
        return told;
    };
    told.created = true;
    let Ok(_) = lake.put_new(&key("a/large"), MIMIC.to_vec()).await else {
        return told;
    };
    told.large = true;
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
    match lake.manifest().await {
        Ok(found) => assert!(
            found.is_some() || !told.established,
            "{context}: the lake forgot who it is"
        ),
        Err(error) => panic!("{context}: {error}"),
    }
    match lake.get(&key("a/large"), MIB).await {
        Ok(object) => assert_eq!(&object.bytes[..], MIMIC, "{context}"),
        Err(error) => {
            assert_eq!(error.kind, ErrorKind::Absent, "{context}: {error}");
            assert!(
                !told.large,
                "{context}: an acknowledged large object is gone"
            );
        }
    }
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
            assert!(after.list_all(None).await.unwrap().len() <= 8, "{context}");
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
            for seed in 0..8 {
                let context = format!("{context}, then power cut {seed}");
                check(&lake(&disk.crash_with(seed)), told, &context).await;
            }
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

/// On the real disk, since the simulated one has no links.
#[tokio::test]
async fn a_link_never_leads_out_of_the_lake() {
    let dir = tempfile::tempdir().unwrap();
    let (root, outside) = (dir.path().join("lake"), dir.path().join("outside"));
    let lake = Engine::disk(&root).impatient_lake("");
    lake.put_new(&key("a/b"), b"x".to_vec()).await.unwrap();
    std::fs::create_dir(&outside).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("link")).unwrap();
    for outcome in [
        lake.put_new(&key("link/x"), b"x".to_vec()).await.map(drop),
        lake.delete(&key("link/x")).await,
        lake.get(&key("link/x"), MIB).await.map(drop),
        lake.list_all(Some(&key("link"))).await.map(drop),
    ] {
        let error = outcome.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
        assert!(error.detail.contains("is a link"), "{error}");
    }
    assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
    // It hides nothing else, and nothing behind it is shown.
    std::fs::create_dir(outside.join("below")).unwrap();
    std::os::unix::fs::symlink(&outside, root.join("a/link")).unwrap();
    let listed = lake.list_all(None).await.unwrap();
    let keys: Vec<_> = listed.iter().map(|entry| entry.key.as_str()).collect();
    assert_eq!(keys, ["a/b"]);
    assert_eq!(lake.list_all(Some(&key("a"))).await.unwrap().len(), 1);
    std::fs::remove_file(root.join("a/link")).unwrap();
    // The root itself may be one: a person may well keep the lake on another disk.
    std::os::unix::fs::symlink(&root, dir.path().join("alias")).unwrap();
    std::fs::remove_file(root.join("link")).unwrap();
    let alias = Engine::disk(&dir.path().join("alias")).impatient_lake("");
    alias.put_new(&key("top"), b"x".to_vec()).await.unwrap();
    assert_eq!(alias.list_all(None).await.unwrap().len(), 2);
    alias.delete(&key("top")).await.unwrap();
    assert_eq!(
        lake.get(&key("top"), MIB).await.unwrap_err().kind,
        ErrorKind::Absent
    );
}

#[tokio::test]
async fn a_folder_removed_by_hand_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let lake = Engine::disk(dir.path()).impatient_lake("");
    lake.put_new(&key("a/b/c"), b"x".to_vec()).await.unwrap();
    std::fs::remove_dir_all(dir.path().join("a")).unwrap();
    assert_eq!(
        lake.put_new(&key("a/b/d"), b"x".to_vec()).await.unwrap(),
        PutNew::Created
    );
    lake.put_new(&key("f"), b"x".to_vec()).await.unwrap();
    assert_eq!(
        lake.put_new(&key("f/g"), b"x".to_vec())
            .await
            .unwrap_err()
            .kind,
        ErrorKind::Invalid
    );
    lake.delete(&key("f")).await.unwrap();
    assert_eq!(
        lake.put_new(&key("f/g"), b"x".to_vec()).await.unwrap(),
        PutNew::Created
    );
}
