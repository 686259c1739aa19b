//! What every request must pass, and what every answer carries.

use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;
use futures::FutureExt as _;
use http::header;
use http::{HeaderMap, HeaderValue, Method, StatusCode};

use crate::admin;
use crate::page;
use crate::server::Audience;
use crate::shell::Parts;

mod host;
mod origin;
mod redact;

/// The largest request body. Routes that read one through an extractor are held to it by axum's body limit.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// No inline script or style passes, nothing is loaded from elsewhere, no other page frames us.
const POLICY: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; font-src 'self'; \
                      connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
const POLICY_WITH_FORMS: &str = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; font-src 'self'; \
                                 connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

/// Carried by every answer, with a policy.
const HEADERS: [(&str, &str); 3] = [
    ("x-content-type-options", "nosniff"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

/// Marks an answer whose bytes are data and not text of ours: it is not searched for secrets, and may be a stream.
#[derive(Clone, Copy, Debug)]
pub struct Verbatim;

/// The guard of one listener.
#[derive(Clone)]
pub(crate) struct Guard {
    parts: Arc<Parts>,
    audience: Audience,
    on_loopback: bool,
}

impl Guard {
    pub(crate) fn new(parts: &Arc<Parts>, audience: Audience, bound: SocketAddr) -> Self {
        Self {
            parts: Arc::clone(parts),
            audience,
            on_loopback: bound.ip().to_canonical().is_loopback(),
        }
    }

    /// Whether the listener has a route at this path that writes, and none that reads.
    fn writes_at(&self, path: &str) -> bool {
        match self.audience {
            Audience::Main | Audience::Monitoring => false,
            Audience::Admin => self.parts.on_shutdown.is_some() && path == admin::SHUTDOWN,
        }
    }

    fn policies(&self) -> [(&'static str, &'static str); 2] {
        let (content, referrer) = match self.audience {
            Audience::Main | Audience::Monitoring => (POLICY, "no-referrer"),
            // With `no-referrer` a browser hides the origin of our own form from us.
            Audience::Admin => (POLICY_WITH_FORMS, "same-origin"),
        };
        [
            ("content-security-policy", content),
            ("referrer-policy", referrer),
        ]
    }

    /// The answer to a method that does not fit the address.
    fn wrong_method(&self, request: &Request) -> Option<Response> {
        let (methods, allow, text): (&[Method], _, _) = if self.writes_at(request.uri().path()) {
            let text = "this address only writes: use POST\n";
            (&[Method::POST], "POST", text)
        } else {
            let text = "this address only reads: use GET or HEAD\n";
            (&[Method::GET, Method::HEAD], "GET, HEAD", text)
        };
        if methods.contains(request.method()) {
            return None;
        }
        let mut response = page::text(StatusCode::METHOD_NOT_ALLOWED, text);
        response
            .headers_mut()
            .insert(header::ALLOW, HeaderValue::from_static(allow));
        Some(response)
    }

    /// The answer to a request that no handler shall see.
    fn refusal(&self, request: &Request) -> Option<Response> {
        if self.on_loopback && !host::is_local(request) {
            // Otherwise any web page could rebind its own name to this address and read the dashboard.
            let text = "this address answers to localhost only; open it as http://localhost:<port>/, \
                        or let a proxy send `Host: localhost`\n";
            return Some(page::text(StatusCode::MISDIRECTED_REQUEST, text));
        }
        if let Some(refusal) = self.wrong_method(request) {
            return Some(refusal);
        }
        if self.writes_at(request.uri().path()) && !origin::may_write(request) {
            let text = "this was sent by a page that is not of this address; open the admin page by the machine's IP address \
                        or as localhost and press its button, or send the request with `curl -X POST`\n";
            return Some(page::text(StatusCode::FORBIDDEN, text));
        }
        if announced_bytes(request.headers()) > BODY_BYTES_MAX {
            let text = format!("the request body is larger than {BODY_BYTES_MAX} bytes\n");
            return Some(page::text(StatusCode::PAYLOAD_TOO_LARGE, &text));
        }
        None
    }

    /// The handler's answer, or a page that says what became of the handler.
    async fn run(&self, request: Request, next: Next) -> Response {
        let path = request.uri().path().to_owned();
        let handled = AssertUnwindSafe(next.run(request)).catch_unwind();
        match self.parts.clock.timeout(REQUEST_TIMEOUT, handled).await {
            Ok(Ok(response)) => response,
            Ok(Err(_)) => {
                tracing::error!(path, "a page panicked; the server goes on");
                let text = "The page could not be made because of a mistake in the program. The log says more.";
                page::problem(
                    &self.parts,
                    StatusCode::INTERNAL_SERVER_ERROR,
                    "Something broke",
                    text,
                )
            }
            Err(timed_out) => {
                tracing::warn!(path, limit = ?timed_out.0, "a page took too long");
                let text =
                    "The page was not ready in time. The machine or its storage may be overloaded.";
                page::problem(
                    &self.parts,
                    StatusCode::SERVICE_UNAVAILABLE,
                    "This took too long",
                    text,
                )
            }
        }
    }
}

fn announced_bytes(headers: &HeaderMap) -> usize {
    let length = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok());
    length.map_or(0, |length| length.parse().unwrap_or(usize::MAX))
}

/// The outermost layer of every router.
pub(crate) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let policies = guard.policies();
    let response = match guard.refusal(&request) {
        Some(refusal) => refusal,
        None => guard.run(request, next).await,
    };
    let mut response = redact::response(response).await;
    let headers = response.headers_mut();
    for (name, value) in HEADERS.into_iter().chain(policies) {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers
        .entry(header::CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
    response
}
