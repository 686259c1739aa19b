//! Locks: between threads, over a power cut, and on files without a name.

use std::sync::Arc;
use std::thread;

use cannery_runtime::disk::Wait;

use super::*;

fn lock(disk: &SimDisk, wait: Wait) -> io::Result<Box<dyn cannery_runtime::disk::DiskLock>> {
    disk.lock(Path::new("lock"), wait)
}

#[test]
fn a_lock_is_exclusive_until_dropped() {
    let disk = SimDisk::new(0);
    let held = lock(&disk, Wait::No).unwrap();
    assert_eq!(disk.operations(), 1, "creating the file counts");
    assert_eq!(
        lock(&disk, Wait::No).unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
    held.file().write_all_at(0, b"me").unwrap();
    assert_eq!(content(&disk, "lock").unwrap(), b"me");
    drop(held);
    drop(lock(&disk, Wait::No).unwrap());
    assert_eq!(disk.operations(), 2, "the file was there");
}

#[test]
fn a_lock_belongs_to_the_file_and_not_to_its_name() {
    let disk = SimDisk::new(0);
    let held = lock(&disk, Wait::No).unwrap();
    disk.remove_file(Path::new("lock")).unwrap();
    let other = lock(&disk, Wait::No).unwrap();
    drop(held);
    assert_eq!(
        lock(&disk, Wait::No).unwrap_err().kind(),
        io::ErrorKind::WouldBlock
    );
    drop(other);
}

#[test]
fn threads_that_wait_take_turns() {
    let disk = SimDisk::new(0);
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let held = lock(&disk, Wait::Yes).unwrap();
                    let mut count = [0];
                    held.file().read_at(0, &mut count).unwrap();
                    thread::yield_now();
                    held.file()
                        .write_all_at(0, &[count[0].wrapping_add(1)])
                        .unwrap();
                }
            });
        }
    });
    assert_eq!(
        content(&disk, "lock").unwrap(),
        [144],
        "400 turns, counted in one byte"
    );
}

/// How many have the file open.
fn handles(disk: &SimDisk, path: &str) -> usize {
    let state = disk.state();
    let node = state.tree.find(Path::new(path)).unwrap();
    Arc::strong_count(&state.tree.node(node).open) - 1
}

#[test]
fn a_power_cut_wakes_who_waits_and_frees_the_lock() {
    let cuts: [fn(&SimDisk); 3] = [
        |disk| drop(disk.crash()),
        |disk| disk.power_off_at(0),
        |disk| {
            disk.power_off_at(disk.operations() + 1);
            disk.create_dir(Path::new("x")).unwrap_err();
        },
    ];
    for cut in cuts {
        let disk = SimDisk::new(0);
        let held = lock(&disk, Wait::No).unwrap();
        sync_dir(&disk, ".");
        thread::scope(|scope| {
            let waiting = scope.spawn(|| lock(&disk, Wait::Yes).map(drop));
            while handles(&disk, "lock") < 2 && !waiting.is_finished() {
                thread::yield_now();
            }
            cut(&disk);
            waiting.join().unwrap().unwrap_err();
        });
        let after = disk.crash();
        drop(lock(&after, Wait::No).unwrap());
        drop(held);
    }
}
