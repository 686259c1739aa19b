//! What a crash keeps, loses and tears.

use super::*;

#[test]
fn what_was_synced_survives_every_seed() {
    let disk = SimDisk::new(0);
    let file = create(&disk, "file", &[7; 3000]);
    file.write_all_at(100, b"more").unwrap();
    file.sync().unwrap();
    sync_dir(&disk, ".");
    let before = dump(&disk);
    assert_eq!(
        outcomes(&disk, dump).into_keys().collect::<Vec<_>>(),
        [before]
    );
}

#[test]
fn what_was_not_synced_is_kept_or_lost_or_torn() {
    let disk = SimDisk::new(0);
    let file = create(&disk, "file", &[1; 2048]);
    file.sync().unwrap();
    sync_dir(&disk, ".");
    file.write_all_at(0, &[2; 2048]).unwrap();
    let found = outcomes(&disk, |disk| content(disk, "file").unwrap());
    assert!(found.contains_key([1; 2048].as_slice()));
    assert!(found.contains_key([2; 2048].as_slice()));
    assert!(found.len() > 5, "{} outcomes", found.len());
    for content in found.into_keys() {
        assert_eq!(content.len(), 2048);
        for sector in content.chunks(512) {
            assert!(
                sector == [1; 512] || sector == [2; 512],
                "a sector is old or new"
            );
        }
    }
}

#[test]
fn an_unsynced_tail_has_the_old_or_new_length_and_holes_of_zeros() {
    let disk = SimDisk::new(0);
    let file = create(&disk, "file", &[1; 700]);
    file.sync().unwrap();
    sync_dir(&disk, ".");
    file.write_all_at(700, &[2; 1300]).unwrap();
    let found = outcomes(&disk, |disk| content(disk, "file").unwrap());
    for content in found.keys() {
        assert!(
            content.len() == 700 || content.len() == 2000,
            "{}",
            content.len()
        );
        assert_eq!(content[..700], [1; 700], "what was synced is not touched");
    }
    let torn = |content: &Vec<u8>| content[700..].contains(&0) && content[700..].contains(&2);
    assert!(found.keys().any(|content| content.len() == 700));
    assert!(
        found
            .keys()
            .any(|content| content.len() == 2000 && !content.contains(&0))
    );
    assert!(
        found
            .keys()
            .any(|content| content.len() == 2000 && !content.contains(&2))
    );
    assert!(found.keys().any(torn));
}

#[test]
fn of_several_writes_any_may_be_missing() {
    let disk = SimDisk::new(0);
    let file = create(&disk, "file", b"");
    sync_dir(&disk, ".");
    for n in 0..3 {
        file.write_all_at(512 * n, &[1; 512]).unwrap();
    }
    let found = outcomes(&disk, |disk| {
        let content = content(disk, "file").unwrap();
        content
            .chunks(512)
            .map(|sector| sector[0])
            .collect::<Vec<_>>()
    });
    for expected in [
        &[][..],
        &[1],
        &[0],
        &[1, 1],
        &[0, 1, 1],
        &[1, 0, 1],
        &[0, 0, 1],
        &[1, 1, 1],
    ] {
        assert!(found.contains_key(expected), "{expected:?} in {found:?}");
    }
}

#[test]
fn a_name_that_survives_may_lead_to_an_empty_file() {
    let disk = SimDisk::new(0);
    drop(create(&disk, "file", b"text"));
    let found = outcomes(&disk, |disk| {
        exists(disk, "file").then(|| content(disk, "file").unwrap())
    });
    let expected = [None, Some(vec![]), Some(vec![0; 4]), Some(b"text".to_vec())];
    assert_eq!(found.into_keys().collect::<Vec<_>>(), expected);
}

/// Where the file of a rename from `a/file` to `b/file` is found: in `a`, in `b`.
fn renamed(sync: &[&str]) -> Vec<(bool, bool)> {
    let disk = disk_with_folders();
    write_durably(&disk, Path::new("a/file"), b"text").unwrap();
    disk.rename(Path::new("a/file"), Path::new("b/file"))
        .unwrap();
    for folder in sync {
        sync_dir(&disk, folder);
    }
    let places = outcomes(&disk, |disk| {
        (exists(disk, "a/file"), exists(disk, "b/file"))
    });
    places.into_keys().collect()
}

#[test]
fn a_rename_between_folders_is_two_changes() {
    assert_eq!(
        renamed(&[]),
        [(false, false), (false, true), (true, false), (true, true)]
    );
    assert_eq!(renamed(&["a"]), [(false, false), (false, true)]);
    assert_eq!(renamed(&["b"]), [(false, true), (true, true)]);
    assert_eq!(renamed(&["b", "a"]), [(false, true)]);
}

#[test]
fn a_rename_inside_a_folder_is_one_change() {
    let disk = disk_with_folders();
    write_durably(&disk, Path::new("a/old"), b"text").unwrap();
    write_durably(&disk, Path::new("a/new"), b"replaced").unwrap();
    disk.rename(Path::new("a/old"), Path::new("a/new")).unwrap();
    let found = outcomes(&disk, |disk| {
        (exists(disk, "a/old"), content(disk, "a/new").unwrap())
    });
    let expected = [(false, b"text".to_vec()), (true, b"replaced".to_vec())];
    assert_eq!(found.into_keys().collect::<Vec<_>>(), expected);
}

#[test]
fn names_of_one_folder_survive_in_order() {
    let disk = disk_with_folders();
    for name in ["a/1", "a/2", "a/3"] {
        drop(create(&disk, name, b""));
    }
    let found = outcomes(&disk, |disk| disk.read_dir(Path::new("a")).unwrap().len());
    assert_eq!(found.into_keys().collect::<Vec<_>>(), [0, 1, 2, 3]);
    for seed in SEEDS {
        let disk = disk.crash_with(seed);
        assert!(exists(&disk, "a/1") || !exists(&disk, "a/2"));
        assert!(exists(&disk, "a/2") || !exists(&disk, "a/3"));
    }
}

#[test]
fn a_folder_without_its_name_is_gone_with_everything_below() {
    let disk = SimDisk::new(0);
    disk.create_dir(Path::new("lost")).unwrap();
    // Durable as far as its folder goes, and nobody synced the root.
    write_durably(&disk, Path::new("lost/file"), b"text").unwrap();
    let found = outcomes(&disk, |disk| {
        exists(disk, "lost").then(|| content(disk, "lost/file").unwrap())
    });
    assert_eq!(
        found.into_keys().collect::<Vec<_>>(),
        [None, Some(b"text".to_vec())]
    );
}

#[test]
fn what_was_removed_may_come_back() {
    let disk = disk_with_folders();
    write_durably(&disk, Path::new("a/file"), b"text").unwrap();
    disk.remove_file(Path::new("a/file")).unwrap();
    disk.remove_dir(Path::new("a")).unwrap();
    let found = outcomes(&disk, |disk| (exists(disk, "a"), exists(disk, "a/file")));
    assert_eq!(
        found.into_keys().collect::<Vec<_>>(),
        [(false, false), (true, false), (true, true)]
    );
}

#[test]
fn a_folder_is_never_found_in_two_places() {
    let disk = disk_with_folders();
    create_dir_all(&disk, Path::new("a/inner")).unwrap();
    disk.rename(Path::new("a/inner"), Path::new("b/inner"))
        .unwrap();
    let found = outcomes(&disk, |disk| {
        (exists(disk, "a/inner"), exists(disk, "b/inner"))
    });
    assert_eq!(
        found.into_keys().collect::<Vec<_>>(),
        [(false, false), (false, true), (true, false)]
    );
}

#[test]
fn two_names_of_one_file_stay_two_when_renamed_onto_each_other() {
    let disk = disk_with_folders();
    write_durably(&disk, Path::new("a/file"), b"text").unwrap();
    disk.rename(Path::new("a/file"), Path::new("b/file"))
        .unwrap();
    sync_dir(&disk, "b");
    let mut after = SEEDS.map(|seed| disk.crash_with(seed));
    let both = after.find(|disk| exists(disk, "a/file")).unwrap();
    both.rename(Path::new("a/file"), Path::new("b/file"))
        .unwrap();
    assert!(exists(&both, "a/file") && exists(&both, "b/file"));
    both.remove_file(Path::new("a/file")).unwrap();
    assert_eq!(content(&both, "b/file").unwrap(), b"text");
}

#[test]
fn a_seed_repeats_through_two_crashes() {
    let run = |seed| {
        let disk = SimDisk::new(seed);
        for n in 0..20 {
            drop(create(&disk, &format!("{n}"), &[1; 2000]));
        }
        let first = disk.crash();
        assert_eq!(
            dump(&first),
            dump(&disk.crash()),
            "the same disk leaves the same"
        );
        drop(create(&first, "again", &[2; 2000]));
        (dump(&first), dump(&first.crash()))
    };
    assert_eq!(run(3), run(3));
    assert_ne!(run(3), run(4));
}

#[test]
fn the_disk_that_lost_power_only_returns_errors() {
    let disk = SimDisk::new(0);
    let file = create(&disk, "file", b"text");
    let after = disk.crash();
    assert!(file.len().is_err());
    assert!(file.read_at(0, &mut [0]).is_err());
    assert!(file.write_all_at(0, b"x").is_err());
    assert!(file.set_len(1).is_err());
    assert!(file.sync().is_err());
    assert!(file.sync_data().is_err());
    assert!(disk.open(Path::new("file"), Open::ReadWrite).is_err());
    assert!(disk.read_dir(Path::new(".")).is_err());
    assert!(disk.metadata(Path::new(".")).is_err());
    assert!(disk.create_dir(Path::new("x")).is_err());
    assert!(after.create_dir(Path::new("x")).is_ok());
}

#[test]
fn many_replaced_files_are_forgotten_and_open_ones_are_not() {
    let disk = SimDisk::new(0);
    write_durably(&disk, Path::new("file"), b"first").unwrap();
    let first = disk.open(Path::new("file"), Open::Read).unwrap();
    for n in 0..2000_u32 {
        write_durably(&disk, Path::new("file"), &n.to_le_bytes()).unwrap();
    }
    assert!(disk.state().tree.count() < 600);
    assert_eq!(first.len().unwrap(), 5);
    assert_eq!(
        content(&disk.crash(), "file").unwrap(),
        1999_u32.to_le_bytes()
    );
}

#[test]
fn a_copy_is_what_a_crash_leaves_and_the_disk_goes_on() {
    let disk = disk_with_folders();
    create(&disk, "a/file", b"text");
    for seed in SEEDS {
        let copy = disk.crash_copy(seed);
        disk.open(Path::new("a/file"), Open::Read).unwrap();
        assert_eq!(dump(&copy), dump(&copy_of_crash(seed)));
    }
    sync_dir(&disk, "a");
    assert!(exists(&disk.crash_copy(0), "a/file"));

    /// The same disk once more, crashed.
    fn copy_of_crash(seed: u64) -> SimDisk {
        let disk = disk_with_folders();
        create(&disk, "a/file", b"text");
        disk.crash_with(seed)
    }
}
