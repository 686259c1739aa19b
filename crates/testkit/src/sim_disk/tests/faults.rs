//! Errors on request, and a full disk.

use super::*;

#[test]
fn an_operation_fails_once_and_without_effect() {
    let disk = SimDisk::new(0);
    disk.fail_at(2, 5);
    disk.create_dir(Path::new("one")).unwrap();
    let error = disk.create_dir(Path::new("two")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5));
    assert!(!exists(&disk, "two"));
    disk.create_dir(Path::new("two")).unwrap();
    assert_eq!(disk.operations(), 3);
    let expected = [
        "1 create folder `one`",
        "2 create folder `two`: ",
        "3 create folder `two`",
    ];
    for (line, expected) in disk.log().iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}");
    }
}

#[test]
fn an_operation_fails_after_its_effect() {
    let disk = SimDisk::new(0);
    disk.fail_after(1, io::ErrorKind::TimedOut);
    let error = disk.open(Path::new("file"), Open::CreateNew).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    assert!(exists(&disk, "file"));
    let file = disk.open(Path::new("file"), Open::Read).unwrap();
    disk.fail_after(2, io::ErrorKind::Other);
    file.sync().unwrap_err();
    disk.fail_after(3, io::ErrorKind::Other);
    disk.sync_dir(Path::new(".")).unwrap_err();
    assert!(
        SEEDS
            .into_iter()
            .all(|seed| exists(&disk.crash_with(seed), "file")),
        "synced all the same"
    );
}

#[test]
fn operations_fail_until_the_faults_are_cleared() {
    for after_the_effect in [false, true] {
        let disk = SimDisk::new(0);
        disk.create_dir(Path::new("before")).unwrap();
        if after_the_effect {
            disk.fail_from_after(2, io::ErrorKind::StorageFull);
        } else {
            disk.fail_from(2, io::ErrorKind::StorageFull);
        }
        // One that fails for another reason at its own number.
        disk.fail_at(3, io::ErrorKind::PermissionDenied);
        let kinds = ["one", "two", "three"].map(|name| {
            let error = disk.create_dir(Path::new(name)).unwrap_err();
            error.kind()
        });
        let full = io::ErrorKind::StorageFull;
        assert_eq!(kinds, [full, io::ErrorKind::PermissionDenied, full]);
        let there = ["before", "one", "two", "three"].map(|name| exists(&disk, name));
        assert_eq!(there, [true, after_the_effect, false, after_the_effect]);
        disk.fail_at(6, 5);
        disk.clear_faults();
        disk.create_dir(Path::new("five")).unwrap();
        disk.create_dir(Path::new("six")).unwrap();
    }
}

#[test]
fn every_kind_of_operation_can_fail() {
    type Step = fn(&SimDisk, &dyn DiskFile) -> io::Result<()>;
    let steps: [Step; 11] = [
        |disk, _| disk.open(Path::new("created"), Open::CreateNew).map(drop),
        |_, file| file.write_all_at(0, b"x"),
        |_, file| file.set_len(2),
        |_, file| file.sync(),
        |_, file| file.sync_data(),
        |disk, _| disk.rename(Path::new("a/file"), Path::new("b/file")),
        |disk, _| disk.rename_new(Path::new("a/file"), Path::new("b/file")),
        |disk, _| disk.remove_file(Path::new("a/file")),
        |disk, _| disk.create_dir(Path::new("c")),
        |disk, _| disk.remove_dir(Path::new("b")),
        |disk, _| disk.sync_dir(Path::new("a")),
    ];
    for (n, step) in steps.into_iter().enumerate() {
        let disk = disk_with_folders();
        let file = create(&disk, "a/file", b"text");
        let before = dump(&disk);
        disk.fail_at(disk.operations() + 1, io::ErrorKind::Other);
        assert_eq!(
            step(&disk, &*file).unwrap_err().kind(),
            io::ErrorKind::Other,
            "step {n}"
        );
        assert_eq!(dump(&disk), before, "step {n} had an effect");
        step(&disk, &*file).unwrap();
    }
}

#[test]
fn what_a_failed_sync_covered_is_not_saved_by_the_next() {
    let lost = SEEDS.filter(|seed| {
        let disk = SimDisk::new(*seed);
        let file = create(&disk, "file", b"first ");
        sync_dir(&disk, ".");
        disk.fail_at(disk.operations() + 1, 5);
        file.sync().unwrap_err();
        file.write_all_at(6, b"second").unwrap();
        file.sync().unwrap();
        assert_eq!(
            content(&disk, "file").unwrap(),
            b"first second",
            "what is cached is still read"
        );
        let found = content(&disk.crash(), "file").unwrap();
        assert_eq!(found[6..], *b"second");
        found[..6] == [0; 6]
    });
    let lost = lost.count();
    assert!(lost > 10 && lost < 190, "{lost} of 200 lost it");
}

#[test]
fn what_a_failed_sync_of_a_folder_covered_is_not_saved_by_the_next() {
    let lost = SEEDS.filter(|seed| {
        let disk = SimDisk::new(*seed);
        disk.create_dir(Path::new("one")).unwrap();
        disk.fail_at(2, 5);
        disk.sync_dir(Path::new(".")).unwrap_err();
        disk.create_dir(Path::new("two")).unwrap();
        sync_dir(&disk, ".");
        assert!(exists(&disk, "one") && exists(&disk.crash(), "two"));
        !exists(&disk.crash(), "one")
    });
    let lost = lost.count();
    assert!(lost > 10 && lost < 190, "{lost} of 200 lost it");
}

#[test]
fn a_power_cut_stops_everything_until_the_crash() {
    let disk = SimDisk::new(0);
    disk.power_off_at(3);
    disk.create_dir(Path::new("one")).unwrap();
    sync_dir(&disk, ".");
    assert!(
        exists(&disk, "one"),
        "reading is possible until the third operation"
    );
    disk.create_dir(Path::new("two")).unwrap_err();
    disk.sync_dir(Path::new(".")).unwrap_err();
    let error = disk.metadata(Path::new("one")).unwrap_err();
    assert!(error.to_string().contains("no power"), "{error}");
    let after = disk.crash();
    assert!(exists(&after, "one") && !exists(&after, "two"));
    assert_eq!(after.operations(), 0);
    assert!(disk.log()[2].ends_with("no power"), "{:?}", disk.log());
}

#[test]
fn a_power_cut_may_be_set_for_an_operation_that_is_over() {
    let disk = disk_with_folders();
    disk.power_off_at(disk.operations());
    disk.read_dir(Path::new(".")).unwrap_err();
}

#[test]
fn a_full_disk_takes_a_part_of_a_write() {
    let mut parts = std::collections::BTreeSet::new();
    for seed in SEEDS {
        let disk = SimDisk::new(seed);
        disk.set_capacity(100);
        let one = create(&disk, "one", &[1; 60]);
        let two = disk.open(Path::new("two"), Open::CreateNew).unwrap();
        let error = two.write_all_at(0, &[2; 50]).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::StorageFull);
        parts.insert(two.len().unwrap());
        one.write_all_at(0, &[3; 60]).unwrap();
        disk.remove_file(Path::new("one")).unwrap();
        assert!(
            two.write_all_at(0, &[2; 50]).is_err(),
            "an open file keeps its space"
        );
        drop(one);
        two.write_all_at(0, &[2; 50]).unwrap();
    }
    assert_eq!((parts.first(), parts.last()), (Some(&0), Some(&40)));
}

#[test]
fn a_longer_file_needs_no_space_and_leaves_none_for_others() {
    let disk = SimDisk::new(0);
    disk.set_capacity(100);
    let one = create(&disk, "one", &[1; 60]);
    let two = create(&disk, "two", b"");
    two.set_len(200).unwrap();
    let error = one.write_all_at(60, &[1]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    two.set_len(0).unwrap();
    one.write_all_at(60, &[1]).unwrap();
}

#[test]
fn a_full_disk_leaves_the_old_content() {
    let disk = SimDisk::new(0);
    write_durably(&disk, Path::new("state"), &[1; 600]).unwrap();
    disk.set_capacity(1000);
    let error = write_durably(&disk, Path::new("state"), &[2; 700]).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert_eq!(content(&disk, "state").unwrap(), [1; 600]);
    assert_eq!(
        disk.read_dir(Path::new(".")).unwrap().len(),
        1,
        "no temp file stays"
    );
}
