//! Passes once over the bytes of a document: strict RFC 8259, nothing built, every literal left as it is written.
//!
//! On the way it checks that no object has a key twice, and gathers the text without insignificant white space, which is
//! what ids are computed from.

mod keys;
mod string;

use std::borrow::Cow;

use crate::fault::{Bad, DEPTH_MAX};

use keys::Keys;
pub(crate) use keys::fingerprint;
use string::plain_bytes;
pub(crate) use string::{Quoted, base64_object, quote, quote_inner};

/// What a value is, by its first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Start {
    Object,
    Array,
    String,
    Number,
    Word,
}

/// A position in a document.
pub(crate) struct Scan<'a> {
    raw: &'a str,
    at: usize,
    depth: usize,
    keys: Keys<'a>,
    /// The text without white space up to `copied`; empty as long as there was none.
    compact: Vec<u8>,
    copied: usize,
    /// Whether white space had a line break. Inside strings there is none: JSON forbids it there.
    pub(crate) broke_line: bool,
    /// Strings that say half a surrogate pair: where they begin. Keys are not among them.
    pub(crate) lone: Vec<(usize, usize)>,
    /// Whether a key says half a surrogate pair.
    pub(crate) lone_key: bool,
}

impl<'a> Scan<'a> {
    /// The start of `raw`, which must be text.
    pub(crate) fn new(raw: &'a [u8]) -> Result<Self, Bad> {
        let text = simdutf8::basic::from_utf8(raw).map_err(|_| not_utf8(raw))?;
        Ok(Self::of_text(text))
    }

    /// The start of a text.
    pub(crate) fn of_text(raw: &'a str) -> Self {
        Self {
            raw,
            at: 0,
            depth: 0,
            keys: Keys::default(),
            compact: Vec::new(),
            copied: 0,
            broke_line: false,
            lone: Vec::new(),
            lone_key: false,
        }
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// The whole text.
    pub(crate) fn text(&self) -> &'a str {
        self.raw
    }

    pub(crate) fn at_end(&self) -> bool {
        self.at == self.raw.len()
    }

    #[inline]
    fn byte(&self) -> Option<u8> {
        self.raw.as_bytes().get(self.at).copied()
    }

    fn rest(&self) -> &'a [u8] {
        &self.raw.as_bytes()[self.at..]
    }

    #[cold]
    fn expected<T>(&self, expected: &'static str) -> Result<T, Bad> {
        let at = self.at;
        Err(if at >= self.raw.len() {
            Bad::CutOff { at, expected }
        } else {
            Bad::Syntax { at, expected }
        })
    }

    /// Passes over white space.
    #[inline]
    pub(crate) fn space(&mut self) {
        if self.byte().is_some_and(|byte| byte <= b' ') {
            self.some_space();
        }
    }

    fn some_space(&mut self) {
        let start = self.at;
        while let Some(byte) = self.byte() {
            match byte {
                b' ' | b'\t' => {}
                b'\n' | b'\r' => self.broke_line = true,
                _ => break,
            }
            self.at += 1;
        }
        if self.at > start {
            let bytes = self.raw.as_bytes();
            if self.compact.capacity() == 0 {
                self.compact.reserve(bytes.len());
            }
            self.compact.extend_from_slice(&bytes[self.copied..start]);
            self.copied = self.at;
        }
    }

    /// The text without insignificant white space. To be asked at the end.
    pub(crate) fn into_compact(mut self) -> Cow<'a, [u8]> {
        let bytes = self.raw.as_bytes();
        if self.copied == 0 {
            return Cow::Borrowed(bytes);
        }
        self.compact.extend_from_slice(&bytes[self.copied..]);
        Cow::Owned(self.compact)
    }

    /// What begins here, after white space.
    #[inline]
    pub(crate) fn peek(&mut self) -> Result<Start, Bad> {
        self.space();
        Ok(match self.byte() {
            Some(b'"') => Start::String,
            Some(b'{') => Start::Object,
            Some(b'[') => Start::Array,
            Some(b'-' | b'0'..=b'9') => Start::Number,
            Some(b't' | b'f' | b'n') => Start::Word,
            _ => return self.expected("a value"),
        })
    }

    /// Passes over the value that begins here.
    pub(crate) fn value(&mut self) -> Result<(), Bad> {
        match self.peek()? {
            Start::String => self.text_value(),
            Start::Object => self.members(|scan, _| scan.value()).map(drop),
            Start::Array => self.elements(|scan, _| scan.value()).map(drop),
            Start::Number => self.number(),
            Start::Word => self.word(),
        }
    }

    /// Passes over white space to the end of the text.
    pub(crate) fn end(&mut self) -> Result<(), Bad> {
        self.space();
        match self.byte() {
            None => Ok(()),
            Some(_) => Err(Bad::Trailing { at: self.at }),
        }
    }

    /// Goes through the object that begins here, and counts. `member` is called at each value, which it must pass over.
    pub(crate) fn members(
        &mut self,
        mut member: impl FnMut(&mut Self, Member<'a>) -> Result<(), Bad>,
    ) -> Result<usize, Bad> {
        self.enter()?;
        let frame = self.keys.open();
        let mut count = 0;
        while !self.closes(b'}', count == 0, "`,` or `}`")? {
            self.space();
            let start = self.at;
            let name = self.string()?;
            self.lone_key |= name.lone;
            let print = fingerprint(name.written.as_bytes());
            if !self.keys.add(&frame, count, name, print) {
                return Err(Bad::DuplicateKey { at: start });
            }
            self.space();
            if self.byte() != Some(b':') {
                return self.expected("`:`");
            }
            self.at += 1;
            self.space();
            member(
                self,
                Member {
                    name,
                    print,
                    start,
                    index: count,
                },
            )?;
            count += 1;
        }
        self.keys.close(frame);
        Ok(count)
    }

    /// Goes through the array that begins here, and counts. `element` is called at each value, which it must pass over.
    pub(crate) fn elements(
        &mut self,
        mut element: impl FnMut(&mut Self, usize) -> Result<(), Bad>,
    ) -> Result<usize, Bad> {
        self.enter()?;
        let mut count = 0;
        while !self.closes(b']', count == 0, "`,` or `]`")? {
            self.space();
            element(self, count)?;
            count += 1;
        }
        Ok(count)
    }

    fn enter(&mut self) -> Result<(), Bad> {
        if self.depth == DEPTH_MAX {
            return Err(Bad::TooDeep { at: self.at });
        }
        self.depth += 1;
        self.at += 1;
        Ok(())
    }

    /// Whether the container ends here; if not, its next item follows.
    #[inline]
    fn closes(&mut self, end: u8, first: bool, expected: &'static str) -> Result<bool, Bad> {
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

    /// Passes over `true`, `false` or `null`.
    fn word(&mut self) -> Result<(), Bad> {
        for word in ["null", "false", "true"] {
            if self.rest().starts_with(word.as_bytes()) {
                self.at += word.len();
                return Ok(());
            }
        }
        self.expected("a value")
    }

    fn text_value(&mut self) -> Result<(), Bad> {
        let start = self.at;
        if self.string()?.lone {
            self.lone.push((start, self.at));
        }
        Ok(())
    }

    /// Passes over the string that begins here.
    #[inline]
    pub(crate) fn string(&mut self) -> Result<Quoted<'a>, Bad> {
        if self.byte() != Some(b'"') {
            return self.expected("a string");
        }
        self.at += 1;
        let start = self.at;
        let (mut escaped, mut lone) = (false, false);
        loop {
            self.at += plain_bytes(self.rest());
            match self.byte() {
                Some(b'"') => break,
                Some(b'\\') => {
                    escaped = true;
                    lone |= self.escape()?;
                }
                Some(_) => return self.expected("no control character in a string"),
                None => return self.expected("the end of a string"),
            }
        }
        let written = &self.raw[start..self.at];
        self.at += 1;
        Ok(Quoted {
            written,
            escaped,
            lone,
        })
    }

    /// Passes over an escape, or over the two of a surrogate pair. True when it is half of a pair.
    #[inline]
    fn escape(&mut self) -> Result<bool, Bad> {
        match self.rest() {
            [
                _,
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't',
                ..,
            ] => {
                self.at += 2;
                Ok(false)
            }
            [_, b'u', ..] => self.unicode_escape(),
            [_] => {
                self.at += 1;
                self.expected("an escape")
            }
            _ => self.expected("an escape that JSON knows"),
        }
    }

    fn unicode_escape(&mut self) -> Result<bool, Bad> {
        let Some(unit) = string::hex4(&self.rest()[2..]) else {
            if self.rest().len() < 6 {
                self.at = self.raw.len();
            }
            return self.expected("four hexadecimal digits");
        };
        self.at += 6;
        Ok(match unit {
            0xd800..=0xdbff => match self.rest() {
                [b'\\', b'u', low @ ..]
                    if string::hex4(low).is_some_and(|low| (0xdc00..=0xdfff).contains(&low)) =>
                {
                    self.at += 6;
                    false
                }
                _ => true,
            },
            0xdc00..=0xdfff => true,
            _ => false,
        })
    }

    /// Passes over the number that begins here.
    fn number(&mut self) -> Result<(), Bad> {
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
        Ok(())
    }

    #[inline]
    fn digits(&mut self) -> Result<(), Bad> {
        let start = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start {
            return self.expected("a digit");
        }
        Ok(())
    }
}

/// A member of an object, met at its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Member<'a> {
    pub(crate) name: Quoted<'a>,
    /// The [`fingerprint`] of the name as it is written.
    pub(crate) print: u64,
    /// Where the name begins.
    pub(crate) start: usize,
    pub(crate) index: usize,
}

#[cold]
fn not_utf8(raw: &[u8]) -> Bad {
    let at = match std::str::from_utf8(raw) {
        Err(error) => error.valid_up_to(),
        Ok(_) => raw.len(),
    };
    Bad::NotUtf8 { at }
}

#[cfg(test)]
mod tests;
