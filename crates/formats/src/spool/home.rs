//! Under which folder a spool's objects stand: the version of the convention, and from version 2 on the organization.

use std::fmt;

use super::{InvalidWord, Organization};

const V1: &str = "autoload/v1";
const V2: &str = "autoload/v2";

/// The first part of every object name of a spool. A loader knows these two conventions, so there is no other.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ObjectHome {
    /// `autoload/v1`: one organization has the lake for itself.
    #[default]
    V1,
    /// `autoload/v2/<organization>`.
    V2(Organization),
}

/// Why there is no such home.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidObjectHome {
    /// It is neither of the two.
    #[error("unknown object home `{}`: it must be `{V1}` or `{V2}`", .0.escape_debug())]
    Unknown(String),
    /// `autoload/v1` has no place for an organization.
    #[error("object home `{V1}` has no organization; leave it out, or use `{V2}`")]
    OrganizationForbidden,
    /// `autoload/v2` needs one.
    #[error("object home `{V2}` needs an organization; name one")]
    OrganizationMissing,
    /// The organization's name is none.
    #[error(transparent)]
    Organization(#[from] InvalidWord),
}

impl ObjectHome {
    /// The home `text`, and the organization it needs or must not have.
    ///
    /// # Errors
    /// [`InvalidObjectHome`] when the two do not fit together.
    pub fn new(text: &str, organization: Option<&str>) -> Result<Self, InvalidObjectHome> {
        match (text, organization) {
            (V1, None) => Ok(Self::V1),
            (V1, Some(_)) => Err(InvalidObjectHome::OrganizationForbidden),
            (V2, None) => Err(InvalidObjectHome::OrganizationMissing),
            (V2, Some(name)) => Ok(Self::V2(Organization::new(name)?)),
            _ => Err(InvalidObjectHome::Unknown(text.chars().take(80).collect())),
        }
    }

    /// The version alone, without the organization: table schemas stand here.
    #[must_use]
    pub fn version(&self) -> &'static str {
        match self {
            Self::V1 => V1,
            Self::V2(_) => V2,
        }
    }

    /// The organization, if the version has one.
    #[must_use]
    pub fn organization(&self) -> Option<&Organization> {
        match self {
            Self::V1 => None,
            Self::V2(organization) => Some(organization),
        }
    }
}

impl fmt::Display for ObjectHome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.version())?;
        match self.organization() {
            None => Ok(()),
            Some(organization) => write!(f, "/{organization}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn version_and_organization_must_fit_together() {
        assert_eq!(ObjectHome::new(V1, None), Ok(ObjectHome::default()));
        let home = ObjectHome::new(V2, Some("rnp")).unwrap();
        assert_eq!(home.to_string(), "autoload/v2/rnp");
        for (text, organization, reason) in [
            (V1, Some("rnp"), "leave it out"),
            (V2, None, "name one"),
            (V2, Some("R-NP"), "invalid organization"),
            (V2, Some("tables"), "reserved"),
            ("autoload/v3", None, "must be `autoload/v1`"),
            ("autoload/v1/", None, "must be `autoload/v1`"),
            ("", None, "must be `autoload/v1`"),
        ] {
            let error = ObjectHome::new(text, organization).unwrap_err().to_string();
            assert!(error.contains(reason), "{text} {organization:?}: {error}");
        }
    }
}
