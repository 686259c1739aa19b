//! Paths: which values of a document a rule is about.
//!
//! Keys are joined by dots; `[]` after a key stands for every element of the array there, `*` in place of a key for every
//! key. A key with a dot, a bracket, a quote or a star in it is written as a JSON string: `test_keys."a.b"[].ip`.

use serde::Serialize;

/// No document that anybody describes by hand is deeper.
const STEPS_MAX: usize = 32;

/// One step from a value to one inside it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Step {
    Key(String),
    AnyKey,
    Element,
}

/// A way from the document to values in it. Never empty.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Path(Vec<Step>);

impl Path {
    /// Reads a path; an error says what is wrong with it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let mut steps = Vec::new();
        let mut rest = text;
        loop {
            let (step, after) = key_step(rest).ok_or_else(|| wrong(text))?;
            steps.push(step);
            rest = after;
            while let Some(after) = rest.strip_prefix("[]") {
                steps.push(Step::Element);
                rest = after;
            }
            if steps.len() > STEPS_MAX {
                return Err(format!("the path `{text}` has more than {STEPS_MAX} steps"));
            }
            match rest.strip_prefix('.') {
                Some(after) => rest = after,
                None if rest.is_empty() => return Ok(Self(steps)),
                None => return Err(wrong(text)),
            }
        }
    }

    pub(crate) fn steps(&self) -> &[Step] {
        &self.0
    }

    /// Whether it names a key that can be put in where it is missing.
    pub(crate) fn ends_in_key(&self) -> bool {
        matches!(self.0.last(), Some(Step::Key(_)))
    }

    /// Whether it names one value at most.
    pub(crate) fn is_single(&self) -> bool {
        self.0.iter().all(|step| matches!(step, Step::Key(_)))
    }
}

fn wrong(text: &str) -> String {
    format!(
        "`{text}` is not a path; write keys joined by dots, `[]` for every element, `*` for every key, such as `test_keys.queries[].answers[].ipv4`"
    )
}

fn key_step(text: &str) -> Option<(Step, &str)> {
    if let Some(after) = text.strip_prefix('*') {
        return Some((Step::AnyKey, after));
    }
    if text.starts_with('"') {
        let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
        let key = values.next()?.ok()?;
        return Some((Step::Key(key), &text[values.byte_offset()..]));
    }
    let end = text.find(['.', '[', ']', '*', '"']).unwrap_or(text.len());
    (end > 0).then(|| (Step::Key(text[..end].to_owned()), &text[end..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(name: &str) -> Step {
        Step::Key(name.into())
    }

    #[test]
    fn paths_are_read_as_they_are_written() {
        for (text, steps) in [
            ("a", vec![key("a")]),
            ("a.b", vec![key("a"), key("b")]),
            ("a[].*", vec![key("a"), Step::Element, Step::AnyKey]),
            ("a[][]", vec![key("a"), Step::Element, Step::Element]),
            (
                r#"a."b.c\"d".e f"#,
                vec![key("a"), key("b.c\"d"), key("e f")],
            ),
        ] {
            assert_eq!(Path::parse(text).unwrap().steps(), steps, "{text}");
        }
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for text in [
            "", ".", "a.", ".a", "a..b", "a[0]", "[]", "a[", "a]b", "a*", "\"a", "\"a\"b", "a[]b",
        ] {
            assert!(Path::parse(text).is_err(), "{text}");
        }
        assert!(Path::parse(&"a.".repeat(40)).is_err());
    }
}
