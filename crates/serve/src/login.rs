//! Logging a browser in and out: `/login` and `/logout` of listeners that have the API.
//!
//! The link has a code that is good once. Opening it changes nothing, because programs that preview links open them as well: a
//! button does. The form has no address of its own and so goes back to the one with the code, which then is on no page.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::Response;
use axum::routing::{get, post};
use http::header::{LOCATION, SET_COOKIE};
use http::{HeaderValue, StatusCode};
use maud::{Markup, html};

use crate::api::{Api, ApiSlot, session};
use crate::objects_page::OBJECTS;
use crate::page;
use crate::server::ConnectionOrigin;
use crate::shell::Parts;

pub(crate) const LOGIN: &str = "/login";
pub(crate) const LOGOUT: &str = "/logout";

/// The routes, where there are users.
pub(crate) fn routes(parts: &Parts) -> Router<Arc<Parts>> {
    match parts.api {
        None => Router::new(),
        Some(_) => Router::new()
            .route(LOGIN, get(show).post(log_in))
            .route(LOGOUT, post(log_out)),
    }
}

/// The API, once it can be used.
pub(crate) fn api(parts: &Parts) -> Result<Arc<Api>, Box<Response>> {
    let api = parts.api.as_ref().and_then(ApiSlot::api);
    api.ok_or_else(|| Box::new(unavailable(parts, &"users' objects cannot be used yet")))
}

fn code(request: &Request) -> Option<&str> {
    let mut pairs = request.uri().query().unwrap_or_default().split('&');
    pairs.find_map(|pair| pair.strip_prefix("code="))
}

async fn show(State(parts): State<Arc<Parts>>, request: Request) -> Response {
    let api = match api(&parts) {
        Ok(api) => api,
        Err(response) => return *response,
    };
    let connection = request.extensions().get::<ConnectionOrigin>();
    let user = match session::user(&api, request.headers(), connection).await {
        Ok(user) => user.map(|(user, _)| user.name),
        Err(error) => return unavailable(&parts, &error),
    };
    let main = match (user, code(&request)) {
        (_, Some(_)) => form("Log in", "Log in on this browser for twelve hours.", None),
        (Some(user), None) => {
            let text = format!("This browser is logged in as {user}.");
            form("Log out", &text, Some(LOGOUT))
        }
        (None, None) => html! {
            section.problem {
                h1 { "Not logged in" }
                p { "Open the link that the program prints when it starts. Each is good once, for ten minutes." }
            }
        },
    };
    page::page(&parts, StatusCode::OK, LOGIN, "Login", &main)
}

fn form(button: &str, text: &str, action: Option<&str>) -> Markup {
    html! {
        section.problem {
            h1 { (button) }
            p { (text) }
            form method="post" action=[action] { button.button type="submit" { (button) } }
        }
    }
}

async fn log_in(State(parts): State<Arc<Parts>>, request: Request) -> Response {
    let api = match api(&parts) {
        Ok(api) => api,
        Err(response) => return *response,
    };
    let connection = request.extensions().get::<ConnectionOrigin>();
    if !api.is_private(connection, request.headers()) {
        let text = "A browser can log in on the machine itself, or over TLS: everybody on the way could read the cookie.";
        return page::problem(&parts, StatusCode::FORBIDDEN, "Not over this wire", text);
    }
    let Some(grant) = code(&request).and_then(|code| api.take_login(code)) else {
        let text =
            "Each link is good once, for ten minutes. The program prints a new one when it starts.";
        let headline = "This link is used up";
        return page::problem(&parts, StatusCode::FORBIDDEN, headline, text);
    };
    match session::open(&api, &grant, is_encrypted(connection)).await {
        Ok(cookie) => redirect(OBJECTS, &cookie),
        Err(error) => unavailable(&parts, &error),
    }
}

async fn log_out(State(parts): State<Arc<Parts>>, request: Request) -> Response {
    let api = match api(&parts) {
        Ok(api) => api,
        Err(response) => return *response,
    };
    let connection = request.extensions().get::<ConnectionOrigin>();
    let revoked = match session::user(&api, request.headers(), connection).await {
        Ok(Some((_, token))) => api.revoke(&token.id).await,
        Ok(None) => Ok(()),
        Err(error) => Err(error.into()),
    };
    match revoked {
        Ok(()) => redirect(LOGIN, &session::forget(is_encrypted(connection))),
        Err(error) => unavailable(&parts, &error),
    }
}

fn is_encrypted(connection: Option<&ConnectionOrigin>) -> bool {
    connection.is_some_and(|connection| connection.is_encrypted)
}

fn redirect(to: &'static str, cookie: &str) -> Response {
    let mut response = page::text(StatusCode::SEE_OTHER, "");
    let headers = response.headers_mut();
    headers.insert(LOCATION, HeaderValue::from_static(to));
    headers.extend(HeaderValue::try_from(cookie).map(|cookie| (SET_COOKIE, cookie)));
    response
}

fn unavailable(parts: &Parts, error: &dyn std::fmt::Display) -> Response {
    tracing::warn!(%error, "cannot log a browser in or out");
    let text =
        "The server cannot reach its database now. Try again in a moment; the log says more.";
    let headline = "Not now";
    page::problem(parts, StatusCode::SERVICE_UNAVAILABLE, headline, text)
}
