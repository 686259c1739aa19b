//! Reading an object, whole or in part, or a directory.

use axum::response::Response;
use cannery_formats::ObjectEntry;
use cannery_formats::object_log::StoredObject;
use cannery_formats::object_path::Area;
use cannery_state::objects::VersionedEntry;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Method};

use super::Api;
use super::access;
use super::caching;
use super::error::ApiError;
use super::listing::{self, DIRECTORY_TYPE, DURABILITY};
use super::objects::{AdmittedRequest, find};
use super::representation::{Representation, insert, unsaid};
use super::stored_headers;

pub(super) async fn get(api: &Api, admitted: AdmittedRequest) -> Result<Response, ApiError> {
    let (at, VersionedEntry { entry, .. }) = find(api, &admitted.caller, &admitted.address).await?;
    if entry.as_object().is_none() {
        access::check_more_than_an_object(&admitted.caller)?;
    }
    let is_public = admitted.address.path.area() == Area::Public;
    let response = match &entry {
        ObjectEntry::Directory { .. } if admitted.head.method == Method::HEAD => {
            listing::check(&at, &admitted.query)?;
            directory_head()
        }
        ObjectEntry::Directory { .. } => listing::list(api, &at, &admitted.query).await?,
        ObjectEntry::Object(object) => {
            let namespace = &api.parts.namespace;
            described(object, is_public)
                .answer(&admitted.head, |part| namespace.open_range(object, part))
                .await?
        }
    };
    Ok(response)
}

pub(super) fn directory_head() -> Response {
    let mut response = Response::new(unsaid());
    let directory = HeaderValue::from_static(DIRECTORY_TYPE);
    response.headers_mut().insert(CONTENT_TYPE, directory);
    response
}

fn described(object: &StoredObject, is_public: bool) -> Representation {
    let mut headers = HeaderMap::new();
    stored_headers::answer(&object.headers, &mut headers);
    let stored = object.headers.get(CACHE_CONTROL.as_str());
    caching::describe(is_public, stored.map(String::as_str), &mut headers);
    insert(&mut headers, CONTENT_MD5, object.md5.clone());
    insert(&mut headers, COMPUTED_MD5, object.md5.clone());
    insert(&mut headers, DURABILITY_LEVEL, DURABILITY.to_string());
    Representation {
        headers,
        etag: object.etag.clone(),
        mtime_us: object.mtime_us,
        bytes: object.bytes,
    }
}

pub(super) const COMPUTED_MD5: HeaderName = HeaderName::from_static("computed-md5");
const CONTENT_MD5: HeaderName = HeaderName::from_static("content-md5");
const DURABILITY_LEVEL: HeaderName = HeaderName::from_static("durability-level");
