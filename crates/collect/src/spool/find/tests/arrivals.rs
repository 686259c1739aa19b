//! Folders and files that appear while the finder runs.

use std::os::unix::fs::symlink;

use super::*;

const FOLDERS: usize = 280;
const WRITERS: usize = 4;

/// The original missed 26 to 169 of these.
#[tokio::test]
async fn no_file_in_a_fresh_date_folder_is_missed() {
    let rounds = if cannery_testkit::long_run() { 20 } else { 2 };
    let mut bench = Bench::watched().await;
    for round in 0..rounds {
        let root = bench.root();
        let staging = bench.folder.path().join(format!("staging{round}"));
        std::fs::create_dir(&staging).unwrap();
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (root, staging) = (root.clone(), staging.clone());
                std::thread::spawn(move || {
                    for number in (writer..FOLDERS).step_by(WRITERS) {
                        put(&root, &staging, round, number);
                    }
                })
            })
            .collect();
        let mut missing: BTreeSet<String> = (0..FOLDERS)
            .map(|number| format!("{}/{number}.json", day_of(round, number)))
            .collect();
        while !missing.is_empty() {
            let (name, _) = bench.file().await;
            missing.remove(&name);
        }
        for writer in writers {
            writer.join().unwrap();
        }
    }
    assert_eq!(bench.finder.counters().scans, 1);
    assert_eq!(bench.finder.counters().overflows, 0);
}

fn day_of(round: usize, number: usize) -> String {
    let datatype = ["foo1", "bar1"][number % 2];
    let (month, day) = (number / 28 + 1, number % 28 + 1);
    format!("{datatype}/{:04}/{month:02}/{day:02}", 2_000 + round)
}

/// In turn: written in place, moved into place, and moved together with its folder.
fn put(root: &Path, staging: &Path, round: usize, number: usize) {
    let (day, name) = (root.join(day_of(round, number)), format!("{number}.json"));
    match number % 3 {
        0 => write_in(&day, &name),
        1 => {
            write(&staging.join(&name));
            std::fs::create_dir_all(&day).unwrap();
            rename(&staging.join(&name), &day.join(&name));
        }
        _ => {
            let prepared = staging.join(format!("folder{number}"));
            write_in(&prepared, &name);
            std::fs::create_dir_all(day.parent().unwrap()).unwrap();
            rename(&prepared, &day);
        }
    }
}

#[tokio::test]
async fn in_a_known_folder_the_event_says_how_a_file_came() {
    let mut bench = Bench::with(64, |root| {
        std::fs::create_dir_all(root.join("foo1/2026/11/15")).unwrap();
    });
    bench.until(|counters| counters.scans == 1).await;
    write(&bench.day().join("a.json"));
    assert_eq!(bench.next().await, file("a.json", Evidence::Closed));
    write(&bench.day().join("b.json.tmp"));
    assert_eq!(bench.next().await, file("b.json.tmp", Evidence::Closed));
    rename(&bench.day().join("b.json.tmp"), &bench.day().join("b.json"));
    assert_eq!(bench.next().await, file("b.json", Evidence::Moved));
    assert_eq!(bench.finder.counters().files_seen, [3, 0]);
}

/// By events and by scans: a producer writes it, closes it, and renames it when it likes.
#[tokio::test]
async fn a_dot_file_is_told_once_it_has_another_name() {
    let mut bench = Bench::with(64, |root| {
        write_in(&root.join("foo1/2026/11/15"), ".old.json");
    });
    bench.until(|counters| counters.scans == 1).await;
    let day = bench.day();
    write(&day.join(".a.json"));
    rename(&day.join(".a.json"), &day.join("a.json"));
    assert_eq!(bench.next().await, file("a.json", Evidence::Moved));
    rename(&day.join(".old.json"), &day.join(".older.json"));
    write_in(&day.join(".folder"), "b.json");
    let told = bench
        .sightings_of_next_scan(async |bench| bench.time.advance(INTERVAL).await)
        .await;
    assert_eq!(told, [file("a.json", Evidence::Missed)]);
    rename(&day.join(".older.json"), &day.join("old.json"));
    assert_eq!(bench.next().await, file("old.json", Evidence::Moved));
}

#[tokio::test]
async fn events_tell_nothing_but_files_of_good_names() {
    let mut bench = Bench::with(64, |root| {
        std::fs::create_dir_all(root.join("foo1/2026/11/15")).unwrap();
    });
    bench.until(|counters| counters.scans == 1).await;
    let (day, outside) = (bench.day(), bench.folder.path().join("outside"));
    symlink("/etc/hostname", &outside).unwrap();
    rename(&outside, &day.join("link.json"));
    symlink(bench.folder.path(), day.join("link")).unwrap();
    write(&day.join("line\nbreak.json"));
    write(&bench.root().join("foo1/2026/11/stray.json"));
    std::fs::create_dir_all(day.join("2026/11/15")).unwrap();
    std::fs::create_dir(bench.root().join("foo1/2026/13")).unwrap();
    write_in(&bench.root().join("else/2026/11/15"), "a.json");
    write_in(&bench.root().join("foo1/.sent/2026"), "a.json");
    write(&day.join("last.json"));
    assert_eq!(bench.next().await, file("last.json", Evidence::Closed));
    // The root, the datatype, the year, the month, the day.
    assert_eq!(bench.finder.counters().watches, 5);
}

#[tokio::test]
async fn a_whole_date_folder_comes_goes_and_comes_back() {
    let mut bench = Bench::watched().await;
    let staging = bench.folder.path().join("staging");
    for name in ["a.json", "b.json"] {
        write_in(&staging.join("11/15"), name);
    }
    std::fs::create_dir(bench.root().join("foo1/2026")).unwrap();
    rename(&staging.join("11"), &bench.root().join("foo1/2026/11"));
    let mut told = [bench.next().await, bench.next().await];
    told.sort();
    assert_eq!(told, [scanned("a.json"), scanned("b.json")]);
    bench.until(|counters| counters.watches == 5).await;

    // Away: its watches must not follow it.
    rename(&bench.root().join("foo1/2026/11"), &staging.join("11"));
    bench.until(|counters| counters.watches == 3).await;
    write(&staging.join("11/15/c.json"));
    rename(&staging.join("11"), &bench.root().join("foo1/2026/11"));
    assert_eq!(
        bench.file_named("foo1/2026/11/15/c.json").await,
        Evidence::Scanned
    );
    bench.until(|counters| counters.watches == 5).await;

    // To another name within the spool: what is written there has the new name.
    let (old, new) = (bench.day(), bench.root().join("foo1/2026/11/16"));
    rename(&old, &new);
    write(&new.join("d.json"));
    let mut missing = BTreeSet::from(["a", "b", "c", "d"]);
    while !missing.is_empty() {
        let (told, _) = bench.file().await;
        missing.retain(|name| told != format!("foo1/2026/11/16/{name}.json"));
    }
    bench.until(|counters| counters.watches == 5).await;
}

#[tokio::test]
async fn a_removed_date_folder_is_watched_no_more() {
    let mut bench = Bench::watched().await;
    for round in 0..3 {
        write_in(&bench.day(), "a.json");
        bench.file_named("foo1/2026/11/15/a.json").await;
        bench.until(|counters| counters.watches == 5).await;
        if round < 2 {
            std::fs::remove_dir_all(bench.root().join("foo1/2026")).unwrap();
            bench.until(|counters| counters.watches == 2).await;
            while bench.sightings.try_recv().is_ok() {}
        }
    }
}

#[tokio::test]
async fn a_datatype_folder_is_removed_and_made_again() {
    let mut bench = Bench::watched().await;
    for name in ["a.json", "b.json", "c.json"] {
        write_in(&bench.day(), name);
        bench.file_named(&format!("foo1/2026/11/15/{name}")).await;
        std::fs::remove_dir_all(bench.root().join("foo1")).unwrap();
    }
    bench.until(|counters| counters.watches == 1).await;
    assert_eq!(bench.finder.counters().scans, 1);
}

#[tokio::test]
async fn the_root_appears_vanishes_and_appears_again() {
    let mut bench = Bench::with(64, |_| {});
    bench.until(|counters| counters.scans == 1).await;
    assert_eq!(bench.finder.counters().watches, 1);
    for name in ["a.json", "b.json", "c.json"] {
        write_in(&bench.day(), name);
        bench.file_named(&format!("foo1/2026/11/15/{name}")).await;
        bench.until(|counters| counters.watches == 5).await;
        std::fs::remove_dir_all(bench.folder.path().join("home")).unwrap();
        bench.until(|counters| counters.watches == 1).await;
    }
    let staging = bench.folder.path().join("staging");
    write_in(&staging.join("foo1/2026/11/15"), "d.json");
    std::fs::create_dir(bench.folder.path().join("home")).unwrap();
    rename(&staging, &bench.root());
    bench.file_named("foo1/2026/11/15/d.json").await;
    bench.until(|counters| counters.watches == 5).await;
    // Away and back as a whole: no event tells of the folders in it.
    rename(&bench.root(), &staging);
    bench.until(|counters| counters.watches == 1).await;
    write(&staging.join("foo1/2026/11/15/e.json"));
    rename(&staging, &bench.root());
    bench.file_named("foo1/2026/11/15/e.json").await;
    assert_eq!(bench.finder.counters().scans, 1);
}

#[tokio::test]
async fn a_link_may_lead_to_the_root() {
    let mut bench = Bench::with(64, |_| {});
    bench.until(|counters| counters.scans == 1).await;
    let real = bench.folder.path().join("elsewhere");
    std::fs::create_dir_all(real.join("exp")).unwrap();
    symlink(&real, bench.folder.path().join("home")).unwrap();
    write_in(&bench.day(), "a.json");
    bench.file_named("foo1/2026/11/15/a.json").await;
}
