//! The accept loop: binding, limits on what a client may hold, and stopping without cutting off an answer.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use cannery_runtime::Clock;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::stall::StallGuard;
use crate::timer::ClockTimer;

/// Per listener, so that a crowd on one cannot lock out the other. Further clients wait in the backlog.
const CONNECTIONS_MAX: usize = 256;
/// Also the time an idle connection is kept open.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_BYTES_MAX: usize = 32 * 1024;
const HEADERS_MAX: usize = 64;
/// How long a client may leave an answer unread.
const STALL_TIMEOUT: Duration = Duration::from_secs(30);
/// How long requests under way may take once the listener was asked to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
/// The pause after a failure to accept, which is most often a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// For whom a listener is, which decides what it lets through.
///
/// Routes that read are the same for all. Routes that write exist for `Admin` only: see `Guard` for the methods and
/// `routes::router` for the routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Audience {
    /// `serve.listen`: the dashboard and the API.
    Main,
    /// `serve.monitoring_listen`: only what reads; safe to expose.
    Monitoring,
    /// `serve.admin_listen`: an operator of this process, who may shut it down. Whoever reaches it is taken for one.
    Admin,
}

impl Audience {
    fn how_to_move(self) -> &'static str {
        match self {
            Self::Main => "set `serve.listen` in the configuration, or `--listen`",
            Self::Monitoring => {
                "set `serve.monitoring_listen` in the configuration, or `--monitoring-port`"
            }
            Self::Admin => "set `serve.admin_listen` in the configuration",
        }
    }
}

impl fmt::Display for Audience {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Main => "main",
            Self::Monitoring => "monitoring",
            Self::Admin => "admin",
        })
    }
}

/// An address could not be bound.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on `{address}`: {}; {}", why(.source), .audience.how_to_move())]
pub struct ListenError {
    /// The address asked for.
    pub address: SocketAddr,
    /// Whose listener it was to be.
    pub audience: Audience,
    source: io::Error,
}

fn why(error: &io::Error) -> String {
    #[allow(
        clippy::wildcard_enum_match_arm,
        reason = "the kinds of the standard library are open"
    )]
    match error.kind() {
        io::ErrorKind::AddrInUse => "address in use".into(),
        io::ErrorKind::AddrNotAvailable => "this machine has no such address".into(),
        io::ErrorKind::PermissionDenied => "not permitted (ports below 1024 are privileged)".into(),
        _ => error.to_string(),
    }
}

/// Binds `address`; the listener takes connections from now on, [`run`] answers them.
pub(crate) async fn bind(
    address: SocketAddr,
    audience: Audience,
) -> Result<(TcpListener, SocketAddr), ListenError> {
    let failed = |source| ListenError {
        address,
        audience,
        source,
    };
    let listener = TcpListener::bind(address).await.map_err(failed)?;
    let bound = listener.local_addr().map_err(failed)?;
    Ok((listener, bound))
}

/// Answers connections until `stop`, then lets requests under way finish for a bounded time.
pub(crate) async fn run(
    listener: TcpListener,
    router: Router,
    clock: Clock,
    stop: CancellationToken,
) {
    run_limited(listener, router, clock, stop, CONNECTIONS_MAX).await;
}

async fn run_limited(
    listener: TcpListener,
    router: Router,
    clock: Clock,
    stop: CancellationToken,
    most: usize,
) {
    let slots = Arc::new(Semaphore::new(most));
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = connections.join_next() => report(ended),
            (stream, slot) = accept(&listener, &slots, &clock) => {
                let connection = graceful.watch(connection(stream, &router, &clock));
                connections.spawn(async move {
                    let ended = connection.await;
                    drop(slot);
                    ended
                });
            }
        }
    }
    drop(listener);
    if clock
        .timeout(STOP_TIMEOUT, graceful.shutdown())
        .await
        .is_err()
    {
        tracing::warn!("requests did not finish in time and are cut off");
    }
}

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
    clock: &Clock,
) -> (TcpStream, OwnedSemaphorePermit) {
    let slot = Arc::clone(slots)
        .acquire_owned()
        .await
        .expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, slot),
            Err(error) if is_of_the_client(&error) => {}
            Err(error) => {
                tracing::error!(%error, "cannot accept a connection; trying again");
                clock.sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

fn is_of_the_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(
        error.kind(),
        ConnectionAborted | ConnectionRefused | ConnectionReset
    )
}

type Connection = http1::Connection<TokioIo<StallGuard<TcpStream>>, TowerToHyperService<Router>>;

fn connection(stream: TcpStream, router: &Router, clock: &Clock) -> Connection {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "cannot switch off Nagle's algorithm");
    }
    let stream = StallGuard::new(stream, clock.clone(), STALL_TIMEOUT);
    // HTTP/1 alone, not hyper-util's choice of version: while that waits for the first bytes, no time-out runs.
    http1::Builder::new()
        .timer(ClockTimer::new(clock.clone()))
        .header_read_timeout(HEADER_TIMEOUT)
        .max_header_size(HEADER_BYTES_MAX)
        .max_headers(HEADERS_MAX)
        .max_buf_size(2 * HEADER_BYTES_MAX)
        .serve_connection(
            TokioIo::new(stream),
            TowerToHyperService::new(router.clone()),
        )
}

/// What a client does to its own connection is no concern of the operator; a panic is.
fn report(ended: Result<hyper::Result<()>, JoinError>) {
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "connection ended early"),
        Err(error) => tracing::error!(%error, "connection failed"),
    }
}

#[cfg(test)]
mod tests;
