//! What to say of a journal that is not there.

use crate::config::journal::check_name;
use crate::failure::{ExitCode, Failure};

/// At most so many names are listed.
const SHOWN: usize = 10;

/// Names the journals that there are, and the one that was probably meant.
pub(super) fn failure(name: &str, known: &[&str]) -> Failure {
    let shown = name.escape_debug();
    let message = format!("unknown journal `{shown}`; there are: {}", listed(known));
    let next = match (likely(name, known), check_name(name)) {
        (Some(likely), _) => format!("did you mean `{likely}`?"),
        (None, Err(_)) => "choose one of these; no journal can have such a name".to_owned(),
        (None, Ok(())) => format!(
            "make it with `cannery journal declare {shown}`, or in the configuration under `journals`"
        ),
    };
    Failure::new(ExitCode::Absent, "unknown_journal", message, next)
}

fn listed(known: &[&str]) -> String {
    let mut text = known
        .iter()
        .take(SHOWN)
        .map(|name| format!("`{name}`"))
        .collect::<Vec<_>>()
        .join(", ");
    if known.len() > SHOWN {
        text += &format!(" and {} more", known.len() - SHOWN);
    }
    text
}

fn likely<'a>(name: &str, known: &[&'a str]) -> Option<&'a str> {
    known
        .iter()
        .map(|other| (strsim::damerau_levenshtein(name, other), *other))
        .filter(|(mistakes, other)| *mistakes <= (other.len() / 3).max(1))
        .min_by_key(|(mistakes, _)| *mistakes)
        .map(|(_, other)| other)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_likely_one_is_named() {
        let failure = failure("defualt", &["default", "work"]);
        assert_eq!(failure.next, "did you mean `default`?");
        assert!(failure.message.ends_with("there are: `default`, `work`"));
    }

    #[test]
    fn many_are_not_all_listed() {
        let names: Vec<String> = (0..30).map(|number| format!("journal-{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let failure = failure("x", &names);
        assert!(
            failure.message.contains("and 20 more"),
            "{}",
            failure.message
        );
        assert!(
            failure.next.contains("journal declare x"),
            "{}",
            failure.next
        );
    }
}
