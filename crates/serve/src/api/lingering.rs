//! A refusal of an upload under way goes on taking what the client sends for a moment: a connection that is closed over bytes that
//! nobody read is reset, and the client may never see why.

use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody};
use axum::extract::Request;
use axum::response::Response;
use cannery_runtime::Clock;
use futures::future::BoxFuture;
use http::header::{CONTENT_LENGTH, EXPECT};
use hyper::body::{Frame, SizeHint};

/// How long what comes is still taken.
const LINGER: Duration = Duration::from_secs(2);

/// The body of a request; clones are the same one.
#[derive(Clone)]
pub(super) struct SharedBody {
    body: Arc<Mutex<Body>>,
    /// Whether anybody has begun to read it: a client that waits to be asked was asked by that.
    was_asked_for: Arc<AtomicBool>,
}

/// The same request, and its body for what may be left of it.
pub(super) fn share(request: Request) -> (Request, SharedBody) {
    let (head, body) = request.into_parts();
    let shared = SharedBody {
        body: Arc::new(Mutex::new(body)),
        was_asked_for: Arc::default(),
    };
    let body = Body::new(shared.clone());
    (Request::from_parts(head, body), shared)
}

impl SharedBody {
    fn with<T>(&self, work: impl FnOnce(&mut Body) -> T) -> T {
        work(&mut self.body.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl HttpBody for SharedBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        self.was_asked_for.store(true, Ordering::Relaxed);
        self.with(|body| Pin::new(body).poll_frame(context))
    }

    fn is_end_stream(&self) -> bool {
        self.with(|body| body.is_end_stream())
    }

    fn size_hint(&self) -> SizeHint {
        self.with(|body| body.size_hint())
    }
}

/// The answer, which ends when the request has, or after a moment. A client that still waits to be asked for its body sends none.
pub(super) fn linger(
    mut response: Response,
    leftover: SharedBody,
    (expects, clock): (bool, &Clock),
) -> Response {
    let still_waits = expects && !leftover.was_asked_for.load(Ordering::Relaxed);
    if still_waits || leftover.is_end_stream() {
        return response;
    }
    // Its length would end it at once.
    response.headers_mut().remove(CONTENT_LENGTH);
    let clock = clock.clone();
    let moment = async move {
        let never = std::future::pending::<()>();
        clock.timeout(LINGER, never).await.ok();
    };
    response.map(|body| {
        Body::new(LingeringBody {
            body,
            leftover,
            moment: Box::pin(moment),
        })
    })
}

/// Whether the client waits to be asked.
pub(super) fn expects(request: &Request) -> bool {
    request.headers().contains_key(EXPECT)
}

struct LingeringBody {
    body: Body,
    leftover: SharedBody,
    moment: BoxFuture<'static, ()>,
}

impl HttpBody for LingeringBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if !self.body.is_end_stream()
            && let Some(frame) = ready!(Pin::new(&mut self.body).poll_frame(context))
        {
            return Poll::Ready(Some(frame));
        }
        loop {
            if self.moment.as_mut().poll(context).is_ready() {
                return Poll::Ready(None);
            }
            match ready!(Pin::new(&mut self.leftover).poll_frame(context)) {
                Some(Ok(_)) => {}
                Some(Err(_)) | None => return Poll::Ready(None),
            }
        }
    }
}
