//! What a path is of: an object of a user, a user, or the lake.

use cannery_formats::object_path::Area;
use cannery_formats::{Key, UserName};
use http::Method;

use super::address::{ApiAddress, decode};
use super::error::ApiError;

/// The first component of addresses of the lake.
const LAKE: &str = "lake";

/// What a path is of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum ApiRoute {
    /// `/:user`.
    Account(UserName),
    /// `/:user/:area/…`.
    Entry(ApiAddress),
    /// `/lake/<key>`; no key if it cannot be one.
    Lake(Option<Key>),
}

fn components(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|component| !component.is_empty())
}

impl ApiRoute {
    /// Whether a path is the API's.
    pub(super) fn is_one(path: &str) -> bool {
        let mut components = components(path);
        match (components.next(), components.next()) {
            (Some(LAKE), Some(_)) => true,
            (Some(user), None) => UserName::new(user).is_ok(),
            _ => ApiAddress::is_one(path),
        }
    }

    pub(super) fn parse(path: &str) -> Result<Self, ApiError> {
        let mut components = components(path);
        match (components.next(), components.next()) {
            (Some(LAKE), Some(first)) => {
                let decoded: Result<Vec<String>, ApiError> =
                    [first].into_iter().chain(components).map(decode).collect();
                // What is encoded must not become another component.
                let is_plain = |name: &String| !name.contains('/');
                let decoded = decoded.ok().filter(|names| names.iter().all(is_plain));
                Ok(Self::Lake(
                    decoded.and_then(|names| Key::new(names.join("/")).ok()),
                ))
            }
            (Some(user), None) => match UserName::new(user) {
                Ok(user) => Ok(Self::Account(user)),
                Err(_) => Err(ApiError::absent("this address")),
            },
            _ => ApiAddress::parse(path).map(Self::Entry),
        }
    }

    /// Its form, as `contract.rs` spells it.
    pub(super) fn template(&self) -> &'static str {
        match self {
            Self::Account(_) => "/{user}",
            Self::Lake(_) => "/lake/{key}",
            Self::Entry(address) => match (address.path.area(), address.path.is_root()) {
                (Area::Stor, true) => "/{user}/stor",
                (Area::Stor, false) => "/{user}/stor/{path}",
                (Area::Public, true) => "/{user}/public",
                (Area::Public, false) => "/{user}/public/{path}",
                (Area::Jobs, true) => "/{user}/jobs",
                (Area::Jobs, false) => "/{user}/jobs/{path}",
            },
        }
    }

    /// Whether it is of what everybody may read.
    pub(super) fn is_public(&self) -> bool {
        matches!(self, Self::Entry(address) if address.path.area() == Area::Public)
    }

    /// The methods that are known there.
    pub(super) fn methods(&self) -> &'static [Method] {
        const READING: [Method; 2] = [Method::GET, Method::HEAD];
        const ALL: [Method; 4] = [Method::GET, Method::HEAD, Method::PUT, Method::DELETE];
        const PUBLIC: [Method; 5] = [
            Method::GET,
            Method::HEAD,
            Method::PUT,
            Method::DELETE,
            Method::OPTIONS,
        ];
        match self {
            Self::Account(_) | Self::Lake(_) => &READING,
            Self::Entry(_) if self.is_public() => &PUBLIC,
            Self::Entry(_) => &ALL,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_of_the_lake_is_what_its_components_say() {
        for (path, key) in [
            ("/lake/autoload/v1/a%20b", Some("autoload/v1/a b")),
            ("//lake///autoload//v1/", Some("autoload/v1")),
            ("/lake/.cannery/lake-key", Some(".cannery/lake-key")),
            ("/lake/%2ecannery/lake-key", Some(".cannery/lake-key")),
            ("/lake/autoload/../users/x", None),
            ("/lake/autoload/%2e%2e/users/x", None),
            ("/lake/autoload%2f..%2fusers", None),
            ("/lake/autoload%2fa", None),
            ("/lake/%00", None),
            ("/lake/%ff", None),
            ("/lake/%zz", None),
        ] {
            assert!(ApiRoute::is_one(path), "{path}");
            let key = key.map(|key| Key::new(key).unwrap());
            assert_eq!(
                ApiRoute::parse(path).unwrap(),
                ApiRoute::Lake(key),
                "{path}"
            );
        }
    }

    #[test]
    fn what_is_the_dashboards_stays_there() {
        for path in [
            "/",
            "/lake",
            "/lake/",
            "/feeds",
            "/login",
            "/A",
            "/status.json",
            "/assets/x",
        ] {
            assert!(!ApiRoute::is_one(path), "{path}");
        }
        for path in ["/ann", "/ann/", "/ann/stor", "/ann/stor/x"] {
            assert!(ApiRoute::is_one(path), "{path}");
        }
        assert!(!ApiRoute::is_one("/ann/other"));
    }
}
