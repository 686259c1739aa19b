//! The frame of every page, and the ways to make an answer.

use axum::body::Body;
use axum::response::Response;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use maud::{DOCTYPE, Markup, html};
use serde::Serialize;

use crate::login::LOGIN;
use crate::notice;
use crate::objects_page::OBJECTS;
use crate::section::State;
use crate::shell::Parts;

pub(crate) fn answer(
    status: StatusCode,
    media_type: &'static str,
    body: impl Into<Body>,
) -> Response {
    let mut response = Response::new(body.into());
    *response.status_mut() = status;
    response
        .headers_mut()
        .insert(CONTENT_TYPE, HeaderValue::from_static(media_type));
    response
}

pub(crate) fn text(status: StatusCode, text: &str) -> Response {
    answer(status, "text/plain; charset=utf-8", text.to_owned())
}

pub(crate) fn json(status: StatusCode, value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(body) => answer(status, "application/json", body + "\n"),
        Err(error) => {
            tracing::error!(%error, "cannot write an answer as JSON");
            text(
                StatusCode::INTERNAL_SERVER_ERROR,
                "the answer could not be made; the log says why\n",
            )
        }
    }
}

/// A page in the common frame. `path` is its address, for marking where the reader is.
pub(crate) fn page(
    parts: &Parts,
    status: StatusCode,
    path: &str,
    title: &str,
    main: &Markup,
) -> Response {
    page_of(parts, status, path, title, main, false)
}

/// The same; a page that is still is not fetched again while it is open.
pub(crate) fn page_of(
    parts: &Parts,
    status: StatusCode,
    path: &str,
    title: &str,
    main: &Markup,
    is_still: bool,
) -> Response {
    let page = html! {
        (DOCTYPE)
        // The script reloads a page whose program was replaced by another one.
        html lang="en" data-build={ (parts.assets.style.path) (parts.assets.script.path) (parts.identity.commit) } {
            (head(parts, title))
            body {
                a.skip href="#main" { "Skip to content" }
                (header(parts, path))
                main #main .wrap tabindex="-1" data-still[is_still] {
                    // The home page begins with everything that needs attention.
                    @if path != "/" { (notice::banner(&parts.notices.all())) }
                    (main)
                }
                (footer(parts))
            }
        }
    };
    answer(status, "text/html; charset=utf-8", page.into_string())
}

fn head(parts: &Parts, title: &str) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            meta name="robots" content="noindex";
            title { (title) " · " (parts.identity.node) " · Cannery" }
            link rel="icon" type="image/svg+xml" href=(parts.assets.icon.path);
            link rel="stylesheet" href=(parts.assets.style.path);
            script src=(parts.assets.script.path) defer {}
        }
    }
}

fn header(parts: &Parts, path: &str) -> Markup {
    let places = parts
        .sections
        .iter()
        .filter(|section| section.page().is_some());
    html! {
        header.top {
            div.wrap.top-row {
                a.brand href="/" {
                    img src=(parts.assets.logo.path) alt="" width="30" height="30";
                    "Cannery"
                }
                nav.places aria-label="Sections" {
                    (link("/", "Overview", path))
                    @for section in places { (link(&format!("/{}", section.slug()), section.title(), path)) }
                    // Other listeners share these pages, and do not have that one.
                    @if path == LOGIN || path == OBJECTS { (link(OBJECTS, "Objects", path)) }
                }
                p #live .live role="status" hidden { span.dot.idle {} span.live-words {} }
            }
        }
    }
}

fn link(to: &str, words: &str, path: &str) -> Markup {
    let is_below = || {
        path.strip_prefix(to)
            .is_some_and(|rest| rest.starts_with('/'))
    };
    let current = if to == path {
        Some("page")
    } else {
        is_below().then_some("true")
    };
    html! { a href=(to) aria-current=[current] { (words) } }
}

/// A sentence in which names stand in backticks, as in all messages of the product.
pub(crate) fn prose(text: &str) -> Markup {
    let pieces: Vec<&str> = text.split('`').collect();
    // An odd backtick out is a character like any other.
    let paired = pieces.len() % 2 == 1;
    html! {
        @for (at, piece) in pieces.iter().enumerate() {
            @if !paired && at + 1 == pieces.len() { "`" (piece) }
            @else if at % 2 == 1 { code { (piece) } }
            @else { (piece) }
        }
    }
}

/// A state as a mark.
pub(crate) fn dot(state: State) -> Markup {
    html! { span.dot.(state.class()) { span.sr { (state.words()) ": " } } }
}

fn footer(parts: &Parts) -> Markup {
    let identity = &parts.identity;
    html! {
        footer.bottom {
            div.wrap.bottom-row {
                p {
                    "Cannery " (identity.version) span.faint { " · " }
                    "commit " code title=(identity.commit) { (identity.short_commit()) } span.faint { " · " }
                    "node " code { (identity.node) }
                }
                p.links {
                    a href="/status.json" { "Status as JSON" }
                    a href="/metrics" { "Metrics" }
                    a href="/readyz" { "Readiness" }
                }
            }
        }
    }
}

/// A page that says what went wrong.
pub(crate) fn problem(parts: &Parts, status: StatusCode, headline: &str, text: &str) -> Response {
    let main = html! {
        section.problem {
            p.problem-code { (status.as_u16()) }
            h1 { (headline) }
            p { (text) }
            p { a.button href="/" { "Back to the overview" } }
        }
    };
    page(parts, status, "", headline, &main)
}

pub(crate) fn not_found(parts: &Parts) -> Response {
    let text =
        "There is no page at this address. It may belong to a part that is not switched on here.";
    problem(parts, StatusCode::NOT_FOUND, "Nothing on this shelf", text)
}

#[cfg(test)]
mod tests {
    use super::prose;

    #[test]
    fn names_in_backticks_are_set_as_code() {
        let set = |text| prose(text).into_string();
        assert_eq!(
            set("no lake `a<b`; run `doctor`"),
            "no lake <code>a&lt;b</code>; run <code>doctor</code>"
        );
        assert_eq!(set("`a` and one ` alone"), "<code>a</code> and one ` alone");
        assert_eq!(set("plain"), "plain");
    }
}
