//! What a browser asks before a page of another origin may read: what is public may be read by all of them, and nothing written.

use axum::response::Response;
use http::HeaderValue;
use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_MAX_AGE,
};

use super::objects::no_content;

pub(super) fn answer() -> Response {
    let mut response = no_content();
    let headers = response.headers_mut();
    for (name, value) in [
        (ACCESS_CONTROL_ALLOW_ORIGIN, "*"),
        (ACCESS_CONTROL_ALLOW_METHODS, "GET, HEAD"),
        (
            ACCESS_CONTROL_ALLOW_HEADERS,
            "range, if-range, if-match, if-none-match, if-modified-since",
        ),
        (ACCESS_CONTROL_MAX_AGE, "86400"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    response
}
