//! Names whose servers do not answer, and who else asks meanwhile.

use std::collections::BTreeMap;
use std::sync::Condvar;

use cannery_runtime::clock::SimulatedClock;
use jiff::Timestamp;

use super::*;
use crate::feed::fetch::lookups::LOOKUPS_MAX;

/// A resolver that answers for names that begin with `stuck` only once it is released.
#[derive(Default)]
struct Stuck {
    state: Mutex<State>,
    released: Condvar,
}

#[derive(Default)]
struct State {
    is_released: bool,
    running: BTreeMap<String, usize>,
    begun: usize,
}

impl Stuck {
    fn release(&self) {
        self.state.lock().unwrap().is_released = true;
        self.released.notify_all();
    }

    fn running(&self) -> usize {
        self.state.lock().unwrap().running.values().sum()
    }

    /// How many lookups of stuck names there were so far.
    fn begun(&self) -> usize {
        self.state.lock().unwrap().begun
    }

    async fn until_running(&self, count: usize) {
        let clock = Clock::real();
        let wait = async {
            while self.running() != count {
                clock.sleep(Duration::from_millis(2)).await;
            }
        };
        clock.timeout(PATIENCE, wait).await.expect("so many run");
    }
}

impl Lookup for Stuck {
    fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if name.starts_with("stuck") {
            let mut state = self.state.lock().unwrap();
            state.begun += 1;
            *state.running.entry(name.to_owned()).or_default() += 1;
            while !state.is_released {
                state = self.released.wait(state).unwrap();
            }
            state.running.remove(name);
        }
        Ok(vec![IpAddr::from([127, 0, 0, 1])])
    }
}

/// What ends releases the threads, or the runtime of the test would wait for them.
struct Bench {
    stuck: Arc<Stuck>,
    clock: SimulatedClock,
    fetcher: Arc<Fetcher>,
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.stuck.release();
    }
}

impl Bench {
    fn new() -> Self {
        let clock = SimulatedClock::starting_at(Timestamp::UNIX_EPOCH);
        let stuck = Arc::new(Stuck::default());
        let ground = Ground {
            lookup: stuck.clone(),
            is_public: address::is_public,
            authorities: Vec::new(),
        };
        let fetcher = Fetcher::on(&ground, clock.clock(), 1_000).unwrap();
        let fetcher = Arc::new(fetcher);
        Self {
            stuck,
            clock,
            fetcher,
        }
    }

    /// Asks for names at once, and all give up.
    async fn in_vain(&self, names: impl Iterator<Item = String>, running: usize) {
        let feeds = names.map(|name| {
            let fetcher = Arc::clone(&self.fetcher);
            tokio::spawn(async move { fetcher.fetch(&ask(format!("http://{name}/")), None).await })
        });
        let feeds: Vec<_> = feeds.collect();
        self.stuck.until_running(running).await;
        self.clock.advance(PATIENCE).await;
        for feed in feeds {
            let error = feed.await.unwrap().unwrap_err();
            assert_eq!(error.kind, FetchErrorKind::Timeout, "{error}");
        }
    }
}

#[tokio::test]
async fn a_name_that_hangs_holds_one_place_however_often_it_is_asked_for() {
    let bench = Bench::new();
    let server = FeedServer::start().await.unwrap();
    server.on("/", Behaviour::body("x"));
    for _ in 0..3 {
        let names = (0..200).map(|_| "stuck.example".to_owned());
        bench.in_vain(names, 1).await;
    }
    assert_eq!(bench.stuck.begun(), 1);
    let other = server.url_as("other.example", "/");
    assert_eq!(body(&bench.fetcher, &ask(other)).await, "x");
    bench.stuck.release();
    // And afterwards all is well.
    bench.stuck.until_running(0).await;
    let url = server.url_as("stuck.example", "/");
    assert_eq!(body(&bench.fetcher, &ask(url)).await, "x");
}

#[tokio::test]
async fn names_that_hang_hold_so_many_threads_and_no_more() {
    let bench = Bench::new();
    for turn in 0..3 {
        let names = (0..200).map(|number| format!("stuck-{turn}-{number}.example"));
        bench.in_vain(names, LOOKUPS_MAX).await;
    }
    assert_eq!(bench.stuck.begun(), LOOKUPS_MAX);
    bench.stuck.release();
    bench.stuck.until_running(0).await;
    // What nobody waits for any more is not looked up.
    let server = FeedServer::start().await.unwrap();
    server.on("/", Behaviour::body("x"));
    let url = server.url_as("stuck-0-199.example", "/");
    assert_eq!(body(&bench.fetcher, &ask(url)).await, "x");
    assert_eq!(bench.stuck.begun(), LOOKUPS_MAX + 1);
}

#[tokio::test]
async fn an_answer_that_two_share_is_checked_for_each() {
    let bench = Bench::new();
    let server = FeedServer::start().await.unwrap();
    server.on("/", Behaviour::body("x"));
    let url = server.url_as("stuck.example", "/");
    let spawn = |ask: Ask| {
        let fetcher = Arc::clone(&bench.fetcher);
        tokio::spawn(async move { fetcher.fetch(&ask, None).await })
    };
    let (may, may_not) = (spawn(ask(url.clone())), spawn(public(url)));
    bench.stuck.until_running(1).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    bench.stuck.release();
    let error = may_not.await.unwrap().unwrap_err();
    assert_eq!(error.kind, FetchErrorKind::Refused, "{error}");
    assert!(matches!(may.await.unwrap(), Ok(Fetched::Body { .. })));
    assert_eq!(bench.stuck.begun(), 1, "they have asked together");
}
