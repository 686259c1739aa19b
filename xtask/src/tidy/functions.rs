//! The functions of a source and how long they are.

use super::source::{RustSource, body_or_semicolon, closing, line_of, words};

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Function {
    pub(super) name: String,
    /// Where it begins, counted from 1.
    pub(super) line: usize,
    pub(super) lines: usize,
}

/// Every function with a body, in the order of the source.
pub(super) fn functions(source: &RustSource) -> Vec<Function> {
    words(&source.code, "fn")
        .filter_map(|at| function(&source.code, at))
        .collect()
}

fn function(code: &str, at: usize) -> Option<Function> {
    let after = code[at + "fn".len()..].trim_start();
    // `fn(u8)` is a type.
    let name: String = after
        .chars()
        .take_while(|c| c.is_alphanumeric() || *c == '_')
        .collect();
    if name.is_empty() {
        return None;
    }
    let bytes = code.as_bytes();
    let body = body_or_semicolon(bytes, at).filter(|body| bytes[*body] == b'{')?;
    let line = line_of(code, at);
    let last = line_of(code, closing(bytes, body) - 1);
    Some(Function {
        name,
        line,
        lines: last - line + 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_from_signature_to_closing_brace() {
        let text = "trait T { fn none(x: [u8; 2]); }\n\
                    type F = fn(u8);\n\
                    fn one() -> [u8; 2] { [1, 2] }\n\
                    /// fn not_me() {\n\
                    fn four(\n    x: u8,\n) {\n}\n\
                    fn string() { let s = \"}\";\n}\n";
        let found: Vec<_> = functions(&RustSource::read(text))
            .into_iter()
            .map(|function| (function.name, function.line, function.lines))
            .collect();
        assert_eq!(
            found,
            [
                ("one".to_owned(), 3, 1),
                ("four".to_owned(), 5, 4),
                ("string".to_owned(), 9, 2)
            ]
        );
    }
}
