//! A journal in memory: the rules and nothing else.

use std::sync::{Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;
use cannery_runtime::{Clock, Rng};

use crate::data::Data;
use crate::date::Date;
use crate::declaration::Declaration;
use crate::engine::{Engine, Health};
use crate::error::{Error, ErrorKind};
use crate::op::{Op, Reply};
use crate::state::{Effect, Ledger, State, Whole};
use crate::token::TokenSource;
use crate::wake::{Alarm, Wakes};

/// A journal that ends with the process: for tests, and for programs that need no durability.
///
/// It is the model that the durable engines are compared with. Nobody is woken at a process date: wake-ups come with adds
/// only.
#[derive(Debug)]
pub struct Memory {
    clock: Clock,
    alarm: Alarm,
    inner: Mutex<Option<Inner>>,
}

#[derive(Debug)]
struct Inner {
    state: State<Data>,
    tokens: TokenSource,
}

impl Memory {
    /// An empty journal.
    #[must_use]
    pub fn new(declaration: Declaration, clock: Clock, rng: Rng) -> Self {
        let inner = Inner {
            state: State::new(declaration),
            tokens: TokenSource::new(1, rng),
        };
        Self {
            clock,
            alarm: Alarm::new(),
            inner: Mutex::new(Some(inner)),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Option<Inner>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn apply(&self, op: &Op) -> Result<Reply<Data>, Error> {
        let mut inner = self.inner();
        let Some(Inner { state, tokens }) = inner.as_mut() else {
            return Err(Error::new(ErrorKind::Closed, "the journal is closed"));
        };
        state.apply(op, Date::from(self.clock.now()), tokens, &mut Nothing)
    }
}

#[async_trait]
impl Engine for Memory {
    async fn call(&self, op: Op) -> Result<Reply<Data>, Error> {
        let reply = self.apply(&op)?;
        if matches!(reply, Reply::Added(_)) {
            self.alarm.ring();
        }
        Ok(reply)
    }

    fn now(&self) -> Date {
        Date::from(self.clock.now())
    }

    fn wakes(&self) -> Wakes {
        self.alarm.listen()
    }

    fn declaration(&self) -> Declaration {
        self.inner()
            .as_ref()
            .map(|inner| inner.state.declaration().1.clone())
            .unwrap_or_default()
    }

    fn health(&self) -> Health {
        Health::Good
    }

    async fn close(&self) {
        self.inner().take();
        self.alarm.close();
    }
}

/// A ledger that keeps nothing: the data is its own handle.
struct Nothing;

impl Ledger<Data> for Nothing {
    fn put(&mut self, _whole: &Whole, data: &Data) -> Data {
        data.clone()
    }

    fn note(&mut self, _effect: &Effect) {}

    fn free(&mut self, _data: &Data) {}
}
