//! Date folders that have had their time.

use jiff::Span;
use jiff::tz::TimeZone;

use super::*;

const DAY: Duration = Duration::from_secs(86_400);

/// The folder of the date that was so many days ago.
fn ago(time: &SimulatedClock, days: i64) -> String {
    let today = time.clock().now().to_zoned(TimeZone::UTC).date();
    let date = today.saturating_sub(Span::new().days(days));
    date.strftime("%Y/%m/%d").to_string()
}

async fn scan(bench: &Bench) {
    let scans = bench.finder.counters().scans;
    bench.finder.scan_now();
    bench.until(|counters| counters.scans > scans).await;
}

#[tokio::test]
async fn empty_folders_of_the_past_go_once_nobody_can_be_at_them() {
    let mut bench = Bench::watched().await;
    let foo1 = bench.root().join("foo1");
    let (late_date, young_date) = (ago(&bench.time, 401), ago(&bench.time, 1));
    let old = foo1.join(ago(&bench.time, 400));
    let (late, young) = (foo1.join(&late_date), foo1.join(&young_date));
    for path in [&old, &young] {
        std::fs::create_dir_all(path).unwrap();
    }
    write_in(&late, "late.json");
    // Not ours.
    let others = bench.root().join("else").join(ago(&bench.time, 400));
    let hidden = foo1.join(".sent");
    for path in [&others, &hidden] {
        std::fs::create_dir_all(path).unwrap();
    }
    scan(&bench).await;
    assert!(old.exists(), "somebody may have made it just now");
    bench.time.advance(2 * MIN_AGE).await;
    scan(&bench).await;
    assert!(!old.exists());
    for path in [&late, &young, &others, &hidden] {
        assert!(path.exists(), "{}", path.display());
    }
    // The folders above it have just changed: they go when that is a while ago too, but not with a file below.
    bench.time.advance(2 * MIN_AGE).await;
    bench
        .file_named(&format!("foo1/{late_date}/late.json"))
        .await;
    std::fs::remove_file(late.join("late.json")).unwrap();
    for _ in 0..3 {
        bench.time.advance(2 * MIN_AGE).await;
        scan(&bench).await;
        while bench.sightings.try_recv().is_ok() {}
    }
    let years: Vec<_> = RealDisk.read_dir(&foo1).unwrap();
    let this_year = &young_date[..4];
    let mut names: Vec<_> = years.iter().map(|entry| entry.name.clone()).collect();
    names.sort();
    assert_eq!(names, [OsStr::new(".sent"), OsStr::new(this_year)]);
    // The root, the datatype, and one year, month and day.
    bench.until(|counters| counters.watches == 5).await;
    assert_eq!(bench.finder.counters().failures, 0);
}

#[tokio::test]
async fn watches_do_not_grow_in_sixty_days() {
    let mut bench = Bench::watched().await;
    for day in 0..60 {
        let today = ago(&bench.time, 0);
        let folder = bench.root().join("foo1").join(&today);
        write_in(&folder, "a.json");
        bench.file_named(&format!("foo1/{today}/a.json")).await;
        // It is shipped.
        std::fs::remove_file(folder.join("a.json")).unwrap();
        bench.time.advance(DAY).await;
        scan(&bench).await;
        while bench.sightings.try_recv().is_ok() {}
        // At most two years with a month each, or two months, and three days.
        bench.until(|counters| counters.watches <= 9).await;
        assert!(folder.exists(), "day {day}: it is of yesterday");
    }
    assert_eq!(bench.finder.counters().failures, 0);
    // Nobody files anything any more.
    for _ in 0..4 {
        bench.time.advance(400 * DAY).await;
        scan(&bench).await;
    }
    bench.until(|counters| counters.watches == 2).await;
    let left = RealDisk.read_dir(&bench.root().join("foo1")).unwrap();
    assert_eq!(left, []);
}
