//! The embedded engine on a disk that fails, and loses power, at every single operation.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cannery_journal::embedded::{Embedded, Layout, Pace, Place};
use cannery_journal::{
    Data, Date, Declaration, Engine, Entry, Error, ErrorKind, Journal, Key, NewEntry, OnEmpty, Op,
    Period, Priority, Query, Retry, Status, Token,
};
use cannery_runtime::{Disk as _, Rng};
use cannery_testkit::long_run;
use cannery_testkit::sim_disk::SimDisk;

use crate::hand_clock::HandClock;

mod faults;

const START: &str = "2026-03-31T23:50:00Z";

/// Small enough that a short history fills, frees, compacts and uses again.
const LAYOUT: Layout = Layout {
    segment_bytes: 16 * 1024,
    pace: Pace::Stepwise,
};

/// A way of keeping the files.
#[derive(Clone, Copy, Debug)]
struct Keeping {
    on_empty: OnEmpty,
    wipe: bool,
    period: Period,
}

impl Keeping {
    fn declaration(self) -> Declaration {
        Declaration {
            lease: Duration::from_secs(10),
            timeouts_max: 1,
            on_empty: self.on_empty,
            wipe: self.wipe,
            period: self.period,
            ..Declaration::default()
        }
    }
}

/// One life of a journal on a disk, with its own clock and chance, the same in every life.
struct Life {
    clock: HandClock,
    journal: Journal,
    engine: Arc<Embedded>,
}

impl Life {
    async fn begin(disk: &SimDisk, keeping: Keeping, clock: &HandClock) -> Result<Self, Error> {
        let place = Place {
            disk: Arc::new(disk.clone()),
            dir: PathBuf::from("/journal"),
            owner: "test".to_owned(),
            clock: clock.clock(),
            rng: Rng::seeded(42),
        };
        let known = Embedded::open_with(place.clone(), None, LAYOUT).await;
        let engine = match known {
            Err(error) if error.kind == ErrorKind::Unknown => {
                Embedded::open_with(place, Some(keeping.declaration()), LAYOUT).await?
            }
            known => known?,
        };
        let journal = Journal::new("j", engine.clone());
        Ok(Self {
            clock: clock.clone(),
            journal,
            engine,
        })
    }

    async fn entries(&self) -> Result<Vec<Entry<Data>>, Error> {
        let mut query = Query::all();
        let mut all = Vec::new();
        loop {
            let page = self.journal.list(query.clone()).await?;
            all.extend(page.entries);
            match page.next {
                Some(next) => query.after = Some(next),
                None => return Ok(all),
            }
        }
    }

    async fn tokens(&self) -> Result<Vec<Token>, Error> {
        let entries = self.entries().await?;
        Ok(entries
            .iter()
            .filter_map(|entry| entry.lease.as_ref())
            .map(|lease| lease.token)
            .collect())
    }
}

/// The folder itself is there before anything fails: no journal can help a disk that loses it.
const FOLDER_OPERATIONS: u64 = 2;

fn disk() -> SimDisk {
    let disk = SimDisk::new(1);
    disk.create_dir(Path::new("/journal")).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    assert_eq!(disk.operations(), FOLDER_OPERATIONS);
    disk
}

fn clock() -> HandClock {
    HandClock::starting_at(START.parse().unwrap())
}

/// What one step of the history asks.
#[derive(Clone, Debug)]
enum Step {
    Add {
        first: u64,
        count: u64,
        priority: u8,
        bytes: usize,
    },
    Claim(u32),
    /// Ends some of the leases that are held.
    Done(usize),
    DoneAndClaim(usize, u32),
    Heartbeat,
    Release(usize),
    Fail(usize),
    Kill(usize),
    Cancel(u64),
    Requeue(u64),
    Forget(u64),
    ForgetOne,
    Lease(u64),
    /// Adds entries that are due in ten minutes.
    Far,
    Pass(u64),
}

fn history(seed: u64, steps: usize) -> Vec<Step> {
    let rng = Rng::seeded(seed);
    let pick = |end: u64| rng.below(end);
    let some = |end: u64| usize::try_from(rng.below(end)).unwrap();
    let mut steps: Vec<Step> = (0..steps)
        .map(|_| match pick(20) {
            0..=6 => Step::Add {
                first: pick(40),
                count: 1 + pick(4),
                priority: if pick(5) == 0 { 210 } else { 20 },
                bytes: 10 + some(1_500),
            },
            7..=9 => Step::Claim(1 + u32::try_from(pick(5)).unwrap()),
            10 | 11 => Step::Done(some(4)),
            12 => Step::DoneAndClaim(some(3), 2),
            13 => Step::Heartbeat,
            14 => Step::Release(some(2)),
            15 => Step::Fail(some(2)),
            16 => Step::Kill(1 + some(2)),
            17 => match pick(4) {
                0 => Step::Cancel(pick(40)),
                1 => Step::Requeue(pick(40)),
                2 => Step::Forget(pick(40)),
                _ => Step::Lease(5 + pick(10)),
            },
            _ => Step::Pass(pick(4_000)),
        })
        .collect();
    if seed % 2 == 1 {
        // Something that stays while everything around it goes, so that it must be moved.
        steps.insert(0, Step::Far);
    }
    // In the middle and at the end everything is drained, so that the ways of emptying are met; and the period rolls over.
    let drain = [
        Step::Add {
            first: 0,
            count: 4,
            priority: 20,
            bytes: 100,
        },
        Step::Claim(1_000),
        Step::Kill(2),
        Step::Add {
            first: 3,
            count: 2,
            priority: 20,
            bytes: 100,
        },
        Step::Done(usize::MAX),
        Step::Claim(1_000),
        Step::Done(usize::MAX),
        Step::Claim(1_000),
        Step::Done(usize::MAX),
        Step::Requeue(0),
        Step::Claim(1_000),
        Step::Done(usize::MAX),
    ];
    let drain: Vec<Step> = drain.into_iter().chain(vec![Step::ForgetOne; 12]).collect();
    let pause = [Step::Pass(700_000), Step::Claim(1), Step::Pass(2_000)];
    let middle = steps.len() / 2;
    steps.splice(middle..middle, drain.iter().chain(&pause).cloned());
    steps.extend(drain.into_iter().chain(pause));
    steps
}

fn key(number: u64) -> Key {
    Key::new(format!("key-{number}")).unwrap()
}

async fn take(life: &Life, step: &Step, number: usize) -> Result<(), Error> {
    let journal = &life.journal;
    let held = |count: usize| async move {
        let mut tokens = life.tokens().await?;
        tokens.truncate(count);
        Ok::<_, Error>(tokens)
    };
    match step {
        Step::Add {
            first,
            count,
            priority,
            bytes,
        } => {
            let entries = (*first..first + count)
                .map(|key| NewEntry {
                    priority: Some(Priority(*priority)),
                    ..NewEntry::new(format!("key-{key}"), content(number, *bytes))
                })
                .collect();
            journal.add(entries).await.map(drop)
        }
        Step::Claim(count) => journal.claim("worker", *count).await.map(drop),
        Step::Done(count) => journal
            .end_all(Op::Done(held(*count).await?))
            .await
            .map(drop),
        Step::DoneAndClaim(count, claim) => {
            let done = held(*count).await?;
            journal
                .done_and_claim(done, "worker", *claim)
                .await
                .map(drop)
        }
        Step::Heartbeat => journal.heartbeats(life.tokens().await?).await.map(drop),
        Step::Release(count) => {
            let tokens = held(*count).await?;
            journal
                .end_all(Op::Release { tokens, at: None })
                .await
                .map(drop)
        }
        Step::Fail(count) => {
            let retry =
                Retry::At(Date::from(life.clock.clock().now()).plus(Duration::from_secs(1)));
            fail(life, held(*count).await?, retry).await
        }
        Step::Kill(count) => fail(life, held(*count).await?, Retry::Never).await,
        Step::Cancel(number) => journal.cancel(key(*number)).await.map(drop),
        Step::Requeue(number) => journal.requeue(key(*number)).await.map(drop),
        Step::ForgetOne => {
            let entries = life.entries().await?;
            match entries
                .into_iter()
                .find(|entry| entry.status == Status::Dead)
            {
                Some(entry) => journal.forget(entry.key).await.map(drop),
                None => Ok(()),
            }
        }
        Step::Forget(number) => journal.forget(key(*number)).await.map(drop),
        Step::Lease(seconds) => {
            let lease = Duration::from_secs(*seconds);
            let declaration = Declaration {
                lease,
                ..journal.declaration()
            };
            journal.declare(declaration).await.map(drop)
        }
        Step::Far => {
            let date = Date::from(life.clock.clock().now()).plus(Duration::from_secs(600));
            let entries = (0..3)
                .map(|key| NewEntry {
                    process_date: Some(date),
                    ..NewEntry::new(format!("far-{key}"), content(number, 2_000))
                })
                .collect();
            journal.add(entries).await.map(drop)
        }
        Step::Pass(millis) => {
            life.clock.jump(Duration::from_millis(*millis));
            journal.sweep().await.map(drop)
        }
    }
}

async fn fail(life: &Life, tokens: Vec<Token>, retry: Retry) -> Result<(), Error> {
    let reason = "it did not work".to_owned();
    let op = Op::Fail {
        tokens,
        reason,
        retry,
    };
    life.journal.end_all(op).await.map(drop)
}

fn content(number: usize, bytes: usize) -> Data {
    Data::from_value(&format!("{number}-{}", "x".repeat(bytes))).unwrap()
}

/// What can be seen of a journal, all of it.
#[derive(Clone, Debug, PartialEq)]
struct View {
    entries: Vec<Entry<Data>>,
    stats: cannery_journal::Stats,
}

async fn view(life: &Life) -> View {
    let mut entries = life.entries().await.unwrap();
    for lease in entries.iter_mut().filter_map(|entry| entry.lease.as_mut()) {
        // Chance: it differs once a segment more or fewer has drawn its salt.
        lease.token.nonce = 0;
    }
    let stats = life.journal.stats().await.unwrap();
    assert_eq!(
        stats.counts.live(),
        entries.len() as u64,
        "the counts balance"
    );
    View { entries, stats }
}

/// A history that nothing disturbs: what is seen after every step, and how many operations of the disk it takes.
struct Reference {
    steps: Vec<Step>,
    views: Vec<View>,
    dates: Vec<Duration>,
    segments_seen: u64,
    operations: u64,
    /// The operations, each with its number, and how many there were after every step.
    log: Vec<String>,
    operations_after: Vec<u64>,
}

async fn reference(keeping: Keeping, seed: u64, steps: usize) -> Reference {
    let reference = undisturbed(keeping, history(seed, steps)).await;
    assert!(
        reference.segments_seen > 2,
        "the history fills {} segments",
        reference.segments_seen
    );
    let views = reference.views.iter();
    let kinds = views
        .flat_map(|view| &view.entries)
        .map(|entry| entry.status);
    for status in [
        Status::Waiting,
        Status::Blocked,
        Status::Processing,
        Status::Dead,
    ] {
        assert!(
            kinds.clone().any(|seen| seen == status),
            "the history meets {status:?}"
        );
    }
    reference
}

async fn undisturbed(keeping: Keeping, steps: Vec<Step>) -> Reference {
    let (disk, clock) = (disk(), clock());
    let life = Life::begin(&disk, keeping, &clock).await.unwrap();
    let mut views = vec![view(&life).await];
    let mut dates = vec![clock.clock().elapsed()];
    let mut segments_seen = 0;
    let mut operations_after = Vec::new();
    for (number, step) in steps.iter().enumerate() {
        take(&life, step, number).await.unwrap();
        views.push(view(&life).await);
        dates.push(clock.clock().elapsed());
        operations_after.push(disk.operations());
        segments_seen = segments_seen.max(life.engine.usage().unwrap().segments);
    }
    life.engine.close().await;
    Reference {
        steps,
        views,
        dates,
        segments_seen,
        operations: disk.operations(),
        log: disk.log(),
        operations_after,
    }
}

/// Lives until the disk fails; gives back how many steps were acknowledged, and at what time it ended.
async fn live(disk: &SimDisk, keeping: Keeping, reference: &Reference) -> (usize, HandClock) {
    let clock = clock();
    let Ok(life) = Life::begin(disk, keeping, &clock).await else {
        return (0, clock);
    };
    let mut acknowledged = 0;
    for (number, step) in reference.steps.iter().enumerate() {
        if take(&life, step, number).await.is_err() {
            break;
        }
        acknowledged += 1;
    }
    life.engine.close().await;
    (acknowledged, clock)
}

/// The state must be that after the steps that were acknowledged, or after one more, which was under way.
async fn check(life: &Life, acknowledged: usize, reference: &Reference, context: &str) -> usize {
    let seen = view(life).await;
    if reference.views[acknowledged] == seen {
        return acknowledged;
    }
    let next = acknowledged + 1;
    if next < reference.views.len() {
        life.clock
            .jump(reference.dates[next] - reference.dates[acknowledged]);
        if reference.views[next] == view(life).await {
            return next;
        }
    }
    panic!(
        "{context}: after {acknowledged} steps ({:?} under way) the journal holds {seen:#?}\ninstead of {:#?}\n{:?}",
        reference.steps.get(acknowledged),
        reference.views[acknowledged],
        life.engine.report(),
    )
}

/// Goes on after a crash as if nothing had been: everything can be claimed, ended and added.
async fn go_on(life: &Life, context: &str) {
    life.journal
        .add_one(NewEntry::new("after", Data::null()))
        .await
        .unwrap();
    let tokens = life.tokens().await.unwrap();
    life.journal
        .end_all(Op::Release { tokens, at: None })
        .await
        .unwrap();
    life.clock.jump(Duration::from_secs(600));
    loop {
        let claimed = life.journal.claim("finisher", 1_000).await.unwrap();
        if claimed.entries.is_empty() {
            break;
        }
        let tokens = claimed
            .entries
            .iter()
            .filter_map(|entry| entry.lease.as_ref());
        let done = Op::Done(tokens.map(|lease| lease.token).collect());
        life.journal.end_all(done).await.unwrap();
    }
    let rest = life.entries().await.unwrap();
    assert!(
        rest.iter().all(|entry| entry.status == Status::Dead),
        "{context}: {rest:?}"
    );
    for entry in rest {
        life.journal.forget(entry.key).await.unwrap();
    }
    life.clock.jump(Duration::from_secs(2));
    life.journal.sweep().await.unwrap();
    life.journal.stats().await.unwrap();
    assert!(
        life.engine.usage().unwrap().segments <= 1,
        "{context}: empty means at most one segment"
    );
}

fn at_time(reference: &Reference, place: usize) -> HandClock {
    let clock = clock();
    clock.jump(reference.dates[place] - reference.dates[0]);
    clock
}

const KEEPINGS: [Keeping; 4] = [
    Keeping {
        on_empty: OnEmpty::Reset,
        wipe: false,
        period: Period::Hour,
    },
    Keeping {
        on_empty: OnEmpty::Delete,
        wipe: false,
        period: Period::None,
    },
    Keeping {
        on_empty: OnEmpty::Truncate,
        wipe: true,
        period: Period::Month,
    },
    Keeping {
        on_empty: OnEmpty::Reset,
        wipe: true,
        period: Period::Day,
    },
];

/// A tenth of the points by default, another tenth for every way of keeping; all of them in a long run.
fn points(operations: u64, offset: usize) -> impl Iterator<Item = u64> {
    let (first, stride) = if long_run() {
        (1, 1)
    } else {
        (1 + offset as u64, 10)
    };
    (FOLDER_OPERATIONS + first..=operations + 1).step_by(stride)
}

#[tokio::test]
async fn a_power_cut_at_any_operation_loses_nothing_acknowledged() {
    for (offset, keeping) in KEEPINGS.into_iter().enumerate() {
        let reference = reference(keeping, 6 + offset as u64, 90).await;
        for n in points(reference.operations, offset) {
            let disk = disk();
            disk.power_off_at(n);
            let (acknowledged, _) = live(&disk, keeping, &reference).await;
            for seed in 0..3 {
                let context = format!("{keeping:?}, power off at {n}, left by seed {seed}");
                after_crash(
                    &disk.crash_with(seed),
                    keeping,
                    acknowledged,
                    &reference,
                    &context,
                )
                .await;
                // Cut again while it recovers.
                if seed == 0 {
                    again(&disk, keeping, acknowledged, &reference, n, &context).await;
                }
            }
        }
        println!(
            "result: journal power cuts, {keeping:?}: {} operations",
            reference.operations
        );
    }
}

async fn after_crash(
    disk: &SimDisk,
    keeping: Keeping,
    acknowledged: usize,
    reference: &Reference,
    context: &str,
) -> usize {
    let clock = at_time(reference, acknowledged);
    let life = Life::begin(disk, keeping, &clock).await.unwrap();
    assert_eq!(
        life.engine.report().damaged,
        Vec::<String>::new(),
        "{context}"
    );
    let found = check(&life, acknowledged, reference, context).await;
    go_on(&life, context).await;
    life.engine.close().await;
    found
}

async fn again(
    disk: &SimDisk,
    keeping: Keeping,
    acknowledged: usize,
    reference: &Reference,
    n: u64,
    context: &str,
) {
    let second = disk.crash_with(n);
    second.power_off_at(1 + n % 7);
    let clock = at_time(reference, acknowledged);
    if let Ok(life) = Life::begin(&second, keeping, &clock).await {
        life.engine.close().await;
    }
    let context = format!("{context}, and again");
    after_crash(
        &second.crash_with(n + 1),
        keeping,
        acknowledged,
        reference,
        &context,
    )
    .await;
}

#[tokio::test]
async fn a_full_disk_refuses_adds_and_loses_nothing() {
    let keeping = KEEPINGS[0];
    let (disk, clock) = (disk(), clock());
    let life = Life::begin(&disk, keeping, &clock).await.unwrap();
    disk.set_capacity(120 * 1024);
    let mut added = 0;
    let error = loop {
        let entry = NewEntry::new(format!("key-{added}"), content(added, 2_000));
        match life.journal.add_one(entry).await {
            Ok(_) => added += 1,
            Err(error) => break error,
        }
        assert!(added < 1_000, "the disk is never full");
    };
    assert_eq!(error.kind, ErrorKind::Full, "{error}");
    assert_eq!(
        life.entries().await.unwrap().len(),
        added,
        "reading goes on"
    );
    disk.set_capacity(u64::MAX);
    life.journal
        .add_one(NewEntry::new("fits", Data::null()))
        .await
        .unwrap();
    life.engine.close().await;
    let life = Life::begin(&disk.crash(), keeping, &clock).await.unwrap();
    assert_eq!(life.entries().await.unwrap().len(), added + 1);
}

#[tokio::test]
async fn a_closed_journal_says_so() {
    let life = Life::begin(&disk(), KEEPINGS[0], &clock()).await.unwrap();
    let mut wakes = life.journal.wakes();
    life.journal.close().await;
    life.journal.close().await;
    assert_eq!(
        life.journal.stats().await.unwrap_err().kind,
        ErrorKind::Closed
    );
    assert!(!life.journal.wakes().next().await);
    drop(life);
    assert!(!wakes.next().await);
}
