//! What is asked of an object or a directory.

use axum::body::Body;
use axum::response::Response;
use cannery_objects::RequestedChange;
use cannery_state::objects::EntryKey;
use http::header::CONTENT_LENGTH;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};

use super::access::{self, Intent};
use super::address::ApiAddress;
use super::caller::{self, Caller};
use super::conditions::conditions;
use super::error::{ApiError, ErrorCode};
use super::query::Query;
use super::{Api, get, put};

/// A request that was understood and is allowed.
pub(super) struct AdmittedRequest {
    pub(super) address: ApiAddress,
    pub(super) at: EntryKey,
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
    let admitted = admit(api, head, body, address, intent).await?;
    match admitted.head.method {
        Method::PUT => put::put(api, admitted).await,
        Method::DELETE => delete(api, admitted).await,
        _ => get::get(api, admitted).await,
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
    let account = account(api, &caller, &address).await?;
    Ok(AdmittedRequest {
        at: EntryKey {
            account,
            path: address.path.clone(),
        },
        address,
        query,
        caller,
        head,
        body,
    })
}

/// The id of the user whose address it is.
pub(super) async fn account(
    api: &Api,
    caller: &Caller,
    address: &ApiAddress,
) -> Result<String, ApiError> {
    match caller {
        Caller::User { user, .. } | Caller::SignedAddress { user, .. }
            if user.name == address.user.as_str() =>
        {
            Ok(user.id.clone())
        }
        Caller::Anonymous | Caller::User { .. } | Caller::SignedAddress { .. } => {
            let user = api.parts.state.user(address.user.as_str()).await?;
            let path = format!("/{}{}", address.user, address.path);
            user.map(|user| user.id)
                .ok_or_else(|| ApiError::absent(&path))
        }
    }
}

async fn delete(api: &Api, admitted: AdmittedRequest) -> Result<Response, ApiError> {
    let conditions = conditions(&admitted.head.headers);
    let namespace = &api.parts.namespace;
    if admitted.at.path.is_root() {
        return Err(ApiError::invalid(format!(
            "cannot delete `{}`: every user has it",
            admitted.at.path
        )));
    }
    let found = namespace.find(&admitted.at).await?;
    if found.is_some_and(|found| found.entry.as_object().is_none()) {
        access::check_more_than_an_object(&admitted.caller)?;
    }
    namespace
        .change(admitted.at, RequestedChange::Delete, conditions)
        .await?;
    Ok(no_content())
}

/// Done, and there is nothing to say.
pub(super) fn no_content() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::NO_CONTENT;
    response
}
