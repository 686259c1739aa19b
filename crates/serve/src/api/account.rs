//! `/:user`: the areas that every user has.

use axum::body::Body;
use axum::response::Response;
use cannery_formats::UserName;
use cannery_formats::object_path::Area;
use http::header::CONTENT_TYPE;
use http::request::Parts;
use http::{HeaderValue, Method};

use super::Api;
use super::access;
use super::caller;
use super::error::ApiError;
use super::get::directory_head;
use super::listing::{DIRECTORY_TYPE, ListingLine, time};
use super::query::Query;

/// Lists the areas, by name.
pub(super) async fn get(api: &Api, head: &Parts, user: &UserName) -> Result<Response, ApiError> {
    let query = Query::parse(head.uri.query())?;
    let caller = caller::identify(api, head, None, &query).await?;
    let user = access::check_account(&caller, user)?;
    if head.method == Method::HEAD {
        return Ok(directory_head());
    }
    let mut names = Area::ALL.map(Area::name);
    names.sort_unstable();
    let mtime = time(user.created.as_microsecond());
    let line = |name| {
        let mtime = mtime.clone();
        ListingLine::Directory { name, mtime }.to_text()
    };
    let lines: String = names.into_iter().map(line).collect();
    let mut response = Response::new(Body::from(lines));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(DIRECTORY_TYPE));
    headers.insert("result-set-size", HeaderValue::from(names.len()));
    Ok(response)
}
