use std::path::Path;
use std::sync::Arc;

use cannery_formats::Digest;
use cannery_formats::spool::{BundleName, BundleTime};
use cannery_runtime::disk::FileId;
use cannery_testkit::sim_disk::SimDisk;

use super::super::bundle::{RowStyle, id_of};
use super::super::crash_tests::settings;
use super::super::outbox::{FileRecord, Outbox, Stored};
use super::super::take::Mark;
use super::*;

pub(in crate::spool) fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_794_700_800 + second).unwrap()
}

fn name(datatype: &str, second: i64) -> BundleName {
    let settings = settings();
    BundleName {
        home: settings.object_home,
        experiment: settings.experiment,
        datatype: Datatype::new(datatype).unwrap(),
        date: SpoolDate::from_path("2026/11/15").unwrap(),
        opened: BundleTime::from_timestamp(at(second)),
        node: settings.node,
    }
}

/// A bundle of so many files of 10 bytes, whose objects have 30 and 7.
pub(in crate::spool) fn sealed(datatype: &str, second: i64, files: usize) -> Sealed {
    let name = name(datatype, second);
    let stored = |bytes| Stored {
        bytes,
        sha256: Digest::of(b""),
    };
    let mark = Mark {
        id: FileId {
            device: 1,
            inode: 1,
        },
        size: 10,
        modified: at(0),
    };
    let file = |number| FileRecord::new(&format!("{number}.json"), mark, at(1), Digest::of(b""));
    Sealed {
        id: id_of(&name),
        name,
        data: stored(30),
        index: stored(7),
        files: (0..files).map(file).collect(),
    }
}

fn removed(files: u64, back: &[&str]) -> Removed {
    Removed {
        files,
        back: back.iter().map(|name| (*name).into()).collect(),
    }
}

#[test]
fn a_bundle_is_unshipped_from_its_seal_to_its_receipt() {
    let progress = Progress::new(&settings());
    let first = sealed("foo1", 5, 3);
    for _ in 0..3 {
        progress.took(0);
    }
    progress.sealed(&first);
    let one = &progress.snapshot().datatypes[0];
    assert_eq!((one.files_taken, one.files_bundled), (3, 3));
    assert_eq!((one.bundles_sealed, one.bundles_shipped), (1, 0));
    let unshipped = &one.unshipped[0];
    assert_eq!(unshipped.bundle, first.id);
    assert_eq!((unshipped.files, unshipped.bytes), (3, 37));
    assert_eq!((unshipped.raw_bytes, unshipped.opened), (30, at(5)));

    progress.shipped(&first, at(9));
    progress.finished(&first, &removed(2, &["2.json"]));
    assert_eq!(progress.let_go(), 1, "it was written anew");
    let one = &progress.snapshot().datatypes[0];
    assert_eq!(one.unshipped, []);
    assert_eq!((one.bundles_shipped, one.files_removed), (1, 2));
    assert_eq!((one.bytes_shipped, one.raw_bytes_shipped), (37, 30));
    assert_eq!(one.last_ship, Some(at(9)));
    assert_eq!((one.ships.len(), one.ships[0].shipped), (1, at(9)));
    assert_eq!(one.ships[0].date, "2026-11-15");
}

#[test]
fn the_last_ships_are_remembered_and_no_more() {
    let progress = Progress::new(&settings());
    for second in 0..50 {
        progress.shipped(&sealed("foo1", second, 1), at(second));
    }
    let one = &progress.snapshot().datatypes[0];
    let shipped: Vec<_> = one.ships.iter().map(|ship| ship.shipped).collect();
    let expected: Vec<_> = (30..50).rev().map(at).collect();
    assert_eq!(shipped, expected, "the newest first");
    assert_eq!(one.bundles_shipped, 50);
}

#[test]
fn what_an_earlier_run_left_counts_as_unshipped_also_of_a_datatype_that_is_gone() {
    let progress = Progress::new(&settings());
    let (ours, other) = (sealed("foo1", 1, 1), sealed("old1", 2, 4));
    progress.took_up(&ours);
    progress.took_up(&other);
    let snapshot = progress.snapshot();
    let names: Vec<_> = snapshot
        .datatypes
        .iter()
        .map(|one| &*one.datatype)
        .collect();
    assert_eq!(names, ["foo1", "old1"]);
    assert!(
        snapshot
            .datatypes
            .iter()
            .all(|one| one.unshipped.len() == 1)
    );
    // It had its receipt from the earlier run: nothing was shipped in this one.
    progress.finished(&ours, &removed(1, &[]));
    progress.shipped(&other, at(3));
    progress.finished(&other, &removed(4, &[]));
    let passed = progress.passed();
    assert_eq!((passed.shipped, passed.removed, passed.sealed), (1, 5, 0));
    let snapshot = progress.snapshot();
    assert!(
        snapshot
            .datatypes
            .iter()
            .all(|one| one.unshipped.is_empty())
    );
    assert_eq!(snapshot.datatypes[0].last_ship, None);
}

#[test]
fn bad_files_are_counted_by_reason() {
    let progress = Progress::new(&settings());
    progress.met_bad(0, "json");
    progress.met_bad(0, "json");
    progress.met_bad(0, "depth");
    let bad = &progress.snapshot().datatypes[0].files_bad;
    assert_eq!((bad["json"], bad["depth"], bad["empty"]), (2, 1, 0));
    assert_eq!(progress.passed().bad, 3);
}

#[test]
fn an_open_bundle_is_shown_until_it_is_sealed_or_given_up() {
    let progress = Progress::new(&settings());
    let disk = Arc::new(SimDisk::new(1));
    let outbox = Outbox::open(disk, Path::new("/outbox")).unwrap();
    let style = RowStyle {
        version: String::new(),
        git_commit: String::new(),
        lake_url: String::new(),
        id_column: false,
        index_loadable: false,
    };
    for second in 0..2 {
        let bundle = OpenBundle::begin(&outbox, name("foo1", second), &style).unwrap();
        progress.grew(0, &bundle);
        progress.grew(0, &bundle);
        let open = progress.snapshot().datatypes[0].open.clone();
        assert_eq!((open.len(), open[0].opened), (1, at(second)));
        assert_eq!((&*open[0].bundle, open[0].files), (bundle.id(), 0));
        if second == 0 {
            progress.gave_up(0, bundle.date(), 7);
        } else {
            progress.sealed(&sealed("foo1", second, 1));
        }
        assert_eq!(progress.snapshot().datatypes[0].open, []);
    }
    assert_eq!((progress.passed().given_up, progress.let_go()), (1, 7));
}

#[test]
fn a_snapshot_is_plain_json() {
    let progress = Progress::new(&settings());
    progress.shipped(&sealed("foo1", 1, 1), at(2));
    let json = serde_json::to_value(progress.snapshot()).unwrap();
    assert_eq!(json["experiment"], "ndt");
    assert_eq!(json["full"], false);
    let one = &json["datatypes"][0];
    assert_eq!(one["datatype"], "foo1");
    assert_eq!(one["files_bad"]["schema"], 0);
    assert_eq!(one["ships"][0]["files"], 1);
    assert_eq!(one["oldest_waiting"], serde_json::Value::Null);
}
