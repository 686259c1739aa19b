//! Listings, version 2, in pages.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use axum::extract::{Path, Query, State as Shared};
use axum::http::StatusCode;
use axum::response::Response;
use data_encoding::HEXLOWER;

use super::Store;
use super::object::Object;
use super::xml::{document, element, refusal};

const PAGE_ITEMS_MAX: usize = 1000;

pub(super) async fn list(
    Shared(store): Shared<Arc<Store>>,
    Path(bucket): Path<String>,
    Query(query): Query<HashMap<String, String>>,
) -> Response {
    let state = store.state();
    let Some(objects) = state.buckets.get(&bucket) else {
        return refusal(StatusCode::NOT_FOUND, "NoSuchBucket");
    };
    let text = |name| query.get(name).map(String::as_str).unwrap_or_default();
    if text("list-type") != "2" {
        return refusal(StatusCode::BAD_REQUEST, "InvalidArgument");
    }
    let Some(resume) = read_token(text("continuation-token")) else {
        return refusal(StatusCode::BAD_REQUEST, "InvalidArgument");
    };
    let asked = text("max-keys").parse().unwrap_or(PAGE_ITEMS_MAX);
    let items = items(
        objects,
        text("prefix"),
        text("delimiter"),
        text("start-after"),
    );
    page(&items, &resume, asked.min(PAGE_ITEMS_MAX))
}

/// What a listing shows: objects, or the folders that the delimiter makes (`None`), in order of name.
fn items<'a>(
    objects: &'a BTreeMap<String, Object>,
    prefix: &str,
    delimiter: &str,
    start_after: &str,
) -> BTreeMap<&'a str, Option<&'a Object>> {
    let mut items = BTreeMap::new();
    for (key, object) in objects {
        let Some(rest) = key.strip_prefix(prefix) else {
            continue;
        };
        if key.as_str() <= start_after {
            continue;
        }
        match rest.find(delimiter).filter(|_| !delimiter.is_empty()) {
            Some(at) => items.insert(&key[..prefix.len() + at + delimiter.len()], None),
            None => items.insert(key.as_str(), Some(object)),
        };
    }
    items
}

fn page(items: &BTreeMap<&str, Option<&Object>>, resume: &str, count: usize) -> Response {
    let mut left = items
        .iter()
        .filter(|(name, _)| resume.is_empty() || **name > resume);
    let (mut content, mut last) = (String::new(), "");
    for (name, object) in left.by_ref().take(count) {
        content.push_str(&match object {
            Some(object) => entry(name, object),
            None => format!(
                "<CommonPrefixes>{}</CommonPrefixes>",
                element("Prefix", name)
            ),
        });
        last = name;
    }
    let more = left.next().is_some();
    content.push_str(&element("IsTruncated", if more { "true" } else { "false" }));
    if more {
        content.push_str(&element(
            "NextContinuationToken",
            &HEXLOWER.encode(last.as_bytes()),
        ));
    }
    document("ListBucketResult", &content)
}

fn entry(key: &str, object: &Object) -> String {
    let fields = [
        element("Key", key),
        element("Size", &object.content.len().to_string()),
        element("LastModified", &object.modified.to_string()),
        element("ETag", &object.etag()),
        element("Generation", &object.generation.to_string()),
    ];
    format!("<Contents>{}</Contents>", fields.concat())
}

/// The name that the last page ended with; `None` for a token that we never gave.
fn read_token(token: &str) -> Option<String> {
    String::from_utf8(HEXLOWER.decode(token.as_bytes()).ok()?).ok()
}
