//! An engine that remembers what it was asked, and fails, hangs or answers late when a test wants it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use cannery_journal::{
    Data, Date, Declaration, Engine, Error, ErrorKind, Fate, Health, Op, Page, Query, Reply, Stats,
    Token, Usage, Wakes,
};
use tokio::sync::watch;

#[derive(Debug)]
pub(crate) struct Decorator {
    inner: Arc<dyn Engine>,
    calls: AtomicU64,
    /// Fails every so manieth call, before and after its effect in turn; 0 for none.
    every: AtomicU64,
    down: AtomicBool,
    /// The reason of failures that are refused.
    refused: Mutex<Option<String>>,
    holds: watch::Sender<bool>,
    asked: Mutex<Vec<Op>>,
    /// Whose end was acknowledged, and how often.
    done: Mutex<HashMap<Token, u32>>,
}

impl Decorator {
    pub(crate) fn new(inner: Arc<dyn Engine>) -> Self {
        Self {
            inner,
            calls: AtomicU64::new(0),
            every: AtomicU64::new(0),
            down: AtomicBool::new(false),
            refused: Mutex::default(),
            holds: watch::Sender::new(false),
            asked: Mutex::default(),
            done: Mutex::default(),
        }
    }

    pub(crate) fn fail_every(&self, every: u64) {
        self.every.store(every, Ordering::SeqCst);
    }

    /// Whether every call fails before its effect.
    pub(crate) fn set_down(&self, down: bool) {
        self.down.store(down, Ordering::SeqCst);
    }

    /// From now on a report of a failure with this reason is refused.
    pub(crate) fn refuse(&self, reason: &str) {
        *self.refused.lock().unwrap() = Some(reason.to_owned());
    }

    fn is_refused(&self, op: &Op) -> bool {
        let refused = self.refused.lock().unwrap();
        matches!(op, Op::Fail { reason, .. } if refused.as_ref() == Some(reason))
    }

    /// Whether answers are kept back, after their effect.
    pub(crate) fn hold_answers(&self, holds: bool) {
        self.holds.send_replace(holds);
    }

    pub(crate) fn asked(&self, which: impl Fn(&Op) -> bool) -> usize {
        self.asked
            .lock()
            .unwrap()
            .iter()
            .filter(|op| which(op))
            .count()
    }

    pub(crate) fn acknowledged_done(&self) -> HashMap<Token, u32> {
        self.done.lock().unwrap().clone()
    }

    pub(crate) fn acknowledged_twice(&self) -> usize {
        let done = self.done.lock().unwrap();
        done.values().filter(|times| **times > 1).count()
    }

    /// Numbers, whatever fails.
    pub(crate) async fn look(&self) -> Stats {
        match self.inner.call(Op::Stats).await.unwrap() {
            Reply::Stats(stats) => *stats,
            other => panic!("{other:?}"),
        }
    }

    /// Entries, whatever fails.
    pub(crate) async fn list(&self, query: Query) -> Page<Data> {
        match self.inner.call(Op::List(query)).await.unwrap() {
            Reply::Page(page) => page,
            other => panic!("{other:?}"),
        }
    }

    fn acknowledge(&self, op: &Op, reply: &Reply<Data>) {
        let (tokens, fates) = match (op, reply) {
            (Op::Done(tokens), Reply::Fates(fates)) => (tokens, fates),
            (Op::DoneAndClaim { done, .. }, Reply::DoneAndClaimed(fates, _)) => (done, fates),
            _ => return,
        };
        let mut done = self.done.lock().unwrap();
        for (token, fate) in tokens.iter().zip(fates) {
            if *fate == Fate::Done {
                *done.entry(*token).or_default() += 1;
            }
        }
    }
}

fn failed(when: &str) -> Error {
    Error::new(ErrorKind::Unavailable, format!("failed on purpose, {when}"))
}

#[deny(clippy::missing_trait_methods)]
#[async_trait]
impl Engine for Decorator {
    async fn call(&self, op: Op) -> Result<Reply<Data>, Error> {
        self.asked.lock().unwrap().push(op.clone());
        let call = self.calls.fetch_add(1, Ordering::SeqCst) + 1;
        let every = self.every.load(Ordering::SeqCst);
        let fails = every > 0 && call.is_multiple_of(every);
        let before = fails && (call / every).is_multiple_of(2);
        if self.down.load(Ordering::SeqCst) || before {
            return Err(failed("before the effect"));
        }
        if self.is_refused(&op) {
            return Err(Error::new(ErrorKind::Invalid, "refused on purpose"));
        }
        let reply = self.inner.call(op.clone()).await?;
        let mut holds = self.holds.subscribe();
        holds.wait_for(|holds| !holds).await.unwrap();
        if fails {
            return Err(failed("after the effect"));
        }
        self.acknowledge(&op, &reply);
        Ok(reply)
    }

    fn now(&self) -> Date {
        self.inner.now()
    }

    fn wakes(&self) -> Wakes {
        self.inner.wakes()
    }

    fn declaration(&self) -> Declaration {
        self.inner.declaration()
    }

    fn health(&self) -> Health {
        self.inner.health()
    }

    fn usage(&self) -> Option<Usage> {
        self.inner.usage()
    }

    async fn close(&self) {
        self.inner.close().await;
    }
}
