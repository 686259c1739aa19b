//! A journal on three PostgreSQL servers, of which one must have a commit beside the primary: the standbys go away and come
//! back, then the primary dies and a standby takes its place, while adders and workers go on.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use cannery_journal::postgres::{Database, EngineClock};
use cannery_journal::{
    Data, Declaration, Entry, Error, ErrorKind, Fate, Health, Journal, NewEntry, Op, Query, Token,
};
use cannery_runtime::{Clock, Rng};
use cannery_testkit::long_run;
use cannery_testkit::postgres::PostgresCluster;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

const JOURNAL: &str = "failover";
const ADDERS: usize = 4;
const WORKERS: usize = 4;
const LEASE: Duration = Duration::from_secs(2);
/// Far more than anything here may take; then the test has failed.
const LIMIT: Duration = Duration::from_secs(90);
/// By the safety poll alone these wake-ups would take as many seconds.
const WAKE_UPS: u32 = 60;
const WAKE_UPS_LIMIT: Duration = Duration::from_secs(30);

async fn open(url: &str) -> (Arc<Database>, Journal) {
    let (clock, rng) = (Clock::real(), Rng::from_os());
    let database = Database::connect(url, EngineClock::Server, clock.clone(), rng);
    let database = database.await.unwrap();
    let declaration = Declaration {
        lease: LEASE,
        timeouts_max: 254,
        ..Declaration::default()
    };
    let engine = database.open(JOURNAL, Some(declaration)).await.unwrap();
    (database, Journal::new(JOURNAL, engine))
}

/// What adders and workers know of every key.
#[derive(Debug, Default)]
struct Known {
    adding: BTreeSet<String>,
    added: BTreeSet<String>,
    doing: BTreeSet<String>,
    /// With the moment of the acknowledgement.
    done: BTreeMap<String, Duration>,
    /// Asked for and handed out after that.
    came_back: BTreeSet<String>,
    failed: u64,
}

/// Adders and workers, who do not know what happens to the servers.
struct Load {
    journal: Journal,
    clock: Clock,
    rng: Rng,
    known: Mutex<Known>,
    added: AtomicU64,
    done: AtomicU64,
    stop_adding: CancellationToken,
    stop: CancellationToken,
}

impl Load {
    fn new(journal: &Journal) -> Arc<Self> {
        Arc::new(Self {
            journal: journal.clone(),
            clock: Clock::real(),
            rng: Rng::from_os(),
            known: Mutex::default(),
            added: AtomicU64::new(0),
            done: AtomicU64::new(0),
            stop_adding: CancellationToken::new(),
            stop: CancellationToken::new(),
        })
    }

    fn start(self: &Arc<Self>) -> Vec<JoinHandle<()>> {
        let adders = (0..ADDERS).map(|name| tokio::spawn(Arc::clone(self).add(name)));
        let workers = (0..WORKERS).map(|_| tokio::spawn(Arc::clone(self).work()));
        adders.chain(workers).collect()
    }

    fn known(&self) -> std::sync::MutexGuard<'_, Known> {
        self.known.lock().unwrap()
    }

    /// Only what a missing server explains may fail; then it is tried again a moment later.
    async fn failed(&self, error: Error) {
        assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
        self.known().failed += 1;
        self.clock.sleep(Duration::from_millis(50)).await;
    }

    async fn add(self: Arc<Self>, name: usize) {
        for number in 0..u64::MAX {
            if self.stop_adding.is_cancelled() {
                return;
            }
            let keys: Vec<String> = (0..=self.rng.below(20))
                .map(|place| format!("{name}-{number}-{place}"))
                .collect();
            self.known().adding.extend(keys.iter().cloned());
            let entries = keys.iter().map(|key| entry(key)).collect();
            match self.journal.add(entries).await {
                Ok(_) => {
                    self.known().added.extend(keys);
                    self.added.fetch_add(1, Ordering::Relaxed);
                }
                Err(error) => self.failed(error).await,
            }
            self.clock
                .sleep(self.rng.jitter(Duration::from_millis(10)))
                .await;
        }
    }

    async fn work(self: Arc<Self>) {
        let mut wakes = self.journal.wakes();
        while !self.stop.is_cancelled() {
            let asked = self.clock.elapsed();
            match self.journal.claim("worker", 30).await {
                Ok(claimed) if claimed.entries.is_empty() => {
                    let pause = Duration::from_millis(500);
                    self.clock.timeout(pause, wakes.next()).await.ok();
                }
                Ok(claimed) => self.end(asked, claimed.entries).await,
                Err(error) => self.failed(error).await,
            }
        }
    }

    async fn end(&self, asked: Duration, entries: Vec<Entry<Data>>) {
        let leases: BTreeMap<String, Token> = entries
            .into_iter()
            .map(|entry| (entry.key.to_string(), entry.lease.unwrap().token))
            .collect();
        {
            let mut known = self.known();
            let is_back = |key: &&String| known.done.get(*key).is_some_and(|done| *done < asked);
            let back = leases.keys().filter(is_back);
            let back: Vec<String> = back.cloned().collect();
            known.came_back.extend(back);
            known.doing.extend(leases.keys().cloned());
        }
        let tokens = leases.values().copied().collect();
        match self.journal.end_all(Op::Done(tokens)).await {
            Ok(fates) => {
                let now = self.clock.elapsed();
                let done = leases.into_keys().zip(fates);
                let done = done.filter(|(_, fate)| *fate == Fate::Done);
                self.known().done.extend(done.map(|(key, _)| (key, now)));
                self.done.fetch_add(1, Ordering::Relaxed);
            }
            Err(error) => self.failed(error).await,
        }
    }

    /// Waits until adds and dones are acknowledged that were not before.
    async fn goes_on(&self, why: &str) {
        let (added, done) = (&self.added, &self.done);
        let [added_before, done_before] = [added, done].map(|count| count.load(Ordering::Relaxed));
        until(why, || {
            added.load(Ordering::Relaxed) > added_before + 20
                && done.load(Ordering::Relaxed) > done_before + 20
        })
        .await;
    }
}

fn entry(key: &str) -> NewEntry {
    NewEntry::new(key, Data::from_value(&key).unwrap())
}

/// Waits for something that comes by itself.
async fn until(why: &str, is_so: impl Fn() -> bool) {
    let clock = Clock::real();
    let waiting = async {
        while !is_so() {
            clock.sleep(Duration::from_millis(20)).await;
        }
    };
    let waited = clock.timeout(LIMIT, waiting).await;
    assert!(waited.is_ok(), "in vain: {why}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_when_servers_go_away() {
    let mut cluster = PostgresCluster::start().await.unwrap();
    let (database, journal) = open(&cluster.url()).await;
    // As another process would be: it hears of adds only through the server.
    let (other_database, other) = open(&cluster.url()).await;
    let load = Load::new(&journal);
    let tasks = load.start();
    load.goes_on("the beginning").await;

    for _ in 0..if long_run() { 5 } else { 1 } {
        lose_standbys(&mut cluster, &load, &other).await;
    }
    lose_primary(&mut cluster, &load).await;

    load.stop_adding.cancel();
    drain(&load, tasks).await;
    wake_ups_come(&journal, &other).await;
    check(&load, &journal).await;
    other_database.close().await;
    database.close().await;
}

/// Without a standby nothing is acknowledged, and everybody can see why; with them all goes on by itself.
async fn lose_standbys(cluster: &mut PostgresCluster, load: &Load, other: &Journal) {
    cluster.stop_standbys();
    let clock = Clock::real();
    let add = other.add_one(entry(&format!("alone-{}", Rng::from_os().id())));
    let error = clock.timeout(LIMIT, add).await.unwrap().unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    let words = ["standby", "standbys", "quorum"];
    assert!(
        words.iter().any(|word| error.message.contains(word)),
        "{error}"
    );
    stays_bad(other).await;
    cluster.start_standbys().await.unwrap();
    load.goes_on("the standbys came back").await;
    let (one, two) = (&load.journal, other);
    until("health after the standbys came back", || {
        one.health() == Health::Good && two.health() == Health::Good
    })
    .await;
}

/// Looks, the journal's own every second and those of others, need no standby and do not make it good.
async fn stays_bad(journal: &Journal) {
    let clock = Clock::real();
    let start = clock.elapsed();
    while clock.since(start) < Duration::from_millis(2_500) {
        journal.stats().await.unwrap();
        let health = journal.health();
        let Health::Bad(why) = &health else {
            panic!("{health:?} although no standby is there");
        };
        assert!(why.contains("standby"), "{why}");
        clock.sleep(Duration::from_millis(20)).await;
    }
}

async fn lose_primary(cluster: &mut PostgresCluster, load: &Load) {
    cluster.kill_primary();
    let journal = &load.journal;
    until("health without a primary", || {
        journal.health() != Health::Good
    })
    .await;
    cluster.promote().await.unwrap();
    load.goes_on("a standby was promoted").await;
    until("health after the promotion", || {
        journal.health() == Health::Good
    })
    .await;
}

/// Lets the workers do all that is left.
async fn drain(load: &Load, tasks: Vec<JoinHandle<()>>) {
    let empty = async {
        loop {
            let stats = load.journal.stats().await;
            if stats.is_ok_and(|stats| stats.waiting() + stats.processing() == 0) {
                return;
            }
            load.clock.sleep(Duration::from_millis(100)).await;
        }
    };
    load.clock.timeout(LIMIT, empty).await.unwrap();
    load.stop.cancel();
    for task in tasks {
        task.await.unwrap();
    }
}

/// Whoever waits is woken by the new primary, not by the safety poll.
async fn wake_ups_come(adder: &Journal, waiter: &Journal) {
    let mut wakes = waiter.wakes();
    let rounds = async {
        for round in 0..WAKE_UPS {
            let key = format!("wake-up-{round}");
            adder.add_one(entry(&key)).await.unwrap();
            loop {
                assert!(wakes.next().await, "no more wake-ups");
                let claimed = waiter.claim("waiter", 1).await.unwrap();
                if let Some(entry) = claimed.entries.first() {
                    assert_eq!(entry.key.as_str(), key);
                    waiter
                        .done(entry.lease.clone().unwrap().token)
                        .await
                        .unwrap();
                    break;
                }
            }
        }
    };
    let rounds = Clock::real().timeout(WAKE_UPS_LIMIT, rounds).await;
    assert!(rounds.is_ok(), "wake-ups do not come by notification");
}

async fn check(load: &Load, journal: &Journal) {
    let left = journal.list(Query::all()).await.unwrap();
    assert_eq!(left.entries, Vec::new(), "all was done");
    let stats = journal.stats().await.unwrap();
    assert_eq!(stats.counts.live(), 0, "{stats:?}");
    let known = load.known();
    let lost: Vec<_> = known.added.difference(&known.doing).collect();
    assert!(lost.is_empty(), "acknowledged and lost: {lost:?}");
    let strange: Vec<_> = known.doing.difference(&known.adding).collect();
    assert!(
        strange.iter().all(|key| key.starts_with("alone-")),
        "out of nowhere: {strange:?}"
    );
    assert!(
        known.came_back.is_empty(),
        "acknowledged as done and there again: {:?}",
        known.came_back
    );
    println!(
        "result: journal fail-over, 3 PostgreSQL servers: {} adds and {} dones acknowledged, {} requests failed, {} \
         wake-ups after it: none lost, none came back",
        known.added.len(),
        known.done.len(),
        known.failed,
        WAKE_UPS
    );
}
