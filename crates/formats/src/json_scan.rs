//! Walks over JSON text without building anything: strict RFC 8259, every literal kept as it is written.
//!
//! A number is a piece of text here. A parser that makes an `f64` of it cannot tell 2^53+1 from 2^53, and fails at 1e999.

use std::borrow::Cow;

/// How deep arrays and objects may be nested. Usual parsers end at 128, and a row adds levels of its own.
pub const JSON_DEPTH_MAX: usize = 100;

/// Why some bytes are not one JSON value. Positions count bytes from the start, at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonFault {
    /// There is nothing but white space.
    #[error("it is empty")]
    Empty,
    /// RFC 8259 forbids one, and a loader would take it for a part of the value.
    #[error("it begins with a byte-order mark")]
    ByteOrderMark,
    /// The bytes are not text.
    #[error("it is not UTF-8 at byte {at}")]
    NotUtf8 {
        /// Where.
        at: usize,
    },
    /// Something else stands here.
    #[error("it is not JSON at byte {at}: expected {expected}")]
    Syntax {
        /// Where.
        at: usize,
        /// What could stand here.
        expected: &'static str,
    },
    /// It is nested deeper than [`JSON_DEPTH_MAX`].
    #[error("it is nested deeper than {JSON_DEPTH_MAX} levels at byte {at}")]
    TooDeep {
        /// Where.
        at: usize,
    },
    /// There is more after the value.
    #[error("something follows the JSON value at byte {at}")]
    Trailing {
        /// Where.
        at: usize,
    },
}

/// What kind of value begins here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Object,
    Array,
    String,
    Number,
    True,
    False,
    Null,
}

/// A string as it is written, without its quotes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quoted<'a> {
    written: &'a str,
    escaped: bool,
}

/// A position in a text.
pub(crate) struct Scan<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
    /// Whether a line break was passed. Inside strings there is none: JSON forbids it there.
    pub(crate) broke_line: bool,
}

impl<'a> Quoted<'a> {
    /// What it says. `None` when it says half a surrogate pair, which is grammatical but no text.
    pub(crate) fn decode(self) -> Option<Cow<'a, str>> {
        if !self.escaped {
            return Some(Cow::Borrowed(self.written));
        }
        serde_json::from_str(&format!("\"{}\"", self.written))
            .ok()
            .map(Cow::Owned)
    }
}

impl<'a> Scan<'a> {
    /// The start of `bytes`, which must be text.
    pub(crate) fn new(bytes: &'a [u8]) -> Result<Self, JsonFault> {
        if bytes.starts_with(b"\xef\xbb\xbf") {
            return Err(JsonFault::ByteOrderMark);
        }
        let text = std::str::from_utf8(bytes).map_err(|error| JsonFault::NotUtf8 {
            at: error.valid_up_to(),
        })?;
        Ok(Self {
            text,
            at: 0,
            depth: 0,
            broke_line: false,
        })
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn expected<T>(&self, expected: &'static str) -> Result<T, JsonFault> {
        Err(JsonFault::Syntax {
            at: self.at,
            expected,
        })
    }

    /// Passes over white space.
    pub(crate) fn space(&mut self) {
        while let Some(byte) = self.byte() {
            match byte {
                b' ' | b'\t' => {}
                b'\n' | b'\r' => self.broke_line = true,
                _ => break,
            }
            self.at += 1;
        }
    }

    /// What begins here, after white space.
    pub(crate) fn peek(&mut self) -> Result<Start, JsonFault> {
        self.space();
        Ok(match self.byte() {
            Some(b'{') => Start::Object,
            Some(b'[') => Start::Array,
            Some(b'"') => Start::String,
            Some(b'-' | b'0'..=b'9') => Start::Number,
            Some(b't') => Start::True,
            Some(b'f') => Start::False,
            Some(b'n') => Start::Null,
            _ => return self.expected("a value"),
        })
    }

    /// Passes over the value that begins here.
    pub(crate) fn value(&mut self) -> Result<(), JsonFault> {
        match self.peek()? {
            Start::Object => self.members(|scan, _| scan.value()),
            Start::Array => self.elements(Self::value),
            Start::String => self.string().map(drop),
            Start::Number => self.number().map(drop),
            literal => self.literal(literal),
        }
    }

    /// Passes over white space to the end of the text.
    pub(crate) fn end(&mut self) -> Result<(), JsonFault> {
        self.space();
        match self.byte() {
            None => Ok(()),
            Some(_) => Err(JsonFault::Trailing { at: self.at }),
        }
    }

    /// Goes through the object that begins here. `member` is called at each value, which it must pass over.
    pub(crate) fn members<E: From<JsonFault>>(
        &mut self,
        mut member: impl FnMut(&mut Self, Quoted<'a>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.enter()?;
        let mut first = true;
        while !self.closes(b'}', first, "`,` or `}`")? {
            self.space();
            let name = self.string()?;
            self.space();
            if self.byte() != Some(b':') {
                return Ok(self.expected("`:`")?);
            }
            self.at += 1;
            member(self, name)?;
            first = false;
        }
        Ok(())
    }

    /// Goes through the array that begins here. `element` is called at each value, which it must pass over.
    pub(crate) fn elements<E: From<JsonFault>>(
        &mut self,
        mut element: impl FnMut(&mut Self) -> Result<(), E>,
    ) -> Result<(), E> {
        self.enter()?;
        let mut first = true;
        while !self.closes(b']', first, "`,` or `]`")? {
            element(self)?;
            first = false;
        }
        Ok(())
    }

    fn enter(&mut self) -> Result<(), JsonFault> {
        if self.depth == JSON_DEPTH_MAX {
            return Err(JsonFault::TooDeep { at: self.at });
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    /// Whether the container ends here; if not, its next item follows.
    fn closes(&mut self, end: u8, first: bool, expected: &'static str) -> Result<bool, JsonFault> {
        self.space();
        match self.byte() {
            Some(byte) if byte == end => {
                self.at += 1;
                self.depth -= 1;
                Ok(true)
            }
            Some(b',') if !first => {
                self.at += 1;
                Ok(false)
            }
            _ if first => Ok(false),
            _ => self.expected(expected),
        }
    }

    /// Passes over the literal that `peek` announced.
    pub(crate) fn literal(&mut self, start: Start) -> Result<(), JsonFault> {
        let word = match start {
            Start::True => "true",
            Start::False => "false",
            _ => "null",
        };
        if !self.text.as_bytes()[self.at..].starts_with(word.as_bytes()) {
            return self.expected("a value");
        }
        self.at += word.len();
        Ok(())
    }

    /// Passes over the string that begins here.
    pub(crate) fn string(&mut self) -> Result<Quoted<'a>, JsonFault> {
        if self.byte() != Some(b'"') {
            return self.expected("a string");
        }
        self.at += 1;
        let start = self.at;
        let mut escaped = false;
        loop {
            self.at += plain_bytes(&self.text.as_bytes()[self.at..]);
            match self.byte() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    self.escape()?;
                }
                Some(_) => return self.expected("no control character in a string"),
                None => return self.expected("the end of a string"),
            }
        }
        let written = &self.text[start..self.at];
        self.at += 1;
        Ok(Quoted { written, escaped })
    }

    fn escape(&mut self) -> Result<(), JsonFault> {
        let rest = &self.text.as_bytes()[self.at + 1..];
        self.at += match rest {
            [b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't', ..] => 2,
            [b'u', hex @ ..] if hex.len() >= 4 && hex[..4].iter().all(u8::is_ascii_hexdigit) => 6,
            _ => return self.expected("an escape that JSON knows"),
        };
        Ok(())
    }

    /// Passes over the number that begins here, and gives it as it is written.
    pub(crate) fn number(&mut self) -> Result<&'a str, JsonFault> {
        let start = self.at;
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        if self.byte() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits()?;
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            if let Some(b'+' | b'-') = self.byte() {
                self.at += 1;
            }
            self.digits()?;
        }
        Ok(&self.text[start..self.at])
    }

    fn digits(&mut self) -> Result<(), JsonFault> {
        let rest = &self.text.as_bytes()[self.at..];
        let count = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        if count == 0 {
            return self.expected("a digit");
        }
        self.at += count;
        Ok(())
    }
}

/// How many bytes at the start need no look: neither a quote, a backslash nor a control character.
fn plain_bytes(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut count = 0;
    // Eight at a time: a word has its high bit set in a byte that is zero or, for `below`, less than a space. A false
    // alarm beside a true one is possible and harmless, because the bytes are then looked at one by one.
    for chunk in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("a chunk has eight bytes"));
        let is_zero = |word: u64| word.wrapping_sub(ONES) & !word;
        let quote = is_zero(word ^ (ONES * u64::from(b'"')));
        let backslash = is_zero(word ^ (ONES * u64::from(b'\\')));
        let below = word.wrapping_sub(ONES * 0x20) & !word;
        if (quote | backslash | below) & HIGH != 0 {
            break;
        }
        count += 8;
    }
    let stops = |byte: &u8| *byte == b'"' || *byte == b'\\' || *byte < 0x20;
    let rest = &bytes[count..];
    count + rest.iter().position(stops).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn eight_bytes_at_a_time_stop_where_one_at_a_time_does() {
        let stops = |byte: u8| byte == b'"' || byte == b'\\' || byte < 0x20;
        for filler in [b' ', b'a', 0x7f, 0x80, 0xa2, 0xff] {
            for length in 0..20 {
                let plain = vec![filler; length];
                assert_eq!(plain_bytes(&plain), length);
                for (at, byte) in
                    (0..length).flat_map(|at| (0..=u8::MAX).map(move |byte| (at, byte)))
                {
                    let mut bytes = plain.clone();
                    bytes[at] = byte;
                    let expected = if stops(byte) { at } else { length };
                    assert_eq!(
                        plain_bytes(&bytes),
                        expected,
                        "{byte:#x} at {at} of {filler:#x}"
                    );
                }
            }
        }
    }

    #[test]
    fn a_string_says_what_its_escapes_say() {
        let decoded = |text: &'static str| {
            let quoted = Scan::new(text.as_bytes()).unwrap().string().unwrap();
            quoted.decode()
        };
        assert!(matches!(decoded("\"ü\""), Some(Cow::Borrowed("ü"))));
        assert_eq!(decoded("\"\\u00fc\\n\"").as_deref(), Some("ü\n"));
        assert_eq!(decoded("\"\\ud83d\\ude00\"").as_deref(), Some("😀"));
        assert_eq!(decoded("\"\\ude00\""), None);
    }
}
