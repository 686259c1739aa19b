//! One connection: what a client may hold, and what each of its requests carries.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use cannery_runtime::Clock;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::Watcher;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tower::ServiceExt as _;
use tower::util::Oneshot;

use super::file_stream::{FileQueue, FileStream};
use super::tls::Tls;
use crate::stall::StallGuard;
use crate::timer::ClockTimer;

/// Also the time an idle connection is kept open.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
const HEADER_BYTES_MAX: usize = 32 * 1024;
const HEADERS_MAX: usize = 64;
/// How long a client may leave an answer unread.
const STALL_TIMEOUT: Duration = Duration::from_secs(60);

/// How a request came.
#[derive(Clone, Debug)]
pub(crate) struct ConnectionOrigin {
    /// Who is at the other end.
    pub(crate) peer: SocketAddr,
    /// Whether nobody in between can read it.
    pub(crate) is_encrypted: bool,
    /// What its answers may send without reading it; nothing if they are encrypted.
    pub(crate) files: Option<FileQueue>,
    api_share: Arc<ApiShare>,
}

/// Whether a connection is one of those that the API may hold.
#[derive(Debug)]
struct ApiShare {
    slots: Arc<Semaphore>,
    taken: Mutex<Option<OwnedSemaphorePermit>>,
}

impl ConnectionOrigin {
    /// One that no listener has accepted.
    #[cfg(test)]
    pub(crate) fn of(peer: SocketAddr, is_encrypted: bool) -> Self {
        let api_share = ApiShare {
            slots: Arc::new(Semaphore::new(1)),
            taken: Mutex::new(None),
        };
        Self {
            peer,
            is_encrypted,
            files: None,
            api_share: Arc::new(api_share),
        }
    }

    /// Whether a request of the API may be answered on this connection, which then counts as the API's until it ends: one that
    /// is kept open is held as well.
    pub(crate) fn may_use_api(&self) -> bool {
        let share = &self.api_share;
        let mut taken = share.taken.lock().unwrap_or_else(PoisonError::into_inner);
        if taken.is_none() {
            *taken = Arc::clone(&share.slots).try_acquire_owned().ok();
        }
        taken.is_some()
    }
}

/// What the connections of a listener share.
pub(super) struct ConnectionParts {
    pub(super) router: Router,
    pub(super) api_slots: Arc<Semaphore>,
    pub(super) clock: Clock,
    pub(super) tls: Option<Arc<Tls>>,
}

impl ConnectionParts {
    /// Answers the requests of a connection until it ends, or `watcher` asks for the last one.
    pub(super) async fn serve(&self, stream: TcpStream, peer: SocketAddr, watcher: Watcher) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot switch off Nagle's algorithm");
        }
        let ended = match &self.tls {
            None => {
                let files = FileQueue::default();
                let stream = FileStream::new(stream, files.clone());
                watcher
                    .watch(self.connection(stream, peer, Some(&files)))
                    .await
            }
            Some(tls) => match tls.accept(stream).await {
                Ok(stream) => watcher.watch(self.connection(stream, peer, None)).await,
                Err(error) => {
                    return tracing::debug!(%error, "a client did not get through the handshake");
                }
            },
        };
        // What a client does to its own connection is no concern of the operator.
        if let Err(error) = ended {
            tracing::debug!(%error, "connection ended early");
        }
    }

    /// One that is encrypted has no files that are sent as they are.
    fn connection<S>(
        &self,
        stream: S,
        peer: SocketAddr,
        files: Option<&FileQueue>,
    ) -> http1::Connection<TokioIo<StallGuard<S>>, ConnectionService>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let stream = StallGuard::new(stream, self.clock.clone(), STALL_TIMEOUT);
        let api_share = ApiShare {
            slots: Arc::clone(&self.api_slots),
            taken: Mutex::new(None),
        };
        let service = ConnectionService {
            router: self.router.clone(),
            origin: ConnectionOrigin {
                peer,
                is_encrypted: files.is_none(),
                files: files.cloned(),
                api_share: Arc::new(api_share),
            },
        };
        // HTTP/1 alone, not hyper-util's choice of version: while that waits for the first bytes, no time-out runs.
        http1::Builder::new()
            .timer(ClockTimer::new(self.clock.clone()))
            .header_read_timeout(HEADER_TIMEOUT)
            .max_header_size(HEADER_BYTES_MAX)
            .max_headers(HEADERS_MAX)
            .max_buf_size(2 * HEADER_BYTES_MAX)
            .writev(files.is_some())
            .serve_connection(TokioIo::new(stream), service)
    }
}

/// The routes, for the requests of one connection: each carries how it came.
struct ConnectionService {
    router: Router,
    origin: ConnectionOrigin,
}

impl hyper::service::Service<http::Request<Incoming>> for ConnectionService {
    type Response = axum::response::Response;
    type Error = std::convert::Infallible;
    type Future = Oneshot<Router, http::Request<Incoming>>;

    fn call(&self, mut request: http::Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(self.origin.clone());
        self.router.clone().oneshot(request)
    }
}
