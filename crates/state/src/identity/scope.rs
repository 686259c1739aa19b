//! What a credential may do, beyond being its user.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Serialize, Serializer};

/// One thing that a token may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scope {
    /// Read the user's own objects and jobs, and what is sanitised in the lake.
    Read,
    /// Write them.
    Write,
    /// Manage users and tokens.
    Admin,
    /// Read what is not sanitised in the lake.
    Raw,
    /// Nothing: it marks the token of a browser, which is good as a cookie alone. Nobody can ask for it.
    Browser,
}

impl Scope {
    /// All that somebody can ask for.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Admin, Self::Raw];

    /// Its name, in the table too.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Read => "read",
            Self::Write => "write",
            Self::Admin => "admin",
            Self::Raw => "raw",
            Self::Browser => "browser",
        }
    }

    /// The one of that name in the table; nothing for one that a newer program has written.
    pub(super) fn stored(name: &str) -> Option<Self> {
        match name {
            "browser" => Some(Self::Browser),
            _ => name.parse().ok(),
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The text is not a scope.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope `{}`: choose from read, write, admin, raw", .0.escape_debug())]
pub struct UnknownScope(String);

impl FromStr for Scope {
    type Err = UnknownScope;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|scope| scope.name() == text)
            .ok_or_else(|| UnknownScope(text.chars().take(40).collect()))
    }
}

/// Everything that a credential may do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scopes(BTreeSet<Scope>);

impl Scopes {
    /// Whether it may do that.
    #[must_use]
    pub fn has(&self, scope: Scope) -> bool {
        self.0.contains(&scope)
    }

    /// These and another one.
    #[must_use]
    pub fn with(mut self, scope: Scope) -> Self {
        self.0.insert(scope);
        self
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Self {
        Self(scopes.into_iter().collect())
    }
}

impl fmt::Display for Scopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.0.iter().map(|scope| scope.name()).collect();
        f.pad(&names.join(","))
    }
}

impl FromStr for Scopes {
    type Err = UnknownScope;

    /// Reads `read,write`.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        text.split(',').map(str::parse).collect()
    }
}

impl Serialize for Scopes {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|scope| scope.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_read_as_they_are_written() {
        let scopes: Scopes = "write,read".parse().unwrap();
        assert_eq!(scopes.to_string(), "read,write");
        assert!(scopes.has(Scope::Read) && !scopes.has(Scope::Raw));
        for odd in ["", "read,", "Read", "all"] {
            assert!(odd.parse::<Scopes>().is_err(), "{odd:?}");
        }
    }
}
