//! Everything from the lake to the catalog and back, by a worker over a journal.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use cannery_formats::feed::Codec;
use cannery_formats::{Key, Uid};
use cannery_journal::worker::{Handler as _, Outcome, Work};
use cannery_journal::{Data, Date, NewEntry, Retry};
use cannery_lake::fault::{Fault, FaultStore, Faults, Request};
use cannery_pipeline::discover::{Discoverer, Reach};
use cannery_pipeline::line::{Ended, GRACE, Line, Timing};
use cannery_pipeline::measurement;
use cannery_runtime::{Clock, Rng};
use flate2::Compression;
use flate2::write::GzEncoder;
use tokio_util::sync::CancellationToken;

use crate::can_kit::{Texts, Works, bucket, key_of, lake_on, some_reports};
use crate::kit::upload;
use crate::line_kit::{Mill, sanitised};

const HOUR: Duration = Duration::from_secs(3_600);
pub(crate) const BUNDLE: &str =
    "v1/ndt/scamper1/2016/12/31/20161231T182403.850914Z-scamper1-mlab1-lga01-ndt-data.jsonl";

pub(crate) fn gzip(text: &[u8]) -> Vec<u8> {
    let mut out = GzEncoder::new(Vec::new(), Compression::fast());
    out.write_all(text).unwrap();
    out.finish().unwrap()
}

/// Puts reports, a bundle and an hour into the lake; gives what the catalog should have.
pub(crate) async fn fill(works: &Works, texts: &Texts) -> BTreeMap<String, Vec<u8>> {
    works.fill(texts).await;
    let rows: Vec<u8> = (0..50)
        .flat_map(|row| format!("{{\"row\":{row},\"probe_ip\":\"192.0.2.{row}\"}}\n").into_bytes())
        .collect();
    let bundle = Key::new(format!("autoload/{BUNDLE}.gz")).unwrap();
    works.put(&bundle, &gzip(&rows)).await;
    let hour = upload("a b:{\"json\":1} c", Codec::Gzip);
    works.put(&hour.key, &hour.bytes).await;
    let mut lines = BTreeMap::new();
    for (name, text) in texts {
        sanitised(name, text, bucket(), &mut lines);
    }
    sanitised(BUNDLE, &rows, bucket(), &mut lines);
    for (name, body) in [
        ("a", "body of a"),
        ("b", "{\"json\":1}"),
        ("c", "body of c"),
    ] {
        let name = format!("f/2026-11-15/18/{name}");
        sanitised(&name, body.as_bytes(), bucket(), &mut lines);
    }
    lines
}

/// Reports, one of which is alone in its sealed can, and shares an open one.
pub(crate) fn distinct() -> Texts {
    let mut texts = some_reports(1);
    let filler = "b".repeat(200);
    let lines = (0..600).map(|number| format!("{{\"number\":{number},\"b\":\"{filler}\"}}\n"));
    let long: String = lines.collect();
    texts.insert("2017-01-01/long".to_owned(), long.into_bytes());
    texts
}

pub(crate) async fn check(mill: &Mill, expected: &BTreeMap<String, Vec<u8>>) {
    let found = mill.measurements().await;
    assert!(found.keys().eq(expected.keys()), "the uids are not those");
    for (uid, line) in expected {
        assert!(mill.text(&found[uid]).await == *line, "{uid}");
    }
    assert_eq!(mill.catalog.check().await.unwrap(), Vec::<String>::new());
}

async fn from_lake_to_catalog_and_through_the_seal(works: Works) {
    let mill = Mill::new(works).await;
    let expected = fill(&mill.works, &distinct()).await;
    assert!(expected.len() > 80, "{}", expected.len());
    mill.discover().await;
    let line = mill.line().await;
    mill.work(line.clone(), HOUR).await;
    assert_eq!(mill.alive().await, [], "the journal is empty");
    assert_eq!(mill.dead().await, BTreeMap::new());
    check(&mill, &expected).await;
    let open = mill.files().await;
    assert!(mill.works.has_no_scratch_left());

    // The day is over, and the grace is not: the bucket is due when it is.
    let midnight = "2017-01-02T00:30:00Z".parse::<jiff::Timestamp>().unwrap();
    let left = midnight.duration_since(mill.clock().now()).unsigned_abs();
    mill.simulated.advance(left).await;
    mill.discover().await;
    assert!(!mill.alive().await.is_empty(), "the bucket is to be sealed");
    let reader = Reader::start(&mill, &[&expected]);
    mill.work(line.clone(), 10 * HOUR).await;
    reader.goes_on().await;
    let left = mill.alive().await;
    assert_eq!(left.len(), 1, "{left:?}");
    assert_eq!(left[0].0, "sweep/2017-01-01/-/-");
    assert_eq!(mill.dead().await, BTreeMap::new());
    check(&mill, &expected).await;
    let sealed = mill.files().await;
    assert!(sealed.is_disjoint(&open), "{sealed:?}");
    assert!(sealed.contains("2017-01-01/web_connectivity.0.tar.lz4"));

    // What was replaced goes under the eyes of the reader.
    let before = objects(&mill).await;
    mill.simulated.advance(mill.timing.sweep_grace).await;
    mill.work(line, HOUR).await;
    reader.goes_on().await;
    assert_eq!(mill.alive().await, []);
    assert_eq!(mill.dead().await, BTreeMap::new());
    assert!(objects(&mill).await < before, "nothing was swept");
    let rounds = reader.stop().await;
    println!(
        "result: archive, {} measurements read {rounds} times while their bucket was sealed and swept",
        expected.len()
    );
    check(&mill, &expected).await;
}

async fn objects(mill: &Mill) -> usize {
    mill.works.lake.list_all(None).await.unwrap().len()
}

/// Reads every measurement, again and again, and compares it with what it may be.
pub(crate) struct Reader {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    task: tokio::task::JoinHandle<()>,
}

impl Reader {
    pub(crate) fn start(mill: &Mill, texts: &[&BTreeMap<String, Vec<u8>>]) -> Self {
        let (stop, rounds) = (
            Arc::new(AtomicBool::new(false)),
            Arc::<AtomicU64>::default(),
        );
        let (is_over, counted) = (Arc::clone(&stop), Arc::clone(&rounds));
        let (lake, catalog) = (mill.works.lake.clone(), mill.catalog.clone());
        let of = |uid: &String| texts.iter().map(|texts| texts[uid].clone()).collect();
        let expected: Vec<(Uid, Vec<Vec<u8>>)> = texts[0]
            .keys()
            .map(|uid| (uid.parse().unwrap(), of(uid)))
            .collect();
        let task = tokio::spawn(async move {
            while !is_over.load(Ordering::Relaxed) {
                for (uid, lines) in &expected {
                    let read = measurement::read(&lake, &catalog, uid).await.unwrap();
                    let read = read.unwrap_or_else(|| panic!("{uid} is nowhere"));
                    assert!(lines.contains(&read.text), "{uid} has another text");
                }
                counted.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { stop, rounds, task }
    }

    /// Waits until it has read everything once more.
    async fn goes_on(&self) {
        let begun = self.rounds.load(Ordering::Relaxed);
        while self.rounds.load(Ordering::Relaxed) < begun + 2 && !self.task.is_finished() {
            tokio::task::yield_now().await;
        }
    }

    pub(crate) async fn stop(self) -> u64 {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.unwrap();
        self.rounds.load(Ordering::Relaxed)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_measurement_is_found_before_and_after_the_seal() {
    from_lake_to_catalog_and_through_the_seal(Works::in_memory()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_on_a_disk() {
    from_lake_to_catalog_and_through_the_seal(Works::on_disk()).await;
}

/// A mill with one small bucket of reports in open cans; the keys of its autoclave work.
async fn canned(texts: &Texts) -> (Mill, Vec<String>) {
    let mut mill = Mill::new(Works::in_memory()).await;
    mill.timing.gather = Duration::ZERO;
    mill.works.fill(texts).await;
    mill.discover().await;
    let line = mill.line().await;
    let can = mill.journal.claim("test", 100).await.unwrap();
    for entry in can.entries {
        let token = entry.lease.as_ref().unwrap().token;
        let work = Work {
            entry,
            lost: CancellationToken::new(),
            stop: CancellationToken::new(),
        };
        assert_eq!(line.handle(work).await, Outcome::Done);
        mill.journal.done(token).await.unwrap();
    }
    let keys = mill.alive().await.into_iter().map(|(key, _)| key).collect();
    (mill, keys)
}

fn few() -> Texts {
    let all = some_reports(7).into_iter();
    all.filter(|(name, _)| name.contains("-ndt-")).collect()
}

#[tokio::test]
async fn a_key_added_while_its_stage_runs_is_run_once_more() {
    let (mill, keys) = canned(&few()).await;
    let [key] = keys.as_slice() else {
        panic!("{keys:?}");
    };
    assert!(key.starts_with("autoclave/2017-01-01/ndt/ndt."), "{key}");
    // Nothing is let in while the whole budget is taken, so the stage has begun and cannot end.
    let all = mill.admission.admit(u64::MAX).await;
    let stop = CancellationToken::new();
    let run = tokio::spawn(mill.worker().run(mill.line().await, stop.clone()));
    let is_processing = async || {
        let status = mill.alive().await;
        status
            .iter()
            .any(|(_, status)| *status == cannery_journal::Status::Processing)
    };
    while !is_processing().await {
        tokio::task::yield_now().await;
    }
    for _ in 0..3 {
        let entry = NewEntry::new(key.clone(), Data::null());
        mill.journal.add_one(entry).await.unwrap();
    }
    assert_eq!(mill.told.of(key), []);
    drop(all);
    // Who is asked to stop while it waits to be let in gives the work back, and that is no run.
    while mill.told.of(key).is_empty() {
        tokio::task::yield_now().await;
    }
    stop.cancel();
    run.await.unwrap();
    mill.work(mill.line().await, HOUR).await;
    assert_eq!(mill.told.of(key), [Ended::Done, Ended::Done]);
}

#[tokio::test]
async fn an_object_that_cannot_be_used_is_on_the_dead_list_and_in_nobodys_way() {
    let (mill, keys) = canned(&some_reports(3)).await;
    let bad = keys.iter().find(|key| key.contains("/unknown/")).unwrap();
    let can = bad.rsplit_once('/').unwrap().1;
    let key = Key::new(format!("canned/2017-01-01/{can}")).unwrap();
    mill.works.lake.delete(&key).await.unwrap();
    mill.works.put(&key, b"not a can").await;
    let torn = Key::new(format!("autoload/{BUNDLE}.gz")).unwrap();
    mill.works.put(&torn, &gzip(b"{}\n")[..12]).await;
    mill.discover().await;
    mill.work(mill.line().await, HOUR).await;
    let dead = mill.dead().await;
    assert_eq!(dead.len(), 2, "{dead:?}");
    assert!(dead[bad].contains(key.as_str()), "{dead:?}");
    let can = "can/2017-01-01/spool-scamper1/open";
    assert!(dead[can].contains(torn.as_str()), "{dead:?}");
    assert!(matches!(mill.told.of(bad)[..], [Ended::Failed(_)]));
    assert_eq!(mill.files().await.len(), keys.len() - 1);
    // It is found again, but neither read nor told again.
    mill.discover().await;
    mill.work(mill.line().await, HOUR).await;
    assert_eq!(mill.dead().await, dead);
}

#[tokio::test]
async fn trouble_of_the_store_is_waited_for() {
    let (mill, keys) = canned(&few()).await;
    let faults = Faults::none();
    faults.next(Request::Put, Fault::ErrorBefore, 40);
    let store = Arc::clone(&mill.works.store);
    let store = FaultStore::new(store, faults.clone(), Clock::real());
    let lake = lake_on(Arc::new(store), Duration::from_millis(100));
    mill.work(mill.line_on(&lake), 10 * HOUR).await;
    let ended = mill.told.of(&keys[0]);
    let (last, before) = ended.split_last().unwrap();
    assert_eq!(*last, Ended::Done);
    let is_put_off = |ended: &Ended| matches!(ended, Ended::PutOff(_));
    assert!(
        !before.is_empty() && before.iter().all(is_put_off),
        "{ended:?}"
    );
    assert_eq!(mill.alive().await, []);
    assert_eq!(mill.dead().await, BTreeMap::new());
}

#[tokio::test]
async fn who_lost_the_lease_commits_nothing() {
    let (mill, keys) = canned(&few()).await;
    let line = mill.line().await;
    let mut claimed = mill.journal.claim("test", 1).await.unwrap().entries;
    let entry = claimed.pop().unwrap();
    let token = entry.lease.as_ref().unwrap().token;
    let work = |entry| Work {
        entry,
        lost: CancellationToken::new(),
        stop: CancellationToken::new(),
    };
    assert_eq!(line.handle(work(entry)).await, Outcome::Done);
    mill.journal.done(token).await.unwrap();
    let mut claimed = mill.journal.claim("test", 1).await.unwrap().entries;
    let entry = claimed.pop().unwrap();
    assert!(entry.key.as_str().starts_with("centrifuge/"), "{keys:?}");
    let token = entry.lease.as_ref().unwrap().token;
    let at = Date::from(mill.clock().now());
    mill.journal
        .fail(token, "slow", Retry::At(at))
        .await
        .unwrap();
    let outcome = line.handle(work(entry)).await;
    assert!(matches!(outcome, Outcome::Release { .. }), "{outcome:?}");
    assert!(mill.files().await.is_empty());
    mill.work(line, HOUR).await;
    assert_eq!(mill.files().await.len(), 1);
}

/// Does all that is due now, one after the other.
pub(crate) async fn handle_all(mill: &Mill, line: &Line) {
    loop {
        let claimed = mill.journal.claim("test", 100).await.unwrap();
        if claimed.entries.is_empty() {
            return;
        }
        for entry in claimed.entries {
            let token = entry.lease.as_ref().unwrap().token;
            let work = Work {
                entry,
                lost: CancellationToken::new(),
                stop: CancellationToken::new(),
            };
            match line.handle(work).await {
                Outcome::Done => mill.journal.done(token).await.unwrap(),
                Outcome::Release { at } => drop(mill.journal.release(token, at).await.unwrap()),
                other => panic!("{other:?}"),
            }
        }
    }
}

#[tokio::test]
async fn a_steady_stream_is_canned_in_time_and_not_one_by_one() {
    let mut mill = Mill::new(Works::in_memory()).await;
    mill.timing = Timing::new(Duration::from_secs(180), GRACE);
    let line = mill.line().await;
    let texts = some_reports(9);
    let texts: Vec<_> = texts
        .iter()
        .filter(|(name, _)| name.contains("/20"))
        .collect();
    let minutes = 12;
    for minute in 0..minutes {
        let (_, text) = texts[minute % texts.len()];
        let name = format!("20161231T0000{minute:02}Z-US-AS7922-ndt-r_{minute}-0.2.0-probe.json");
        let key = key_of(&format!("2017-01-01/{name}"));
        mill.works.put(&key, text).await;
        mill.discover().await;
        handle_all(&mill, &line).await;
        mill.simulated.advance(Duration::from_secs(60)).await;
    }
    let key = "can/2017-01-01/ndt/open";
    let runs: Vec<_> = mill
        .told
        .all()
        .into_iter()
        .filter(|it| it.key == key)
        .collect();
    assert!((3..=4).contains(&runs.len()), "{} runs", runs.len());
    let first = runs[0].start.to_string();
    assert_eq!(first, "2017-01-01T12:03:00Z");
}

/// A report of the bucket that nobody has seen; the work that it is, done until it waits again.
async fn one_more(mill: &Mill, line: &Line, number: usize) {
    let name = format!("20161231T000000Z-US-AS7922-ndt-q_{number}-0.2.0-probe.json");
    let key = key_of(&format!("2017-01-01/{name}"));
    mill.works.put(&key, b"{\"test_name\":\"ndt\"}\n").await;
    mill.discover().await;
    handle_all(mill, line).await;
}

fn cans_made(mill: &Mill) -> usize {
    mill.told.of("can/2017-01-01/ndt/open").len()
}

#[tokio::test]
async fn the_first_reports_of_a_bucket_are_gathered_for_a_moment_and_later_ones_for_longer() {
    let mut mill = Mill::new(Works::in_memory()).await;
    mill.timing = Timing::default().gathering_from(Duration::from_secs(1));
    let line = mill.line().await;
    for number in 0..8 {
        one_more(&mill, &line, number).await;
        assert_eq!(cans_made(&mill), number, "it is gathered");
        mill.simulated.advance(Duration::from_secs(1)).await;
        handle_all(&mill, &line).await;
        // Every can makes it a quarter of a second more, from the fifth on.
        let is_done = number <= 4;
        assert_eq!(cans_made(&mill), number + usize::from(is_done), "{number}");
        mill.simulated.advance(Duration::from_secs(1)).await;
        handle_all(&mill, &line).await;
        assert_eq!(cans_made(&mill), number + 1);
    }
}

#[tokio::test]
async fn what_somebody_waits_for_is_not_gathered() {
    let mill = Mill::new(Works::in_memory()).await;
    let line = mill.line().await;
    one_more(&mill, &line, 0).await;
    assert_eq!(cans_made(&mill), 0);
    let mut plant = mill.works.plant(&mill.works.lake);
    plant.clock = mill.clock();
    let inputs = mill.works.inputs(&mill.works.lake);
    let journal = mill.journal.clone();
    mill.drop_entries().await;
    let urgent = Discoverer::new(plant, inputs, journal, Rng::seeded(1), HOUR).urgent();
    urgent.discover(Reach::Whole).await.unwrap();
    // Whoever else finds it meanwhile does not put it off.
    mill.discover().await;
    handle_all(&mill, &line).await;
    assert_eq!(cans_made(&mill), 1);
}

#[tokio::test]
async fn tables_by_date_follow_and_are_not_computed_for_every_file() {
    let mill = Mill::new(Works::in_memory()).await;
    fill(&mill.works, &distinct()).await;
    mill.discover().await;
    mill.work(mill.line().await, HOUR).await;
    let told = mill.told.all();
    let runs = |stage: &str| told.iter().filter(|it| it.key.starts_with(stage)).count();
    assert!(runs("centrifuge/") > 5);
    for date in mill.catalog.dates().await.unwrap() {
        let key = format!("aggregate/{date}/-/-");
        assert_eq!(mill.told.of(&key), [Ended::Done], "{key}");
    }
    let dump = mill.catalog.dump("aggregate_per_name").await;
    let mut dump = dump.unwrap();
    assert!(dump.next().await.unwrap().is_some());
}

#[tokio::test]
async fn what_is_no_work_of_the_line_is_on_the_dead_list() {
    let mill = Mill::new(Works::in_memory()).await;
    let keys = [
        "discover/2017-01-01/-/-",
        "something",
        "seal/2017-01-01/ndt/x",
    ];
    for key in keys {
        mill.journal
            .add_one(NewEntry::new(key, Data::null()))
            .await
            .unwrap();
    }
    mill.work(mill.line().await, HOUR).await;
    assert!(mill.dead().await.keys().eq([
        "discover/2017-01-01/-/-",
        "seal/2017-01-01/ndt/x",
        "something"
    ]));
}

/// A report of some lines that nobody else has.
fn part(number: usize) -> (String, Vec<u8>) {
    let filler = "x".repeat(3_000);
    let line = |line| format!("{{\"part\":{number},\"line\":{line},\"x\":\"{filler}\"}}\n");
    let text: String = (0..10).map(line).collect();
    (format!("2017-01-01/part{number:02}"), text.into_bytes())
}

#[tokio::test]
async fn a_can_whose_reports_part_ways_goes_with_the_last_of_them() {
    let mut mill = Mill::new(Works::in_memory()).await;
    mill.timing.gather = Duration::ZERO;
    let line = mill.line().await;
    let mut expected = BTreeMap::new();
    for numbers in [[0, 2, 4, 6], [1, 3, 5, 7]] {
        let texts: Texts = numbers.into_iter().map(part).collect();
        mill.works.fill(&texts).await;
        for (name, text) in &texts {
            sanitised(name, text, bucket(), &mut expected);
        }
        mill.discover().await;
        handle_all(&mill, &line).await;
    }
    check(&mill, &expected).await;
    let open = mill.files().await;
    let entry = NewEntry::new("seal/2017-01-01/-/-", Data::null());
    mill.journal.add_one(entry).await.unwrap();
    let mut loads = 0;
    loop {
        let mut claimed = mill.journal.claim("test", 1).await.unwrap().entries;
        let Some(entry) = claimed.pop() else {
            break;
        };
        loads += usize::from(entry.key.as_str().starts_with("centrifuge/"));
        let token = entry.lease.as_ref().unwrap().token;
        let work = Work {
            entry,
            lost: CancellationToken::new(),
            stop: CancellationToken::new(),
        };
        assert_eq!(line.handle(work).await, Outcome::Done);
        mill.journal.done(token).await.unwrap();
        check(&mill, &expected).await;
    }
    assert!(loads > 2, "{loads}");
    assert!(mill.files().await.is_disjoint(&open));
}
