//! What a path means: `/<user>/<area>/<component>/…`, each component encoded by itself.

use cannery_formats::object_path::{Area, InvalidObjectPath};
use cannery_formats::user_name::RESERVED_USER_NAMES;
use cannery_formats::{ObjectPath, UserName};

use super::error::ApiError;

/// An address of the API.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ApiAddress {
    /// Whose it is.
    pub(super) user: UserName,
    /// Which object or directory.
    pub(super) path: ObjectPath,
}

impl ApiAddress {
    /// Whether a path has the form of one: its second component is an area, and its first one is not an address of the server.
    pub(super) fn is_one(path: &str) -> bool {
        let mut components = path.split('/').filter(|component| !component.is_empty());
        components
            .next()
            .is_some_and(|user| !RESERVED_USER_NAMES.contains(&user))
            && components
                .next()
                .is_some_and(|area| area_named(area).is_some())
    }

    /// Reads the path of a request, or of a `Location`.
    pub(super) fn parse(path: &str) -> Result<Self, ApiError> {
        let mut components = path.split('/').filter(|component| !component.is_empty());
        let user = components.next().and_then(|user| UserName::new(user).ok());
        let area = components.next().and_then(area_named);
        let (Some(user), Some(area)) = (user, area) else {
            return Err(ApiError::absent(&shown(path)));
        };
        let decoded: Result<Vec<String>, ApiError> = components.map(decode).collect();
        let decoded = decoded?;
        let path = ObjectPath::from_components(area, decoded.iter().map(String::as_str));
        Ok(Self {
            user,
            path: path.map_err(|error: InvalidObjectPath| ApiError::invalid(error.to_string()))?,
        })
    }
}

fn area_named(name: &str) -> Option<Area> {
    Area::ALL.into_iter().find(|area| area.name() == name)
}

fn shown(path: &str) -> String {
    path.chars().take(200).collect()
}

/// The text that an encoded component stands for.
pub(crate) fn decode(component: &str) -> Result<String, ApiError> {
    let invalid = || {
        let shown = shown(component);
        ApiError::invalid(format!(
            "`{shown}` in the path is not percent-encoded UTF-8"
        ))
    };
    let mut bytes = Vec::with_capacity(component.len());
    let mut rest = component.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = char::from(rest.next()?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        let (high, low) = digit().zip(digit()).ok_or_else(invalid)?;
        bytes.push(high << 4 | low);
    }
    String::from_utf8(bytes).map_err(|_| invalid())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_slashes_are_collapsed() {
        for (path, means) in [
            ("/ann/stor/a%20b/%2541", "/stor/a b/%41"),
            ("/ann/stor///a//b/", "/stor/a/b"),
            ("/ann/public", "/public"),
            ("/ann/jobs/x/stor/y", "/jobs/x/stor/y"),
            ("/ann/stor/%C3%A4+b", "/stor/ä+b"),
        ] {
            let address = ApiAddress::parse(path).unwrap();
            assert_eq!(
                (address.user.as_str(), address.path.as_str()),
                ("ann", means)
            );
            assert!(ApiAddress::is_one(path));
        }
    }

    #[test]
    fn what_would_lead_elsewhere_is_refused() {
        let long = format!("/ann/stor/{}", "a/".repeat(2_500));
        for path in [
            "/ann/stor/..",
            "/ann/stor/%2e%2e",
            "/ann/stor/a%2Fb",
            "/ann/stor/%00",
            "/ann/stor/a%0ab",
            "/ann/stor/%",
            "/ann/stor/%4",
            "/ann/stor/%zz",
            "/ann/stor/%ff",
            "/ann/stor/.",
            &long,
        ] {
            let error = ApiAddress::parse(path).unwrap_err();
            assert_eq!(error.status, http::StatusCode::BAD_REQUEST, "{path}");
        }
        for (path, is_one) in [
            ("/", false),
            ("/ann", false),
            ("/ann/other/a", false),
            ("/status/stor/a", false),
            ("/lake/stor/a", false),
            // No user, but nothing of the dashboard either.
            ("/A/stor", true),
            ("/../stor", true),
        ] {
            assert_eq!(
                ApiAddress::parse(path).unwrap_err().status,
                http::StatusCode::NOT_FOUND
            );
            assert_eq!(ApiAddress::is_one(path), is_one, "{path}");
        }
    }
}
