//! Many processes on one journal in PostgreSQL, which get in each other's way and are killed, again and again.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cannery_journal::{Data, Date, Declaration, ErrorKind, Journal, NewEntry, Priority};
use cannery_runtime::{Clock, Rng};
use cannery_testkit::postgres::Postgres;
use cannery_testkit::{long_run, scenario_rng};
use tokio::sync::mpsc;

mod disturbance;
mod event;
mod ledger;
mod worker;

use event::Event;
use ledger::Ledger;

const URL: &str = "CANNERY_TEST_FLEET_URL";
const JOURNAL: &str = "fleet";
/// By which the connections of the engine are known from others.
const APPLICATION: &str = "fleet";
const WORKERS: usize = 8;
const LEASE: Duration = Duration::from_secs(2);
/// How many entries wait at most, so that adding goes on for as long as the work.
const AHEAD_MAX: u64 = 1_000;
/// How often it is asked whether all is done.
const LOOK_EVERY: Duration = Duration::from_millis(300);

struct Size {
    entries: u64,
    kills: u64,
    limit: Duration,
}

fn size() -> Size {
    let (entries, kills, seconds) = if long_run() {
        (100_000, 48, 1_800)
    } else {
        (10_000, 8, 180)
    };
    let limit = Duration::from_secs(seconds);
    Size {
        entries,
        kills,
        limit,
    }
}

fn declaration() -> Declaration {
    Declaration {
        lease: LEASE,
        timeouts_max: 254,
        ..Declaration::default()
    }
}

fn data(key: &str) -> Data {
    Data::from_value(&format!("{key} {}", "x".repeat(100))).unwrap()
}

/// The workers, and what they tell.
struct Fleet {
    url: String,
    workers: Vec<Child>,
    tell: mpsc::UnboundedSender<Event>,
}

impl Fleet {
    fn start(url: &str) -> (Self, mpsc::UnboundedReceiver<Event>) {
        let (tell, told) = mpsc::unbounded_channel();
        let mut fleet = Self {
            url: url.to_owned(),
            workers: Vec::new(),
            tell,
        };
        for _ in 0..WORKERS {
            fleet.add();
        }
        (fleet, told)
    }

    fn add(&mut self) {
        let mut worker = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "fleet::worker::work", "--nocapture"])
            .env(URL, &self.url)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::inherit())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(worker.stdout.take().unwrap());
        let tell = self.tell.clone();
        std::thread::spawn(move || {
            let mut line = String::new();
            while lines.read_line(&mut line).unwrap() > 0 {
                if let Some(event) = Event::hear(&line) {
                    // Nobody listens any more when the test has failed.
                    tell.send(event).ok();
                }
                line.clear();
            }
        });
        self.workers.push(worker);
    }

    /// Kills one and puts another in its place.
    fn kill(&mut self, rng: &Rng) {
        let place = usize::try_from(rng.below(WORKERS as u64)).unwrap();
        let mut worker = self.workers.swap_remove(place);
        worker.kill().unwrap();
        worker.wait().unwrap();
        self.add();
    }

    /// Lets all end by themselves.
    fn end(mut self) {
        for worker in &mut self.workers {
            drop(worker.stdin.take());
        }
        for mut worker in self.workers {
            assert!(worker.wait().unwrap().success(), "a worker failed");
        }
    }
}

/// Adds entries while others work on them.
struct Adder {
    journal: Journal,
    clock: Clock,
    rng: Rng,
    entries: u64,
    /// How many were done, at most.
    done: Arc<AtomicU64>,
}

impl Adder {
    /// Says of every key how often it may have been added.
    async fn run(self) -> BTreeMap<String, u64> {
        let mut adds = BTreeMap::new();
        let mut next = 0;
        while next < self.entries {
            if next > self.done.load(Ordering::Relaxed) + AHEAD_MAX {
                self.clock.sleep(Duration::from_millis(10)).await;
                continue;
            }
            let end = (next + 1 + self.rng.below(150)).min(self.entries);
            let keys: Vec<String> = (next..end).map(|number| format!("key-{number}")).collect();
            let times = self.add(&keys).await;
            adds.extend(keys.into_iter().map(|key| (key, times)));
            next = end;
        }
        adds
    }

    /// Adds until it is acknowledged; an add that failed may have been done.
    async fn add(&self, keys: &[String]) -> u64 {
        for times in 1.. {
            let entries = keys.iter().map(|key| self.entry(key)).collect();
            match self.journal.add(entries).await {
                Ok(_) => return times,
                Err(error) if error.kind == ErrorKind::Unavailable => {}
                Err(error) => panic!("cannot add: {error}"),
            }
        }
        0
    }

    fn entry(&self, key: &str) -> NewEntry {
        let priorities = [
            Priority::NOW,
            Priority::NEW,
            Priority::UPDATES,
            Priority::SLOW,
        ];
        let place = usize::try_from(self.rng.below(priorities.len() as u64)).unwrap();
        let now = Date::from(self.clock.now());
        let later = Duration::from_millis(self.rng.below(300));
        NewEntry {
            priority: Some(priorities[place]),
            insertion_date: Some(now),
            process_date: self.rng.chance(0.2).then(|| now.plus(later)),
            ..NewEntry::new(key, data(key))
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_or_held_twice_when_workers_are_killed() {
    let size = size();
    let server = Postgres::start().await.unwrap();
    let url = format!("{}?application_name={APPLICATION}", server.url());
    let (clock, rng) = (Clock::real(), Rng::from_os());
    let (database, journal) = worker::open(&url, &clock, &rng).await;
    let done = Arc::new(AtomicU64::new(0));
    let adder = Adder {
        journal: journal.clone(),
        clock: clock.clone(),
        rng: rng.clone(),
        entries: size.entries,
        done: Arc::clone(&done),
    };
    let (mut fleet, told) = Fleet::start(&url);
    let adding = tokio::spawn(adder.run());
    let run = run(&mut fleet, told, &size, &done, || {
        is_over(&journal, adding.is_finished())
    });
    let Ok((mut ledger, told)) = clock.timeout(size.limit, run).await else {
        panic!("not done in time: {:?}", journal.stats().await);
    };
    let adds = adding.await.unwrap();
    tokio::task::block_in_place(|| fleet.end());
    hear_rest(&mut ledger, told).await;
    check(&ledger, &adds, &journal).await;
    report(&ledger, &adds, &size);
    database.close().await;
}

/// Hears the workers and kills one after the other, until all is done.
async fn run<F: Future<Output = bool>>(
    fleet: &mut Fleet,
    mut told: mpsc::UnboundedReceiver<Event>,
    size: &Size,
    done: &AtomicU64,
    is_over: impl Fn() -> F,
) -> (Ledger, mpsc::UnboundedReceiver<Event>) {
    let (clock, rng) = (Clock::real(), scenario_rng("kills of a fleet"));
    let mut ledger = Ledger::default();
    let mut kills = 0;
    let mut looked = clock.elapsed();
    loop {
        if let Ok(event) = clock.timeout(LOOK_EVERY, told.recv()).await {
            ledger.hear(event.unwrap());
        }
        if clock.since(looked) > LOOK_EVERY {
            looked = clock.elapsed();
            if kills == size.kills && is_over().await {
                return (ledger, told);
            }
        }
        assert!(ledger.wrong().is_empty(), "{:#?}", ledger.wrong());
        done.store(ledger.announced, Ordering::Relaxed);
        // Spread over the work, not over the time.
        let next = size.entries * (2 * kills + 1) / (2 * size.kills + 2);
        if kills < size.kills && ledger.done > next {
            tokio::task::block_in_place(|| fleet.kill(&rng));
            kills += 1;
        }
    }
}

async fn is_over(journal: &Journal, added: bool) -> bool {
    // The question may be disturbed too.
    let stats = journal.stats().await;
    added && stats.is_ok_and(|stats| stats.waiting() + stats.processing() == 0)
}

async fn hear_rest(ledger: &mut Ledger, mut told: mpsc::UnboundedReceiver<Event>) {
    while let Some(event) = told.recv().await {
        ledger.hear(event);
    }
}

async fn check(ledger: &Ledger, adds: &BTreeMap<String, u64>, journal: &Journal) {
    let wrong = ledger.check(adds);
    assert!(wrong.is_empty(), "{} rules broken: {wrong:#?}", wrong.len());
    let stats = journal.stats().await.unwrap();
    let wrong = ledger.check_counts(&stats.counts);
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(
        stats.waiting() + stats.processing() + stats.dead,
        0,
        "{stats:?}"
    );
}

fn report(ledger: &Ledger, adds: &BTreeMap<String, u64>, size: &Size) {
    println!(
        "result: journal fleet, {WORKERS} processes on PostgreSQL: {} entries, {} kills, {} leases, {} ends and beats \
         refused, {} requests failed, {} keys perhaps added twice, disturbances {:?}: none lost, none held twice",
        adds.len(),
        size.kills,
        ledger.leases(),
        ledger.lost,
        ledger.failed,
        adds.values().filter(|times| **times > 1).count(),
        ledger.disturbed,
    );
}
