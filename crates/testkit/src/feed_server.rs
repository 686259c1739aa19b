//! An HTTP server on loopback that does what a test scripts for each path, well or badly.
//!
//! It speaks HTTP by hand, one request to a connection unless [`FeedServer::keep_alive`]: a server library would refuse to
//! send a wrong length, to stop in the middle or to say nothing at all, and that is what this one is for.

use std::collections::HashMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cannery_runtime::Clock;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::{Error, Result};

mod behaviour;
mod gzip;
mod pack;
mod request;
#[cfg(test)]
mod tests;
mod tls;

pub use behaviour::Behaviour;
pub use pack::{Coding, pack};
pub use request::Request;
pub use tls::Identity;

/// The server. Dropping it closes every connection.
#[derive(Debug)]
pub struct FeedServer {
    address: SocketAddr,
    identity: Option<Identity>,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    keep_alive: AtomicBool,
    accepted: AtomicUsize,
    open: AtomicUsize,
    paths: Mutex<HashMap<String, Script>>,
}

/// Plain TCP or TLS.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

#[derive(Debug, Default)]
struct Script {
    behaviour: Option<Behaviour>,
    /// Requests since the behaviour was set.
    served: usize,
    seen: Vec<Request>,
}

impl FeedServer {
    /// Starts on a free port of 127.0.0.1; every path answers 404 until [`FeedServer::on`].
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start() -> Result<Self> {
        Self::start_with(Clock::real()).await
    }

    /// As [`FeedServer::start`]; slow answers pause on `clock`.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start_with(clock: Clock) -> Result<Self> {
        Self::start_on((Ipv4Addr::LOCALHOST, 0).into(), clock, None).await
    }

    /// As [`FeedServer::start`], with TLS.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn start_tls(identity: Identity) -> Result<Self> {
        let address = (Ipv4Addr::LOCALHOST, 0).into();
        Self::start_on(address, Clock::real(), Some(identity)).await
    }

    /// Starts on an address of this machine, such as 127.0.0.2; port 0 is any.
    ///
    /// # Errors
    /// When the port cannot be had.
    pub async fn start_on(
        address: SocketAddr,
        clock: Clock,
        identity: Option<Identity>,
    ) -> Result<Self> {
        let listening = Error::io("listen for feeds");
        let listener = TcpListener::bind(address).await.map_err(listening)?;
        let address = listener
            .local_addr()
            .map_err(Error::io("name the feed server's port"))?;
        let shared = Arc::new(Shared::new(clock));
        let accepting = tokio::spawn(accept(listener, identity.clone(), Arc::clone(&shared)));
        Ok(Self {
            address,
            identity,
            shared,
            accepting,
        })
    }

    /// Whether a connection is kept for the next request. It is not, at first.
    pub fn keep_alive(&self, keep: bool) {
        self.shared.keep_alive.store(keep, Ordering::SeqCst);
    }

    /// How many connections were accepted so far.
    #[must_use]
    pub fn accepted(&self) -> usize {
        self.shared.accepted.load(Ordering::SeqCst)
    }

    /// How many connections are open now, as far as the server has noticed.
    #[must_use]
    pub fn open(&self) -> usize {
        self.shared.open.load(Ordering::SeqCst)
    }

    /// Where it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Sets what `path` does from the next request on.
    pub fn on(&self, path: &str, behaviour: Behaviour) {
        let mut paths = self.shared.paths();
        let script = paths.entry(path.to_owned()).or_default();
        script.behaviour = Some(behaviour);
        script.served = 0;
    }

    /// The address of `path`, which starts with a slash.
    #[must_use]
    pub fn url(&self, path: &str) -> String {
        self.url_as(&self.address.ip().to_string(), path)
    }

    /// As [`FeedServer::url`], under another name for this machine.
    #[must_use]
    pub fn url_as(&self, host: &str, path: &str) -> String {
        let scheme = self.identity.as_ref().map_or("http", |_| "https");
        format!("{scheme}://{host}:{}{path}", self.port())
    }

    /// The requests that `path` has seen, oldest first.
    #[must_use]
    pub fn requests(&self, path: &str) -> Vec<Request> {
        let paths = self.shared.paths();
        paths
            .get(path)
            .map(|script| script.seen.clone())
            .unwrap_or_default()
    }

    /// How many requests `path` has seen.
    #[must_use]
    pub fn request_count(&self, path: &str) -> usize {
        let paths = self.shared.paths();
        paths.get(path).map_or(0, |script| script.seen.len())
    }
}

impl Drop for FeedServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
    fn new(clock: Clock) -> Self {
        Self {
            clock,
            keep_alive: AtomicBool::new(false),
            accepted: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            paths: Mutex::default(),
        }
    }

    fn paths(&self) -> MutexGuard<'_, HashMap<String, Script>> {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes the request; returns what to do and how many requests the behaviour has answered before.
    fn note(&self, request: Request) -> (Option<Behaviour>, usize) {
        let mut paths = self.paths();
        let script = paths.entry(request.path().to_owned()).or_default();
        let before = script.served;
        script.served += 1;
        script.seen.push(request);
        (script.behaviour.clone(), before)
    }
}

async fn accept(listener: TcpListener, identity: Option<Identity>, shared: Arc<Shared>) {
    // Dropped with this task, and its connections with it.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        let open = Open::count(&shared);
        connections.spawn(serve(stream, identity.clone(), open));
        while connections.try_join_next().is_some() {}
    }
}

/// One connection, counted as long as it is served.
struct Open(Arc<Shared>);

impl Open {
    fn count(shared: &Arc<Shared>) -> Self {
        shared.accepted.fetch_add(1, Ordering::SeqCst);
        shared.open.fetch_add(1, Ordering::SeqCst);
        Self(Arc::clone(shared))
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::SeqCst);
    }
}

async fn serve(stream: TcpStream, identity: Option<Identity>, open: Open) {
    match identity {
        None => converse(stream, &open.0).await,
        Some(identity) => {
            // A client that has no trust goes away here.
            if let Ok(stream) = identity.accept(stream).await {
                converse(stream, &open.0).await;
            }
        }
    }
}

async fn converse(mut stream: impl Stream, shared: &Shared) {
    while let Some(request) = request::read(&mut stream).await {
        let (behaviour, before) = shared.note(request.clone());
        let behaviour = behaviour.unwrap_or(Behaviour::Status(404));
        let behaviour = behaviour.at(before);
        let keep = shared.keep_alive.load(Ordering::SeqCst);
        let turn = behaviour::Turn {
            request: &request,
            before,
            keep,
            clock: &shared.clock,
        };
        // A client that goes away in the middle is part of the game.
        let answered = behaviour::answer(behaviour, turn, &mut stream).await;
        if !keep || answered.is_err() || behaviour.closes() {
            break;
        }
    }
    drop(stream.shutdown().await);
}
