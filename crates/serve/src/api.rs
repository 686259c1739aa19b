//! The HTTP interface for programs: the objects of users.
//!
//! It is another router than the dashboard's, on the same listener, with other rules: it streams both ways, rewrites nothing,
//! and answers errors as JSON.
//!
//! | look here | for |
//! |---|---|
//! | `route.rs`, `address.rs` | what a path means |
//! | `caller.rs`, `signature.rs`, `signed_url.rs`, `session.rs`, `login_codes.rs` | who asks |
//! | `access.rs` | every decision whether somebody may |
//! | `account.rs`, `lake.rs`, `preflight.rs` | the areas of a user, the lake, and what browsers ask first |
//! | `objects.rs`, `put.rs`, `get.rs`, `listing.rs` | the objects of users |
//! | `representation.rs`, `file_body.rs` | answering with bytes, whole or in part |
//! | `conditions.rs`, `range.rs`, `if_range.rs`, `caching.rs`, `stored_headers.rs`, `page_token.rs` | what stands in headers and queries |
//! | `body_with_slot.rs` | an answer counts until it is sent |
//! | `browse.rs` | what the page of objects shows |
//! | `contract.rs`, `openapi.rs` | what it promises, and the document of it |
//! | `error.rs` | how it says no |

mod access;
mod account;
mod address;
mod body_with_slot;
pub(crate) mod browse;
mod caching;
mod caller;
mod conditions;
mod contract;
mod error;
mod file_body;
mod get;
mod if_range;
mod lake;
mod lingering;
mod listing;
mod login_codes;
mod objects;
mod openapi;
mod page_token;
mod preflight;
mod put;
mod query;
mod range;
mod representation;
mod route;
pub(crate) mod session;
mod signature;
mod signed_url;
mod slot;
mod stored_headers;

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::extract::Request;
use axum::response::Response;
use cannery_formats::UserName;
use cannery_lake::Lake;
use cannery_objects::Namespace;
use cannery_runtime::{Clock, Rng};
use cannery_state::State;
use cannery_state::identity::{IdentityError, Scopes};
use futures::FutureExt as _;
use http::header::{
    ACCESS_CONTROL_ALLOW_ORIGIN, ACCESS_CONTROL_EXPOSE_HEADERS, CACHE_CONTROL, CONNECTION,
};
use http::{HeaderMap, HeaderValue, Method, StatusCode};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use address::decode;
pub(crate) use browse::Browsed;
pub(crate) use error::ApiError;
pub(crate) use openapi::document as openapi_document;
pub use signed_url::encode_component;

use crate::guard;
use crate::server::ConnectionOrigin;
use caller::Caller;
use login_codes::{LoginCodes, LoginGrant};
use route::ApiRoute;
pub use slot::ApiSlot;

/// Requests at once, until the last byte of their answers is sent; more are told to come back.
const REQUESTS_MAX: usize = 256;

/// What a request is called in its answer and in the log.
#[derive(Clone, Debug)]
struct RequestId(String);

/// The lakes that `/lake/` reads: often the same.
#[derive(Clone)]
pub struct ServedLakes {
    /// Where archives are.
    pub archives: Lake,
    /// Where everything else is.
    pub raw: Lake,
}

/// What the API is made of.
pub struct ApiParts {
    /// Users, keys and tokens.
    pub state: State,
    /// Their objects.
    pub namespace: Arc<Namespace>,
    /// What `/lake/` reads, of which `access.rs` says what may be seen.
    pub lakes: ServedLakes,
    /// For the age of signatures.
    pub clock: Clock,
    /// For the ids of requests.
    pub rng: Rng,
    /// A proxy stands in front: nobody counts as being on this machine.
    pub is_proxied: bool,
}

/// The API, for any number of listeners.
pub(crate) struct Api {
    parts: ApiParts,
    slots: Arc<Semaphore>,
    /// For who is nobody: the public never takes the places of users.
    anonymous_slots: Arc<Semaphore>,
    login_codes: LoginCodes,
}

/// The API of one listener.
#[derive(Clone)]
pub(crate) struct ApiListener {
    api: Arc<Api>,
    on_loopback: bool,
}

impl Api {
    pub(crate) fn new(parts: ApiParts) -> Arc<Self> {
        Arc::new(Self {
            login_codes: LoginCodes::new(&parts.clock, &parts.rng),
            parts,
            slots: Arc::new(Semaphore::new(REQUESTS_MAX)),
            anonymous_slots: Arc::new(Semaphore::new(REQUESTS_MAX)),
        })
    }

    /// The address, on any listener, by which a browser becomes this user.
    pub(crate) fn login_path(&self, user: &UserName, scopes: &Scopes) -> String {
        let (user, scopes) = (user.clone(), scopes.clone());
        let code = self.login_codes.issue(LoginGrant { user, scopes });
        format!("{}?code={code}", crate::login::LOGIN)
    }

    pub(crate) fn take_login(&self, code: &str) -> Option<LoginGrant> {
        self.login_codes.take(code)
    }

    pub(crate) fn is_private(
        &self,
        connection: Option<&ConnectionOrigin>,
        headers: &HeaderMap,
    ) -> bool {
        access::is_private(connection, headers, self.parts.is_proxied)
    }

    pub(crate) async fn revoke(&self, token: &str) -> Result<(), IdentityError> {
        self.parts.state.revoke_token(token).await
    }

    /// Whether a path is the API's, and not the dashboard's.
    pub(crate) fn answers(path: &str) -> bool {
        ApiRoute::is_one(path)
    }

    /// What answers on a listener, without the limits of the dashboard.
    pub(crate) fn listener(self: &Arc<Self>, on_loopback: bool) -> ApiListener {
        let api = Arc::clone(self);
        ApiListener { api, on_loopback }
    }
}

/// What is answered while there is no API.
pub(crate) fn not_open() -> Response {
    let id = RequestId(Rng::from_os().id());
    let mut response = ApiError::not_open().into_response(&id.0);
    describe(response.headers_mut(), &id, false);
    response
}

/// The one handler: an id for the request, a place among the others that it keeps until its answer is sent, and headers that every
/// answer has.
pub(crate) async fn answer(listener: ApiListener, mut request: Request) -> Response {
    let api = &listener.api;
    let id = RequestId(api.parts.rng.id());
    request.extensions_mut().insert(id.clone());
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let place = RequestPlace::default();
    request.extensions_mut().insert(place.clone());
    let expects = lingering::expects(&request);
    let (request, leftover) = lingering::share(request);
    let answered = match check_connection(&request) {
        Err(busy) => Err(busy),
        Ok(()) if listener.on_loopback && !guard::is_local(&request) => {
            Err(ApiError::misdirected())
        }
        Ok(()) => handle(api, request).await,
    };
    let mut response = answered.unwrap_or_else(|error| {
        if let Some(detail) = &error.detail {
            let (request, code) = (&id.0, error.code);
            tracing::warn!(request, %method, path, ?code, detail, "a request failed");
        }
        error.into_response(&id.0)
    });
    debug_assert!(
        is_promised(&path, &method, response.status()),
        "{method} {path} answers {}, which is not promised",
        response.status()
    );
    let status = response.status().as_u16();
    // A path may be anything that somebody pasted.
    let route = ApiRoute::parse(&path);
    let template = route.as_ref().map_or("unknown", ApiRoute::template);
    tracing::debug!(request = id.0, %method, route = template, status, "answered a request");
    let is_public = route.is_ok_and(|route| route.is_public());
    describe(response.headers_mut(), &id, is_public);
    if response.status().is_client_error() {
        // Whoever is refused takes nobody's place while it is let down gently.
        place.leave();
    }
    if response.status().is_client_error() || response.status().is_server_error() {
        response = lingering::linger(response, leftover, (expects, &api.parts.clock));
    }
    response.map(|body| body_with_slot::hold(body, place))
}

/// The headers that every answer has.
fn describe(headers: &mut HeaderMap, id: &RequestId, is_public: bool) {
    if let Ok(id) = HeaderValue::try_from(id.0.as_str()) {
        headers.insert("x-request-id", id);
    }
    // Nothing of a user ever runs as a page of ours, and what is private is nothing for the pages of others.
    let for_whom = if is_public {
        "cross-origin"
    } else {
        "same-origin"
    };
    for (name, value) in [
        ("content-security-policy", "sandbox"),
        ("cross-origin-resource-policy", for_whom),
        ("x-content-type-options", "nosniff"),
        ("server", "cannery"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    if is_public {
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*"));
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("*"));
    }
    headers
        .entry(CACHE_CONTROL)
        .or_insert(HeaderValue::from_static("no-store"));
}

fn is_promised(path: &str, method: &Method, status: StatusCode) -> bool {
    match ApiRoute::parse(path) {
        Ok(route) => contract::is_promised(route.template(), method, status),
        Err(_) => contract::EVERYWHERE.contains(&status.as_u16()),
    }
}

/// # Errors
/// 503 unless the connection may be used for the API.
fn check_connection(request: &Request) -> Result<(), ApiError> {
    let connection = request.extensions().get::<ConnectionOrigin>();
    if connection.is_some_and(|connection| !connection.may_use_api()) {
        return Err(ApiError::busy().with_header(CONNECTION, "close".to_owned()));
    }
    Ok(())
}

/// The place of a request among the others, which it has from the moment that it is known who asks until its answer is sent.
#[derive(Clone, Debug, Default)]
struct RequestPlace(Arc<Mutex<Option<OwnedSemaphorePermit>>>);

impl RequestPlace {
    /// # Errors
    /// 503 if there is none for such a caller.
    fn take(&self, api: &Api, caller: &Caller) -> Result<(), ApiError> {
        let slots = match caller {
            Caller::User { .. } | Caller::SignedAddress { .. } => &api.slots,
            Caller::Anonymous => &api.anonymous_slots,
        };
        let slot = Arc::clone(slots).try_acquire_owned();
        *self.slot() = Some(slot.map_err(|_| ApiError::busy())?);
        Ok(())
    }

    fn leave(&self) {
        *self.slot() = None;
    }

    fn slot(&self) -> MutexGuard<'_, Option<OwnedSemaphorePermit>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How long a question may take before a byte of an upload is read or of an answer is sent.
const QUESTION_LIMIT: Duration = Duration::from_secs(30);

/// # Errors
/// 503 when it takes too long, and its own.
async fn in_time<T>(
    api: &Api,
    question: impl Future<Output = Result<T, ApiError>>,
) -> Result<T, ApiError> {
    let answered = api.parts.clock.timeout(QUESTION_LIMIT, question).await;
    answered.unwrap_or_else(|late| Err(ApiError::late().with_detail(late.to_string())))
}

/// Answers what is asked of a route by a method that it knows.
async fn dispatch(api: &Api, request: Request) -> Result<Response, ApiError> {
    let (head, body) = request.into_parts();
    let route = ApiRoute::parse(head.uri.path())?;
    let methods = route.methods();
    if !methods.contains(&head.method) {
        return Err(ApiError::method(methods));
    }
    if head.method != Method::PUT {
        objects::refuse_body(&head.headers)?;
    }
    match route {
        ApiRoute::Account(user) => in_time(api, account::get(api, &head, &user)).await,
        ApiRoute::Lake(key) => in_time(api, lake::get(api, &head, key)).await,
        ApiRoute::Entry(_) if head.method == Method::OPTIONS => Ok(preflight::answer()),
        ApiRoute::Entry(address) => objects::handle(api, head, body, address).await,
    }
}

/// A panic is a mistake in the program, and not the end of it.
async fn handle(api: &Api, request: Request) -> Result<Response, ApiError> {
    let handled = AssertUnwindSafe(dispatch(api, request)).catch_unwind();
    let handled = handled.await;
    handled.unwrap_or_else(|_| Err(ApiError::bug().with_detail("the request panicked")))
}
