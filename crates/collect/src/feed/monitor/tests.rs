use super::*;
use cannery_formats::feed::Hour;
use cannery_runtime::RealDisk;
use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::disk::{read, write_durably};

fn feed(id: &str) -> FeedId {
    FeedId::new(id).unwrap()
}

fn start() -> Timestamp {
    "2026-11-15T18:00:30Z".parse().unwrap()
}

fn open(dir: &Path, clock: &Clock) -> Monitor {
    let keep = Duration::from_secs(72 * 3_600);
    Monitor::open(Arc::new(RealDisk), &dir.join("logs"), clock.clone(), keep).unwrap()
}

fn task(at: Timestamp, ok: bool) -> Task {
    Task {
        kind: TaskKind::Archive,
        at,
        hour: Hour::of(at),
        store: None,
        ok,
        did: vec!["packed 3 bodies".into()],
    }
}

#[tokio::test]
async fn everything_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let simulated = SimulatedClock::starting_at(start());
    let clock = simulated.clock();
    let a = feed("a");
    let monitor = open(dir.path(), &clock);
    for number in 0..3_u64 {
        let latency = Duration::from_millis(100 * (number + 1));
        monitor.polled(&a, clock.now(), latency, &Polled::Stored(10));
        monitor.save().unwrap();
        simulated.advance(Duration::from_secs(60)).await;
    }
    let failed = clock.now();
    let reason = Polled::Failed("status 503".into());
    monitor.polled(&a, failed, Duration::ZERO, &reason);
    monitor.polled(&a, clock.now(), Duration::ZERO, &Polled::Unchanged);
    monitor.missed(&a, clock.now(), 4);
    monitor.task(&a, task(clock.now(), true));
    monitor.task(&a, task(clock.now(), false));
    monitor.save_all().unwrap();
    let before = monitor.view(&a).unwrap();

    let again = open(dir.path(), &clock);
    let after = again.view(&a).unwrap();
    assert_eq!(after.totals, before.totals);
    let failure = after.totals.last_failure.clone().unwrap();
    assert_eq!((failure.at, &*failure.reason), (failed, "status 503"));
    assert_eq!(after.minutes, before.minutes);
    assert_eq!(after.minutes.len(), 4);
    let (mean, longest) = after.minutes[2].1.latency().unwrap();
    assert_eq!((mean.as_millis(), longest.as_millis()), (300, 300));
    assert_eq!(after.totals.archives.ok, 1);
    assert_eq!(after.totals.archives.failed, 1);
    assert_eq!(
        again.tasks(&a, TaskKind::Archive),
        monitor.tasks(&a, TaskKind::Archive)
    );
    assert_eq!(again.tasks(&a, TaskKind::Upload), []);
    again.save_all().unwrap();
    let third = open(dir.path(), &clock).view(&a).unwrap();
    assert_eq!(third.minutes, before.minutes, "nothing is written twice");
}

#[test]
fn totals_that_an_older_version_kept_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::starting_at(start()).clock();
    std::fs::create_dir(dir.path().join("logs")).unwrap();
    let totals = dir.path().join("logs/totals.json");
    write_durably(&RealDisk, &totals, br#"{"a":{"stored":3,"failed":1}}"#).unwrap();
    let totals = open(dir.path(), &clock).totals();
    assert_eq!(totals[&feed("a")].stored, 3);
    assert_eq!(totals[&feed("a")].last_failure, None);
}

#[tokio::test]
async fn what_is_old_is_forgotten_on_the_disk_too() {
    let dir = tempfile::tempdir().unwrap();
    let simulated = SimulatedClock::starting_at(start());
    let clock = simulated.clock();
    let monitor = open(dir.path(), &clock);
    monitor.polled(&feed("a"), clock.now(), Duration::ZERO, &Polled::Unchanged);
    simulated.advance(Duration::from_secs(60)).await;
    monitor.save().unwrap();
    let files = || std::fs::read_dir(dir.path().join("logs")).unwrap().count();
    assert_eq!(files(), 2);
    simulated.advance(Duration::from_secs(74 * 3_600)).await;
    monitor.save().unwrap();
    assert_eq!(files(), 1, "the totals stay");
    let view = monitor.view(&feed("a")).unwrap();
    assert_eq!((view.minutes.len(), view.totals.unchanged), (0, 1));
}

#[tokio::test]
async fn damage_is_passed_over_and_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::starting_at(start()).clock();
    let monitor = open(dir.path(), &clock);
    monitor.polled(&feed("a"), clock.now(), Duration::ZERO, &Polled::Unchanged);
    monitor.save_all().unwrap();
    let logs = dir.path().join("logs");
    let log = logs.join("20261115T18Z.jsonl");
    let mut torn = read(&RealDisk, &log, 1_000).unwrap();
    torn.extend(b"{\"feed\":\"a\",\"minu");
    write_durably(&RealDisk, &log, &torn).unwrap();
    write_durably(&RealDisk, &logs.join("totals.json"), b"{").unwrap();
    let monitor = open(dir.path(), &clock);
    assert_eq!(monitor.view(&feed("a")).unwrap().minutes.len(), 1);
    monitor.task(&feed("a"), task(clock.now(), true));
    monitor.save_all().unwrap();
    let monitor = open(dir.path(), &clock);
    assert_eq!(monitor.tasks(&feed("a"), TaskKind::Archive).len(), 1);
    assert!(logs.join("totals.damaged.json").exists());
}

#[test]
fn only_the_last_tasks_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let clock = SimulatedClock::starting_at(start()).clock();
    let monitor = open(dir.path(), &clock);
    for _ in 0..1_000 {
        monitor.task(&feed("a"), task(clock.now(), true));
    }
    assert_eq!(
        monitor.tasks(&feed("a"), TaskKind::Archive).len(),
        TASKS_MAX
    );
    assert_eq!(monitor.totals()[&feed("a")].archives.ok, 1_000);
}
