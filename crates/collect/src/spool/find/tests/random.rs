//! Producers that do anything they like.

use cannery_runtime::Rng;

use super::*;

/// Whatever happens, in the end every file that lies there has been told where it lies, and exactly the folders that are
/// there are watched. No scan helps.
#[tokio::test]
async fn after_any_history_all_files_are_told_and_all_folders_watched() {
    let histories = if cannery_testkit::long_run() { 200 } else { 20 };
    for seed in 0..histories {
        history(seed).await;
    }
}

async fn history(seed: u64) {
    let bench = Bench::with(64, |_| {});
    let Bench {
        folder,
        finder,
        mut sightings,
        ..
    } = bench;
    let home = folder.path().join("home");
    let consumer = tokio::spawn(async move {
        let mut told = BTreeSet::new();
        while let Some(sighting) = sightings.recv().await {
            if let Sighting::File(found) = sighting {
                told.insert(name_of(&found));
            }
            if told.contains(LAST) {
                break;
            }
        }
        (told, sightings)
    });
    let producer = tokio::task::spawn_blocking({
        let home = home.clone();
        move || {
            let rng = Rng::seeded(seed);
            for number in 0..60 {
                act(&home, &rng, number);
            }
        }
    });
    patiently(producer).await.unwrap();
    let (files, folders) = there(&home.join("exp"));
    patiently(settled(&finder, folders, seed)).await;
    // Told in the order of events and looks alike: wait for the last of both.
    write_in(&home.join("exp/foo1/2030/01/01"), "last.json");
    let (mut told, mut sightings) = patiently(consumer).await.unwrap();
    while let Some(missing) = files.difference(&told).next() {
        match Clock::real().timeout(PATIENCE, sightings.recv()).await {
            Ok(Some(Sighting::File(found))) => told.insert(name_of(&found)),
            other => panic!("seed {seed}: `{missing}` is not told: {other:?}"),
        };
    }
}

const LAST: &str = "foo1/2030/01/01/last.json";

async fn settled(finder: &Finder, folders: u64, seed: u64) {
    for _ in 0..5_000 {
        if finder.counters().watches == folders && finder.counters().scans == 1 {
            return;
        }
        Clock::real().sleep(Duration::from_millis(2)).await;
    }
    panic!("seed {seed}: {folders} expected, {:?}", finder.counters());
}

/// One step of a producer. Much of it fails, because something is there or is not.
fn act(home: &Path, rng: &Rng, number: usize) {
    let root = home.join("exp");
    let any = |rng: &Rng| {
        let datatype = ["foo1", "bar1"][usize::from(rng.chance(0.5))];
        let depth = usize::try_from(rng.below(4)).unwrap();
        let parts = [
            format!("202{}", rng.below(2)),
            format!("1{}", rng.below(2)),
            format!("0{}", 1 + rng.below(2)),
        ];
        let path = root.join(datatype);
        parts[..depth]
            .iter()
            .fold(path, |path, part| path.join(part))
    };
    let day = |rng: &Rng| {
        let parts = [1 + rng.below(2), 1 + rng.below(2)];
        root.join(format!("foo1/2020/1{}/0{}", parts[0] - 1, parts[1]))
    };
    match rng.below(10) {
        0 => {
            std::fs::remove_dir_all(any(rng)).ok();
        }
        1 | 2 => {
            RealDisk.rename(&any(rng), &any(rng)).ok();
        }
        3 => {
            // Out of the spool and perhaps back later.
            let outside = home.join(format!("outside{}", rng.below(2)));
            let inside = any(rng);
            if RealDisk.rename(&outside, &inside).is_err() {
                RealDisk.rename(&inside, &outside).ok();
            }
        }
        4 if rng.chance(0.2) => {
            std::fs::remove_dir_all(home).ok();
        }
        5 if rng.chance(0.2) => {
            RealDisk.rename(&root, &home.join("other")).ok();
        }
        _ => write_in(&day(rng), &format!("{number}.json")),
    }
}

/// The files that lie where files belong, and how many folders are there to be watched.
fn there(root: &Path) -> (BTreeSet<String>, u64) {
    let mut files = BTreeSet::new();
    let mut folders = 1;
    for datatype in ["foo1", "bar1"] {
        collect(root, datatype, 0, &mut files, &mut folders);
    }
    (files, folders)
}

fn collect(root: &Path, below: &str, depth: u8, files: &mut BTreeSet<String>, folders: &mut u64) {
    let Ok(entries) = std::fs::read_dir(root.join(below)) else {
        return;
    };
    *folders += 1;
    for entry in entries {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let is_folder = entry.file_type().unwrap().is_dir();
        let width = if depth == 0 { 4 } else { 2 };
        let below = format!("{below}/{name}");
        if is_folder && depth < 3 && name.len() == width {
            collect(root, &below, depth + 1, files, folders);
        } else if !is_folder && depth == 3 {
            files.insert(below);
        }
    }
}
