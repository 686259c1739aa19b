//! Objects: put, get, head, delete.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;

use axum::body::Body;
use axum::extract::{Path, Query, State as Shared};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use jiff::Timestamp;
use jiff::fmt::rfc2822;

use super::xml::refusal;
use super::{State, Store, upload};

const GENERATION: &str = "x-goog-generation";
const IF_GENERATION: &str = "x-goog-if-generation-match";
const METADATA_PREFIX: &str = "x-goog-meta-";
const KEPT_HEADERS: [HeaderName; 5] = [
    header::CACHE_CONTROL,
    header::CONTENT_DISPOSITION,
    header::CONTENT_ENCODING,
    header::CONTENT_LANGUAGE,
    header::CONTENT_TYPE,
];

#[derive(Clone, Debug)]
pub(super) struct Object {
    pub(super) content: Bytes,
    pub(super) generation: u64,
    pub(super) modified: Timestamp,
    /// Content type and metadata, given back as they came.
    headers: HeaderMap,
}

/// One request for an object, parsed.
pub(super) struct Request {
    pub(super) bucket: String,
    pub(super) key: String,
    pub(super) query: HashMap<String, String>,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

pub(super) async fn dispatch(
    Shared(store): Shared<Arc<Store>>,
    method: Method,
    Path((bucket, key)): Path<(String, String)>,
    Query(query): Query<HashMap<String, String>>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let request = Request {
        bucket,
        key,
        query,
        headers,
        body,
    };
    if !store.state().buckets.contains_key(&request.bucket) {
        return refusal(StatusCode::NOT_FOUND, "NoSuchBucket");
    }
    let in_parts = request.query.contains_key("uploadId") || request.query.contains_key("uploads");
    match method.as_str() {
        "GET" | "HEAD" => get(&store, &request),
        "PUT" | "POST" | "DELETE" if in_parts => upload::dispatch(&store, &method, &request),
        "PUT" if request.headers.contains_key("x-goog-copy-source") => {
            // Not 501: clients try that again.
            refusal(StatusCode::BAD_REQUEST, "NotImplemented")
        }
        "PUT" => put(&store, &request),
        "DELETE" => delete(&store, &request),
        _ => refusal(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed"),
    }
}

fn put(store: &Store, request: &Request) -> Response {
    let modified = store.clock.now();
    // Condition and effect under one lock: the condition is atomic.
    let mut state = store.state();
    let current = state.buckets[&request.bucket]
        .get(&request.key)
        .map_or(0, |object| object.generation);
    if let Some(wanted) = request.headers.get(IF_GENERATION)
        && wanted.to_str().ok() != Some(current.to_string().as_str())
    {
        return refusal(StatusCode::PRECONDITION_FAILED, "PreconditionFailed");
    }
    let object = state.put(
        &request.bucket,
        &request.key,
        request.body.clone(),
        &request.headers,
        modified,
    );
    object.head(StatusCode::OK)
}

fn get(store: &Store, request: &Request) -> Response {
    let found = store.state().buckets[&request.bucket]
        .get(&request.key)
        .cloned();
    let wanted = request.query.get("generation");
    let Some(object) =
        found.filter(|object| wanted.is_none_or(|wanted| *wanted == object.generation.to_string()))
    else {
        return refusal(StatusCode::NOT_FOUND, "NoSuchKey");
    };
    let has_tag = |name| {
        request
            .headers
            .get(name)
            .map(|tag| tag.as_bytes() == object.etag().as_bytes())
    };
    if has_tag(header::IF_MATCH) == Some(false) {
        return refusal(StatusCode::PRECONDITION_FAILED, "PreconditionFailed");
    }
    if has_tag(header::IF_NONE_MATCH) == Some(true) {
        return object.head(StatusCode::NOT_MODIFIED);
    }
    match request
        .headers
        .get(header::RANGE)
        .map(|range| range.to_str())
    {
        None => object.with_content(StatusCode::OK, object.content.clone()),
        Some(range) => match parse_range(range.unwrap_or_default(), object.content.len()) {
            Some((start, end)) => object.part(start, end),
            None => refusal(StatusCode::RANGE_NOT_SATISFIABLE, "InvalidRange"),
        },
    }
}

fn delete(store: &Store, request: &Request) -> Response {
    let mut state = store.state();
    let bucket = state.buckets.get_mut(&request.bucket);
    match bucket.and_then(|bucket| bucket.remove(&request.key)) {
        Some(_) => StatusCode::NO_CONTENT.into_response(),
        None => refusal(StatusCode::NOT_FOUND, "NoSuchKey"),
    }
}

impl State {
    pub(super) fn put(
        &mut self,
        bucket: &str,
        key: &str,
        content: Bytes,
        headers: &HeaderMap,
        modified: Timestamp,
    ) -> Object {
        let generation = self.next_number();
        let kept = |name: &HeaderName| {
            KEPT_HEADERS.contains(name) || name.as_str().starts_with(METADATA_PREFIX)
        };
        let headers = headers
            .iter()
            .filter(|(name, _)| kept(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let object = Object {
            content,
            generation,
            modified,
            headers,
        };
        self.buckets
            .entry(bucket.to_owned())
            .or_default()
            .insert(key.to_owned(), object.clone());
        object
    }
}

impl Object {
    /// Of the content alone: whoever takes it for a version is found out.
    pub(super) fn etag(&self) -> String {
        etag(&self.content)
    }

    pub(super) fn head(&self, status: StatusCode) -> Response {
        let printer = rfc2822::DateTimePrinter::new();
        let modified = printer.timestamp_to_rfc9110_string(&self.modified);
        let mut response = status.into_response();
        let headers = response.headers_mut();
        headers.extend(self.headers.clone());
        let mut set = |name: &'static str, text: String| {
            headers.insert(
                name,
                HeaderValue::try_from(text).expect("numbers and dates are valid in headers"),
            );
        };
        set("etag", self.etag());
        set(GENERATION, self.generation.to_string());
        set(
            "last-modified",
            modified.expect("the clock shows a year that HTTP can print"),
        );
        response
    }

    fn with_content(&self, status: StatusCode, content: Bytes) -> Response {
        let mut response = self.head(status);
        response
            .headers_mut()
            .insert(header::CONTENT_LENGTH, HeaderValue::from(content.len()));
        *response.body_mut() = Body::from(content);
        response
    }

    /// From `start` to before `end`.
    fn part(&self, start: usize, end: usize) -> Response {
        let mut response =
            self.with_content(StatusCode::PARTIAL_CONTENT, self.content.slice(start..end));
        let range = format!("bytes {start}-{}/{}", end - 1, self.content.len());
        let range = HeaderValue::try_from(range).expect("numbers are valid in headers");
        response.headers_mut().insert(header::CONTENT_RANGE, range);
        response
    }
}

pub(super) fn etag(content: &[u8]) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

/// The bytes that `bytes=a-b`, `bytes=a-` or `bytes=-n` asks for; `None` when there are none.
fn parse_range(range: &str, length: usize) -> Option<(usize, usize)> {
    let (first, last) = range.strip_prefix("bytes=")?.split_once('-')?;
    let (start, end) = match (first, last) {
        ("", suffix) => (length.saturating_sub(suffix.parse().ok()?), length),
        (first, "") => (first.parse().ok()?, length),
        (first, last) => (
            first.parse().ok()?,
            last.parse::<usize>().ok()?.saturating_add(1).min(length),
        ),
    };
    (start < end).then_some((start, end))
}
