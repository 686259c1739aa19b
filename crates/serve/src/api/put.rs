//! Writing: an object, a directory, a link, or other headers.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use cannery_objects::{Committed, Conditions, EtagMatch, ObjectErrorKind, RequestedChange};
use cannery_state::objects::EntryKey;
use futures::StreamExt as _;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, ETAG, EXPECT, LAST_MODIFIED, LOCATION};
use http::{HeaderMap, HeaderValue, StatusCode};

use super::access::{self, Intent};
use super::address::ApiAddress;
use super::caller::Caller;
use super::conditions::conditions;
use super::error::{ApiError, ErrorCode};
use super::get::COMPUTED_MD5;
use super::objects::{AdmittedRequest, key, no_content, refuse_body};
use super::representation::{http_date, insert};
use super::stored_headers;
use super::{Api, in_time};

/// How long a client may send nothing in the middle of an upload.
const SILENCE_MAX: Duration = Duration::from_secs(60);

pub(super) async fn put(api: &Api, mut admitted: AdmittedRequest) -> Result<Response, ApiError> {
    let headers = admitted.head.headers.clone();
    let conditions = conditions(&headers);
    let special = match admitted.query.says("metadata")? {
        true => Some("metadata"),
        false => special_type(&headers),
    };
    let Some(special) = special else {
        return put_object(api, admitted, &headers, conditions).await;
    };
    refuse_body(&headers)?;
    access::check_more_than_an_object(&admitted.caller)?;
    let at = key(api, &admitted.caller, &admitted.address).await?;
    let change = match special {
        "directory" => RequestedChange::MakeDirectory,
        "link" => link(api, &admitted.caller, &headers).await?,
        _ => RequestedChange::SetHeaders {
            headers: stored_headers::from_request(&headers)?,
        },
    };
    let namespace = &api.parts.namespace;
    // To look for content is to ask a client for it that waits to be asked: what can be refused is refused before.
    if headers.contains_key(EXPECT) {
        let check = namespace.check(&at, &change, &conditions);
        in_time(api, async { Ok(check.await?) }).await?;
    }
    refuse_content(api, std::mem::take(&mut admitted.body)).await?;
    if let RequestedChange::SetHeaders { headers } = change {
        return set_headers(api, at, &headers, conditions).await;
    }
    let committed = namespace.change(at, change, conditions).await?;
    Ok(answer(&committed))
}

/// Whoever sends content wants it stored: it is not dropped without a word.
async fn refuse_content(api: &Api, body: Body) -> Result<(), ApiError> {
    let mut pieces = body.into_data_stream();
    let first = api.parts.clock.timeout(SILENCE_MAX, async {
        loop {
            match pieces.next().await {
                Some(Ok(piece)) if piece.is_empty() => {}
                other => return other,
            }
        }
    });
    match first.await {
        Ok(None) => Ok(()),
        Ok(Some(_)) | Err(_) => Err(ApiError::invalid(
            "a directory, a link and headers have no content, and the request has a body; nothing was changed",
        )),
    }
}

/// `application/json; type=directory` and `…; type=link` ask for something else than an object.
fn special_type(headers: &HeaderMap) -> Option<&'static str> {
    let text = headers
        .get(CONTENT_TYPE)?
        .to_str()
        .ok()?
        .to_ascii_lowercase();
    let mut parts = text.split(';').map(str::trim);
    let is_json = matches!(
        parts.next(),
        Some("application/json" | "application/x-json-stream")
    );
    let mut parameters = parts.filter(|_| is_json);
    parameters.find_map(|parameter| match parameter {
        "type=directory" => Some("directory"),
        "type=link" => Some("link"),
        _ => None,
    })
}

async fn link(
    api: &Api,
    caller: &Caller,
    headers: &HeaderMap,
) -> Result<RequestedChange, ApiError> {
    let location = headers
        .get(LOCATION)
        .and_then(|location| location.to_str().ok());
    let Some(location) = location else {
        return Err(ApiError::invalid(
            "a link needs the header `Location`: the path of its source",
        ));
    };
    let source = ApiAddress::parse(location)?;
    access::check(caller, Intent::Read, &source)?;
    let source = key(api, caller, &source).await?;
    Ok(RequestedChange::Link { source })
}

/// How often headers are merged anew with an object that was replaced meanwhile.
const MERGES_MAX: usize = 4;

/// Replaces the stored headers. The type and the encoding of an object say what its bytes are, so they stay unless others are
/// given; its tag and its date stay too, because they are those of its bytes.
async fn set_headers(
    api: &Api,
    at: EntryKey,
    given: &BTreeMap<String, String>,
    conditions: Conditions,
) -> Result<Response, ApiError> {
    let namespace = &api.parts.namespace;
    for _ in 1..=MERGES_MAX {
        let found = namespace.find(&at).await?;
        let there = found.as_ref().and_then(|found| found.entry.as_object());
        let mut merged = given.clone();
        let mut seen = conditions.clone();
        if let Some(object) = there {
            stored_headers::keep_what_bytes_are(&object.headers, &mut merged);
            let tag = EtagMatch::OneOf(vec![object.etag.clone()]);
            seen.if_match = conditions.if_match.clone().or(Some(tag));
        }
        let change = RequestedChange::SetHeaders { headers: merged };
        match namespace.change(at.clone(), change, seen).await {
            Err(error)
                if error.kind == ObjectErrorKind::ConditionFailed
                    && conditions == Conditions::default() => {}
            outcome => return Ok(answer(&outcome?)),
        }
    }
    let message = "the object is being replaced again and again; ask again in a moment";
    let (status, code) = (
        StatusCode::SERVICE_UNAVAILABLE,
        ErrorCode::ServiceUnavailable,
    );
    Err(ApiError::new(status, code, message))
}

/// Everything that can be refused is refused before the first byte is read: a client that sends `Expect: 100-continue` is told
/// to go on by that reading.
async fn put_object(
    api: &Api,
    admitted: AdmittedRequest,
    headers: &HeaderMap,
    conditions: Conditions,
) -> Result<Response, ApiError> {
    let namespace = &api.parts.namespace;
    let mut stored = stored_headers::from_request(headers)?;
    stored_headers::set_default_type(&mut stored);
    let promised = promised_md5(headers)?;
    let at = key(api, &admitted.caller, &admitted.address).await?;
    let announced = announced_length(headers);
    let has_room = admitted
        .caller
        .user()
        .is_some_and(|user| user.bytes_max.is_none());
    let may_wait = has_room && !headers.contains_key(EXPECT);
    let limit = match announced.and_then(|bytes| namespace.small_upload(&at, bytes)) {
        // It is here already, and the transaction decides anyway.
        Some(limit) if may_wait => limit,
        _ => {
            let check = namespace.check_put(&at, &conditions, announced);
            in_time(api, async { Ok(check.await?) }).await?
        }
    };
    let mut upload = namespace.upload(limit);
    let mut body = admitted.body.into_data_stream();
    loop {
        let next = api.parts.clock.timeout(SILENCE_MAX, body.next()).await;
        let next = next.map_err(|_| {
            let message = "nothing of the body came for a minute; the upload was given up, and nothing was stored";
            ApiError::new(StatusCode::REQUEST_TIMEOUT, ErrorCode::BadRequest, message)
        })?;
        match next {
            None => break,
            Some(Ok(piece)) => upload.write(piece).await?,
            Some(Err(error)) => {
                tracing::debug!(%error, "the body of an upload ended early");
                let message = "the body ended early; nothing was stored";
                return Err(ApiError::new(
                    StatusCode::BAD_REQUEST,
                    ErrorCode::ContentLength,
                    message,
                ));
            }
        }
    }
    let bytes = namespace.store(upload, &at.account, promised).await?;
    let change = RequestedChange::Put {
        bytes,
        headers: stored,
    };
    let committed = namespace.change(at, change, conditions).await?;
    Ok(answer(&committed))
}

/// The length that the client says, if it does.
fn announced_length(headers: &HeaderMap) -> Option<u64> {
    let length = headers.get(CONTENT_LENGTH)?;
    length.to_str().ok()?.parse().ok()
}

/// What the client says that the MD5 of the body is; one that cannot be understood is an error, and not nothing.
fn promised_md5(headers: &HeaderMap) -> Result<Option<&str>, ApiError> {
    let mut values = headers.get_all("content-md5").iter();
    match (values.next(), values.next()) {
        (None, _) => Ok(None),
        (Some(md5), None) if md5.to_str().is_ok() => Ok(md5.to_str().ok()),
        _ => Err(ApiError::invalid(
            "`Content-MD5` is there twice, or not base64",
        )),
    }
}

fn answer(committed: &Committed) -> Response {
    let mut response = no_content();
    let headers = response.headers_mut();
    if let Some(object) = committed.entry.as_ref().and_then(|entry| entry.as_object()) {
        insert(headers, ETAG, format!("\"{}\"", object.etag));
        insert(headers, LAST_MODIFIED, http_date(object.mtime_us));
        insert(headers, COMPUTED_MD5, object.md5.clone());
    }
    headers.insert("x-object-version", HeaderValue::from(committed.version));
    response
}
