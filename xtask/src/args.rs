//! A command line of a few flags; not worth a dependency that takes longer to build than xtask.

use std::collections::VecDeque;

use crate::failure::{Failure, Result};

/// The arguments not yet taken. A command takes what it knows, then calls [`Args::finish`] or
/// [`Args::names`], which refuse the rest.
pub(crate) struct Args(VecDeque<String>);

impl Args {
    pub(crate) fn new(arguments: Vec<String>) -> Self {
        Self(arguments.into())
    }

    /// Takes the first argument, whatever it is.
    pub(crate) fn command(&mut self) -> Option<String> {
        self.0.pop_front()
    }

    /// Takes `name` if it is there.
    pub(crate) fn flag(&mut self, name: &str) -> bool {
        let before = self.0.len();
        self.0.retain(|argument| argument != name);
        self.0.len() != before
    }

    /// Whether the command was asked to explain itself.
    pub(crate) fn help(&mut self) -> bool {
        let long = self.flag("--help");
        self.flag("-h") || long
    }

    /// Takes `name VALUE` or `name=VALUE`.
    pub(crate) fn option(&mut self, name: &str) -> Result<Option<String>> {
        let Some(at) = self.0.iter().position(|argument| {
            argument
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
        }) else {
            return Ok(None);
        };
        let found = self.0.remove(at).expect("the position was just found");
        if let Some((_, value)) = found.split_once('=') {
            return Ok(Some(value.to_owned()));
        }
        match self.0.remove(at) {
            Some(value) if !value.starts_with('-') => Ok(Some(value)),
            Some(_) | None => Err(Failure::Usage(format!("`{name}` needs a value"))),
        }
    }

    /// The remaining arguments as plain names.
    pub(crate) fn names(self) -> Result<Vec<String>> {
        match self.0.iter().find(|argument| argument.starts_with('-')) {
            Some(unknown) => Err(unexpected(unknown)),
            None => Ok(self.0.into()),
        }
    }

    /// Refuses whatever nobody took.
    pub(crate) fn finish(self) -> Result<()> {
        match self.0.front() {
            Some(unknown) => Err(unexpected(unknown)),
            None => Ok(()),
        }
    }
}

fn unexpected(argument: &str) -> Failure {
    Failure::Usage(format!(
        "unexpected argument `{argument}`; add `--help` for what the command takes"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(line: &str) -> Args {
        Args::new(line.split_whitespace().map(str::to_owned).collect())
    }

    #[test]
    fn takes_flags_options_and_names_in_any_order() {
        let mut args = args("lake --quick --only fmt --root=x other");
        assert!(args.flag("--quick"));
        assert!(!args.flag("--quick"));
        assert_eq!(args.option("--only").unwrap().as_deref(), Some("fmt"));
        assert_eq!(args.option("--root").unwrap().as_deref(), Some("x"));
        assert_eq!(args.option("--absent").unwrap(), None);
        assert_eq!(args.names().unwrap(), ["lake", "other"]);
    }

    #[test]
    fn refuses_what_nobody_took() {
        assert!(args("--quik").finish().is_err());
        assert!(args("lake").finish().is_err());
        assert!(args("lake --quik").names().is_err());
        assert!(args("").finish().is_ok());
    }

    #[test]
    fn an_option_without_its_value_is_a_mistake() {
        assert!(args("--only").option("--only").is_err());
        assert!(args("--only --quick").option("--only").is_err());
    }
}
