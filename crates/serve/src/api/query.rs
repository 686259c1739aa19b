//! What stands behind the `?`: pairs, each name at most once.

use super::address::decode;
use super::error::ApiError;

/// More pairs than any request needs.
const PAIRS_MAX: usize = 64;

/// The pairs of a query, decoded, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    pub(super) fn parse(text: Option<&str>) -> Result<Self, ApiError> {
        let mut pairs: Vec<(String, String)> = Vec::new();
        for pair in text
            .unwrap_or_default()
            .split('&')
            .filter(|pair| !pair.is_empty())
        {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            let (name, value) = (
                decode(&name.replace('+', " "))?,
                decode(&value.replace('+', " "))?,
            );
            if pairs.len() == PAIRS_MAX {
                let message = format!("the query has more than {PAIRS_MAX} parameters");
                return Err(ApiError::invalid(message));
            }
            if pairs.iter().any(|(known, _)| *known == name) {
                let shown: String = name.chars().take(80).collect();
                return Err(ApiError::invalid(format!(
                    "the parameter `{shown}` is there twice"
                )));
            }
            pairs.push((name, value));
        }
        Ok(Self(pairs))
    }

    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let mut pairs = self.0.iter();
        pairs
            .find(|(known, _)| known == name)
            .map(|(_, value)| value.as_str())
    }

    /// Whether a parameter is there that says yes: `true`, or nothing.
    ///
    /// # Errors
    /// 400 for what is neither yes nor no.
    pub(super) fn says(&self, name: &str) -> Result<bool, ApiError> {
        match self.get(name) {
            Some("true" | "") => Ok(true),
            None | Some("false") => Ok(false),
            Some(_) => Err(ApiError::parameter(name, "`true` or `false`")),
        }
    }

    /// All of them.
    pub(super) fn pairs(&self) -> &[(String, String)] {
        &self.0
    }
}
