//! The Chrome DevTools Protocol over a pair of pipes: JSON messages, each ended by a NUL.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_runtime::Clock;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::{oneshot, watch};
use tokio::task::JoinHandle;

use crate::{Error, Result};

/// For every single command and event.
const LIMIT: Duration = Duration::from_secs(60);
const EVENTS_MAX: usize = 10_000;

/// A connection to a browser.
#[derive(Debug)]
pub(super) struct Cdp {
    commands: tokio::sync::Mutex<Sender>,
    shared: Arc<Shared>,
    last_id: AtomicU64,
    reading: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    inbox: Mutex<Inbox>,
    /// The number of events, for those who wait for one.
    arrived: watch::Sender<usize>,
}

#[derive(Debug, Default)]
struct Inbox {
    waiting: HashMap<u64, oneshot::Sender<Value>>,
    events: Vec<Value>,
    closed: bool,
}

impl Cdp {
    pub(super) fn new(commands: OwnedFd, answers: OwnedFd) -> io::Result<Arc<Self>> {
        let commands = tokio::sync::Mutex::new(Sender::from_owned_fd(commands)?);
        let answers = Receiver::from_owned_fd(answers)?;
        let shared = Arc::new(Shared {
            inbox: Mutex::default(),
            arrived: watch::Sender::new(0),
        });
        let reading = tokio::spawn(read(answers, Arc::clone(&shared)));
        Ok(Arc::new(Self {
            commands,
            shared,
            last_id: AtomicU64::new(0),
            reading,
        }))
    }

    /// Sends a command, to a page when `session` names one, and waits for its result.
    pub(super) async fn call(
        &self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Value> {
        let doing = || format!("call `{method}` of the browser");
        let answer = Clock::real()
            .timeout(LIMIT, self.exchange(session, method, params))
            .await;
        let answer = answer
            .map_err(|late| Error::failed(doing(), &late))?
            .map_err(Error::io(doing()))?;
        match answer.get("error") {
            Some(error) => Err(Error::failed(doing(), &error)),
            None => Ok(answer["result"].clone()),
        }
    }

    async fn exchange(
        &self,
        session: Option<&str>,
        method: &str,
        params: Value,
    ) -> io::Result<Value> {
        let id = self.last_id.fetch_add(1, Ordering::Relaxed) + 1;
        let mut message = json!({"id": id, "method": method, "params": params});
        if let Some(session) = session {
            message["sessionId"] = session.into();
        }
        let (sender, receiver) = oneshot::channel();
        {
            let mut inbox = self.shared.inbox();
            if inbox.closed {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            inbox.waiting.insert(id, sender);
        }
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        self.commands.lock().await.write_all(&bytes).await?;
        receiver.await.map_err(|_| io::ErrorKind::BrokenPipe.into())
    }

    /// The events of a page so far, oldest first.
    pub(super) fn events(&self, session: &str) -> Vec<Value> {
        let inbox = self.shared.inbox();
        inbox
            .events
            .iter()
            .filter(|event| event["sessionId"] == session)
            .cloned()
            .collect()
    }

    /// Waits for an event of a page that `is_it`, past ones included.
    pub(super) async fn wait_for(
        &self,
        session: &str,
        is_it: impl Fn(&Value) -> bool,
    ) -> Result<()> {
        let mut arrived = self.shared.arrived.subscribe();
        let search = async {
            while !self.events(session).iter().any(&is_it) {
                if self.shared.inbox().closed || arrived.changed().await.is_err() {
                    return Err(Error::failed("wait for the browser", &"it has ended"));
                }
            }
            Ok(())
        };
        let found = Clock::real().timeout(LIMIT, search).await;
        found.map_err(|late| Error::failed("wait for an event of the browser", &late))?
    }
}

impl Drop for Cdp {
    fn drop(&mut self) {
        self.reading.abort();
    }
}

impl Shared {
    fn inbox(&self) -> MutexGuard<'_, Inbox> {
        self.inbox.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, message: Value) {
        let mut inbox = self.inbox();
        if let Some(id) = message["id"].as_u64() {
            if let Some(waiting) = inbox.waiting.remove(&id) {
                // Whoever asked may have given up.
                drop(waiting.send(message));
            }
        } else if inbox.events.len() < EVENTS_MAX {
            inbox.events.push(message);
        }
        self.arrived.send_replace(inbox.events.len());
    }
}

async fn read(answers: Receiver, shared: Arc<Shared>) {
    let mut answers = BufReader::new(answers);
    let mut message = Vec::new();
    while matches!(answers.read_until(0, &mut message).await, Ok(length) if length > 0) {
        message.pop();
        if let Ok(value) = serde_json::from_slice(&message) {
            shared.take(value);
        }
        message.clear();
    }
    let mut inbox = shared.inbox();
    inbox.closed = true;
    // Dropping the senders wakes everybody with an error.
    inbox.waiting.clear();
    shared.arrived.send_replace(inbox.events.len());
}
