//! SQLite as people use it for a work list: one table, write-ahead log, every commit synced.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::bench::{Bench, Deadline};
use crate::work::{Contestant, Kind, Side, Work};

mod store;

use store::{Ask, Lease, Store};

const FILL_BATCH: u64 = 1_000;

/// One connection behind a mutex; each request is a transaction.
pub(crate) struct Plain<'a>(pub(crate) &'a Bench);

/// One thread that does all requests that wait in one transaction: SQLite with a group commit built around it, the
/// strongest that it can be with many clients.
pub(crate) struct Grouped<'a>(pub(crate) &'a Bench);

impl Contestant for Plain<'_> {
    fn name(&self) -> &'static str {
        "sqlite"
    }

    fn can(&self, _work: Work) -> bool {
        true
    }

    fn open(&self) -> Box<dyn Side + '_> {
        let store = Store::open(&self.0.folder(), &self.0.clock);
        Box::new(Shared {
            bench: self.0,
            locked: Locked(Mutex::new(store)),
        })
    }

    fn pace(&self, work: Work) -> u64 {
        match work.batch {
            1 => 6_000,
            10 => 20_000,
            _ => 40_000,
        }
    }
}

/// What the threads of clients share.
struct Locked(Mutex<Store>);

impl Locked {
    fn store(&self) -> MutexGuard<'_, Store> {
        self.0.lock().unwrap()
    }

    fn client(&self, work: Work, until: &Deadline) -> u64 {
        let mut rows = 0;
        let mut held: Vec<Lease> = Vec::new();
        while !until.is_past() {
            rows += match work.kind {
                Kind::Put => self.store().commit(|store| store.put(work.batch.into())),
                Kind::DoneAndClaim => self.store().commit(|store| {
                    let done = store.done(&held);
                    held = store.claim(work.batch);
                    done
                }),
                Kind::ClaimThenDone => {
                    held = self.store().commit(|store| store.claim(work.batch));
                    self.store().commit(|store| store.done(&held))
                }
                Kind::Cycle => cycle(|ask| self.store().commit(|store| store.answer(&ask))),
            };
            if work.drains() && held.is_empty() {
                break;
            }
        }
        if work.kind == Kind::DoneAndClaim {
            self.store().commit(|store| store.done(&held));
        }
        rows
    }
}

/// One entry the whole way.
fn cycle(mut ask: impl FnMut(Ask) -> Option<Lease>) -> u64 {
    ask(Ask::Put);
    let lease = ask(Ask::Claim).expect("every client puts before it claims");
    ask(Ask::Done(lease));
    1
}

/// Runs clients in threads; gives back how many rows a second they did.
fn in_threads(bench: &Bench, clients: u32, client: impl Fn() -> u64 + Sync) -> f64 {
    let rows = AtomicU64::new(0);
    let seconds = bench.seconds(|| {
        std::thread::scope(|scope| {
            for _ in 0..clients {
                scope.spawn(|| rows.fetch_add(client(), Ordering::Relaxed));
            }
        });
    });
    rows.into_inner() as f64 / seconds
}

struct Shared<'a> {
    bench: &'a Bench,
    locked: Locked,
}

impl Side for Shared<'_> {
    fn fill(&mut self, count: u64) {
        let mut left = count;
        while left > 0 {
            let batch = left.min(FILL_BATCH);
            self.locked.store().commit(|store| store.put(batch));
            left -= batch;
        }
    }

    fn rate(&mut self, work: Work, turn: Duration) -> f64 {
        let until = self.bench.until(turn);
        let locked = &self.locked;
        in_threads(self.bench, work.clients, || locked.client(work, &until))
    }

    fn waiting(&self) -> u64 {
        self.locked.store().waiting()
    }
}

impl Contestant for Grouped<'_> {
    fn name(&self) -> &'static str {
        "sqlite, grouped"
    }

    fn can(&self, work: Work) -> bool {
        work.kind == Kind::Cycle
    }

    fn open(&self) -> Box<dyn Side + '_> {
        let store = Store::open(&self.0.folder(), &self.0.clock);
        let (asks, asked) = channel();
        Box::new(Queue {
            bench: self.0,
            asks: Some(asks),
            writer: Some(std::thread::spawn(move || write(&store, &asked))),
        })
    }

    fn pace(&self, _work: Work) -> u64 {
        0
    }
}

type Request = (Ask, Sender<Option<Lease>>);

struct Queue<'a> {
    bench: &'a Bench,
    asks: Option<Sender<Request>>,
    writer: Option<JoinHandle<()>>,
}

/// Does all that waits in one transaction, then answers, until nobody can ask.
fn write(store: &Store, asked: &Receiver<Request>) {
    while let Ok(first) = asked.recv() {
        let requests: Vec<Request> = std::iter::once(first).chain(asked.try_iter()).collect();
        let answers: Vec<Option<Lease>> = store.commit(|store| {
            let asks = requests.iter().map(|(ask, _)| ask);
            asks.map(|ask| store.answer(ask)).collect()
        });
        for ((_, answer), lease) in requests.into_iter().zip(answers) {
            answer.send(lease).unwrap();
        }
    }
}

impl Side for Queue<'_> {
    fn fill(&mut self, _count: u64) {}

    fn rate(&mut self, work: Work, turn: Duration) -> f64 {
        let until = self.bench.until(turn);
        let asks = self.asks.as_ref().expect("only dropping takes it");
        in_threads(self.bench, work.clients, || {
            let (answer, answered) = channel();
            let mut rows = 0;
            while !until.is_past() {
                rows += cycle(|ask| {
                    asks.send((ask, answer.clone())).unwrap();
                    answered.recv().unwrap()
                });
            }
            rows
        })
    }

    fn waiting(&self) -> u64 {
        0
    }
}

impl Drop for Queue<'_> {
    fn drop(&mut self) {
        self.asks.take();
        if let Some(writer) = self.writer.take() {
            writer.join().unwrap();
        }
    }
}
