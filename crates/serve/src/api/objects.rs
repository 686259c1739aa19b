//! What is asked of an object or a directory.

use axum::body::Body;
use axum::response::Response;
use cannery_objects::RequestedChange;
use cannery_state::objects::{EntryKey, VersionedEntry};
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};

use super::access::{self, Intent};
use super::address::ApiAddress;
use super::caller::{self, Caller};
use super::conditions::conditions;
use super::error::{ApiError, ErrorCode};
use super::query::Query;
use super::{Api, get, in_time, put};

/// A request that was understood and is allowed.
pub(super) struct AdmittedRequest {
    pub(super) address: ApiAddress,
    pub(super) query: Query,
    pub(super) caller: Caller,
    pub(super) head: Parts,
    pub(super) body: Body,
}

/// Answers a request.
pub(super) async fn handle(
    api: &Api,
    head: Parts,
    body: Body,
    address: ApiAddress,
) -> Result<Response, ApiError> {
    let intent = match head.method {
        Method::PUT | Method::DELETE => Intent::Write,
        _ => Intent::Read,
    };
    let admitted = in_time(api, admit(api, head, body, address, intent)).await?;
    match admitted.head.method {
        Method::PUT => put::put(api, admitted).await,
        Method::DELETE => delete(api, admitted).await,
        _ => in_time(api, get::get(api, admitted)).await,
    }
}

/// What a request may carry that is not the content of an object; it is never read.
const OTHER_BODY_BYTES_MAX: u64 = 64 * 1024;

/// Refuses a body that nobody reads.
pub(super) fn refuse_body(headers: &HeaderMap) -> Result<(), ApiError> {
    let length = headers
        .get(CONTENT_LENGTH)
        .and_then(|length| length.to_str().ok())
        .and_then(|length| length.parse().ok());
    if length.unwrap_or(0) <= OTHER_BODY_BYTES_MAX {
        return Ok(());
    }
    let message = "this request needs no body; only the content of an object may be large";
    let (status, code) = (StatusCode::PAYLOAD_TOO_LARGE, ErrorCode::MaxContentLength);
    Err(ApiError::new(status, code, message))
}

async fn admit(
    api: &Api,
    head: Parts,
    body: Body,
    address: ApiAddress,
    intent: Intent,
) -> Result<AdmittedRequest, ApiError> {
    let query = Query::parse(head.uri.query())?;
    let caller = caller::identify(api, &head, Some(&address), &query).await?;
    access::check(&caller, intent, &address)?;
    Ok(AdmittedRequest {
        address,
        query,
        caller,
        head,
        body,
    })
}

/// The id of the user whose address it is, if that is who asks.
fn own_account<'a>(caller: &'a Caller, address: &ApiAddress) -> Option<&'a str> {
    let user = caller.user()?;
    (user.name == address.user.as_str()).then_some(user.id.as_str())
}

/// What an address is of, as the rows know it, with what is there: in one look at the database.
pub(super) async fn find(
    api: &Api,
    caller: &Caller,
    address: &ApiAddress,
) -> Result<(EntryKey, VersionedEntry), ApiError> {
    let ApiAddress { user, path } = address;
    let namespace = &api.parts.namespace;
    let found = match own_account(caller, address) {
        Some(account) => {
            let (account, path) = (account.to_owned(), path.clone());
            let at = EntryKey { account, path };
            let found = namespace.find(&at).await?;
            Some((at, found))
        }
        None => namespace.find_of(user.as_str(), path).await?,
    };
    match found {
        Some((at, Some(entry))) => Ok((at, entry)),
        _ => Err(ApiError::absent(&format!("/{user}{path}"))),
    }
}

/// What an address is of, as the rows know it.
pub(super) async fn key(
    api: &Api,
    caller: &Caller,
    address: &ApiAddress,
) -> Result<EntryKey, ApiError> {
    let path = address.path.clone();
    if let Some(account) = own_account(caller, address) {
        let account = account.to_owned();
        return Ok(EntryKey { account, path });
    }
    let user = api.parts.state.user(address.user.as_str()).await?;
    match user {
        Some(user) => Ok(EntryKey {
            account: user.id,
            path,
        }),
        None => Err(ApiError::absent(&format!("/{}{path}", address.user))),
    }
}

async fn delete(api: &Api, admitted: AdmittedRequest) -> Result<Response, ApiError> {
    let conditions = conditions(&admitted.head.headers);
    let namespace = &api.parts.namespace;
    let at = key(api, &admitted.caller, &admitted.address).await?;
    if at.path.is_root() {
        return Err(ApiError::invalid(format!(
            "cannot delete `{}`: every user has it",
            at.path
        )));
    }
    let found = in_time(api, async { Ok(namespace.find(&at).await?) }).await?;
    if found.is_some_and(|found| found.entry.as_object().is_none()) {
        access::check_more_than_an_object(&admitted.caller)?;
    }
    namespace
        .change(at, RequestedChange::Delete, conditions)
        .await?;
    Ok(no_content())
}

/// Done, and there is nothing to say.
pub(super) fn no_content() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
