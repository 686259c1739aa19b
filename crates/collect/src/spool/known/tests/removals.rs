//! Removing what is known, and what an interrupted removal left.

use super::*;

/// Removes files that are known, as those of a bundle.
fn remove(world: &World, disk: &SimDisk, second: u8, taken: &[Taken]) -> io::Result<()> {
    let name = world.name(second);
    let nothing = Stored {
        bytes: 0,
        sha256: Digest::of(b""),
    };
    let files = taken
        .iter()
        .map(|taken| FileRecord::new(&taken.place.name, taken.mark, taken.read, taken.sha256));
    let sealed = Sealed {
        id: id_of(&name),
        name,
        data: nothing.clone(),
        index: nothing,
        files: files.collect(),
    };
    let remover = Remover::new(Arc::new(disk.clone()), world.known.folder(0));
    remover.remove(&sealed).map(drop)
}

/// The power goes at every step of the removal of known files, or of giving them back: in the end they are gone, and a file
/// that was never shipped is there.
#[tokio::test]
async fn known_files_go_and_others_stay_whenever_the_power_goes() {
    for step in 1.. {
        let mut disk = SimDisk::new(step);
        let mut world = World::on(Arc::new(disk.clone()), Path::new("/"), 1);
        world.write("a", "1");
        world.write("b", "2");
        world.write("new", "3");
        let bundle = world.bundle(1, &["a", "b"]);
        world.put_data(0, &bundle).await;
        world.put_index(0, &bundle).await;
        disk.power_off_at(disk.operations() + step);
        let mut lives = 0;
        while let Err(error) = live(&world, &disk, 10 + lives).await {
            lives += 1;
            assert!(lives < 3, "{step}: {error}\n{}", disk.log().join("\n"));
            disk = disk.crash_with(step);
            world.known.disk = Arc::new(disk.clone());
            // A second power cut, while the first is cleared up.
            if lives == 1 {
                disk.power_off_at(disk.operations() + step % 17 + 1);
            }
        }
        assert_eq!(world.files(), ["new"], "{step}");
        let sent = disk.read_dir(&world.known.folder(0).join(".sent")).unwrap();
        assert_eq!(sent, [], "{step}");
        if lives == 0 {
            assert!(step > 10, "only {step} steps");
            break;
        }
    }
}

async fn live(world: &World, disk: &SimDisk, second: u8) -> io::Result<()> {
    world.known.give_back_strays(0).await?;
    let known = world.known.recall(0, date()).await;
    let known = known.map_err(io::Error::other)?;
    let mut taken = Vec::new();
    for name in world.known.disk.read_dir(&world.path(""))? {
        let name = name.name.into_string().unwrap();
        let found = match read(disk, &world.path(&name), MIB) {
            Ok(_) => world.take(&name),
            Err(error) => return Err(error),
        };
        if known.has(&name, &found.sha256) {
            taken.push(found);
        }
    }
    remove(world, disk, second, &taken)
}

#[tokio::test]
async fn strays_go_back_under_a_name_that_is_free() {
    let mut world = World::new(1);
    let sent = |second| {
        world
            .known
            .folder(0)
            .join(".sent")
            .join(id_of(&world.name(second)))
    };
    let [lost, held] = [sent(1), sent(2)];
    let strange = world.known.folder(0).join(".sent/strange");
    let disk = Arc::clone(&world.known.disk);
    for (folder, name, text) in [
        (&lost, "free.json", "1"),
        (&lost, "same.json", "2"),
        (&lost, "taken.json", "3"),
        (&lost, ".hidden", "4"),
        (&held, "held.json", "5"),
        (&strange, "strange.json", "6"),
    ] {
        create_dir_all(&*disk, folder).unwrap();
        write_durably(&*disk, &folder.join(name), text.as_bytes()).unwrap();
    }
    for (name, text) in [
        ("same.json", "2"),
        ("taken.json", "newer"),
        ("taken~1.json", "4"),
        (".hidden", "newer"),
    ] {
        world.write(name, text);
    }
    let name = world.name(2);
    world.known.in_outbox.insert(name);
    assert_eq!(world.known.give_back_strays(0).await.unwrap(), 4);
    assert_eq!(
        world.files(),
        [
            ".hidden",
            ".hidden~1",
            "free.json",
            "same.json",
            "taken.json",
            "taken~1.json",
            "taken~2.json"
        ]
    );
    let content = |name| String::from_utf8(read(&*disk, &world.path(name), MIB).unwrap());
    assert_eq!(content("taken~2.json").unwrap(), "3");
    assert_eq!(content("taken.json").unwrap(), "newer");
    assert!(disk.metadata(&held.join("held.json")).is_ok());
    assert!(disk.metadata(&strange.join("strange.json")).is_ok());
    assert!(disk.metadata(&lost).is_err());
    assert_eq!(world.known.give_back_strays(0).await.unwrap(), 0);
    assert_eq!(world.known.give_back_strays(1).await.unwrap(), 0);
}

/// The last file of a date went, and its empty folder with it before anything was synced: no power cut brings the file back
/// once its removal is said to be done.
#[tokio::test]
async fn a_folder_that_goes_before_it_was_synced_takes_its_files_with_it() {
    let mut before_sync = 0;
    for step in 1.. {
        let disk = SimDisk::new(step);
        let world = World::on(Arc::new(disk.clone()), Path::new("/"), 1);
        world.write("a", "1");
        let taken = [world.take("a")];
        let failing = disk.operations() + step;
        disk.fail_at(failing, io::ErrorKind::StorageFull);
        if remove(&world, &disk, 10, &taken).is_ok() {
            break;
        }
        if disk.remove_dir(&world.path("")).is_err() {
            continue;
        }
        before_sync += 1;
        let sent = world.known.folder(0).join(".sent");
        remove(&world, &disk, 10, &taken).unwrap();
        for seed in 0..50 {
            let after = disk.crash_with(seed);
            let log = || disk.log().join("\n");
            assert!(
                after.metadata(&world.path("a")).is_err(),
                "{step}: {}",
                log()
            );
            assert_eq!(after.read_dir(&sent).unwrap(), [], "{step}: {}", log());
        }
    }
    assert!(before_sync > 1, "only {before_sync} cases");
}
