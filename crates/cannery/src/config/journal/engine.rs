//! Where a journal is kept, as it is written: `embedded`, or the address of a database whose password nobody sees.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use cannery_runtime::Secret;
use cannery_runtime::secret::without_password;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// The engine of a journal.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum EngineAddress {
    /// In the workspace.
    #[default]
    Embedded,
    /// In a PostgreSQL database.
    Postgres(DatabaseUrl),
}

/// The address of a database. Unlike any other private URL it shows its user, who is part of the place; only passwords are
/// secrets, and only they are searched for in what is printed: the user is often called as the program.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct DatabaseUrl {
    whole: Secret,
    shown: String,
}

impl DatabaseUrl {
    /// The whole address, for connecting.
    pub(crate) fn expose(&self) -> &str {
        self.whole.expose()
    }

    fn new(url: &str) -> Self {
        Self {
            whole: Secret::unremembered(url),
            shown: without_password(url),
        }
    }
}

impl fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl FromStr for EngineAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_database = ["postgres://", "postgresql://"]
            .iter()
            .any(|scheme| text.starts_with(scheme));
        match text {
            "embedded" => Ok(Self::Embedded),
            _ if is_database && !text.contains(char::is_control) => {
                Ok(Self::Postgres(DatabaseUrl::new(text)))
            }
            _ => {
                // Only its begin: a string of `name=value` pairs may hold a password.
                let shown = without_password(text);
                let shown = shown.split_whitespace().next().unwrap_or_default();
                Err(format!(
                    "`{}` is not an engine; write `embedded` or `postgres://user@host/database`",
                    shown.escape_debug()
                ))
            }
        }
    }
}

impl fmt::Display for EngineAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Embedded => f.write_str("embedded"),
            Self::Postgres(url) => url.fmt(f),
        }
    }
}

impl<'de> Deserialize<'de> for EngineAddress {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        String::deserialize(from)?
            .parse()
            .map_err(serde::de::Error::custom)
    }
}

impl Serialize for EngineAddress {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl JsonSchema for EngineAddress {
    fn schema_name() -> Cow<'static, str> {
        "Engine".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^(embedded|postgres(ql)?://.*)$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cannery_runtime::secret::redact;

    #[test]
    fn a_password_is_shown_in_no_form_and_the_user_is() {
        for (url, shown) in [
            (
                "postgres://cannery:canary-db-1@h:5432,i:5433/db?sslmode=require",
                "postgres://cannery:***@h:5432,i:5433/db?sslmode=require",
            ),
            (
                "postgresql://u:canary/db@2%40x@h/db",
                "postgresql://u:***@h/db",
            ),
            (
                "postgres://h/db?user=u&password=canary-db-3",
                "postgres://h/db?user=u&password=***",
            ),
            ("postgres:///db?host=/run", "postgres:///db?host=/run"),
            ("postgres://u@h/db", "postgres://u@h/db"),
        ] {
            let engine: EngineAddress = url.parse().unwrap();
            let all = format!(
                "{engine} {engine:?} {}",
                serde_json::to_string(&engine).unwrap()
            );
            assert_eq!(engine.to_string(), shown);
            assert!(!all.contains("canary"), "{all}");
            let EngineAddress::Postgres(database) = engine else {
                panic!()
            };
            assert_eq!(database.expose(), url);
        }
        assert_eq!(redact("a canary-db-1 b canary-db-3 c"), "a *** b *** c");
        assert_eq!(redact("run `cannery`"), "run `cannery`");
    }

    #[test]
    fn what_is_no_engine_is_refused_without_its_password() {
        for text in ["", "sqlite:x", "mysql://u:canary-db-4@h/d", "Embedded"] {
            let reason = text.parse::<EngineAddress>().unwrap_err();
            assert!(reason.contains("is not an engine"), "{reason}");
            assert!(!reason.contains("canary"), "{reason}");
        }
    }
}
