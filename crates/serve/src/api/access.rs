//! Every decision whether somebody may do something.

use cannery_formats::object_path::Area;
use cannery_formats::{Key, UserName};
use cannery_state::identity::{Scope, User};
use http::{HeaderMap, StatusCode};

use super::address::ApiAddress;
use super::caller::Caller;
use super::error::{ApiError, ErrorCode};
use crate::server::ConnectionOrigin;

/// What somebody wants to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Intent {
    /// See an object or a directory.
    Read,
    /// Put, link, make or delete one.
    Write,
}

/// Whether nobody on the way can have read the request: it came over TLS, or from this machine. Behind a proxy everybody seems to be
/// on this machine, so then nobody is.
pub(super) fn is_private(
    connection: Option<&ConnectionOrigin>,
    headers: &HeaderMap,
    is_proxied: bool,
) -> bool {
    connection.is_some_and(|connection| {
        let is_here = connection.peer.ip().to_canonical().is_loopback();
        connection.is_encrypted || (is_here && !is_proxied && !was_forwarded(headers))
    })
}

fn was_forwarded(headers: &HeaderMap) -> bool {
    headers.keys().any(|name| {
        name == "forwarded" || name == "via" || name.as_str().starts_with("x-forwarded-")
    })
}

/// Whether the caller may do that there.
///
/// # Errors
/// 401 for nobody, 403 for somebody else, 404 for what somebody else must not know of.
pub(super) fn check(caller: &Caller, intent: Intent, at: &ApiAddress) -> Result<(), ApiError> {
    let is_public = at.path.area() == Area::Public;
    match (caller, intent) {
        (_, Intent::Read) if is_public => Ok(()),
        (Caller::Anonymous, _) => Err(nobody()),
        (Caller::User { user, .. } | Caller::SignedAddress { user, .. }, _)
            if user.name != at.user.as_str() =>
        {
            match at.path.area() {
                // Which jobs somebody has is nobody else's business.
                Area::Jobs => Err(ApiError::absent(&format!("/{}{}", at.user, at.path))),
                Area::Stor | Area::Public => Err(refuse("this belongs to another user")),
            }
        }
        (_, Intent::Write) if is_of_a_job(at) => Err(refuse(
            "what a job leaves behind is written by the job alone",
        )),
        // The signature names the method and the address, and nothing else that a request may name.
        (Caller::SignedAddress { path, .. }, _) if *path == at.path => Ok(()),
        (Caller::SignedAddress { .. }, _) => Err(refuse("the signed address is of another object")),
        (Caller::User { scopes, .. }, Intent::Read) if scopes.has(Scope::Read) => Ok(()),
        (Caller::User { scopes, .. }, Intent::Write) if scopes.has(Scope::Write) => Ok(()),
        (Caller::User { .. }, Intent::Read) => {
            Err(refuse("the token may not read; it needs the scope `read`"))
        }
        (Caller::User { .. }, Intent::Write) => Err(refuse(
            "the token may not write; it needs the scope `write`",
        )),
    }
}

/// Whether the caller may do more than read, put and delete one object: list a directory, make one, link, or change headers.
///
/// # Errors
/// 403 for a signed address, which is for objects only.
pub(super) fn check_more_than_an_object(caller: &Caller) -> Result<(), ApiError> {
    match caller {
        Caller::Anonymous | Caller::User { .. } => Ok(()),
        Caller::SignedAddress { .. } => Err(refuse(
            "a signed address is for reading, putting or deleting one object",
        )),
    }
}

/// Whether it is a job's directory, or lies in one but not in its `stor`.
fn is_of_a_job(at: &ApiAddress) -> bool {
    at.path.area() == Area::Jobs && at.path.components().nth(1) != Some("stor")
}

/// The user, if the caller is that one and may read.
///
/// # Errors
/// 401 for nobody, 403 for somebody else.
pub(super) fn check_account<'a>(
    caller: &'a Caller,
    asked: &UserName,
) -> Result<&'a User, ApiError> {
    match caller {
        Caller::Anonymous => Err(nobody()),
        Caller::User { user, .. } if user.name != asked.as_str() => {
            Err(refuse("this belongs to another user"))
        }
        Caller::User { user, scopes } if scopes.has(Scope::Read) => Ok(user),
        Caller::User { .. } => Err(refuse("the token may not read; it needs the scope `read`")),
        Caller::SignedAddress { .. } => Err(refuse("a signed address is for objects only")),
    }
}

/// What a credential needs to read an object of the lake; nothing if nobody may. It is a list of what is allowed: what the lake
/// keeps for itself and the bytes of users are not on it, however they are spelled.
pub(super) fn scope_for_lake(key: &Key) -> Option<Scope> {
    let (first, below) = key.as_str().split_once('/')?;
    match first {
        _ if below.is_empty() => None,
        "autoload" | "autoclaved" => Some(Scope::Read),
        "reports-raw" | "canned" => Some(Scope::Raw),
        _ if key.as_feed_object().is_some() => Some(Scope::Read),
        _ => None,
    }
}

/// Whether the caller, who may be any user, may read what needs that scope.
///
/// # Errors
/// 401 for nobody, 403 without the scope.
pub(super) fn check_lake(caller: &Caller, scope: Scope) -> Result<(), ApiError> {
    match caller {
        Caller::Anonymous => Err(nobody()),
        Caller::User { scopes, .. } if scopes.has(scope) => Ok(()),
        Caller::User { .. } => Err(refuse(&format!(
            "the token may not read this; it needs the scope `{scope}`"
        ))),
        Caller::SignedAddress { .. } => Err(refuse("a signed address is for objects only")),
    }
}

fn nobody() -> ApiError {
    ApiError::new(
        StatusCode::UNAUTHORIZED,
        ErrorCode::AuthorizationRequired,
        "this needs a credential: a token (`cannery token create`) or a signature",
    )
}

fn refuse(message: &str) -> ApiError {
    ApiError::new(
        StatusCode::FORBIDDEN,
        ErrorCode::AuthorizationFailed,
        message,
    )
}

#[cfg(test)]
mod tests {
    use cannery_state::identity::{Scopes, User};

    use super::*;

    fn user(name: &str) -> User {
        User {
            id: name.to_owned(),
            name: name.to_owned(),
            bytes_max: None,
            created: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    fn with(name: &str, scopes: &str) -> Caller {
        let scopes: Scopes = scopes.parse().unwrap();
        Caller::User {
            user: user(name),
            scopes,
        }
    }

    #[test]
    fn a_credential_is_private_over_tls_or_on_this_machine_and_not_behind_a_proxy() {
        let (here, elsewhere) = ("127.0.0.1:9", "192.0.2.1:9");
        let mapped = "[::ffff:127.0.0.1]:9";
        for (peer, is_encrypted, header, is_proxied, expected) in [
            (here, false, "accept", false, true),
            ("[::1]:9", false, "accept", false, true),
            (mapped, false, "accept", false, true),
            (elsewhere, false, "accept", false, false),
            (elsewhere, true, "accept", false, true),
            (here, false, "forwarded", false, false),
            (here, false, "via", false, false),
            (here, false, "x-forwarded-for", false, false),
            (here, false, "x-forwarded-anything", false, false),
            (here, false, "accept", true, false),
            (here, true, "x-forwarded-for", true, true),
        ] {
            let connection = ConnectionOrigin::of(peer.parse().unwrap(), is_encrypted);
            let mut headers = HeaderMap::new();
            headers.insert(header, "x".parse().unwrap());
            let seen = is_private(Some(&connection), &headers, is_proxied);
            assert_eq!(
                seen, expected,
                "{peer} {is_encrypted} {header} {is_proxied}"
            );
        }
        assert!(!is_private(None, &HeaderMap::new(), false));
    }

    /// Who x which object of the lake: the status of reading.
    #[test]
    fn the_table_of_callers_and_the_lake() {
        let signed = Caller::SignedAddress {
            user: user("ann"),
            path: "/stor/a".parse().unwrap(),
        };
        let callers = [
            Caller::Anonymous,
            with("ann", "read"),
            with("ann", "raw"),
            with("ann", "read,write,admin,raw"),
            with("ann", "write,admin"),
            signed,
        ];
        for (key, expected) in [
            ("autoload/v1/x", [401, 200, 403, 200, 403, 403]),
            ("autoclaved/x", [401, 200, 403, 200, 403, 403]),
            ("vbb/2026/11/15/18/x.tar", [401, 200, 403, 200, 403, 403]),
            ("reports-raw/x", [401, 403, 200, 200, 403, 403]),
            ("canned/x", [401, 403, 200, 200, 403, 403]),
            (".cannery/lake-key", [404; 6]),
            (".Cannery/lake-key", [404; 6]),
            ("users/.log/x", [404; 6]),
            ("Users/x", [404; 6]),
            ("cannery.json", [404; 6]),
            ("autoload", [404; 6]),
            ("other/x", [404; 6]),
        ] {
            let scope = scope_for_lake(&Key::new(key).unwrap());
            for (caller, expected) in callers.iter().zip(expected) {
                let status = match scope {
                    None => 404,
                    Some(scope) => check_lake(caller, scope)
                        .map_or_else(|error| error.status.as_u16(), |()| 200),
                };
                assert_eq!(status, expected, "{key} {caller:?}");
            }
        }
    }

    /// Who x where: the status of reading and of writing.
    #[test]
    fn the_table_of_callers_and_addresses() {
        let callers = [
            Caller::Anonymous,
            with("ann", "read,write"),
            with("ann", "read"),
            with("ann", "write"),
            with("ann", "admin,raw"),
            Caller::SignedAddress {
                user: user("ann"),
                path: "/stor/a".parse().unwrap(),
            },
            with("bob", "read,write,admin,raw"),
            Caller::SignedAddress {
                user: user("bob"),
                path: "/stor/a".parse().unwrap(),
            },
        ];
        let table = [
            (
                "/ann/stor/a",
                [
                    [401, 401],
                    [200, 200],
                    [200, 403],
                    [403, 200],
                    [403, 403],
                    [200, 200],
                    [403, 403],
                    [403, 403],
                ],
            ),
            (
                "/ann/public/a",
                [
                    [200, 401],
                    [200, 200],
                    [200, 403],
                    [200, 200],
                    [200, 403],
                    [200, 403],
                    [200, 403],
                    [200, 403],
                ],
            ),
            (
                "/ann/jobs/1/in.txt",
                [
                    [401, 401],
                    [200, 403],
                    [200, 403],
                    [403, 403],
                    [403, 403],
                    [403, 403],
                    [404, 404],
                    [404, 404],
                ],
            ),
            (
                "/ann/jobs/1/stor/a",
                [
                    [401, 401],
                    [200, 200],
                    [200, 403],
                    [403, 200],
                    [403, 403],
                    [403, 403],
                    [404, 404],
                    [404, 404],
                ],
            ),
            (
                "/ann/jobs/1",
                [
                    [401, 401],
                    [200, 403],
                    [200, 403],
                    [403, 403],
                    [403, 403],
                    [403, 403],
                    [404, 404],
                    [404, 404],
                ],
            ),
        ];
        for (path, row) in table {
            let at = ApiAddress::parse(path).unwrap();
            for (caller, expected) in callers.iter().zip(row) {
                let status = |intent| {
                    check(caller, intent, &at).map_or_else(|error| error.status.as_u16(), |()| 200)
                };
                assert_eq!(
                    [status(Intent::Read), status(Intent::Write)],
                    expected,
                    "{path} {caller:?}"
                );
            }
        }
    }
}
