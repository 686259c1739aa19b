//! Our two engines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cannery_journal::{Claimed, Data, Journal, Op, Token};

use crate::bench::{Bench, Deadline, entries};
use crate::work::{Contestant, Kind, Side, Work};

const FILL_BATCH: u64 = 500;
const FILLERS: u64 = 4;

pub(crate) struct OnDisk<'a>(pub(crate) &'a Bench);

pub(crate) struct OnServer<'a>(pub(crate) &'a Bench);

impl Contestant for OnDisk<'_> {
    fn name(&self) -> &'static str {
        "embedded"
    }

    fn can(&self, _work: Work) -> bool {
        true
    }

    fn open(&self) -> Box<dyn Side + '_> {
        let engine = self.0.embedded(self.0.folder());
        Box::new(Ours::new(self.0, self.0.journal(engine)))
    }

    fn pace(&self, work: Work) -> u64 {
        match work.batch {
            1 => 15_000,
            10 => 120_000,
            _ => 400_000,
        }
    }
}

impl Contestant for OnServer<'_> {
    fn name(&self) -> &'static str {
        "postgres"
    }

    fn can(&self, _work: Work) -> bool {
        true
    }

    fn open(&self) -> Box<dyn Side + '_> {
        let journal = self.0.server().journal(self.0);
        Box::new(Ours::new(self.0, journal))
    }

    fn pace(&self, work: Work) -> u64 {
        match work.batch {
            1 => 8_000,
            10 => 30_000,
            _ => 80_000,
        }
    }
}

/// A journal on either engine.
pub(crate) struct Ours<'a> {
    bench: &'a Bench,
    journal: Journal,
    waiting: AtomicU64,
}

impl<'a> Ours<'a> {
    pub(crate) fn new(bench: &'a Bench, journal: Journal) -> Self {
        Self {
            bench,
            journal,
            waiting: AtomicU64::new(0),
        }
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }
}

impl Drop for Ours<'_> {
    fn drop(&mut self) {
        self.bench.runtime.block_on(self.journal.close());
    }
}

impl Side for Ours<'_> {
    fn fill(&mut self, count: u64) {
        fill(self.bench, &self.journal, count);
        self.waiting.fetch_add(count, Ordering::Relaxed);
    }

    fn rate(&mut self, work: Work, turn: Duration) -> f64 {
        let until = self.bench.until(turn);
        let rows = Arc::new(AtomicU64::new(0));
        let seconds = self.bench.seconds(|| {
            if work.clients == 1 {
                // Like every other side's only client, this thread.
                let client = client(self.journal.clone(), work, until.clone());
                let done = self.bench.runtime.block_on(client);
                rows.store(done, Ordering::Relaxed);
                return;
            }
            let clients: Vec<_> = (0..work.clients)
                .map(|_| {
                    let client = client(self.journal.clone(), work, until.clone());
                    let rows = Arc::clone(&rows);
                    self.bench.runtime.spawn(async move {
                        rows.fetch_add(client.await, Ordering::Relaxed);
                    })
                })
                .collect();
            for client in clients {
                self.bench.runtime.block_on(client).unwrap();
            }
        });
        if work.drains() {
            let stats = self.bench.runtime.block_on(self.journal.stats()).unwrap();
            self.waiting.store(stats.waiting(), Ordering::Relaxed);
        }
        rows.load(Ordering::Relaxed) as f64 / seconds
    }

    fn waiting(&self) -> u64 {
        self.waiting.load(Ordering::Relaxed)
    }
}

/// Adds entries as fast as it goes.
pub(crate) fn fill(bench: &Bench, journal: &Journal, count: u64) {
    let left = Arc::new(AtomicU64::new(count));
    let fillers: Vec<_> = (0..FILLERS)
        .map(|_| {
            let (journal, left) = (journal.clone(), Arc::clone(&left));
            bench.runtime.spawn(async move {
                loop {
                    let before = left
                        .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
                            Some(left.saturating_sub(FILL_BATCH))
                        })
                        .unwrap();
                    if before == 0 {
                        return;
                    }
                    let batch = entries(before.min(FILL_BATCH));
                    journal.add(batch).await.unwrap();
                }
            })
        })
        .collect();
    for filler in fillers {
        bench.runtime.block_on(filler).unwrap();
    }
}

/// Works until the time is over; gives back how many rows.
async fn client(journal: Journal, work: Work, until: Deadline) -> u64 {
    match work.kind {
        Kind::Put => put(&journal, work.batch, &until).await,
        Kind::DoneAndClaim => done_and_claim(&journal, work.batch, &until).await,
        Kind::ClaimThenDone => claim_then_done(&journal, work.batch, &until).await,
        Kind::Cycle => cycle(&journal, &until).await,
    }
}

async fn put(journal: &Journal, batch: u32, until: &Deadline) -> u64 {
    let mut rows = 0;
    while !until.is_past() {
        rows += journal.add(entries(batch.into())).await.unwrap().len() as u64;
    }
    rows
}

pub(crate) fn tokens(claimed: &Claimed<Data>) -> Vec<Token> {
    let leases = claimed.entries.iter().map(|entry| &entry.lease);
    leases.flatten().map(|lease| lease.token).collect()
}

async fn done_and_claim(journal: &Journal, batch: u32, until: &Deadline) -> u64 {
    let mut rows = 0;
    let mut held = Vec::new();
    while !until.is_past() {
        let was_held = held.len();
        let (fates, claimed) = journal.done_and_claim(held, "bench", batch).await.unwrap();
        rows += fates.len() as u64;
        held = tokens(&claimed);
        if was_held + held.len() == 0 {
            break;
        }
    }
    journal.end_all(Op::Done(held)).await.unwrap();
    rows
}

async fn claim_then_done(journal: &Journal, batch: u32, until: &Deadline) -> u64 {
    let mut rows = 0;
    while !until.is_past() {
        let claimed = journal.claim("bench", batch).await.unwrap();
        let held = tokens(&claimed);
        if held.is_empty() {
            break;
        }
        rows += journal.end_all(Op::Done(held)).await.unwrap().len() as u64;
    }
    rows
}

async fn cycle(journal: &Journal, until: &Deadline) -> u64 {
    let mut rows = 0;
    while !until.is_past() {
        journal.add(entries(1)).await.unwrap();
        // Each client claims what is first, so there is one for each; it may be in other hands for a moment.
        let token = loop {
            let claimed = journal.claim("bench", 1).await.unwrap();
            if let Some(token) = tokens(&claimed).first() {
                break *token;
            }
        };
        journal.done(token).await.unwrap();
        rows += 1;
    }
    rows
}
