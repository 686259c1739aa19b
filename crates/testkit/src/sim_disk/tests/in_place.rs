//! Files that are overwritten in place, cut and made longer.

use super::*;

/// A durable file of ones, open for writing.
fn durable_ones(disk: &SimDisk, bytes: usize) -> Box<dyn DiskFile> {
    write_durably(disk, Path::new("file"), &vec![1; bytes]).unwrap();
    disk.open(Path::new("file"), Open::ReadWrite).unwrap()
}

/// What is found under all seeds.
fn found(disk: &SimDisk) -> Vec<Vec<u8>> {
    outcomes(disk, |disk| content(disk, "file").unwrap())
        .into_keys()
        .collect()
}

#[test]
fn opening_for_writing_changes_nothing() {
    let disk = SimDisk::new(0);
    write_durably(&disk, Path::new("file"), b"text").unwrap();
    let before = (disk.operations(), dump(&disk));
    let file = disk.open(Path::new("file"), Open::ReadWrite).unwrap();
    assert_eq!((disk.operations(), dump(&disk)), before);
    file.write_all_at(0, b"T").unwrap();
    assert_eq!(content(&disk, "file").unwrap(), b"Text");
}

#[test]
fn content_survives_after_sync_data() {
    let disk = SimDisk::new(0);
    let file = durable_ones(&disk, 2048);
    file.write_all_at(512, &[2; 1024]).unwrap();
    let torn = found(&disk);
    assert!(torn.len() >= 4, "each of two sectors: {}", torn.len());

    let disk = SimDisk::new(0);
    let file = durable_ones(&disk, 2048);
    file.write_all_at(512, &[2; 1024]).unwrap();
    file.sync_data().unwrap();
    assert!(disk.log().last().unwrap().ends_with("sync data `file`"));
    assert_eq!(
        found(&disk),
        [[[1; 512], [2; 512], [2; 512], [1; 512]].concat()]
    );
}

#[test]
fn a_new_length_survives_after_sync_data() {
    let disk = SimDisk::new(0);
    let file = durable_ones(&disk, 700);
    file.write_all_at(700, &[2; 100]).unwrap();
    file.set_len(1000).unwrap();
    file.sync_data().unwrap();
    assert_eq!(
        found(&disk),
        [[&[1; 700][..], &[2; 100], &[0; 200]].concat()]
    );
}

#[test]
fn sectors_that_were_not_written_never_change() {
    let disk = SimDisk::new(0);
    let file = durable_ones(&disk, 8 * 512);
    for sector in [2, 5] {
        file.write_all_at(sector * 512, &[2; 512]).unwrap();
    }
    for content in found(&disk) {
        for (n, sector) in content.chunks(512).enumerate() {
            let written = n == 2 || n == 5;
            assert!(sector == [1; 512] || (written && sector == [2; 512]));
        }
    }
}

#[test]
fn a_sector_written_twice_is_found_as_it_was_once() {
    let disk = SimDisk::new(0);
    let file = durable_ones(&disk, 512);
    file.write_all_at(0, &[2; 256]).unwrap();
    file.write_all_at(256, &[3; 256]).unwrap();
    let expected = [
        [[1; 256], [1; 256]],
        [[2; 256], [1; 256]],
        [[2; 256], [3; 256]],
    ];
    assert_eq!(found(&disk), expected.map(|halves| halves.concat()));
}

#[test]
fn what_a_failed_sync_data_covered_is_not_saved_by_the_next() {
    let lost = SEEDS.filter(|seed| {
        let disk = SimDisk::new(*seed);
        let file = durable_ones(&disk, 1024);
        file.write_all_at(0, &[2; 512]).unwrap();
        disk.fail_at(disk.operations() + 1, 5);
        assert_eq!(file.sync_data().unwrap_err().raw_os_error(), Some(5));
        file.write_all_at(512, &[3; 512]).unwrap();
        file.sync_data().unwrap();
        assert_eq!(
            content(&disk, "file").unwrap(),
            [[2; 512], [3; 512]].concat(),
            "what is cached is still read"
        );
        let found = content(&disk.crash(), "file").unwrap();
        assert_eq!(found[512..], [3; 512]);
        found[..512] == [1; 512]
    });
    let lost = lost.count();
    assert!(lost > 10 && lost < 190, "{lost} of 200 lost it");
}

#[test]
fn a_length_that_a_failed_sync_covered_is_not_saved_by_the_next() {
    let lost = SEEDS.filter(|seed| {
        let disk = SimDisk::new(*seed);
        let file = durable_ones(&disk, 1024);
        file.set_len(512).unwrap();
        disk.fail_at(disk.operations() + 1, 5);
        file.sync_data().unwrap_err();
        file.sync_data().unwrap();
        assert_eq!(file.len().unwrap(), 512);
        content(&disk.crash(), "file").unwrap().len() == 1024
    });
    let lost = lost.count();
    assert!(lost > 10 && lost < 190, "{lost} of 200 lost it");
}

#[test]
fn a_cut_is_found_or_not_until_it_is_synced() {
    let disk = SimDisk::new(0);
    let file = durable_ones(&disk, 1536);
    file.set_len(512).unwrap();
    assert_eq!(file.len().unwrap(), 512);
    assert_eq!(found(&disk), [vec![1; 512], vec![1; 1536]]);

    let disk = SimDisk::new(0);
    let file = durable_ones(&disk, 1536);
    file.set_len(512).unwrap();
    file.sync().unwrap();
    assert_eq!(found(&disk), [vec![1; 512]]);
}

#[test]
fn a_cut_inside_a_sector_may_clear_its_rest_first() {
    let disk = SimDisk::new(0);
    durable_ones(&disk, 700).set_len(600).unwrap();
    let cleared = [&[1; 600][..], &[0; 100]].concat();
    assert_eq!(found(&disk), [vec![1; 600], cleared, vec![1; 700]]);
}

#[test]
fn a_longer_file_is_found_with_zeros_or_as_it_was() {
    let disk = SimDisk::new(0);
    let file = durable_ones(&disk, 700);
    file.set_len(2000).unwrap();
    let longer = [&[1; 700][..], &[0; 1300]].concat();
    assert_eq!(content(&disk, "file").unwrap(), longer);
    assert_eq!(found(&disk), [vec![1; 700], longer]);
}

#[test]
fn what_was_cut_off_does_not_come_back_in_a_longer_file() {
    let disk = SimDisk::new(0);
    let file = durable_ones(&disk, 1536);
    file.set_len(512).unwrap();
    file.set_len(1024).unwrap();
    file.write_all_at(1024, &[2; 1024]).unwrap();
    let lengths = found(&disk).into_iter().map(|content| {
        assert_eq!(content[..512], [1; 512]);
        // The length of 1536 is the old one: no cut was found.
        if content.len() != 1536 {
            assert!(!content[512..].contains(&1), "{} bytes", content.len());
        }
        content.len()
    });
    let lengths: std::collections::BTreeSet<usize> = lengths.collect();
    assert_eq!(
        lengths.into_iter().collect::<Vec<_>>(),
        [512, 1024, 1536, 2048]
    );
}

#[test]
fn what_was_cut_off_durably_does_not_show_in_the_gap_of_a_lost_write() {
    let disk = SimDisk::new(0);
    let file = durable_ones(&disk, 1536);
    file.set_len(512).unwrap();
    file.sync_data().unwrap();
    file.write_all_at(1024, &[2; 512]).unwrap();
    let lost = [&[1; 512][..], &[0; 1024]].concat();
    let kept = [&[1; 512][..], &[0; 512], &[2; 512]].concat();
    assert_eq!(found(&disk), [vec![1; 512], lost, kept]);
}

#[test]
fn a_power_cut_at_a_sync_or_a_length_leaves_the_old_or_the_new() {
    type Step = fn(&dyn DiskFile) -> io::Result<()>;
    let steps: [Step; 3] = [
        |file| file.write_all_at(0, &[2; 512]),
        |file| file.set_len(512),
        |file| file.sync_data(),
    ];
    let (old, cut, new) = (vec![1; 1024], vec![1; 512], vec![2; 512]);
    let torn = [[2; 512], [1; 512]].concat();
    let expected = [
        vec![old.clone()],
        vec![old.clone(), torn.clone()],
        vec![cut, old, new.clone(), torn],
        vec![new],
    ];
    for (n, expected) in (1..).zip(expected) {
        let disk = SimDisk::new(0);
        let file = durable_ones(&disk, 1024);
        disk.power_off_at(disk.operations() + n);
        let done = steps.iter().try_for_each(|step| step(&*file));
        assert_eq!(done.is_ok(), n == 4);
        assert!(n == 4 || file.len().is_err(), "no power");
        assert!(found(&disk) == expected, "cut at {n}: {:#?}", disk.log());
    }
}

#[test]
fn a_crash_shares_what_nobody_changed() {
    let disk = SimDisk::new(0);
    drop(durable_ones(&disk, 1000));
    let after = disk.crash();
    let address = |disk: &SimDisk| {
        let state = disk.state();
        let node = state.tree.find(Path::new("file")).unwrap();
        state.tree.content(node).unwrap().as_ptr()
    };
    assert_eq!(address(&after), address(&after.crash()));
    let again = after.crash();
    let file = again.open(Path::new("file"), Open::ReadWrite).unwrap();
    file.write_all_at(0, &[2]).unwrap();
    file.sync_data().unwrap();
    assert_eq!(content(&after.crash(), "file").unwrap(), [1; 1000]);
}
