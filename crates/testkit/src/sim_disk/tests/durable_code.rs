//! The durable writers of the runtime under power cuts at every step, and wrong ones that must be caught.

use cannery_runtime::disk::{is_sync_failure, preallocate};

use super::*;

const OLD: [u8; 1500] = [1; 1500];
const NEW: [u8; 2500] = [2; 2500];

type Writer = fn(&dyn Disk, &Path, &[u8]) -> io::Result<()>;

/// Power cuts at every step of replacing `OLD` by `NEW`, under every seed: what breaks the promise of `write_durably`.
fn broken_promises(writer: Writer) -> Vec<String> {
    let mut broken = Vec::new();
    for n in 1.. {
        let disk = SimDisk::new(0);
        write_durably(&disk, Path::new("state"), &OLD).unwrap();
        disk.power_off_at(disk.operations() + n);
        let done = writer(&disk, Path::new("state"), &NEW);
        for seed in SEEDS {
            let found = content(&disk.crash_with(seed), "state");
            let kept = match &found {
                Ok(content) => content == &NEW || (done.is_err() && content == &OLD),
                Err(_) => false,
            };
            if !kept {
                let found = found.map(|content| content.len());
                broken.push(format!(
                    "cut at {n}, seed {seed}: {done:?}, found {found:?}"
                ));
            }
        }
        if done.is_ok() {
            break;
        }
    }
    broken
}

fn write_temp(disk: &dyn Disk, content: &[u8], sync: bool) -> io::Result<()> {
    let file = disk.open(Path::new("temp"), Open::CreateNew)?;
    file.write_all_at(0, content)?;
    if sync { file.sync() } else { Ok(()) }
}

#[test]
fn write_durably_leaves_old_or_new() {
    assert_eq!(broken_promises(write_durably), Vec::<String>::new());
}

#[test]
fn a_writer_without_fsync_before_the_rename_is_caught() {
    let broken = broken_promises(|disk, path, content| {
        write_temp(disk, content, false)?;
        disk.rename(Path::new("temp"), path)?;
        disk.sync_dir(Path::new("."))
    });
    assert!(
        broken
            .iter()
            .any(|what| what.contains("Ok(()), found Ok(0)")),
        "an empty file: {broken:?}"
    );
    assert!(
        broken
            .iter()
            .any(|what| what.contains("Ok(()), found Ok(2500)")),
        "torn: {broken:?}"
    );
    assert!(
        broken.iter().any(|what| what.contains("Err(")),
        "also before its end: {broken:?}"
    );
}

#[test]
fn a_writer_without_sync_of_the_folder_is_caught() {
    let broken = broken_promises(|disk, path, content| {
        write_temp(disk, content, true)?;
        disk.rename(Path::new("temp"), path)
    });
    assert!(
        broken
            .iter()
            .any(|what| what.contains("Ok(()), found Ok(1500)")),
        "old: {broken:?}"
    );
}

#[test]
fn a_writer_that_writes_in_place_is_caught() {
    let broken = broken_promises(|disk, path, content| {
        disk.remove_file(path)?;
        let file = disk.open(path, Open::CreateNew)?;
        file.write_all_at(0, content)?;
        file.sync()?;
        disk.sync_dir(Path::new("."))
    });
    assert!(
        broken.iter().any(|what| what.contains("found Err(")),
        "neither: {broken:?}"
    );
}

#[test]
fn write_durably_leaves_old_or_new_when_a_step_fails() {
    type Break = fn(&SimDisk, u64);
    let breaks: [Break; 2] = [
        |disk, n| disk.fail_at(n, io::ErrorKind::Other),
        |disk, n| disk.fail_after(n, io::ErrorKind::Other),
    ];
    for (n, break_at) in (1..=6).flat_map(|n| breaks.map(|break_at| (n, break_at))) {
        let disk = SimDisk::new(0);
        write_durably(&disk, Path::new("state"), &OLD).unwrap();
        break_at(&disk, disk.operations() + n);
        write_durably(&disk, Path::new("state"), &NEW).unwrap_err();
        for seed in SEEDS {
            let found = content(&disk.crash_with(seed), "state").unwrap();
            assert!(
                found == OLD || found == NEW,
                "step {n}, seed {seed}: {:#?}",
                disk.log()
            );
        }
    }
}

#[test]
fn a_write_repeated_after_a_failed_step_is_durable() {
    for n in 1..=6 {
        let disk = SimDisk::new(n);
        write_durably(&disk, Path::new("state"), &OLD).unwrap();
        disk.fail_at(disk.operations() + n, io::ErrorKind::Other);
        write_durably(&disk, Path::new("state"), &NEW).unwrap_err();
        write_durably(&disk, Path::new("state"), &NEW).unwrap();
        for seed in SEEDS {
            assert!(
                content(&disk.crash_with(seed), "state").unwrap() == NEW,
                "step {n}, seed {seed}"
            );
        }
    }
}

/// More than two chunks of zeros, and not a whole number of them.
const SEGMENT_BYTES: u64 = (2 << 20) + 512;

#[test]
fn a_preallocated_file_is_written_whole_and_survives() {
    let disk = disk_with_folders();
    let before = disk.operations();
    let file = preallocate(&disk, Path::new("a/segment"), SEGMENT_BYTES).unwrap();
    let steps = [
        "create `a/segment`",
        "write `a/segment` 1048576 bytes at 0",
        "write `a/segment` 1048576 bytes at 1048576",
        "write `a/segment` 512 bytes at 2097152",
        "sync `a/segment`",
        "sync folder `a`",
    ];
    let log = (before + 1..).zip(steps);
    let log: Vec<String> = log.map(|(n, step)| format!("{n} {step}")).collect();
    assert_eq!(disk.log()[usize::try_from(before).unwrap()..], log);
    file.write_all_at(512, &[7; 512]).unwrap();
    file.sync_data().unwrap();
    let found = read(&disk.crash(), Path::new("a/segment"), SEGMENT_BYTES).unwrap();
    assert_eq!(found.len() as u64, SEGMENT_BYTES);
    assert_eq!(found.iter().filter(|byte| **byte != 0).count(), 512);
}

#[test]
fn a_file_that_cannot_be_preallocated_is_removed() {
    for n in 2..=6 {
        let disk = disk_with_folders();
        disk.fail_at(disk.operations() + n, 5);
        let error = preallocate(&disk, Path::new("a/segment"), SEGMENT_BYTES).unwrap_err();
        assert!(!exists(&disk, "a/segment"), "step {n}");
        let of_folder = n == 6;
        assert_eq!(is_sync_failure(&error), of_folder, "step {n}: {error}");
        assert!(of_folder || error.raw_os_error() == Some(5), "step {n}");
        preallocate(&disk, Path::new("a/segment"), 512).unwrap();
    }
}

#[test]
fn the_first_error_of_preallocating_is_returned() {
    let disk = disk_with_folders();
    let n = disk.operations();
    disk.fail_at(n + 2, 5);
    disk.fail_at(n + 3, 13);
    let error = preallocate(&disk, Path::new("a/segment"), 512).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5));
    assert!(exists(&disk, "a/segment"), "it could not be removed");
    disk.set_capacity(100);
    let error = preallocate(&disk, Path::new("a/other"), 512).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::StorageFull);
    assert!(!exists(&disk, "a/other"));
}

#[test]
fn folders_made_by_create_dir_all_survive() {
    let path = Path::new("one/two/three");
    for n in 1.. {
        let disk = SimDisk::new(0);
        disk.power_off_at(n);
        let done = create_dir_all(&disk, path);
        for seed in SEEDS {
            let after = disk.crash_with(seed);
            assert!(
                done.is_err() || exists(&after, "one/two/three"),
                "cut at {n}, seed {seed}"
            );
            create_dir_all(&after, path).unwrap();
            let again = after.crash();
            assert!(
                exists(&again, "one/two/three"),
                "cut at {n}, seed {seed}, made again"
            );
        }
        if done.is_ok() {
            assert_eq!(n, 7, "three folders made, three synced");
            break;
        }
    }
}

#[test]
fn folders_without_sync_of_their_parents_are_caught() {
    let disk = SimDisk::new(0);
    for path in ["one", "one/two", "one/two/three"] {
        disk.create_dir(Path::new(path)).unwrap();
    }
    sync_dir(&disk, "one/two");
    let found = outcomes(&disk, |disk| {
        ["one", "one/two", "one/two/three"].map(|path| exists(disk, path))
    });
    let expected = [
        [false, false, false],
        [true, false, false],
        [true, true, true],
    ];
    assert_eq!(found.into_keys().collect::<Vec<_>>(), expected);
}
