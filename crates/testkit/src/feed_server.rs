//! An HTTP server on loopback that does what a test scripts for each path, well or badly.
//!
//! It speaks HTTP by hand, one request to a connection: a server library would refuse to send a wrong length, to stop in
//! the middle or to say nothing at all, and that is what this one is for.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cannery_runtime::Clock;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

use crate::{Error, Result};

mod behaviour;
mod gzip;
mod request;
#[cfg(test)]
mod tests;

pub use behaviour::Behaviour;
pub use request::Request;

/// The server. Dropping it closes every connection.
#[derive(Debug)]
pub struct FeedServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    clock: Clock,
    paths: Mutex<HashMap<String, Script>>,
}

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
        let listening = Error::io("listen for feeds on a free port");
        let listener = TcpListener::bind(("127.0.0.1", 0)).await;
        let listener = listener.map_err(listening)?;
        let address = listener
            .local_addr()
            .map_err(Error::io("name the feed server's port"))?;
        let paths = Mutex::default();
        let shared = Arc::new(Shared { clock, paths });
        let accepting = tokio::spawn(accept(listener, Arc::clone(&shared)));
        Ok(Self {
            address,
            shared,
            accepting,
        })
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
        format!("http://{}{path}", self.address)
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
}

impl Drop for FeedServer {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

impl Shared {
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

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // Dropped with this task, and its connections with it.
    let mut connections = JoinSet::new();
    while let Ok((stream, _)) = listener.accept().await {
        connections.spawn(serve(stream, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

async fn serve(mut stream: TcpStream, shared: Arc<Shared>) {
    let Some(request) = request::read(&mut stream).await else {
        return;
    };
    let (behaviour, before) = shared.note(request.clone());
    let behaviour = behaviour.unwrap_or(Behaviour::Status(404));
    // A client that goes away in the middle is part of the game.
    let answered =
        behaviour::answer(&behaviour, &request, before, &mut stream, &shared.clock).await;
    if answered.is_ok() {
        drop(stream.shutdown().await);
    }
}
