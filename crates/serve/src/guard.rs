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
use crate::login;
use crate::objects_page;
use crate::page;
use crate::server::{Audience, ConnectionOrigin};
use crate::shell::Parts;

mod host;
mod origin;
mod redact;

/// The largest request body. Routes that read one through an extractor are held to it by axum's body limit.
pub(crate) const BODY_BYTES_MAX: usize = 64 * 1024;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// No inline script or style passes, nothing is loaded from elsewhere, no other page frames us.
///
/// These are two policies, and both must allow what is loaded: it comes from this origin, and from `/assets/`. A user's object
/// is of this origin as well, and no page of ours may run it. Naming the host beside the path would do with one policy, but
/// fails for IPv6 addresses, and behind a proxy that sends another `Host` than the browser did.
macro_rules! policy {
    ($forms:literal) => {
        concat!(
            "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; font-src 'self'; ",
            "connect-src 'self'; base-uri 'none'; form-action ",
            $forms,
            "; frame-ancestors 'none', ",
            "style-src *:*/assets/; script-src *:*/assets/; img-src *:*/assets/ data:; font-src *:*/assets/"
        )
    };
}
const POLICY: &str = policy!("'none'");
const POLICY_WITH_FORMS: &str = policy!("'self'");

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
            on_loopback: is_loopback(bound),
        }
    }

    /// The methods that an address knows.
    fn methods(&self, path: &str) -> &'static [Method] {
        const READING: [Method; 2] = [Method::GET, Method::HEAD];
        const BOTH: [Method; 3] = [Method::GET, Method::HEAD, Method::POST];
        const WRITING: [Method; 1] = [Method::POST];
        match (self.audience, path) {
            (Audience::Main, login::LOGIN) if self.parts.api.is_some() => &BOTH,
            (Audience::Main, path) if self.parts.api.is_some() && objects_page::is_one(path) => {
                &BOTH
            }
            (Audience::Main, login::LOGOUT) if self.parts.api.is_some() => &WRITING,
            (Audience::Admin, admin::SHUTDOWN) if self.parts.on_shutdown.is_some() => &WRITING,
            (Audience::Main | Audience::Monitoring | Audience::Admin, _) => &READING,
        }
    }

    /// With `no-referrer` a browser hides the origin of our own forms from us, so pages with one have another policy.
    fn policies(&self, path: &str) -> [(&'static str, &'static str); 2] {
        let has_form = match self.audience {
            Audience::Main => self.methods(path).contains(&Method::POST),
            Audience::Monitoring => false,
            Audience::Admin => true,
        };
        let (content, referrer) = match has_form {
            true => (POLICY_WITH_FORMS, "same-origin"),
            false => (POLICY, "no-referrer"),
        };
        [
            ("content-security-policy", content),
            ("referrer-policy", referrer),
        ]
    }

    /// The answer to a method that does not fit the address.
    fn wrong_method(&self, request: &Request) -> Option<Response> {
        let methods = self.methods(request.uri().path());
        if methods.contains(request.method()) {
            return None;
        }
        let text = match methods {
            [Method::POST] => "this address only writes: use POST\n",
            _ => "this address only reads: use GET or HEAD\n",
        };
        let mut response = page::text(StatusCode::METHOD_NOT_ALLOWED, text);
        let allow: Vec<&str> = methods.iter().map(Method::as_str).collect();
        let allow = HeaderValue::try_from(allow.join(", ")).expect("methods are plain");
        response.headers_mut().insert(header::ALLOW, allow);
        Some(response)
    }

    /// Whether a page of ours, or no page at all, sends what writes.
    fn may_write(&self, request: &Request) -> bool {
        match self.audience {
            Audience::Main | Audience::Monitoring => {
                let connection = request.extensions().get::<ConnectionOrigin>();
                let is_encrypted = connection.is_some_and(|connection| connection.is_encrypted);
                is_own_page(request.headers(), is_encrypted)
            }
            Audience::Admin => origin::may_write(request),
        }
    }

    /// The answer to a request that no handler shall see.
    fn refusal(&self, request: &Request) -> Option<Response> {
        if self.on_loopback && !is_local(request) {
            return Some(misdirected());
        }
        if let Some(refusal) = self.wrong_method(request) {
            return Some(refusal);
        }
        if request.method() == Method::POST && !self.may_write(request) {
            let text = "this was sent by a page that is not of this address; open its own page by the machine's IP address \
                        or as localhost and press its button, or send a shutdown with `curl -X POST`\n";
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

/// Whether only this machine reaches a listener.
pub(crate) fn is_loopback(bound: SocketAddr) -> bool {
    bound.ip().to_canonical().is_loopback()
}

pub(crate) use host::is_local;
pub(crate) use origin::is_own_page;

/// The answer to a request on loopback that was sent to another name: any web page could rebind its own name to this address
/// and read what is here.
fn misdirected() -> Response {
    let text = "this address answers to localhost only; open it as http://localhost:<port>/, \
                or let a proxy send `Host: localhost`\n";
    page::text(StatusCode::MISDIRECTED_REQUEST, text)
}

fn announced_bytes(headers: &HeaderMap) -> usize {
    let length = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok());
    length.map_or(0, |length| length.parse().unwrap_or(usize::MAX))
}

/// The outermost layer of every router.
pub(crate) async fn guard(State(guard): State<Guard>, request: Request, next: Next) -> Response {
    let policies = guard.policies(request.uri().path());
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
