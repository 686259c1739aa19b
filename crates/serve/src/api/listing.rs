//! The entries of a directory, a JSON object a line, by pages.

use axum::body::Body;
use axum::response::Response;
use cannery_formats::ObjectEntry;
use cannery_state::objects::{EntryKey, ListedEntry, PageStart, SortKey, SortOrder};
use http::HeaderValue;
use http::header::CONTENT_TYPE;
use jiff::Timestamp;
use serde::Serialize;

use super::Api;
use super::error::ApiError;
use super::page_token::PageToken;
use super::query::Query;

/// The type of a directory, also in an answer to `HEAD`.
pub(super) const DIRECTORY_TYPE: &str = "application/x-json-stream; type=directory";

const LIMIT_DEFAULT: usize = 256;
const LIMIT_MAX: usize = 1024;

/// How many copies of an object there are, to clients that ask: what the lake keeps is its own affair.
pub(super) const DURABILITY: u32 = 2;

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub(super) enum ListingLine<'a> {
    Directory {
        name: &'a str,
        mtime: String,
    },
    Object {
        name: &'a str,
        etag: &'a str,
        size: u64,
        mtime: String,
        durability: u32,
    },
}

impl ListingLine<'_> {
    pub(super) fn to_text(&self) -> String {
        serde_json::to_string(self).expect("texts and numbers are JSON") + "\n"
    }
}

pub(super) fn time(mtime_us: i64) -> String {
    let moment = Timestamp::from_microsecond(mtime_us).unwrap_or_default();
    format!("{moment:.6}")
}

fn line(listed: &ListedEntry) -> String {
    let name = listed.name.as_str();
    let mtime = time(listed.entry.entry.mtime_us());
    match &listed.entry.entry {
        ObjectEntry::Directory { .. } => ListingLine::Directory { name, mtime }.to_text(),
        ObjectEntry::Object(object) => ListingLine::Object {
            name,
            etag: &object.etag,
            size: object.bytes,
            mtime,
            durability: DURABILITY,
        }
        .to_text(),
    }
}

/// What a query asks for.
struct ListingQuery {
    sort: (SortKey, SortOrder),
    start: PageStart,
    directories: Option<bool>,
    limit: usize,
}

impl ListingQuery {
    fn parse(query: &Query, directory: &str) -> Result<Self, ApiError> {
        let wrong = ApiError::parameter;
        let limit = match query.get("limit") {
            None => LIMIT_DEFAULT,
            Some(text) => text
                .parse()
                .ok()
                .filter(|limit| (1..=LIMIT_MAX).contains(limit))
                .ok_or_else(|| wrong("limit", "a number from 1 to 1024"))?,
        };
        let key = match query.get("sort") {
            None | Some("name") => SortKey::Name,
            Some("mtime") => SortKey::Mtime,
            Some(_) => return Err(wrong("sort", "`name` or `mtime`")),
        };
        let order = match query.get("sort_order") {
            None | Some("forward" | "normal") => SortOrder::Forward,
            Some("reverse") => SortOrder::Reverse,
            Some(_) => return Err(wrong("sort_order", "`forward` or `reverse`")),
        };
        let start = match query.get("marker").filter(|marker| !marker.is_empty()) {
            None => PageStart::First,
            Some(marker) => match (PageToken::from_text(marker, directory), key) {
                (Some(PageToken { mtime_us, name }), _) => PageStart::After { mtime_us, name },
                (None, SortKey::Name) => PageStart::AtName(marker.to_owned()),
                (None, SortKey::Mtime) => {
                    let moment: Timestamp = marker
                        .parse()
                        .map_err(|_| wrong("marker", "a time, as `mtime` of an entry says it"))?;
                    PageStart::AtMtime(moment.as_microsecond())
                }
            },
        };
        let directories = match (query.says("dir")?, query.says("obj")?) {
            (true, false) => Some(true),
            (false, true) => Some(false),
            _ => None,
        };
        Ok(Self {
            sort: (key, order),
            start,
            directories,
            limit,
        })
    }
}

/// Refuses a query that cannot be answered.
pub(super) fn check(at: &EntryKey, query: &Query) -> Result<(), ApiError> {
    ListingQuery::parse(query, at.path.as_str()).map(drop)
}

/// Answers with a page of a directory.
pub(super) async fn list(api: &Api, at: &EntryKey, query: &Query) -> Result<Response, ApiError> {
    let directory = at.path.as_str();
    let asked = ListingQuery::parse(query, directory)?;
    let namespace = &api.parts.namespace;
    let page = namespace
        .list(at, asked.sort, &asked.start, asked.directories, asked.limit)
        .await?;
    let lines: String = page.entries.iter().map(line).collect();
    let mut response = Response::new(Body::from(lines));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(DIRECTORY_TYPE));
    headers.insert("result-set-size", HeaderValue::from(page.children));
    if let Some(last) = page.entries.last().filter(|_| page.has_more) {
        let token = PageToken {
            mtime_us: last.entry.entry.mtime_us(),
            name: last.name.clone(),
        };
        let token = HeaderValue::try_from(token.to_text(directory));
        headers.extend(token.map(|token| (http::HeaderName::from_static("page-token"), token)));
    }
    Ok(response)
}
