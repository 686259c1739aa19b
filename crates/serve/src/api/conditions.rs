//! `If-Match`, `If-None-Match` and `If-Modified-Since`.

use cannery_objects::{Conditions, EtagMatch};
use http::HeaderMap;
use http::header::{HeaderName, IF_MATCH, IF_MODIFIED_SINCE, IF_NONE_MATCH};

/// The conditions of a request.
pub(super) fn conditions(headers: &HeaderMap) -> Conditions {
    Conditions {
        if_match: tags(headers, &IF_MATCH),
        if_none_match: tags(headers, &IF_NONE_MATCH),
    }
}

/// Tags with or without quotes: the original's client sends them back as it got them.
fn tags(headers: &HeaderMap, name: &HeaderName) -> Option<EtagMatch> {
    let mut tags = Vec::new();
    for value in headers.get_all(name) {
        for tag in value.to_str().unwrap_or_default().split(',') {
            let tag = tag.trim();
            if tag == "*" {
                return Some(EtagMatch::Any);
            }
            let tag = tag.strip_prefix("W/").unwrap_or(tag);
            tags.push(tag.trim_matches('"').to_owned());
        }
    }
    headers.contains_key(name).then_some(EtagMatch::OneOf(tags))
}

fn matches(tags: &EtagMatch, etag: &str) -> bool {
    match tags {
        EtagMatch::Any => true,
        EtagMatch::OneOf(tags) => tags.iter().any(|tag| tag == etag),
    }
}

/// Whether the client wants another content than what is there.
pub(super) fn is_another(headers: &HeaderMap, etag: &str) -> bool {
    tags(headers, &IF_MATCH).is_some_and(|tags| !matches(&tags, etag))
}

/// Whether the client has what is there already.
pub(super) fn is_unchanged(headers: &HeaderMap, etag: &str, mtime_us: i64) -> bool {
    if let Some(tags) = tags(headers, &IF_NONE_MATCH) {
        return matches(&tags, etag);
    }
    let since = headers
        .get(IF_MODIFIED_SINCE)
        .and_then(|since| jiff::fmt::rfc2822::parse(since.to_str().ok()?).ok());
    since.is_some_and(|since| mtime_us.div_euclid(1_000_000) <= since.timestamp().as_second())
}
