//! Strings: where they end, what they say, and how they are written.

use std::borrow::Cow;

use data_encoding::BASE64;

/// A string as it is written, without its quotes. The escapes in it are well-formed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quoted<'a> {
    pub(crate) written: &'a str,
    pub(crate) escaped: bool,
    /// Whether it says half a surrogate pair, which is grammatical but no text.
    pub(crate) lone: bool,
}

/// A piece of what a string says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Unit {
    Char(char),
    /// Half a surrogate pair. `0xdc80` and above stand for the byte in their low half where text was made from bytes.
    Lone(u16),
}

impl<'a> Quoted<'a> {
    /// The string that is the whole of a JSON text, which is well-formed.
    pub(crate) fn of_json(text: &'a str) -> Option<Self> {
        let written = text.strip_prefix('"')?.strip_suffix('"')?;
        let mut quoted = Self {
            written,
            escaped: memchr::memchr(b'\\', written.as_bytes()).is_some(),
            lone: false,
        };
        quoted.lone = quoted.escaped && quoted.units().any(|unit| matches!(unit, Unit::Lone(_)));
        Some(quoted)
    }

    /// What it says, piece by piece.
    pub(crate) fn units(self) -> Units<'a> {
        Units(self.written)
    }

    /// What it says, with a replacement character for what is no text.
    pub(crate) fn text(self) -> Cow<'a, str> {
        if !self.escaped {
            return Cow::Borrowed(self.written);
        }
        let text = self.units().map(|unit| match unit {
            Unit::Char(char) => char,
            Unit::Lone(_) => char::REPLACEMENT_CHARACTER,
        });
        Cow::Owned(text.collect())
    }

    /// The bytes that it says: of a half pair the byte it stands for, else its generalised UTF-8.
    pub(crate) fn bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.written.len());
        for unit in self.units() {
            match unit {
                Unit::Lone(lone @ 0xdc80..=0xdcff) => bytes.push(lone.to_le_bytes()[0]),
                other => push_wtf8(&mut bytes, other),
            }
        }
        bytes
    }

    /// What it says; different for whatever differs.
    pub(crate) fn to_wtf8(self) -> Cow<'a, [u8]> {
        if !self.escaped {
            return Cow::Borrowed(self.written.as_bytes());
        }
        let mut bytes = Vec::with_capacity(self.written.len());
        for unit in self.units() {
            push_wtf8(&mut bytes, unit);
        }
        Cow::Owned(bytes)
    }

    /// Whether two strings say the same.
    pub(crate) fn says_same(&self, other: &Quoted<'_>) -> bool {
        if self.escaped || other.escaped {
            self.units().eq(other.units())
        } else {
            self.written == other.written
        }
    }

    /// Whether it says this text.
    pub(crate) fn says(&self, text: &str) -> bool {
        if self.escaped {
            self.units().eq(text.chars().map(Unit::Char))
        } else {
            self.written == text
        }
    }
}

fn push_wtf8(bytes: &mut Vec<u8>, unit: Unit) {
    match unit {
        Unit::Char(char) => {
            bytes.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
        }
        Unit::Lone(lone) => {
            let [low, high] = lone.to_le_bytes();
            bytes.extend([
                0xe0 | high >> 4,
                0x80 | (high & 0x0f) << 2 | low >> 6,
                0x80 | low & 0x3f,
            ]);
        }
    }
}

/// Goes over what a well-formed string says.
pub(crate) struct Units<'a>(&'a str);

impl Iterator for Units<'_> {
    type Item = Unit;

    fn next(&mut self) -> Option<Unit> {
        let char = self.0.chars().next()?;
        if char != '\\' {
            self.0 = &self.0[char.len_utf8()..];
            return Some(Unit::Char(char));
        }
        let escape = *self.0.as_bytes().get(1)?;
        let plain = match escape {
            b'b' => '\u{8}',
            b'f' => '\u{c}',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => return self.unicode(),
            other => char::from(other),
        };
        self.0 = &self.0[2..];
        Some(Unit::Char(plain))
    }
}

impl Units<'_> {
    fn unicode(&mut self) -> Option<Unit> {
        let high = hex4(&self.0.as_bytes()[2..])?;
        self.0 = &self.0[6..];
        if let Some(char) = char::from_u32(u32::from(high)) {
            return Some(Unit::Char(char));
        }
        let low = self
            .0
            .strip_prefix("\\u")
            .and_then(|rest| hex4(rest.as_bytes()));
        if let Some(Ok(char)) = low.and_then(|low| char::decode_utf16([high, low]).next()) {
            self.0 = &self.0[6..];
            return Some(Unit::Char(char));
        }
        Some(Unit::Lone(high))
    }
}

/// The number that four hexadecimal digits write.
pub(crate) fn hex4(bytes: &[u8]) -> Option<u16> {
    let digits = bytes.get(..4)?;
    let mut number = 0;
    for digit in digits {
        let value = char::from(*digit).to_digit(16)?;
        number = number << 4 | u16::try_from(value).ok()?;
    }
    Some(number)
}

/// Writes a text as a JSON string.
pub(crate) fn quote(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    quote_inner(text, out);
    out.push(b'"');
}

pub(crate) fn quote_inner(text: &str, out: &mut Vec<u8>) {
    let mut rest = text.as_bytes();
    loop {
        let plain = plain_bytes(rest);
        out.extend_from_slice(&rest[..plain]);
        let Some(special) = rest.get(plain) else {
            return;
        };
        match special {
            b'"' | b'\\' => out.extend([b'\\', *special]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            control => out.extend(format!("\\u{control:04x}").as_bytes()),
        }
        rest = &rest[plain + 1..];
    }
}

/// Writes bytes as what OONI's pipeline made of them: an object that says how they are encoded.
pub(crate) fn base64_object(bytes: &[u8]) -> String {
    format!(
        "{{\"data\":\"{}\",\"format\":\"base64\"}}",
        BASE64.encode(bytes)
    )
}

/// How many bytes at the start need no look: neither a quote, a backslash nor a control character.
#[inline]
pub(crate) fn plain_bytes(bytes: &[u8]) -> usize {
    const ONES: u64 = 0x0101_0101_0101_0101;
    const HIGH: u64 = 0x8080_8080_8080_8080;
    let mut count = 0;
    // Eight at a time: a word has its high bit set in a byte that is zero or, for `below`, less than a space. Borrows
    // run upwards only, so the lowest mark is always a true one.
    for chunk in bytes.chunks_exact(8) {
        let word = u64::from_le_bytes(chunk.try_into().expect("a chunk has eight bytes"));
        let is_zero = |word: u64| word.wrapping_sub(ONES) & !word;
        let quote = is_zero(word ^ (ONES * b'"' as u64));
        let backslash = is_zero(word ^ (ONES * b'\\' as u64));
        let below = word.wrapping_sub(ONES * 0x20) & !word;
        let marks = (quote | backslash | below) & HIGH;
        if marks != 0 {
            return count + (marks.trailing_zeros() / 8) as usize;
        }
        count += 8;
    }
    let stops = |byte: &u8| *byte == b'"' || *byte == b'\\' || *byte < 0x20;
    let rest = &bytes[count..];
    count + rest.iter().position(stops).unwrap_or(rest.len())
}
