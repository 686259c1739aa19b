//! Answering with bytes, whole or in part: what a request may say about them, whatever they are of.

use std::ops::Range;

use axum::body::{Body, Bytes};
use axum::response::Response;
use cannery_lake::Content;
use cannery_objects::ObjectError;
use futures::stream::{self, TryStreamExt as _};
use http::header::{
    ACCEPT_RANGES, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_RANGE, ETAG, LAST_MODIFIED, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use jiff::Timestamp;

use super::RequestId;
use super::conditions::{is_another, is_unchanged};
use super::error::{ApiError, ErrorCode};
use super::file_body;
use super::if_range::lets_range;
use super::range::range;
use crate::server::ConnectionOrigin;

/// What is known of bytes before any of them is read.
pub(super) struct Representation {
    /// What else is said of them.
    pub(super) headers: HeaderMap,
    pub(super) etag: String,
    pub(super) mtime_us: i64,
    pub(super) bytes: u64,
}

impl Representation {
    /// Answers a GET or HEAD. `open` gives the bytes of a range that lies within and is not empty.
    ///
    /// # Errors
    /// 412, 416, and what keeps the bytes from being read: the status is not sent before the first of them are there.
    pub(super) async fn answer<F>(
        self,
        asked: &Parts,
        open: impl FnOnce(Range<u64>) -> F,
    ) -> Result<Response, ApiError>
    where
        F: Future<Output = Result<Content, ObjectError>>,
    {
        if is_another(&asked.headers, &self.etag) {
            let message = format!(
                "the etag is `{}`, not one that the request names",
                self.etag
            );
            let status = StatusCode::PRECONDITION_FAILED;
            return Err(ApiError::new(
                status,
                ErrorCode::PreconditionFailed,
                message,
            ));
        }
        if is_unchanged(&asked.headers, &self.etag, self.mtime_us) {
            return Ok(self.not_modified());
        }
        let part = match lets_range(&asked.headers, &self.etag, self.mtime_us) {
            true => range(&asked.headers, self.bytes)?,
            false => None,
        };
        let mut response = Response::new(Body::empty());
        let mut headers = self.described();
        if let Some(part) = &part {
            *response.status_mut() = StatusCode::PARTIAL_CONTENT;
            let text = format!("bytes {}-{}/{}", part.start, part.end - 1, self.bytes);
            insert(&mut headers, CONTENT_RANGE, text);
        }
        let part = part.unwrap_or(0..self.bytes);
        headers.insert(CONTENT_LENGTH, HeaderValue::from(part.end - part.start));
        *response.headers_mut() = headers;
        if asked.method != Method::HEAD && !part.is_empty() {
            let content = open(part).await?;
            *response.body_mut() = body(content, asked);
        }
        Ok(response)
    }

    fn described(&self) -> HeaderMap {
        let mut headers = self.headers.clone();
        insert(&mut headers, ETAG, format!("\"{}\"", self.etag));
        insert(&mut headers, LAST_MODIFIED, http_date(self.mtime_us));
        headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
        headers
    }

    /// Says nothing of the bytes: who asked has them, and may take what is said here for new.
    fn not_modified(&self) -> Response {
        let mut response = Response::new(unsaid());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        let described = self.described();
        for name in [ETAG, LAST_MODIFIED, CACHE_CONTROL, VARY] {
            let value = described.get(&name).cloned();
            response
                .headers_mut()
                .extend(value.map(|value| (name, value)));
        }
        response
    }
}

/// No body, and no length of one: 0 would be taken for the length of what is not sent.
pub(super) fn unsaid() -> Body {
    Body::from_stream(stream::empty::<Result<Bytes, std::convert::Infallible>>())
}

fn body(content: Content, asked: &Parts) -> Body {
    match content {
        Content::File { file, range } => {
            let connection = asked.extensions.get::<ConnectionOrigin>();
            let queue = connection.and_then(|connection| connection.files.clone());
            file_body::body(file, range, queue)
        }
        Content::Pieces(pieces) => {
            let id = asked.extensions.get::<RequestId>().cloned();
            Body::from_stream(pieces.inspect_err(move |error| {
                let request = id.as_ref().map_or("", |id| id.0.as_str());
                tracing::warn!(request, %error, "an answer was cut off: the rest of it cannot be read");
            }))
        }
    }
}

pub(super) fn insert(headers: &mut HeaderMap, name: HeaderName, value: String) {
    headers.extend(HeaderValue::try_from(value).map(|value| (name, value)));
}

/// A moment as HTTP spells it.
pub(super) fn http_date(mtime_us: i64) -> String {
    let moment = Timestamp::from_microsecond(mtime_us).unwrap_or_default();
    let printer = jiff::fmt::rfc2822::DateTimePrinter::new();
    printer
        .timestamp_to_rfc9110_string(&moment)
        .unwrap_or_default()
}
