//! Values from the environment: `{{ env.NAME }}`, or `{{ .NAME }}` as in a Go template, in any scalar.

use std::collections::{BTreeMap, BTreeSet};

use cannery_runtime::secret::MASK;

use super::ConfigError;
use super::tree::{Node, Value};

/// Shorter values are too common to be hidden.
const HIDDEN_BYTES_MIN: usize = 6;

/// Whether the stores' own tools read it. The author of a configuration from elsewhere never sees such a variable, even where the stores
/// may use it: in the header of a feed it would go to a place of the author's choice.
pub(crate) fn is_of_a_store(name: &str) -> bool {
    let mut beginnings = ["AWS_", "GOOGLE_", "AZURE_"].iter();
    beginnings.any(|beginning| name.starts_with(beginning))
}

/// Which variables a configuration may read.
#[derive(Clone)]
pub(crate) struct Environment {
    variables: BTreeMap<String, String>,
    allowed: Option<Vec<String>>,
}

/// The values that a configuration has taken from the environment. Others may be ordinary words that happen to stand there, such as the
/// name of the user.
#[derive(Clone, Default)]
pub(crate) struct Used(BTreeSet<String>);

impl Used {
    /// `text` without these values: one that stood in the wrong place may be a secret all the same.
    pub(crate) fn hide(&self, text: &str) -> String {
        let mut values: Vec<&String> = self.0.iter().collect();
        values.retain(|value| value.len() >= HIDDEN_BYTES_MIN);
        // Longest first, so that a value inside another one does not leave its ends behind.
        values.sort_by_key(|value| std::cmp::Reverse(value.len()));
        values.into_iter().fold(text.to_owned(), |text, value| {
            text.replace(value.as_str(), MASK)
        })
    }
}

impl Environment {
    /// All variables of the process; for a configuration that lies on this machine.
    pub(crate) fn all(variables: impl IntoIterator<Item = (String, String)>) -> Self {
        Self {
            variables: variables.into_iter().collect(),
            allowed: None,
        }
    }

    /// The same, but only `allowed` may be read; for a configuration from elsewhere, whose author must not be able to
    /// send this machine's secrets to a place of their choice.
    pub(crate) fn only(self, allowed: Vec<String>) -> Self {
        Self {
            allowed: Some(allowed),
            ..self
        }
    }

    /// Puts the variables into every text of the tree; gives back those that were used.
    pub(crate) fn substitute(&self, node: &mut Node) -> Result<Used, ConfigError> {
        let mut used = Used::default();
        self.put_into(node, &mut used)?;
        Ok(used)
    }

    fn put_into(&self, node: &mut Node, used: &mut Used) -> Result<(), ConfigError> {
        match &mut node.value {
            Value::Text(text) if text.contains("{{") => {
                *text = self
                    .fill(text, used)
                    .map_err(|reason| ConfigError::new(node.line, reason))?;
            }
            Value::List(items) => {
                for item in items {
                    self.put_into(item, used)?;
                }
            }
            Value::Map(entries) => {
                for (_, value) in entries {
                    self.put_into(value, used)?;
                }
            }
            Value::Text(_) | Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        Ok(())
    }

    fn fill(&self, text: &str, used: &mut Used) -> Result<String, String> {
        let mut filled = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            filled.push_str(&rest[..start]);
            let after = &rest[start + 2..];
            let end = after.find("}}").ok_or("`{{` without `}}`")?;
            let value = self.value_of(after[..end].trim())?;
            used.0.insert(value.to_owned());
            filled.push_str(value);
            rest = &after[end + 2..];
        }
        filled.push_str(rest);
        Ok(filled)
    }

    fn value_of(&self, action: &str) -> Result<&str, String> {
        let name = action
            .strip_prefix("env.")
            .or_else(|| action.strip_prefix('.'))
            .filter(|name| {
                !name.is_empty()
                    && name
                        .bytes()
                        .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
            });
        let Some(name) = name else {
            return Err(format!(
                "`{{{{ {action} }}}}` is not understood; only `{{{{ env.NAME }}}}` is"
            ));
        };
        if let Some(allowed) = &self.allowed {
            if is_of_a_store(name) {
                return Err(format!(
                    "the configuration comes from a URL and may not read the variable `{name}`, which is for the stores alone; leave the key out: they read the variable themselves where `--config-env {name}` allows it"
                ));
            }
            if !allowed.iter().any(|other| other == name) {
                return Err(format!(
                    "the configuration comes from a URL and may not read the variable `{name}`; allow it with `--config-env {name}`"
                ));
            }
        }
        let value = self.variables.get(name);
        value
            .map(String::as_str)
            .ok_or_else(|| format!("the environment variable `{name}` is not set"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tree::parse;
    use super::*;

    fn environment() -> Environment {
        let variables = [("KEY", "v: 1\n# {{ env.KEY }}"), ("OTHER", "o")];
        Environment::all(variables.map(|(name, value)| (name.to_owned(), value.to_owned())))
    }

    fn filled(text: &str, environment: &Environment) -> Result<Node, ConfigError> {
        let mut tree = parse(text).unwrap();
        environment.substitute(&mut tree)?;
        Ok(tree)
    }

    #[test]
    fn a_value_stays_one_scalar_whatever_it_contains() {
        let tree = filled("a: 'x {{ env.KEY }} {{ .OTHER }}'\n", &environment()).unwrap();
        let Value::Map(entries) = tree.value else {
            panic!()
        };
        assert_eq!(
            entries[0].1.value,
            Value::Text("x v: 1\n# {{ env.KEY }} o".into())
        );
    }

    #[test]
    fn what_cannot_be_filled_in_names_its_line() {
        for (text, reason) in [
            (
                "a: 1\nb: {{ env.MISSING }}",
                "line 2: the environment variable `MISSING` is not set",
            ),
            (
                "a: '{{ if .X }}'",
                "line 1: `{{ if .X }}` is not understood",
            ),
            ("a: 'x {{ env.KEY'", "`{{` without `}}`"),
        ] {
            let error = filled(text, &environment()).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }

    #[test]
    fn only_what_was_used_is_hidden() {
        let variables = [("TOKEN", "canary-1234"), ("USER", "subway")];
        let variables = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let environment = Environment::all(variables);
        let mut tree = parse("a: {{ env.TOKEN }}\n").unwrap();
        let used = environment.substitute(&mut tree).unwrap();
        assert_eq!(used.hide("feed subway: canary-1234"), "feed subway: ***");
    }

    #[test]
    fn a_configuration_from_elsewhere_reads_only_what_is_allowed() {
        let strict = environment().only(vec!["OTHER".into()]);
        filled("a: {{ env.OTHER }}", &strict).unwrap();
        let error = filled("a: {{ env.KEY }}", &strict).unwrap_err().to_string();
        assert!(error.contains("--config-env KEY"), "{error}");
    }

    #[test]
    fn a_configuration_from_elsewhere_never_reads_the_secrets_of_the_stores() {
        let name = "AWS_SECRET_ACCESS_KEY";
        let all = Environment::all([(name.to_owned(), "canary-of-store".to_owned())]);
        let strict = all.clone().only(vec![name.to_owned()]);
        let text = format!("feeds: [{{headers: {{x: '{{{{ env.{name} }}}}'}}}}]\n");
        let error = filled(&text, &strict).unwrap_err().to_string();
        assert!(error.contains("for the stores alone"), "{error}");
        assert!(!error.contains("canary"), "{error}");
        filled(&text, &all).unwrap();
    }
}
