//! What scans tell, and when.

use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;

use inotify::EventMask;
use rustix::fs::{CWD, FileType, Mode, mknodat};

use super::super::events::interpret;
use super::super::folder::Folder;
use super::*;

fn odd(below: impl AsRef<OsStr>, fault: Oddity) -> Sighting {
    Sighting::Odd {
        below: Path::new("foo1").join(below.as_ref()),
        fault,
    }
}

/// Everything that may be wrong in a spool, and a good file.
fn mess(root: &Path) {
    let day = root.join("foo1/2026/11/15");
    write_in(&day, "good.json");
    write(&day.join("line\nbreak.json"));
    write(&day.join(OsStr::from_bytes(b"not\xffutf8.json")));
    symlink("good.json", day.join("link.json")).unwrap();
    symlink("nowhere", day.join("dangling.json")).unwrap();
    mknodat(CWD, day.join("pipe.json"), FileType::Fifo, Mode::RUSR, 0).unwrap();
    write_in(&day.join("deeper"), "unseen.json");
    write(&root.join("foo1/2026/11/stray.json"));
    write(&root.join("foo1/stray.json"));
    symlink("2026", root.join("foo1/2025")).unwrap();
    symlink("foo1", root.join("bar1")).unwrap();
    for folder in ["2026/13/01", "2026/02/30", "26/11/15", "2026/11/5", "notes"] {
        write_in(&root.join("foo1").join(folder), "unseen.json");
    }
    // None of our business.
    write_in(&root.join("foo1/.sent/2026/11/15"), "unseen.json");
    write(&root.join("foo1/.hidden"));
    write(&root.join("foo1/2026/.stray.json"));
    write(&day.join(".being-written.json"));
    write_in(&day.join(".staging"), "unseen.json");
    symlink("good.json", day.join(".link.json")).unwrap();
    write_in(&root.join("else/2026/11/15"), "unseen.json");
    write_in(&root.join(".quarantine"), "unseen.json");
}

#[tokio::test]
async fn odd_things_are_told_once_they_are_old_and_never_entered() {
    let mut bench = Bench::with(1_024, mess);
    bench.until(|counters| counters.scans == 1).await;
    assert_eq!(bench.next().await, scanned("good.json"));
    assert!(bench.sightings.try_recv().is_err(), "odd things are young");
    // The root, the datatype, the year, two months, the good day.
    assert_eq!(bench.finder.counters().watches, 6);

    let told = bench
        .sightings_of_next_scan(async |bench| bench.time.advance(INTERVAL).await)
        .await;
    let mut expected = vec![
        file("good.json", Evidence::Missed),
        odd("2026/11/15/line\nbreak.json", Oddity::BadName),
        odd(
            OsStr::from_bytes(b"2026/11/15/not\xffutf8.json"),
            Oddity::BadName,
        ),
        odd("2026/11/15/link.json", Oddity::Link),
        odd("2026/11/15/dangling.json", Oddity::Link),
        odd("2026/11/15/pipe.json", Oddity::Special),
        odd("2026/11/15/deeper", Oddity::WrongDepth),
        odd("2026/11/stray.json", Oddity::WrongDepth),
        odd("stray.json", Oddity::WrongDepth),
        odd("2025", Oddity::Link),
        odd("../bar1", Oddity::Link),
        odd("2026/13", Oddity::NotADate),
        odd("2026/02/30", Oddity::NotADate),
        odd("26", Oddity::NotADate),
        odd("2026/11/5", Oddity::NotADate),
        odd("notes", Oddity::NotADate),
    ];
    for sighting in &mut expected {
        if let Sighting::Odd { below, .. } = sighting
            && let Ok(datatype) = below.strip_prefix("foo1/..")
        {
            *below = datatype.into();
        }
    }
    expected.sort();
    assert_eq!(told, expected);
}

#[tokio::test]
async fn a_missed_file_is_told_when_it_is_old_enough() {
    let mut bench = Bench::with(64, |root| {
        std::fs::create_dir_all(root.join("foo1/2026/11/15")).unwrap();
    });
    bench.until(|counters| counters.scans == 1).await;
    // A new name for a file is neither a close nor a move; and what is done by its old name is seen by no watch.
    let outside = bench.folder.path().join("outside");
    write(&outside);
    link(&outside, &bench.day().join("a.json"));
    let now = || Clock::real().now();
    set_modified(&outside, now() + INTERVAL);
    let told = bench
        .sightings_of_next_scan(async |bench| bench.time.advance(INTERVAL).await)
        .await;
    assert_eq!(told, [], "young");
    let told = bench
        .sightings_of_next_scan(async |bench| bench.time.advance(INTERVAL).await)
        .await;
    assert_eq!(told, [file("a.json", Evidence::Missed)]);

    // A time far ahead says nothing of its age.
    set_modified(&outside, now() + 100 * INTERVAL);
    let told = bench
        .sightings_of_next_scan(async |bench| bench.time.advance(INTERVAL).await)
        .await;
    assert_eq!(told, [scanned("a.json")]);
    let finished = bench.finder.counters().last_scan_finished;
    assert_eq!(finished, Some(bench.time.clock().now()));
}

fn set_modified(path: &Path, to: jiff::Timestamp) {
    let file = std::fs::OpenOptions::new().append(true).open(path).unwrap();
    file.set_modified(to.into()).unwrap();
}

#[allow(clippy::disallowed_methods, reason = "what a producer may do")]
fn link(from: &Path, to: &Path) {
    std::fs::hard_link(from, to).unwrap();
}

#[tokio::test]
async fn scan_now_tells_everything_again() {
    let mut bench = Bench::with(64, |root| write_in(&root.join("foo1/2026/11/15"), "a.json"));
    bench.until(|counters| counters.scans == 1).await;
    assert_eq!(bench.next().await, scanned("a.json"));
    bench.finder.scan_now();
    assert_eq!(bench.next().await, scanned("a.json"));
}

/// As if the events had been lost that told of it.
fn lose_watch(bench: &Bench, folder: &str) {
    let mut place = Folder::Datatype(0);
    for part in folder.split('/') {
        place = place.child(part.as_ref()).unwrap();
    }
    bench.finder.shared.watches().remove_within(place);
}

#[tokio::test]
async fn lost_events_lead_to_a_scan_of_everything() {
    let mut bench = Bench::watched().await;
    write_in(&bench.day(), "a.json");
    bench.file_named("foo1/2026/11/15/a.json").await;
    bench.until(|counters| counters.watches == 5).await;
    lose_watch(&bench, "2026/11");
    while bench.sightings.try_recv().is_ok() {}
    write(&bench.day().join("b.json"));
    interpret(&bench.finder.shared, -1, EventMask::Q_OVERFLOW, None);
    assert_eq!(
        bench.file_named("foo1/2026/11/15/b.json").await,
        Evidence::Scanned
    );
    bench.until(|counters| counters.scans == 2).await;
    let counters = bench.finder.counters();
    assert_eq!((counters.overflows, counters.watches), (1, 5));
    write(&bench.day().join("c.json"));
    assert_eq!(
        bench.file_named("foo1/2026/11/15/c.json").await,
        Evidence::Closed
    );
}

#[tokio::test]
async fn a_scan_for_missed_files_heals_the_watches() {
    let mut bench = Bench::watched().await;
    write_in(&bench.day(), "a.json");
    bench.file_named("foo1/2026/11/15/a.json").await;
    bench.until(|counters| counters.watches == 5).await;
    lose_watch(&bench, "2026");
    while bench.sightings.try_recv().is_ok() {}
    let told = bench
        .sightings_of_next_scan(async |bench| {
            write(&bench.day().join("b.json"));
            set_modified(&bench.day().join("b.json"), Clock::real().now() + INTERVAL);
            bench.time.advance(INTERVAL).await;
        })
        .await;
    // Nobody can have told of the young one.
    assert_eq!(told, [file("a.json", Evidence::Missed), scanned("b.json")]);
    assert_eq!(bench.finder.counters().watches, 5);

    // And what is watched without being there any more, is watched no more.
    let staging = bench.folder.path().join("staging");
    std::fs::create_dir(&staging).unwrap();
    lose_watch(&bench, "2026");
    let day = Folder::Datatype(0);
    let stale = ["2026", "11", "15"]
        .into_iter()
        .fold(day, |folder, part| folder.child(part.as_ref()).unwrap());
    std::fs::remove_dir_all(bench.root().join("foo1/2026")).unwrap();
    bench
        .finder
        .shared
        .watches()
        .watch(&staging, stale, false)
        .unwrap();
    assert_eq!(bench.finder.counters().watches, 3);
    bench.finder.scan_now();
    bench.until(|counters| counters.scans == 3).await;
    assert_eq!(bench.finder.counters().watches, 2);
}

#[tokio::test]
async fn a_root_that_cannot_be_watched_is_a_failure_of_each_scan() {
    let parts = FinderParts {
        root: Path::new("/").join("x".repeat(300)),
        datatypes: vec!["foo1".into()],
        scan_interval: INTERVAL,
        min_file_age: MIN_AGE,
        disk: Arc::new(RealDisk),
        clock: Clock::real(),
        census: Arc::new(Census::new(1)),
    };
    let (finder, _sightings) = Finder::start(parts, 1).unwrap();
    for scans in 1..3 {
        patiently(async {
            while finder.counters().scans < scans {
                Clock::real().sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
        // Once for the root, once for the datatype below it.
        assert_eq!(finder.counters().failures, 2 * scans);
        finder.scan_now();
    }
}

#[tokio::test]
async fn parts_that_make_no_sense_are_refused() {
    let parts = |datatypes: &[&str], scan_interval| FinderParts {
        root: "/nowhere".into(),
        datatypes: datatypes.iter().map(ToString::to_string).collect(),
        scan_interval,
        min_file_age: MIN_AGE,
        disk: Arc::new(RealDisk),
        clock: Clock::real(),
        census: Arc::new(Census::new(1)),
    };
    for refused in [
        parts(&["foo1", "foo1"], INTERVAL),
        parts(&["a/b"], INTERVAL),
        parts(&[".."], INTERVAL),
        parts(&[".sent"], INTERVAL),
        parts(&[""], INTERVAL),
        parts(&["foo1/"], INTERVAL),
        parts(&["foo1"], Duration::ZERO),
    ] {
        let error = Finder::start(refused, 1).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidInput, "{error}");
    }
}
