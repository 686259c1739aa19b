//! Where the catalog and the state are: a file, or a server whose password nobody sees.

use std::fmt;
use std::path::{Path, PathBuf};

use cannery_runtime::Secret;
use serde::{Serialize, Serializer};

use super::ConfigError;
use super::journal::{DatabaseUrl, EngineAddress};

/// What a place begins with that is a file.
const FILE_SCHEME: &str = "sqlite:";

/// What is kept in a database of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    Catalog,
    State,
}

impl Purpose {
    /// Its key in the configuration.
    fn key(self) -> &'static str {
        match self {
            Self::Catalog => "catalog",
            Self::State => "state",
        }
    }

    /// The file in the workspace where nothing else is said.
    fn file_name(self) -> &'static str {
        match self {
            Self::Catalog => "catalog.db",
            Self::State => "state.sqlite",
        }
    }
}

/// The place of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum DatabasePlace {
    Sqlite(PathBuf),
    Postgres(DatabaseUrl),
}

impl DatabasePlace {
    /// What opens it.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Sqlite(path) => format!("sqlite:{}", path.display()),
            Self::Postgres(url) => url.expose().to_owned(),
        }
    }
}

impl fmt::Display for DatabasePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sqlite(path) => write!(f, "sqlite:{}", path.display()),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

impl Serialize for DatabasePlace {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Whether a place, as it is written, is a file.
pub(super) fn names_file(raw: &Secret) -> bool {
    raw.expose().starts_with(FILE_SCHEME)
}

pub(super) fn check(
    purpose: Purpose,
    raw: Option<&Secret>,
    workspace: &Path,
) -> Result<DatabasePlace, ConfigError> {
    let wrong = |reason: String| ConfigError::new(0, reason).below(purpose.key());
    let Some(text) = raw.map(Secret::expose) else {
        return Ok(DatabasePlace::Sqlite(workspace.join(purpose.file_name())));
    };
    if let Some(path) = text.strip_prefix(FILE_SCHEME) {
        return match path {
            "" => Err(wrong("`sqlite:` names no file".to_owned())),
            path => Ok(DatabasePlace::Sqlite(PathBuf::from(path))),
        };
    }
    match text.parse() {
        Ok(EngineAddress::Postgres(url)) => Ok(DatabasePlace::Postgres(url)),
        Ok(EngineAddress::Embedded) | Err(_) => Err(wrong(format!(
            "it is no {}; write `sqlite:FILE` or `postgres://user@host/database`",
            purpose.key()
        ))),
    }
}

/// The same file would be two databases; their tables would meet.
pub(super) fn check_apart(one: &DatabasePlace, two: &DatabasePlace) -> Result<(), ConfigError> {
    match (one, two) {
        (DatabasePlace::Sqlite(one), DatabasePlace::Sqlite(two)) if one == two => {
            let reason = "`catalog` and `state` are the same file; give each its own";
            Err(ConfigError::new(0, reason))
        }
        // On a server each has a schema of its own.
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_or_a_database_and_nothing_else() {
        let place = |text: Option<&str>| {
            let raw = text.map(Secret::unremembered);
            check(Purpose::State, raw.as_ref(), Path::new("w"))
        };
        let catalog = check(Purpose::Catalog, None, Path::new("w")).unwrap();
        assert_eq!(catalog.to_string(), "sqlite:w/catalog.db");
        let state = place(None).unwrap();
        assert_eq!(state.to_string(), "sqlite:w/state.sqlite");
        assert!(check_apart(&catalog, &state).is_ok());
        assert!(check_apart(&catalog, &catalog).is_err());
        assert_eq!(place(Some("sqlite:c.db")).unwrap().address(), "sqlite:c.db");
        let database = place(Some("postgres://u:geheim@h/db")).unwrap();
        assert!(!format!("{database} {database:?}").contains("geheim"));
        assert_eq!(database.address(), "postgres://u:geheim@h/db");
        for text in ["", "embedded", "sqlite:", "mysql://h/db", "c.db"] {
            let error = place(Some(text)).unwrap_err().to_string();
            assert!(error.starts_with("`state`: "), "{error}");
        }
    }
}
