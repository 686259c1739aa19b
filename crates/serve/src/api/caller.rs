//! Who asks. A credential that is there and not good is refused: it never becomes nobody.

use cannery_formats::ObjectPath;
use cannery_state::identity::{Scope, Scopes, User};
use http::StatusCode;
use http::header::AUTHORIZATION;
use http::request::Parts;

use super::access::is_private;
use super::address::ApiAddress;
use super::error::{ApiError, ErrorCode};
use super::query::Query;
use super::{Api, RequestPlace, session, signature, signed_url};
use crate::server::ConnectionOrigin;

/// Who asks.
#[derive(Clone, Debug)]
pub(super) enum Caller {
    /// Nobody that we know.
    Anonymous,
    /// A user, with what the credential may do.
    User {
        /// The user.
        user: User,
        /// What the credential may do.
        scopes: Scopes,
    },
    /// Somebody who was given a signed address by a user: good for that one object.
    SignedAddress {
        /// The user who signed it.
        user: User,
        /// What was signed.
        path: ObjectPath,
    },
}

impl Caller {
    /// The user who asks, or who has let somebody ask.
    pub(super) fn user(&self) -> Option<&User> {
        match self {
            Self::User { user, .. } | Self::SignedAddress { user, .. } => Some(user),
            Self::Anonymous => None,
        }
    }
}

/// What somebody may do who proves to be the user by a key.
pub(super) fn scopes_of_a_key() -> Scopes {
    [Scope::Read, Scope::Write].into_iter().collect()
}

pub(super) fn refused(message: &str) -> ApiError {
    ApiError::new(StatusCode::FORBIDDEN, ErrorCode::InvalidSignature, message)
}

/// Finds out who asks, and takes the place of such a caller among the requests. Only what has an address of an object can be signed.
///
/// # Errors
/// 401 or 403 for a credential that is not good, or that came over a wire which others can read; 503 if there is no place.
pub(super) async fn identify(
    api: &Api,
    request: &Parts,
    address: Option<&ApiAddress>,
    query: &Query,
) -> Result<Caller, ApiError> {
    let caller = find_out(api, request, address, query).await?;
    if let Some(place) = request.extensions.get::<RequestPlace>() {
        place.take(api, &caller)?;
    }
    Ok(caller)
}

async fn find_out(
    api: &Api,
    request: &Parts,
    address: Option<&ApiAddress>,
    query: &Query,
) -> Result<Caller, ApiError> {
    let headers = &request.headers;
    let is_signed = query.get("signature").is_some();
    let mut authorizations = headers.get_all(AUTHORIZATION).iter();
    let authorization = authorizations.next();
    if authorization.is_none() && !is_signed {
        return session::identify(api, request).await;
    }
    if authorizations.next().is_some() || (authorization.is_some() && is_signed) {
        return Err(ApiError::invalid(
            "the request carries two credentials; send one",
        ));
    }
    let connection = request.extensions.get::<ConnectionOrigin>();
    if !is_private(connection, headers, api.parts.is_proxied) {
        let message = "a credential over plain HTTP from another machine can be read on the way; use TLS (`serve.tls`)";
        return Err(ApiError::new(
            StatusCode::FORBIDDEN,
            ErrorCode::AuthorizationFailed,
            message,
        ));
    }
    let Some(authorization) = authorization else {
        let address = address.ok_or_else(|| refused("a signed address is for objects only"))?;
        return signed_url::identify(api, request, address, query).await;
    };
    let text = authorization.to_str().unwrap_or_default();
    let (scheme, rest) = text.split_once(' ').unwrap_or((text, ""));
    match scheme.to_ascii_lowercase().as_str() {
        "bearer" => by_token(api, rest.trim()).await,
        "signature" => signature::identify(api, headers, rest).await,
        _ => Err(ApiError::new(
            StatusCode::UNAUTHORIZED,
            ErrorCode::AuthorizationRequired,
            "the scheme of `Authorization` is unknown; use `Bearer` or `Signature`",
        )),
    }
}

async fn by_token(api: &Api, text: &str) -> Result<Caller, ApiError> {
    match api.parts.state.authenticate(text).await? {
        // That of a browser is good as its cookie alone.
        Some((user, token)) if !token.scopes.has(Scope::Browser) => Ok(Caller::User {
            user,
            scopes: token.scopes,
        }),
        _ => Err(ApiError::new(
            StatusCode::UNAUTHORIZED,
            ErrorCode::AuthorizationRequired,
            "the token is unknown, expired or revoked; make another one with `cannery token create`",
        )),
    }
}
