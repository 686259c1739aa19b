//! Rust source split into code, string literals and the rest, without a parser.

use std::ops::Range;

/// Two copies of a source, of its length and lines: in `code` all but code is blank, in `literals`
/// all but string literals with their quotes. Comments and character literals are in neither.
pub(super) struct RustSource {
    pub(super) code: String,
    pub(super) literals: String,
}

#[derive(Clone, Copy, PartialEq)]
enum Part {
    Code,
    Literal,
    Neither,
}

impl RustSource {
    pub(super) fn read(text: &str) -> Self {
        let bytes = text.as_bytes();
        let blank: Vec<u8> = bytes
            .iter()
            .map(|byte| if *byte == b'\n' { b'\n' } else { b' ' })
            .collect();
        let (mut code, mut literals) = (blank.clone(), blank);
        let mut at = 0;
        while at < bytes.len() {
            let (part, end) = piece(bytes, at);
            let end = end.min(bytes.len());
            match part {
                Part::Code => code[at..end].copy_from_slice(&bytes[at..end]),
                Part::Literal => literals[at..end].copy_from_slice(&bytes[at..end]),
                Part::Neither => {}
            }
            at = end;
        }
        let string = |bytes| String::from_utf8(bytes).expect("pieces end at ASCII characters");
        Self {
            code: string(code),
            literals: string(literals),
        }
    }

    /// The items under `#[cfg(test)]`, as ranges of bytes.
    pub(super) fn test_items(&self) -> Vec<Range<usize>> {
        self.attributes("#[cfg(")
            .filter(|attribute| {
                let condition = &self.code[attribute.clone()];
                has_word(condition, "test") && !has_word(condition, "not")
            })
            .map(|attribute| attribute.start..item_end(self.code.as_bytes(), attribute.end))
            .collect()
    }

    /// The attributes that begin with `opening`, such as `#[cfg(`.
    pub(super) fn attributes<'a>(
        &'a self,
        opening: &'a str,
    ) -> impl Iterator<Item = Range<usize>> + 'a {
        self.code
            .match_indices(opening)
            .map(|(at, _)| at..closing(self.code.as_bytes(), at + 1))
    }
}

/// The line of a byte, counted from 1.
pub(super) fn line_of(text: &str, at: usize) -> usize {
    1 + text.as_bytes()[..at]
        .iter()
        .filter(|byte| **byte == b'\n')
        .count()
}

/// Whether `word` stands in `code` with no letter of a longer name beside it.
pub(super) fn has_word(code: &str, word: &str) -> bool {
    words(code, word).next().is_some()
}

/// Where `word` stands in `code` as a name of its own.
pub(super) fn words<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let bytes = code.as_bytes();
    code.match_indices(word)
        .map(|(at, _)| at)
        .filter(move |&at| {
            let before = at.checked_sub(1).map(|before| bytes[before]);
            let after = bytes.get(at + word.len()).copied();
            !before.is_some_and(is_name) && !after.is_some_and(is_name)
        })
}

/// The end of the item that follows: past its body, or past its semicolon.
pub(super) fn item_end(code: &[u8], from: usize) -> usize {
    match body_or_semicolon(code, from) {
        Some(at) if code[at] == b'{' => closing(code, at),
        Some(at) => at + 1,
        None => code.len(),
    }
}

/// The first `{` or `;` outside parentheses and brackets: `fn f(x: [u8; 2]);` has one semicolon.
pub(super) fn body_or_semicolon(code: &[u8], from: usize) -> Option<usize> {
    let mut at = from;
    while at < code.len() {
        match code[at] {
            b'(' | b'[' => at = closing(code, at),
            b'{' | b';' => return Some(at),
            _ => at += 1,
        }
    }
    None
}

/// Past the bracket that closes the one at `open`.
pub(super) fn closing(code: &[u8], open: usize) -> usize {
    let mut depth = 0_usize;
    for (offset, byte) in code[open..].iter().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            return open + offset + 1;
        }
    }
    code.len()
}

/// What begins at `at`, and where it ends.
fn piece(bytes: &[u8], at: usize) -> (Part, usize) {
    let rest = &bytes[at..];
    match rest[0] {
        b'/' if rest.starts_with(b"//") => (Part::Neither, at + line_length(rest)),
        b'/' if rest.starts_with(b"/*") => (Part::Neither, at + block_comment_length(rest)),
        b'"' => (Part::Literal, at + string_length(rest)),
        b'\'' => match character_length(rest) {
            Some(length) => (Part::Neither, at + length),
            None => (Part::Code, at + 1),
        },
        byte if is_name(byte) => match raw_string_length(rest) {
            Some(length) => (Part::Literal, at + length),
            None => (Part::Code, at + name_length(rest)),
        },
        _ => (Part::Code, at + 1),
    }
}

fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

fn name_length(rest: &[u8]) -> usize {
    rest.iter().take_while(|byte| is_name(**byte)).count()
}

fn line_length(rest: &[u8]) -> usize {
    rest.iter().take_while(|byte| **byte != b'\n').count()
}

/// Block comments nest.
fn block_comment_length(rest: &[u8]) -> usize {
    let (mut at, mut depth) = (0, 0_usize);
    while at < rest.len() {
        if rest[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    rest.len()
}

fn string_length(rest: &[u8]) -> usize {
    let mut at = 1;
    while at < rest.len() {
        match rest[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    rest.len()
}

/// `'x'` and `'\n'`, but not the lifetime `'x`.
fn character_length(rest: &[u8]) -> Option<usize> {
    let text = std::str::from_utf8(&rest[1..rest.len().min(16)]).or_else(|error| {
        // The window may cut a character; what stands before it is enough.
        std::str::from_utf8(&rest[1..=error.valid_up_to()])
    });
    let text = text.ok()?;
    if let Some(escape) = text.strip_prefix('\\') {
        let escaped = escape.chars().next()?.len_utf8();
        return Some(1 + 1 + escaped + escape[escaped..].find('\'')? + 1);
    }
    let length = text.chars().next()?.len_utf8();
    (text.as_bytes().get(length) == Some(&b'\'')).then_some(1 + length + 1)
}

/// `r"…"`, `br#"…"#` and so on, but not the name `r#type`.
fn raw_string_length(rest: &[u8]) -> Option<usize> {
    let prefix = match rest {
        [b'b' | b'c', b'r', ..] => 2,
        [b'r', ..] => 1,
        _ => return None,
    };
    let hashes = rest[prefix..]
        .iter()
        .take_while(|byte| **byte == b'#')
        .count();
    let start = prefix + hashes + 1;
    if rest.get(start - 1) != Some(&b'"') {
        return None;
    }
    let mut end = vec![b'"'];
    end.resize(1 + hashes, b'#');
    let body = &rest[start..];
    let length = body
        .windows(end.len())
        .position(|window| window == end)
        .map_or(body.len(), |at| at + end.len());
    Some(start + length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_code_strings_and_comments_apart() {
        let text = r##"let a = "x // \" y"; // "note"
let b = r#"raw " "#; /* outer /* inner */ still */ c();"##;
        let source = RustSource::read(text);
        assert_eq!(
            source.code.split_whitespace().collect::<Vec<_>>().join(" "),
            "let a = ; let b = ; c();"
        );
        let literals: Vec<_> = source.literals.lines().map(str::trim).collect();
        assert_eq!(literals, [r#""x // \" y""#, r##"r#"raw " "#"##]);
        assert_eq!(source.code.len(), text.len());
    }

    #[test]
    fn a_quote_in_a_character_opens_no_string_and_a_lifetime_is_code() {
        let source = RustSource::read(r"f::<'a>('\'', '{', '\u{e9}', 'é', b'x', r#type, '😀')");
        let code: String = source.code.split_whitespace().collect();
        assert_eq!(code, "f::<'a>(,,,,b,r#type,)");
        assert_eq!(source.literals.trim(), "");
    }

    #[test]
    fn an_open_string_at_the_end_is_no_panic() {
        for text in ["\"abc\\", "r#\"abc", "/* abc", "'", "'\\", "#[cfg(test"] {
            assert!(RustSource::read(text).test_items().len() <= 1);
        }
    }

    #[test]
    fn finds_items_for_tests() {
        let text = "fn a() {}\n#[cfg(test)]\n#[allow(x)]\nmod tests { fn b() { } }\nfn c() {}\n\
                    #[cfg(not(test))]\nfn d() {}\n#[cfg(all(test, unix))]\nuse e;\nfn f() {}\n";
        let source = RustSource::read(text);
        let items: Vec<_> = source
            .test_items()
            .into_iter()
            .map(|item| &text[item])
            .collect();
        assert_eq!(
            items,
            [
                "#[cfg(test)]\n#[allow(x)]\nmod tests { fn b() { } }",
                "#[cfg(all(test, unix))]\nuse e;"
            ]
        );
    }
}
