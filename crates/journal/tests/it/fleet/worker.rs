//! A worker in a process of its own, which may be killed at any moment.

use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use cannery_journal::postgres::{Database, EngineClock};
use cannery_journal::{
    Claimed, Data, Date, Entry, Error, ErrorKind, Fate, Journal, Op, Retry, Token,
};
use cannery_runtime::{Clock, Rng};
use tokio_util::sync::CancellationToken;

use super::event::{End, Event, Held, What};
use super::{JOURNAL, LEASE, URL, data, declaration, disturbance};

/// How many claim at once in one process.
const HANDS: usize = 3;
const BATCH_MAX: u64 = 30;

/// The worker. Without the variable this is the parent's test run, and there is nothing to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn work() {
    let Ok(url) = std::env::var(URL) else {
        return;
    };
    // The runner has begun a line.
    println!();
    let (clock, rng) = (Clock::real(), Rng::from_os());
    let (_database, journal) = open(&url, &clock, &rng).await;
    tokio::spawn(disturbance::run(url, clock.clone(), rng.clone()));
    let stop = stop_at_end_of_input();
    let hands: Vec<_> = (0..HANDS)
        .map(|_| {
            let hand = Hand {
                journal: journal.clone(),
                clock: clock.clone(),
                rng: rng.clone(),
                stop: stop.clone(),
            };
            tokio::spawn(hand.run())
        })
        .collect();
    for hand in hands {
        hand.await.unwrap();
    }
}

/// The parent ends its workers by closing their input, also when it fails.
fn stop_at_end_of_input() -> CancellationToken {
    let stop = CancellationToken::new();
    let stopping = stop.clone();
    std::thread::spawn(move || {
        std::io::stdin().read_to_end(&mut Vec::new()).ok();
        stopping.cancel();
    });
    stop
}

/// Opening is disturbed like everything else.
pub(super) async fn open(url: &str, clock: &Clock, rng: &Rng) -> (Arc<Database>, Journal) {
    loop {
        match try_open(url, clock, rng).await {
            Ok(opened) => return opened,
            Err(error) if error.kind == ErrorKind::Unavailable => {}
            Err(error) => panic!("cannot open the journal: {error}"),
        }
    }
}

async fn try_open(url: &str, clock: &Clock, rng: &Rng) -> Result<(Arc<Database>, Journal), Error> {
    let database = Database::connect(url, EngineClock::Server, clock.clone(), rng.clone()).await?;
    let engine = database.open(JOURNAL, Some(declaration())).await?;
    let journal = Journal::new(JOURNAL, engine);
    Ok((database, journal))
}

/// One that claims, works, and ends, over and over.
struct Hand {
    journal: Journal,
    clock: Clock,
    rng: Rng,
    stop: CancellationToken,
}

impl Hand {
    async fn run(self) {
        let mut wakes = self.journal.wakes();
        let mut batch = Vec::new();
        while !self.stop.is_cancelled() {
            if batch.is_empty() {
                batch = self.claim().await;
            }
            if batch.is_empty() {
                let pause = Duration::from_millis(500);
                self.clock.timeout(pause, wakes.next()).await.ok();
                continue;
            }
            self.hold(&batch).await;
            batch = self.finish(batch).await;
        }
        self.end(End::Done, &batch).await;
    }

    fn tell(&self, what: What) {
        let at = Date::from(self.clock.now());
        Event { at, what }.tell();
    }

    fn failed(&self, error: &Error) {
        let text = format!("{:?}: {error}", error.kind);
        self.tell(match error.kind {
            ErrorKind::Unavailable => What::Failed(text),
            _ => What::Wrong(text),
        });
    }

    fn count(&self) -> u32 {
        u32::try_from(1 + self.rng.below(BATCH_MAX)).unwrap()
    }

    async fn claim(&self) -> Vec<Token> {
        let count = self.count();
        self.tell(What::Claiming { count });
        match self.journal.claim("hand", count).await {
            Ok(claimed) => self.take(count, claimed),
            Err(error) => {
                self.failed(&error);
                Vec::new()
            }
        }
    }

    fn take(&self, count: u32, claimed: Claimed<Data>) -> Vec<Token> {
        let leases: Vec<Held> = claimed.entries.into_iter().map(|e| self.held(e)).collect();
        let tokens = leases.iter().map(|held| held.token).collect();
        self.tell(What::Claimed { count, leases });
        tokens
    }

    fn held(&self, entry: Entry<Data>) -> Held {
        let key = entry.key.to_string();
        if entry.data != data(&key) {
            self.tell(What::Wrong(format!("the data of `{key}` is another's")));
        }
        let (Some(lease), Some(deadline)) = (entry.lease, entry.deadline) else {
            panic!("`{key}` was handed out without a lease");
        };
        Held {
            key,
            token: lease.token,
            deadline,
        }
    }

    /// Works: mostly for a moment, now and then for so long that the lease must be kept alive, or without keeping it so.
    async fn hold(&self, batch: &[Token]) {
        match self.rng.below(100) {
            0 => self.clock.sleep(LEASE.mul_f64(1.2)).await,
            1..5 => {
                for _ in 0..self.rng.below(8) {
                    self.clock.sleep(LEASE / 5).await;
                    self.beat(batch).await;
                }
            }
            _ => self.clock.sleep(self.rng.jitter(LEASE / 100)).await,
        }
    }

    async fn beat(&self, batch: &[Token]) {
        match self.journal.heartbeats(batch.to_vec()).await {
            Ok(beats) => {
                let beats = batch.iter().copied().zip(beats);
                self.tell(What::Beaten(beats.collect()));
            }
            Err(error) => self.failed(&error),
        }
    }

    /// Ends what is held, in all ways there are; gives back what was claimed on the way.
    async fn finish(&self, batch: Vec<Token>) -> Vec<Token> {
        let (mut done, mut released, mut failed) = (Vec::new(), Vec::new(), Vec::new());
        for token in batch {
            match self.rng.below(20) {
                0 => released.push(token),
                1 => failed.push(token),
                _ => done.push(token),
            }
        }
        self.end(End::Release, &released).await;
        self.end(End::Fail, &failed).await;
        if self.rng.chance(0.5) {
            return self.done_and_claim(done).await;
        }
        self.end(End::Done, &done).await;
        Vec::new()
    }

    /// Ends leases; when the answer is lost mostly once more, and now and then once more although it was answered.
    async fn end(&self, end: End, tokens: &[Token]) {
        if tokens.is_empty() {
            return;
        }
        let answered = self.try_end(end, tokens).await;
        let again = if answered { 0.02 } else { 0.7 };
        if self.rng.chance(again) {
            self.try_end(end, tokens).await;
        }
    }

    async fn try_end(&self, end: End, tokens: &[Token]) -> bool {
        self.announce(end, tokens);
        let answer = self.journal.end_all(self.op(end, tokens.to_vec())).await;
        match answer {
            Ok(fates) => {
                self.answered(end, tokens, fates);
                true
            }
            Err(error) => {
                self.failed(&error);
                false
            }
        }
    }

    fn op(&self, end: End, tokens: Vec<Token>) -> Op {
        match end {
            End::Done => Op::Done(tokens),
            End::Release => Op::Release { tokens, at: None },
            End::Fail => Op::Fail {
                tokens,
                reason: "at random".to_owned(),
                retry: Retry::At(Date::from(self.clock.now())),
            },
        }
    }

    fn announce(&self, end: End, tokens: &[Token]) {
        let tokens = tokens.to_vec();
        self.tell(What::Ending { end, tokens });
    }

    fn answered(&self, end: End, tokens: &[Token], fates: Vec<Fate>) {
        let fates = tokens.iter().copied().zip(fates).collect();
        self.tell(What::Ended { end, fates });
    }

    async fn done_and_claim(&self, tokens: Vec<Token>) -> Vec<Token> {
        let count = self.count();
        self.announce(End::Done, &tokens);
        self.tell(What::Claiming { count });
        let answer = self.journal.done_and_claim(tokens.clone(), "hand", count);
        match answer.await {
            Ok((fates, claimed)) => {
                self.answered(End::Done, &tokens, fates);
                self.take(count, claimed)
            }
            Err(error) => {
                self.failed(&error);
                Vec::new()
            }
        }
    }
}
