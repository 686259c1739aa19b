//! Which object storage has what a stage makes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::config::typed::likely;

/// The ids of the object storages that have what the stages make.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map of keys")]
pub(crate) struct RawStores {
    /// Where cans, private indexes and the secret of the lake are, and where reports, bundles and hours are read. Default: the
    /// first of `object_storage`
    pub(crate) canned: Option<String>,
    /// Where archives are. One that is not that of the cans gets archives alone: nothing that is collected goes there. Default:
    /// where the cans are
    pub(crate) autoclaved: Option<String>,
}

/// The checked ids.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Stores {
    pub(crate) canned: String,
    pub(crate) autoclaved: String,
}

impl Stores {
    /// Whether an object storage is for archives alone: others may read it, so nothing raw goes there.
    pub(crate) fn is_apart(&self, id: &str) -> bool {
        self.autoclaved != self.canned && id == self.autoclaved
    }
}

/// `ids` are those of the object storages, of which there is one at least.
pub(super) fn check(raw: RawStores, ids: &[&str]) -> Result<Stores, String> {
    let first = ids.first().copied().unwrap_or_default();
    for (key, id) in [("canned", &raw.canned), ("autoclaved", &raw.autoclaved)] {
        if let Some(id) = id.as_deref().filter(|id| !ids.contains(id)) {
            return Err(unknown(key, id, ids));
        }
    }
    let canned = raw.canned.unwrap_or_else(|| first.to_owned());
    let autoclaved = raw.autoclaved.unwrap_or_else(|| canned.clone());
    let stores = Stores { canned, autoclaved };
    if stores.is_apart(first) {
        return Err(format!(
            "`storage.autoclaved`: `{first}` is the first object storage, which is the one that what was collected is read from; list another one before it"
        ));
    }
    Ok(stores)
}

fn unknown(key: &str, id: &str, ids: &[&str]) -> String {
    let hint = match likely(id, ids.iter().copied()) {
        Some(likely) => format!("did you mean `{likely}`?"),
        None => format!("there are: {}", ids.join(", ")),
    };
    let id = id.escape_debug();
    format!("`storage.{key}`: there is no object storage `{id}`; {hint}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(text: &str, ids: &[&str]) -> Result<(String, String), String> {
        let stores = check(serde_json::from_str(text).unwrap(), ids)?;
        Ok((stores.canned, stores.autoclaved))
    }

    #[test]
    fn nothing_said_is_the_first_for_both() {
        let both = |id: &str| Ok((id.to_owned(), id.to_owned()));
        assert_eq!(checked("{}", &["main", "copy"]), both("main"));
        assert_eq!(
            checked(r#"{"canned": "copy"}"#, &["main", "copy"]),
            both("copy")
        );
        let apart = check(
            serde_json::from_str(r#"{"autoclaved": "open"}"#).unwrap(),
            &["main", "open"],
        );
        let apart = apart.unwrap();
        assert!(apart.is_apart("open") && !apart.is_apart("main"));
    }

    #[test]
    fn what_is_not_there_or_would_be_read_first_is_refused() {
        for (text, reason) in [
            (
                r#"{"autoclaved": "opn"}"#,
                "`storage.autoclaved`: there is no object storage `opn`; did you mean `open`?",
            ),
            (
                r#"{"canned": "elsewhere"}"#,
                "`storage.canned`: there is no object storage `elsewhere`; there are: main, open",
            ),
            (
                r#"{"canned": "open", "autoclaved": "main"}"#,
                "`storage.autoclaved`: `main` is the first",
            ),
        ] {
            let error = checked(text, &["main", "open"]).unwrap_err();
            assert!(error.starts_with(reason), "{error}");
        }
    }
}
