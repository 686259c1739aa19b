//! The side of a process that does not own the journal.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cannery_runtime::Clock;
use tokio::sync::Mutex;

use super::frame::{self, REQUEST_BYTES_MAX, Request};
use crate::data::Data;
use crate::date::Date;
use crate::declaration::Declaration;
use crate::engine::{Engine, Health};
use crate::error::{Error, ErrorKind};
use crate::op::{Op, Reply};
use crate::wake::{Alarm, Wakes};

mod link;

use link::Link;

/// How long a server may take to greet: it does nothing else then, so a longer silence is a process that hangs.
const GREET_LIMIT: Duration = Duration::from_secs(10);

/// How long an owner may take to answer a request: no operation takes as long, so a longer silence is a process that hangs.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);

/// A journal behind the socket of the process that owns it.
///
/// A lost connection is opened again by the next request. One on which a request is not answered within a minute is dropped:
/// the owner hangs. Requests that were under way are `Unavailable`: they may or may
/// not have been done. Listeners are woken when a connection is lost, and when there is a new one.
#[derive(Debug)]
pub struct Remote {
    socket: PathBuf,
    clock: Clock,
    answer_limit: Duration,
    next_id: AtomicU64,
    news: Arc<News>,
    state: Mutex<State>,
}

#[derive(Debug)]
enum State {
    Open(Arc<Link>),
    Closed,
}

/// What the server told without being asked.
#[derive(Debug)]
struct News {
    /// Nothing once the journal is closed here.
    alarm: std::sync::Mutex<Option<Alarm>>,
    declaration: std::sync::Mutex<Declaration>,
    health: std::sync::Mutex<Health>,
}

impl News {
    fn ring(&self) {
        if let Some(alarm) = lock(&self.alarm).as_ref() {
            alarm.ring();
        }
    }
}

fn lock<T>(of: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Remote {
    /// Connects to the process that serves `socket`.
    ///
    /// # Errors
    /// `Unavailable` when nobody serves it or answers, `Denied` when it belongs to somebody else, `Locked` when its process
    /// speaks another protocol.
    pub async fn connect(socket: &Path, clock: Clock) -> Result<Arc<Self>, Error> {
        Self::connect_within(socket, clock, ANSWER_LIMIT).await
    }

    /// The same with another limit for the answer to each request; a minute is usual.
    ///
    /// # Errors
    /// As [`Remote::connect`].
    pub async fn connect_within(
        socket: &Path,
        clock: Clock,
        answer_limit: Duration,
    ) -> Result<Arc<Self>, Error> {
        let news = Arc::new(News {
            alarm: std::sync::Mutex::new(Some(Alarm::new())),
            declaration: std::sync::Mutex::default(),
            health: std::sync::Mutex::new(Health::Good),
        });
        let link = open(socket, &news).await?;
        Ok(Arc::new(Self {
            socket: socket.to_owned(),
            clock,
            answer_limit,
            next_id: AtomicU64::new(1),
            news,
            state: Mutex::new(State::Open(Arc::new(link))),
        }))
    }

    /// The connection; a new one where it was lost. All callers wait for the same attempt.
    async fn link(&self) -> Result<Arc<Link>, Error> {
        let mut state = self.state.lock().await;
        let link = match &*state {
            State::Closed => return Err(closed()),
            State::Open(link) => link,
        };
        if !link.is_over() {
            return Ok(Arc::clone(link));
        }
        let link = Arc::new(open(&self.socket, &self.news).await?);
        *state = State::Open(Arc::clone(&link));
        // Nobody knows what was missed.
        self.news.ring();
        Ok(link)
    }

    /// Makes sure that there is a connection.
    ///
    /// # Errors
    /// As [`Remote::connect`]; nothing was asked of the owner then.
    pub async fn reach(&self) -> Result<(), Error> {
        self.link().await.map(drop)
    }

    /// Sends a request and waits for its answer, but not for ever.
    async fn ask(&self, id: u64, request: Vec<u8>) -> Result<Reply<Data>, Error> {
        let mut asked = None;
        let answer = async {
            let link = asked.insert(self.link().await?);
            link.ask(id, request).await
        };
        // The other side lives in real time, whatever the clock of the journal is.
        let answered = Clock::real().timeout(self.answer_limit, answer).await;
        match (answered, asked) {
            (Ok(answer), _) => answer,
            (Err(late), None) => Err(unreachable(&self.socket, late)),
            (Err(_), Some(link)) => {
                // Who is silent for so long will not answer the others either; the next request connects anew.
                link.close().await;
                Err(unanswered(self.answer_limit))
            }
        }
    }
}

async fn open(socket: &Path, news: &Arc<News>) -> Result<Link, Error> {
    // The other side lives in real time, whatever the clock of the journal is.
    let greeted = Clock::real()
        .timeout(GREET_LIMIT, Link::open(socket, Arc::clone(news)))
        .await;
    match greeted {
        Ok(link) => link,
        Err(late) => Err(unreachable(socket, late)),
    }
}

fn unreachable(socket: &Path, why: impl fmt::Display) -> Error {
    let socket = socket.display();
    Error::new(
        ErrorKind::Unavailable,
        format!("cannot reach the process that owns the journal at socket `{socket}`: {why}"),
    )
}

fn unanswered(limit: Duration) -> Error {
    let seconds = limit.as_secs_f64();
    Error::new(
        ErrorKind::Unavailable,
        format!(
            "no answer from the owner within {seconds} s; the request may or may not have been done"
        ),
    )
}

fn cannot_connect(socket: &Path, error: &io::Error) -> Error {
    let mut failed = unreachable(socket, error);
    if error.kind() == io::ErrorKind::PermissionDenied {
        failed.kind = ErrorKind::Denied;
    }
    failed
}

fn closed() -> Error {
    Error::new(ErrorKind::Closed, "the journal is closed")
}

#[async_trait]
impl Engine for Remote {
    async fn call(&self, op: Op) -> Result<Reply<Data>, Error> {
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let request = frame::pack(&Request { id, op: &op }, REQUEST_BYTES_MAX)
            .map_err(|error| Error::invalid(format!("the request cannot be sent: {error}")))?;
        let Some(request) = request else {
            return Err(Error::invalid(format!(
                "the request has more than {REQUEST_BYTES_MAX} bytes; split it"
            )));
        };
        self.ask(id, request).await
    }

    /// The owner is on this machine and has the same time.
    fn now(&self) -> Date {
        Date::from(self.clock.now())
    }

    fn wakes(&self) -> Wakes {
        let alarm = lock(&self.news.alarm);
        alarm
            .as_ref()
            .map_or_else(|| Alarm::new().listen(), Alarm::listen)
    }

    fn declaration(&self) -> Declaration {
        lock(&self.news.declaration).clone()
    }

    fn health(&self) -> Health {
        lock(&self.news.health).clone()
    }

    async fn close(&self) {
        let before = std::mem::replace(&mut *self.state.lock().await, State::Closed);
        // First, so that the end of the connection is not taken for a lost one.
        lock(&self.news.alarm).take();
        if let State::Open(link) = before {
            link.close().await;
        }
        *lock(&self.news.health) = Health::Bad(closed().message);
    }
}
