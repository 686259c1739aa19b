//! `/objects`: the objects of the user who is logged in. It browses, shows and deletes, and works without a script.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::get;
use cannery_state::identity::{Token, User};
use http::header::LOCATION;
use http::{HeaderMap, HeaderValue, StatusCode};
use maud::{Markup, html};

use crate::api::{Api, ApiError, Browsed, browse, encode_component, session};
use crate::content::{clean, clean_to};
use crate::login;
use crate::page;
use crate::server::ConnectionOrigin;
use crate::shell::Parts;

pub(crate) const OBJECTS: &str = "/objects";

/// Whether a path is of these pages, which have forms.
pub(crate) fn is_one(path: &str) -> bool {
    let below = path.strip_prefix(OBJECTS);
    below.is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// The routes, where there are users.
pub(crate) fn routes() -> Router<Arc<Parts>> {
    Router::new()
        .route(OBJECTS, get(show))
        .route(&format!("{OBJECTS}/{{*rest}}"), get(show).post(delete))
}

/// The path below `/objects`, still encoded, without slashes at its end.
fn below(request: &Request) -> &str {
    let path = request.uri().path().strip_prefix(OBJECTS);
    path.unwrap_or_default().trim_end_matches('/')
}

/// Who is logged in; a page for everybody else.
async fn visitor(
    parts: &Parts,
    headers: &HeaderMap,
    connection: Option<&ConnectionOrigin>,
) -> Result<(Arc<Api>, (User, Token)), Box<Response>> {
    let api = login::api(parts)?;
    match session::user(&api, headers, connection).await {
        Ok(Some(found)) => Ok((api, found)),
        Ok(None) => Err(Box::new(stranger(parts))),
        Err(error) => Err(Box::new(refused(parts, &error.into()))),
    }
}

async fn show(State(parts): State<Arc<Parts>>, request: Request) -> Response {
    let connection = request.extensions().get::<ConnectionOrigin>();
    let (api, (user, token)) = match visitor(&parts, request.headers(), connection).await {
        Ok(visitor) => visitor,
        Err(response) => return *response,
    };
    let path = below(&request);
    let name = user.name.clone();
    if path.is_empty() {
        return shown(&parts, path, &areas(&name));
    }
    let after = request
        .uri()
        .query()
        .and_then(|query| query.strip_prefix("after="));
    let after = after.and_then(|after| crate::api::decode(after).ok());
    match browse::look(&api, (user, token.scopes), path, after).await {
        Ok(browsed) => {
            let main = html! {
                (browsed_page(&name, path, &browsed))
                @if matches!(browsed, Browsed::Directory { .. }) && !path.starts_with("/jobs") { (upload(&parts, &name, path)) }
            };
            shown(&parts, path, &main)
        }
        Err(error) => refused(&parts, &error),
    }
}

async fn delete(State(parts): State<Arc<Parts>>, request: Request) -> Response {
    let connection = request.extensions().get::<ConnectionOrigin>();
    let (api, (user, token)) = match visitor(&parts, request.headers(), connection).await {
        Ok(visitor) => visitor,
        Err(response) => return *response,
    };
    let path = below(&request);
    match browse::delete(&api, (user, token.scopes), path).await {
        Ok(()) => {
            let parent = path.rsplit_once('/').map_or("", |(parent, _)| parent);
            let to = HeaderValue::try_from(format!("{OBJECTS}{parent}"));
            let mut response = page::text(StatusCode::SEE_OTHER, "");
            response.headers_mut().extend(to.map(|to| (LOCATION, to)));
            response
        }
        Err(error) => refused(&parts, &error),
    }
}

fn stranger(parts: &Parts) -> Response {
    let text = "Objects belong to users. Open the link that the program prints when it starts, and log in.";
    page::problem(parts, StatusCode::UNAUTHORIZED, "Not logged in", text)
}

fn refused(parts: &Parts, error: &ApiError) -> Response {
    if let Some(detail) = error.detail() {
        tracing::warn!(detail, "cannot show objects");
    }
    let (status, text) = error.told();
    page::problem(parts, status, "This cannot be shown", text)
}

fn shown(parts: &Parts, path: &str, main: &Markup) -> Response {
    let main = html! { (crumbs(path)) (main) };
    // It does not change by itself under what is being uploaded or read.
    page::page_of(parts, StatusCode::OK, OBJECTS, "Objects", &main, true)
}

/// An encoded component as a person reads it.
fn readable(component: &str) -> String {
    clean(&crate::api::decode(component).unwrap_or_else(|_| component.to_owned()))
}

fn crumbs(path: &str) -> Markup {
    let mut to = OBJECTS.to_owned();
    let steps: Vec<(String, String)> = path
        .split('/')
        .filter(|component| !component.is_empty())
        .map(|component| {
            to = format!("{to}/{component}");
            (to.clone(), readable(component))
        })
        .collect();
    html! {
        nav.crumbs aria-label="Breadcrumb" {
            ol {
                li { a href="/" { "Overview" } }
                li { a href=(OBJECTS) { "Objects" } }
                @for (to, name) in &steps { li { a href=(to) { (name) } } }
            }
        }
    }
}

fn areas(user: &str) -> Markup {
    html! {
        section.block {
            div.block-head { h2 { "Objects of " (user) } }
            ul {
                @for (area, text) in [("stor", "yours alone"), ("public", "anybody may read it"), ("jobs", "what jobs leave behind")] {
                    li { a href={ (OBJECTS) "/" (area) } { (area) } ": " (text) }
                }
            }
        }
    }
}

fn browsed_page(user: &str, path: &str, browsed: &Browsed) -> Markup {
    match browsed {
        Browsed::Directory {
            entries,
            children,
            next,
        } => html! {
            section.block {
                div.block-head { h2 { (children) " entries" } }
                table.rows {
                    thead { tr { th { "Name" } th.num { "Bytes" } th { "Changed" } } }
                    tbody {
                        @for entry in entries {
                            tr {
                                td data-head="Name" {
                                    a href={ (OBJECTS) (path) "/" (encode_component(&entry.name)) } { code { (clean(&entry.name)) @if entry.bytes.is_none() { "/" } } }
                                }
                                td.num data-head="Bytes" { @if let Some(bytes) = entry.bytes { (bytes) } }
                                td data-head="Changed" { span.time { (entry.modified) } }
                            }
                        }
                    }
                }
                @if let Some(next) = next { p { a href={ (OBJECTS) (path) "?after=" (encode_component(next)) } { "Next page" } } }
                // The directory of an area is always there.
                @if *children == 0 && path.matches('/').count() > 1 { (deletion(path)) }
            }
        },
        Browsed::Object {
            bytes,
            modified,
            media_type,
            preview,
        } => html! {
            section.block {
                div.block-head { h2 { (readable(path.rsplit('/').next().unwrap_or_default())) } }
                p { (bytes) " bytes, " code { (clean(media_type)) } ", changed " (modified) }
                p { a.button href={ "/" (user) (path) } download { "Download" } }
                @match preview {
                    Some(text) => pre { code { (preview_text(text)) } },
                    None => p { "It is empty, or no plain text." },
                }
                (deletion(path))
            }
        },
    }
}

/// A script sends the files, as any client does: a form would send them as parts of one body.
fn upload(parts: &Parts, user: &str, path: &str) -> Markup {
    html! {
        section.block {
            div.block-head { h2 { "Upload" } }
            p data-upload-part hidden {
                label { "Files to store here: " input type="file" multiple data-upload={ "/" (user) (path) }; }
            }
            output data-upload-words {}
            noscript { p { "Without JavaScript: " code { "cannery stor put" } } }
            script src=(parts.assets.upload.path) defer {}
        }
    }
}

/// A text without the characters that command the reader's screen, line by line.
fn preview_text(text: &str) -> String {
    let line = |line: &str| clean_to(&line.replace('\t', "    "), usize::MAX);
    let lines: Vec<String> = text.lines().map(line).collect();
    lines.join("\n")
}

/// Opened first: one click alone deletes nothing.
fn deletion(path: &str) -> Markup {
    html! {
        details {
            summary { "Delete" }
            form method="post" action={ (OBJECTS) (path) } { button.button.danger type="submit" { "Delete it for good" } }
        }
    }
}
