//! The same random operations on the simulated and the real file system: the same answers and the same trees.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cannery_runtime::disk::Wait;
use cannery_runtime::{RealDisk, Rng};

use super::*;

/// Few names, so that operations meet.
const NAMES: [&str; 3] = ["x", "y", "z"];

fn random_path(rng: &Rng) -> PathBuf {
    let depth = 1 + rng.below(3);
    (0..depth)
        .map(|_| NAMES[usize::try_from(rng.below(3)).unwrap()])
        .collect()
}

/// One random operation under `root`; what it answered.
fn step(disk: &dyn Disk, root: &Path, rng: &Rng) -> (String, Result<String, io::ErrorKind>) {
    let (relative, other) = (random_path(rng), random_path(rng));
    let (path, to) = (root.join(&relative), root.join(&other));
    let byte = u8::try_from(rng.below(256)).unwrap();
    let (what, done) = match rng.below(12) {
        0 => (
            "create",
            disk.open(&path, Open::CreateNew)
                .and_then(|file| file.write_all_at(3, &[byte]))
                .map(text),
        ),
        // Into itself, the real disk has two different errors: the second comes from how it does without a flag.
        1 | 2 if other.starts_with(&relative) => (
            "metadata",
            disk.metadata(&path).map(|found| text(found.kind)),
        ),
        1 => ("rename", disk.rename(&path, &to).map(text)),
        2 => ("rename_new", disk.rename_new(&path, &to).map(text)),
        3 => ("remove_file", disk.remove_file(&path).map(text)),
        4 | 5 => ("create_dir", disk.create_dir(&path).map(text)),
        6 => ("remove_dir", disk.remove_dir(&path).map(text)),
        7 => ("sync_dir", disk.sync_dir(&path).map(text)),
        8 => (
            "lock",
            disk.lock(&path, Wait::No)
                .and_then(|lock| lock.file().write_all_at(0, &[byte]))
                .map(text),
        ),
        9 => (
            "overwrite",
            disk.open(&path, Open::ReadWrite)
                .and_then(|file| {
                    file.write_all_at(2, &[byte, byte])?;
                    file.sync_data()
                })
                .map(text),
        ),
        10 => (
            "set_len",
            disk.open(&path, Open::ReadWrite)
                .and_then(|file| {
                    file.set_len(u64::from(byte % 8))?;
                    file.len()
                })
                .map(text),
        ),
        _ => ("read", read(disk, &path, BYTES_MAX).map(text)),
    };
    (
        format!("{what} {} {}", relative.display(), other.display()),
        done.map_err(|error| error.kind()),
    )
}

fn text(value: impl std::fmt::Debug) -> String {
    format!("{value:?}")
}

/// Every path below `folder` with the content of the files.
fn tree(disk: &dyn Disk, folder: &Path) -> BTreeMap<PathBuf, Option<Vec<u8>>> {
    let mut found = BTreeMap::new();
    for entry in disk.read_dir(folder).unwrap() {
        let name = PathBuf::from(entry.name);
        let path = folder.join(&name);
        if disk.metadata(&path).unwrap().kind == cannery_runtime::disk::Kind::Dir {
            found.extend(
                tree(disk, &path)
                    .into_iter()
                    .map(|(below, content)| (name.join(below), content)),
            );
            found.insert(name, None);
        } else {
            found.insert(name, Some(read(disk, &path, BYTES_MAX).unwrap()));
        }
    }
    found
}

#[test]
fn random_operations_have_the_answers_of_the_real_disk() {
    let mut answers = BTreeMap::new();
    for seed in 0..20 {
        let folder = tempfile::tempdir().unwrap();
        let (sim, sim_rng, real_rng) = (SimDisk::new(seed), Rng::seeded(seed), Rng::seeded(seed));
        for n in 0..200 {
            let (what, expected) = step(&RealDisk, folder.path(), &real_rng);
            let (_, found) = step(&sim, Path::new("."), &sim_rng);
            assert_eq!(found, expected, "seed {seed}, step {n}: {what}");
            let answer = (
                what.split(' ').next().unwrap().to_owned(),
                text(expected.map(drop)),
            );
            *answers.entry(answer).or_insert(0) += 1;
        }
        assert_eq!(
            tree(&sim, Path::new(".")),
            tree(&RealDisk, folder.path()),
            "seed {seed}"
        );
    }
    // They give 47 different answers; with far fewer the paths no longer meet.
    assert!(answers.len() >= 40, "{answers:#?}");
}

#[test]
fn an_open_file_outlives_its_name() {
    let folder = tempfile::tempdir().unwrap();
    for (disk, root) in [
        (&SimDisk::new(0) as &dyn Disk, Path::new(".")),
        (&RealDisk, folder.path()),
    ] {
        let path = root.join("file");
        let file = disk.open(&path, Open::CreateNew).unwrap();
        file.write_all_at(0, b"one").unwrap();
        write_durably(disk, &path, b"replaced").unwrap();
        file.write_all_at(3, b" two").unwrap();
        file.sync().unwrap();
        disk.remove_file(&path).unwrap();
        disk.sync_dir(root).unwrap();
        assert_eq!(
            cannery_runtime::disk::read_file(&*file, 100).unwrap(),
            b"one two"
        );
    }
}

#[test]
fn odd_requests_have_the_errors_of_the_real_disk() {
    type Request = fn(&dyn Disk, &Path) -> io::Result<()>;
    let requests: [(&str, Request); 19] = [
        ("read a folder", |disk, root| read(disk, root, 10).map(drop)),
        ("write to a file opened for reading", |disk, root| {
            disk.open(&root.join("file"), Open::Read)?
                .write_all_at(0, b"x")
        }),
        ("sync a file opened for reading", |disk, root| {
            disk.open(&root.join("file"), Open::Read)?.sync()
        }),
        (
            "sync the data of a file opened for reading",
            |disk, root| disk.open(&root.join("file"), Open::Read)?.sync_data(),
        ),
        ("cut a file opened for reading", |disk, root| {
            disk.open(&root.join("file"), Open::Read)?.set_len(0)
        }),
        ("a length beyond all files", |disk, root| {
            disk.open(&root.join("file"), Open::ReadWrite)?
                .set_len(u64::MAX)
        }),
        ("overwrite a folder", |disk, root| {
            disk.open(&root.join("folder"), Open::ReadWrite).map(drop)
        }),
        ("overwrite nothing", |disk, root| {
            disk.open(&root.join("none"), Open::ReadWrite).map(drop)
        }),
        ("list a file", |disk, root| {
            disk.read_dir(&root.join("file")).map(drop)
        }),
        ("look below a file", |disk, root| {
            disk.metadata(&root.join("file/x")).map(drop)
        }),
        ("look beside a file", |disk, root| {
            disk.metadata(&root.join("file/../file")).map(drop)
        }),
        ("create over a folder", |disk, root| {
            disk.open(&root.join("folder"), Open::CreateNew).map(drop)
        }),
        ("lock a folder", |disk, root| {
            disk.lock(&root.join("folder"), Wait::No).map(drop)
        }),
        ("lock in no folder", |disk, root| {
            disk.lock(&root.join("none/lock"), Wait::No).map(drop)
        }),
        ("move a folder into itself", |disk, root| {
            disk.rename(&root.join("folder"), &root.join("folder/inner"))
        }),
        ("a long name", |disk, root| {
            disk.create_dir(&root.join("n".repeat(256)))
        }),
        ("the longest name", |disk, root| {
            disk.create_dir(&root.join("n".repeat(255)))
        }),
        ("a long path", |disk, root| {
            disk.metadata(&root.join("./".repeat(3000))).map(drop)
        }),
        ("a name with a zero", |disk, root| {
            disk.create_dir(&root.join("a\0b"))
        }),
    ];
    let folder = tempfile::tempdir().unwrap();
    let sim = SimDisk::new(0);
    for (disk, root) in [
        (&sim as &dyn Disk, Path::new(".")),
        (&RealDisk, folder.path()),
    ] {
        disk.create_dir(&root.join("folder")).unwrap();
        write_durably(disk, &root.join("file"), b"text").unwrap();
    }
    for (what, request) in requests {
        let expected = request(&RealDisk, folder.path()).map_err(|error| error.kind());
        let found = request(&sim, Path::new(".")).map_err(|error| error.kind());
        assert_eq!(found, expected, "{what}");
    }
    assert_eq!(
        sim.metadata(Path::new("")).unwrap_err().kind(),
        io::ErrorKind::NotFound
    );
    assert_eq!(
        sim.remove_dir(Path::new("/")).unwrap_err().kind(),
        io::ErrorKind::ResourceBusy
    );
}
