use cannery_testkit::sim_disk::SimDisk;

use super::*;

const ROOT: &str = "reports-raw";
const NAMES: [&str; 3] = ["a", "b", "c"];

fn date() -> BucketDate {
    "2017-01-01".parse().unwrap()
}

fn write(disk: &SimDisk, path: &str, text: &[u8]) {
    let file = disk.open(Path::new(path), Open::CreateNew).unwrap();
    file.write_all_at(0, text).unwrap();
    file.sync().unwrap();
    let folder = Path::new(path).parent().unwrap();
    disk.sync_dir(folder).unwrap();
}

/// Three reports, the last of which is not what was canned.
fn disk() -> (SimDisk, Vec<(BucketDate, String, Sums)>) {
    let disk = SimDisk::new(7);
    create_dir_all(&disk, Path::new("reports-raw/2017-01-01")).unwrap();
    for name in NAMES {
        write(&disk, &format!("{ROOT}/2017-01-01/{name}"), name.as_bytes());
    }
    let canned = [b"a", b"b", b"C"].into_iter();
    let files = NAMES.into_iter().zip(canned);
    let files = files.map(|(name, text)| (date(), name.to_owned(), Sums::of(text)));
    (disk, files.collect())
}

fn read(disk: &SimDisk, name: &str) -> Option<Vec<u8>> {
    let path = Path::new(ROOT).join("2017-01-01").join(name);
    cannery_runtime::disk::read(disk, &path, 100).ok()
}

fn remove(disk: &SimDisk, files: &[(BucketDate, String, Sums)]) -> io::Result<Vec<Fate>> {
    Shelf::new(disk, Path::new(ROOT)).remove(files)
}

#[test]
fn what_was_canned_goes_and_what_has_changed_stays() {
    let (disk, files) = disk();
    let fates = remove(&disk, &files).unwrap();
    assert_eq!(fates, [Fate::Removed, Fate::Removed, Fate::Changed]);
    assert_eq!([read(&disk, "a"), read(&disk, "b")], [None, None]);
    assert_eq!(read(&disk, "c").unwrap(), b"c");
    let again = remove(&disk, &files).unwrap();
    assert_eq!(again, [Fate::Gone, Fate::Gone, Fate::Changed]);
    let shelf = Shelf::new(&disk, Path::new(ROOT));
    assert_eq!(shelf.aside(None).unwrap(), []);
}

/// Whatever fails, and wherever the power goes: another run ends the same, and what is not canned is never lost.
#[test]
fn a_death_or_a_failure_at_any_step_is_made_up_for() {
    let (whole, files) = disk();
    let begun = whole.operations();
    remove(&whole, &files).unwrap();
    let steps = whole.operations();
    assert!(steps - begun > 6, "{:?}", whole.log());
    for step in begun + 1..=steps {
        for way in 0..3 {
            let (disk, files) = disk();
            match way {
                0 => disk.fail_at(step, io::ErrorKind::StorageFull),
                1 => disk.fail_after(step, io::ErrorKind::StorageFull),
                _ => disk.power_off_at(step),
            }
            let ended = remove(&disk, &files);
            let disk = match way {
                2 => disk.crash(),
                _ => disk,
            };
            let context = format!("step {step}, way {way}: {ended:?}");
            assert_eq!(read(&disk, "c").unwrap(), b"c", "{context}");
            remove(&disk, &files).unwrap();
            assert_eq!(
                [read(&disk, "a"), read(&disk, "b")],
                [None, None],
                "{context}"
            );
            assert_eq!(read(&disk, "c").unwrap(), b"c", "{context}");
            let shelf = Shelf::new(&disk, Path::new(ROOT));
            assert_eq!(shelf.aside(None).unwrap(), [], "{context}");
        }
    }
}

#[test]
fn what_was_taken_away_is_compared_again_and_goes_back() {
    let (disk, mut files) = disk();
    create_dir_all(&disk, Path::new("reports-raw/.clearing/2017-01-01")).unwrap();
    for name in ["a", "c"] {
        let at = |folder: &str| Path::new(ROOT).join(folder).join("2017-01-01").join(name);
        disk.rename_new(&at(""), &at(".clearing")).unwrap();
    }
    let shelf = Shelf::new(&disk, Path::new(ROOT));
    let aside: Vec<String> = (shelf.aside(None).unwrap().into_iter())
        .map(|(_, name)| name)
        .collect();
    assert_eq!(aside, ["a", "c"]);
    let fates = remove(&disk, &files).unwrap();
    assert_eq!(fates, [Fate::Removed, Fate::Removed, Fate::Changed]);
    assert_eq!(read(&disk, "c").unwrap(), b"c");

    // Its name is taken by another one meanwhile.
    let at = |folder: &str| Path::new(ROOT).join(folder).join("2017-01-01/c");
    create_dir_all(&disk, Path::new("reports-raw/.clearing/2017-01-01")).unwrap();
    disk.rename_new(&at(""), &at(".clearing")).unwrap();
    write(&disk, "reports-raw/2017-01-01/c", b"newer");
    files.drain(..2);
    let fates = remove(&disk, &files).unwrap();
    assert_eq!(fates, [Fate::SetAside(at(".clearing"))]);
    assert_eq!(read(&disk, "c").unwrap(), b"newer");
}
