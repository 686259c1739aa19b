//! The credential of a browser: a cookie that holds a token.
//!
//! A browser sends it by itself, whoever made it send the request. So it counts for writing only where the browser says that a
//! page of ours did, and one that is not good is nobody, unlike a credential that somebody chose to send.

use std::time::Duration;

use cannery_state::identity::{IdentityError, Scope, Token, User};
use http::header::COOKIE;
use http::request::Parts;
use http::{HeaderMap, Method, StatusCode};

use super::Api;
use super::access::is_private;
use super::caller::Caller;
use super::error::{ApiError, ErrorCode};
use super::login_codes::LoginGrant;
use crate::guard::is_own_page;
use crate::server::ConnectionOrigin;

const NAME: &str = "cannery_session";

/// How long somebody is logged in.
const LIFETIME: Duration = Duration::from_secs(12 * 60 * 60);

/// The token in the one cookie of ours.
fn token(headers: &HeaderMap) -> Option<&str> {
    let texts = headers.get_all(COOKIE).iter();
    let pairs = texts
        .filter_map(|text| text.to_str().ok())
        .flat_map(|text| text.split(';'))
        .filter_map(|pair| pair.trim().split_once('='));
    let mut ours = pairs.filter(|(name, _)| *name == NAME);
    match (ours.next(), ours.next()) {
        (Some((_, token)), None) => Some(token),
        _ => None,
    }
}

/// The user of the cookie, if it came a way that nobody else can read.
pub(crate) async fn user(
    api: &Api,
    headers: &HeaderMap,
    connection: Option<&ConnectionOrigin>,
) -> Result<Option<(User, Token)>, cannery_state::Error> {
    match token(headers) {
        Some(token) if is_private(connection, headers, api.parts.is_proxied) => {
            let found = api.parts.state.authenticate(token).await?;
            Ok(found.filter(|(_, token)| token.scopes.has(Scope::Browser)))
        }
        _ => Ok(None),
    }
}

/// Who asks with the cookie of a browser.
pub(super) async fn identify(api: &Api, request: &Parts) -> Result<Caller, ApiError> {
    let connection = request.extensions.get::<ConnectionOrigin>();
    let found = user(api, &request.headers, connection).await?;
    let Some((user, token)) = found else {
        return Ok(Caller::Anonymous);
    };
    let is_reading = matches!(request.method, Method::GET | Method::HEAD);
    // A page of another port of the same machine makes the browser send the cookie, too.
    if is_reading && is_of_another_page(&request.headers) {
        return Ok(Caller::Anonymous);
    }
    let is_encrypted = connection.is_some_and(|connection| connection.is_encrypted);
    if !is_reading && !is_own_page(&request.headers, is_encrypted) {
        let message =
            "this was sent by a page that is not of this address; send a token instead of a cookie";
        let (status, code) = (StatusCode::FORBIDDEN, ErrorCode::AuthorizationFailed);
        return Err(ApiError::new(status, code, message));
    }
    let scopes = token.scopes;
    Ok(Caller::User { user, scopes })
}

/// Whether the browser says that a page of another address sent it.
fn is_of_another_page(headers: &HeaderMap) -> bool {
    let site = headers.get("sec-fetch-site");
    site.is_some_and(|site| site != "same-origin" && site != "none")
}

/// The value of `Set-Cookie` that logs a browser in.
pub(crate) async fn open(
    api: &Api,
    grant: &LoginGrant,
    is_encrypted: bool,
) -> Result<String, IdentityError> {
    let LoginGrant { user, scopes } = grant;
    let scopes = &scopes.clone().with(Scope::Browser);
    let state = &api.parts.state;
    let issued = state.create_token(user, scopes, Some(LIFETIME), &api.parts.rng);
    let text = issued.await?.text;
    let seconds = LIFETIME.as_secs();
    Ok(cookie(text.expose(), seconds, is_encrypted))
}

/// The value of `Set-Cookie` that makes a browser forget it.
pub(crate) fn forget(is_encrypted: bool) -> String {
    cookie("", 0, is_encrypted)
}

fn cookie(value: &str, seconds: u64, is_encrypted: bool) -> String {
    let secure = if is_encrypted { "; Secure" } else { "" };
    format!("{NAME}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_cookie_of_ours_is_found_among_others() {
        for (lines, expected) in [
            (&["cannery_session=a_b"][..], Some("a_b")),
            (&["x=1; cannery_session=a_b; y=2"], Some("a_b")),
            (&["x=1", "cannery_session=a_b"], Some("a_b")),
            (&["cannery_session=a; cannery_session=b"], None),
            (&["cannery_session=a", "cannery_session=b"], None),
            (&["xcannery_session=a"], None),
            (&["cannery_session"], None),
            (&[], None),
        ] {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(COOKIE, line.parse().unwrap());
            }
            assert_eq!(token(&headers), expected, "{lines:?}");
        }
    }
}
