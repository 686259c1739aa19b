//! Reading the lake itself, as far as somebody may.

use axum::response::Response;
use cannery_formats::Key;
use cannery_lake::ErrorKind;
use cannery_objects::ObjectError;
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use http::request::Parts;

use super::Api;
use super::access;
use super::caching;
use super::caller;
use super::error::ApiError;
use super::query::Query;
use super::representation::{Representation, insert};

/// Answers with an object of the lake.
///
/// # Errors
/// 404 for what nobody may see, and for what is not there.
pub(super) async fn get(api: &Api, head: &Parts, key: Option<Key>) -> Result<Response, ApiError> {
    let absent = || ApiError::absent("this object of the lake");
    let key = key.ok_or_else(absent)?;
    let scope = access::scope_for_lake(&key).ok_or_else(absent)?;
    let query = Query::parse(head.uri.query())?;
    let caller = caller::identify(api, head, None, &query).await?;
    access::check_lake(&caller, scope)?;
    let lakes = &api.parts.lakes;
    let lake = match key.is_of_archives() {
        true => &lakes.archives,
        false => &lakes.raw,
    };
    let found = lake.head(&key).await.map_err(|error| match error.kind {
        // A folder is no object.
        ErrorKind::Absent | ErrorKind::Invalid => absent(),
        _ => ObjectError::from(error).into(),
    })?;
    let mut headers = HeaderMap::new();
    caching::describe(false, None, &mut headers);
    insert(
        &mut headers,
        CONTENT_TYPE,
        "application/octet-stream".to_owned(),
    );
    let mtime_us = found.modified.as_microsecond();
    let representation = Representation {
        headers,
        // Objects of the lake are replaced by a redaction at most.
        etag: format!("{:x}-{mtime_us:x}", found.bytes),
        mtime_us,
        bytes: found.bytes,
    };
    representation
        .answer(head, |part| async {
            let key = key;
            Ok(lake.open_range(&key, part).await?)
        })
        .await
}
