//! Where an object of a user lies: `/<user>/<area>/<component>/…`.
//!
//! The user is not part of an [`ObjectPath`]: a path means the same below every user, and users are renamed never.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The longest component of a path.
pub const COMPONENT_BYTES_MAX: usize = 255;

/// The longest path, from its area on.
pub const PATH_BYTES_MAX: usize = 1024;

/// The first part of a path: what the objects in it are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Area {
    /// `stor`: private to the user.
    Stor,
    /// `public`: anybody may read it.
    Public,
    /// `jobs`: what jobs leave behind.
    Jobs,
}

impl Area {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Stor, Self::Public, Self::Jobs];

    /// Its name in paths.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Stor => "stor",
            Self::Public => "public",
            Self::Jobs => "jobs",
        }
    }

    fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|area| area.name() == name)
    }
}

/// The path of an object or directory of a user: an area and any number of components, `/stor/a/b`. Without components it
/// is the directory of the area, which is always there.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectPath {
    area: Area,
    /// `/stor/a/b`.
    text: String,
}

/// Why a text is not a path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("invalid path `{}`: {reason}", .path.escape_debug())]
pub struct InvalidObjectPath {
    /// The text, shortened.
    pub path: String,
    /// What is wrong with it.
    pub reason: &'static str,
}

impl ObjectPath {
    /// The directory of an area.
    #[must_use]
    pub fn root(area: Area) -> Self {
        Self {
            area,
            text: format!("/{}", area.name()),
        }
    }

    /// From components that are not encoded any more; empty ones are left out, as `///` means `/`.
    ///
    /// # Errors
    /// [`InvalidObjectPath`] says which rule one of them breaks.
    pub fn from_components<'a>(
        area: Area,
        components: impl IntoIterator<Item = &'a str>,
    ) -> Result<Self, InvalidObjectPath> {
        let mut path = Self::root(area);
        for component in components {
            if !component.is_empty() {
                path = path.child(component)?;
            }
        }
        Ok(path)
    }

    /// What has that name in this directory.
    ///
    /// # Errors
    /// [`InvalidObjectPath`] says which rule the name breaks.
    pub fn child(&self, name: &str) -> Result<Self, InvalidObjectPath> {
        let text = format!("{}/{name}", self.text);
        let reason = component_fault(name).or_else(|| {
            (text.len() > PATH_BYTES_MAX).then_some("it is longer than 1024 bytes in all")
        });
        match reason {
            None => Ok(Self {
                area: self.area,
                text,
            }),
            Some(reason) => Err(InvalidObjectPath {
                path: text.chars().take(120).collect(),
                reason,
            }),
        }
    }

    /// Its area.
    #[must_use]
    pub fn area(&self) -> Area {
        self.area
    }

    /// `/stor/a/b`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it is the directory of an area.
    #[must_use]
    pub fn is_root(&self) -> bool {
        self.text.len() == 1 + self.area.name().len()
    }

    /// The last component: the area's name for the directory of an area.
    #[must_use]
    pub fn name(&self) -> &str {
        self.text.rsplit('/').next().unwrap_or_default()
    }

    /// The directory that it lies in; nothing for the directory of an area.
    #[must_use]
    pub fn parent(&self) -> Option<Self> {
        if self.is_root() {
            return None;
        }
        let (parent, _) = self.text.rsplit_once('/')?;
        Some(Self {
            area: self.area,
            text: parent.to_owned(),
        })
    }

    /// The components after the area.
    pub fn components(&self) -> impl Iterator<Item = &str> {
        self.text.split('/').skip(2)
    }
}

fn component_fault(name: &str) -> Option<&'static str> {
    match name {
        "" => Some("a component is empty"),
        "." | ".." => Some("a component is `.` or `..`"),
        long if long.len() > COMPONENT_BYTES_MAX => Some("a component is longer than 255 bytes"),
        slash if slash.contains('/') => Some("a component contains `/`"),
        odd if odd.chars().any(char::is_control) => Some("it contains a control character"),
        _ => None,
    }
}

impl fmt::Display for ObjectPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for ObjectPath {
    type Err = InvalidObjectPath;

    /// Reads `/stor/a/b`, not encoded.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let invalid = |reason| InvalidObjectPath {
            path: text.chars().take(120).collect(),
            reason,
        };
        let rest = text
            .strip_prefix('/')
            .ok_or_else(|| invalid("it does not begin with `/`"))?;
        let mut components = rest.split('/');
        let area = components
            .next()
            .and_then(Area::named)
            .ok_or_else(|| invalid("it does not begin with `/stor`, `/public` or `/jobs`"))?;
        Self::from_components(area, components)
    }
}

impl Serialize for ObjectPath {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.text)
    }
}

impl<'de> Deserialize<'de> for ObjectPath {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_path_has_a_parent_a_name_and_an_area() {
        let path: ObjectPath = "/stor/a b/%41".parse().unwrap();
        assert_eq!(path.area(), Area::Stor);
        assert_eq!(path.name(), "%41");
        assert_eq!(path.components().collect::<Vec<_>>(), ["a b", "%41"]);
        let parent = path.parent().unwrap();
        assert_eq!(parent.as_str(), "/stor/a b");
        let root = parent.parent().unwrap();
        assert!(root.is_root());
        assert_eq!(root, ObjectPath::root(Area::Stor));
        assert_eq!(root.parent(), None);
        assert_eq!(root.components().count(), 0);
    }

    #[test]
    fn repeated_slashes_are_one() {
        for text in ["/stor///a//b/", "/stor/a/b"] {
            assert_eq!(text.parse::<ObjectPath>().unwrap().as_str(), "/stor/a/b");
        }
    }

    #[test]
    fn what_would_lead_elsewhere_is_refused() {
        let long = format!("/stor/{}", "a".repeat(256));
        let deep = format!("/stor{}", "/abc".repeat(256));
        for text in [
            "",
            "stor/a",
            "/",
            "/other/a",
            "/stor/..",
            "/stor/a/../b",
            "/stor/.",
            "/stor/a\nb",
            "/stor/\0",
            "/stor/\u{85}",
            "/storage/a",
            &long,
            &deep,
        ] {
            assert!(text.parse::<ObjectPath>().is_err(), "{text:?}");
        }
        assert!(ObjectPath::root(Area::Stor).child("a/b").is_err());
        assert!(ObjectPath::root(Area::Stor).child("").is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(components in prop::collection::vec("[^/\\p{Cc}]{1,40}", 0..6)) {
            let components: Vec<&str> = components.iter().map(String::as_str).collect();
            if let Ok(path) = ObjectPath::from_components(Area::Public, components.iter().copied()) {
                prop_assert_eq!(path.components().collect::<Vec<_>>(), components);
                prop_assert_eq!(path.as_str().parse::<ObjectPath>().unwrap(), path);
            }
        }
    }
}
