//! The accept loop: binding, limits on what a client may hold, and stopping without cutting off an answer.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use cannery_runtime::Clock;
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;

mod connection;
mod file_stream;
mod limits;
mod tls;

pub(crate) use connection::ConnectionOrigin;
use connection::ConnectionParts;
pub(crate) use file_stream::FileQueue;
pub(crate) use limits::ConnectionLimits;
pub(crate) use tls::Tls;
pub use tls::{TlsError, TlsFiles};

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

/// Why nothing answers at an address.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The address could not be bound.
    #[error("cannot listen on `{address}`: {}; {}", why(.source), .audience.how_to_move())]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// Whose listener it was to be.
        audience: Audience,
        /// What the system says.
        source: io::Error,
    },
    /// The files for TLS cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
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
    let failed = |source| ListenError::Bind {
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
    limits: ConnectionLimits,
    tls: Option<Arc<Tls>>,
) {
    let slots = Arc::new(Semaphore::new(limits.connections));
    let served = Arc::new(ConnectionParts {
        router,
        api_slots: Arc::new(Semaphore::new(limits.api_connections)),
        clock: clock.clone(),
        tls,
    });
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            () = stop.cancelled() => break,
            Some(ended) = connections.join_next() => report(ended),
            (stream, peer, slot) = accept(&listener, &slots, &clock) => {
                let (served, watcher) = (Arc::clone(&served), graceful.watcher());
                connections.spawn(async move {
                    served.serve(stream, peer, watcher).await;
                    drop(slot);
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
) -> (TcpStream, SocketAddr, OwnedSemaphorePermit) {
    let slot = Arc::clone(slots)
        .acquire_owned()
        .await
        .expect("the semaphore is never closed");
    loop {
        match listener.accept().await {
            Ok((stream, peer)) => return (stream, peer, slot),
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

fn report(ended: Result<(), JoinError>) {
    if let Err(error) = ended {
        tracing::error!(%error, "connection failed");
    }
}

#[cfg(test)]
mod tests;
