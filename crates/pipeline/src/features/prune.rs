//! A document is read: what filters look at becomes a value, the rest is summed up and passed over.

use cannery_formats::JSON_DEPTH_MAX;
use jaq_json::{Map, Num, Val};

use super::interest::Interest;
use super::residual::{Residual, Shape, Spot};

/// Longer numbers are taken as floating point: exact ones would take the square of their length.
const NUMBER_BYTES_MAX: usize = 300;

/// Reads one document, which must be one JSON value. What is passed over is looked at only as far as needed to find its end.
///
/// # Errors
/// What is wrong with it.
pub(super) fn prune(
    text: &[u8],
    interest: &Interest,
    residual: Option<&mut Residual>,
) -> Result<Val, String> {
    let mut reader = Reader {
        text,
        at: 0,
        depth: 0,
        residual,
    };
    let root = reader.residual.as_mut().map(|residual| residual.begin());
    let value = reader.value(interest, root)?;
    match reader.peek() {
        None => Ok(value),
        Some(_) => Err(reader.wrong("something follows the document")),
    }
}

/// The value that a text is.
pub(super) fn whole(text: &[u8]) -> Result<Val, String> {
    let interest = Interest::everything();
    prune(text, &interest, None)
}

struct Reader<'t, 'r> {
    text: &'t [u8],
    at: usize,
    depth: usize,
    residual: Option<&'r mut Residual>,
}

impl<'t> Reader<'t, '_> {
    fn wrong(&self, what: &str) -> String {
        format!("{what} at byte {}", self.at)
    }

    /// The next byte that is no white space.
    fn peek(&mut self) -> Option<u8> {
        while let Some(byte) = self.text.get(self.at) {
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(*byte);
            }
            self.at += 1;
        }
        None
    }

    fn expect(&mut self, byte: u8) -> Result<(), String> {
        if self.peek() == Some(byte) {
            self.at += 1;
            return Ok(());
        }
        Err(self.wrong(&format!("expected `{}`", char::from(byte))))
    }

    fn deeper(&mut self) -> Result<(), String> {
        self.depth += 1;
        self.at += 1;
        match self.depth > JSON_DEPTH_MAX {
            true => Err(self.wrong("nested too deep")),
            false => Ok(()),
        }
    }

    /// Whether another element follows in an array or object that ends with `end`; consumes what is between them.
    fn more(&mut self, end: u8, is_first: bool) -> Result<bool, String> {
        match self.peek() {
            Some(byte) if byte == end => {
                self.at += 1;
                self.depth -= 1;
                Ok(false)
            }
            Some(b',') if !is_first => {
                self.at += 1;
                Ok(true)
            }
            Some(_) if is_first => Ok(true),
            _ => Err(self.wrong("expected the next element or the end")),
        }
    }

    fn key_spot(&mut self, spot: Option<Spot>, key: &[u8]) -> Option<Spot> {
        let residual = self.residual.as_mut()?;
        residual.key(spot, key)
    }

    fn item_spot(&mut self, spot: Option<Spot>) -> Option<Spot> {
        let residual = self.residual.as_mut()?;
        residual.items(spot)
    }

    fn note(&mut self, spot: Option<Spot>, shape: Shape) {
        if let Some(residual) = &mut self.residual {
            residual.note(spot, shape);
        }
    }

    fn value(&mut self, interest: &Interest, spot: Option<Spot>) -> Result<Val, String> {
        match self.peek() {
            Some(b'{') => self.object(interest, spot),
            Some(b'[') => self.array(interest, spot),
            Some(b'"') => Ok(Val::utf8_str(self.string()?)),
            Some(b'-' | b'0'..=b'9') => Ok(Val::Num(self.number()?)),
            Some(b't') => self.word(b"true", Val::Bool(true)),
            Some(b'f') => self.word(b"false", Val::Bool(false)),
            Some(b'n') => self.word(b"null", Val::Null),
            _ => Err(self.wrong("expected a value")),
        }
    }

    fn object(&mut self, interest: &Interest, spot: Option<Spot>) -> Result<Val, String> {
        self.deeper()?;
        let mut map = Map::default();
        let mut is_first = true;
        while self.more(b'}', is_first)? {
            is_first = false;
            let raw = self.raw_string()?;
            let key = unescape(raw);
            self.expect(b':')?;
            let child = if interest.whole {
                Some(interest)
            } else {
                interest.key(&key)
            };
            match child {
                Some(child) => {
                    let spot = if child.whole {
                        None
                    } else {
                        self.key_spot(spot, raw)
                    };
                    let value = self.value(child, spot)?;
                    map.insert(Val::utf8_str(key.into_owned()), value);
                }
                None => {
                    let spot = self.key_spot(spot, raw);
                    self.skip(spot)?;
                }
            }
        }
        Ok(Val::obj(map))
    }

    fn array(&mut self, interest: &Interest, spot: Option<Spot>) -> Result<Val, String> {
        self.deeper()?;
        let child = if interest.whole {
            Some(interest)
        } else {
            interest.items()
        };
        let spot = match child {
            Some(child) if child.whole => None,
            _ => self.item_spot(spot),
        };
        let mut items = Vec::new();
        let mut is_first = true;
        while self.more(b']', is_first)? {
            is_first = false;
            match child {
                Some(child) => items.push(self.value(child, spot)?),
                None => self.skip(spot)?,
            }
        }
        Ok(items.into_iter().collect())
    }

    /// Passes over a value that nobody looks at.
    fn skip(&mut self, spot: Option<Spot>) -> Result<(), String> {
        if self.residual.is_none() {
            return self.jump();
        }
        match self.peek() {
            Some(b'{') => {
                self.deeper()?;
                let mut is_first = true;
                while self.more(b'}', is_first)? {
                    is_first = false;
                    let key = self.raw_string()?;
                    self.expect(b':')?;
                    let spot = self.key_spot(spot, key);
                    self.skip(spot)?;
                }
                if is_first {
                    self.note(spot, Shape::EmptyObject);
                }
            }
            Some(b'[') => {
                self.deeper()?;
                let mut is_first = true;
                let items = self.item_spot(spot);
                while self.more(b']', is_first)? {
                    is_first = false;
                    self.skip(items)?;
                }
                if is_first {
                    self.note(spot, Shape::EmptyArray);
                }
            }
            Some(b'"') => {
                self.raw_string()?;
                self.note(spot, Shape::String);
            }
            Some(byte) => {
                self.scalar();
                self.note(
                    spot,
                    match byte {
                        b't' | b'f' => Shape::Bool,
                        b'n' => Shape::Null,
                        _ => Shape::Number,
                    },
                );
            }
            None => return Err(self.wrong("expected a value")),
        }
        Ok(())
    }

    /// Passes over a value by its brackets and quotes alone.
    fn jump(&mut self) -> Result<(), String> {
        let depth = self.depth;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.raw_string()?;
                }
                Some(b'{' | b'[') => self.deeper()?,
                Some(b'}' | b']') if self.depth > depth => {
                    self.depth -= 1;
                    self.at += 1;
                }
                Some(b',' | b':') if self.depth > depth => self.at += 1,
                Some(b',' | b':' | b'}' | b']') | None => {
                    return Err(self.wrong("expected a value"));
                }
                Some(_) => self.scalar(),
            }
            if self.depth == depth {
                return Ok(());
            }
        }
    }

    fn scalar(&mut self) {
        let ends = |byte: &u8| {
            matches!(
                byte,
                b',' | b':' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r' | b'"'
            )
        };
        let rest = &self.text[self.at..];
        let length = rest.iter().position(ends).unwrap_or(rest.len());
        // What is no value at all must not be stood on for ever.
        self.at += length.max(1);
    }

    fn word(&mut self, word: &[u8], value: Val) -> Result<Val, String> {
        if self.text[self.at..].starts_with(word) {
            self.at += word.len();
            return Ok(value);
        }
        Err(self.wrong("expected a value"))
    }

    fn number(&mut self) -> Result<Num, String> {
        let from = self.at;
        self.scalar();
        let text = &self.text[from..self.at];
        let number = match text.len() > NUMBER_BYTES_MAX {
            false => jaq_json::read::parse_single_num(text),
            true => {
                let text = std::str::from_utf8(text).ok();
                text.and_then(|text| text.parse().ok()).map(Num::Float)
            }
        };
        number.ok_or_else(|| self.wrong("no number ends"))
    }

    fn string(&mut self) -> Result<Vec<u8>, String> {
        let raw = self.raw_string()?;
        Ok(unescape(raw).into_owned())
    }

    /// What stands between the quotes.
    fn raw_string(&mut self) -> Result<&'t [u8], String> {
        self.expect(b'"')?;
        let from = self.at;
        let mut at = from;
        while let Some(found) =
            memchr::memchr2(b'"', b'\\', self.text.get(at..).unwrap_or_default())
        {
            at += found;
            if self.text[at] == b'"' {
                self.at = at + 1;
                return Ok(&self.text[from..at]);
            }
            at += 2;
        }
        Err(self.wrong("a string has no end"))
    }
}

/// What a string says. Half a surrogate pair, which no text can say, becomes the sign for that.
fn unescape(raw: &[u8]) -> std::borrow::Cow<'_, [u8]> {
    let Some(mut found) = memchr::memchr(b'\\', raw) else {
        return raw.into();
    };
    let mut out = Vec::with_capacity(raw.len());
    let mut rest = raw;
    loop {
        out.extend_from_slice(&rest[..found]);
        rest = escape(&rest[found + 1..], &mut out);
        match memchr::memchr(b'\\', rest) {
            Some(next) => found = next,
            None => break,
        }
    }
    out.extend_from_slice(rest);
    out.into()
}

/// Writes what the escape says and returns what follows it.
fn escape<'t>(text: &'t [u8], out: &mut Vec<u8>) -> &'t [u8] {
    let Some((kind, rest)) = text.split_first() else {
        return text;
    };
    let byte = match kind {
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'u' => {
            let (char, rest) = unicode(rest);
            out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
            return rest;
        }
        other => *other,
    };
    out.push(byte);
    rest
}

fn unicode(text: &[u8]) -> (char, &[u8]) {
    let bad = char::REPLACEMENT_CHARACTER;
    let Some((first, rest)) = hex(text) else {
        return (bad, text);
    };
    if !(0xd800..0xdc00).contains(&first) {
        return (char::from_u32(first).unwrap_or(bad), rest);
    }
    let second = rest.strip_prefix(b"\\u").and_then(hex);
    match second {
        Some((second, later)) if (0xdc00..0xe000).contains(&second) => {
            let code = 0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00);
            (char::from_u32(code).unwrap_or(bad), later)
        }
        _ => (bad, rest),
    }
}

fn hex(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_at_checked(4)?;
    let digits = std::str::from_utf8(digits).ok()?;
    Some((u32::from_str_radix(digits, 16).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, String> {
        whole(text.as_bytes()).map(|value| value.to_string())
    }

    #[test]
    fn a_document_is_read_as_it_is() {
        for text in [
            r#"{"a":[1,-2.5,1e9,true,false,null],"b":{"c":"x"}}"#,
            "[]",
            "\"x\"",
            "12345678901234567890123",
        ] {
            assert_eq!(read(text).unwrap(), text);
        }
        let escaped = r#""\u00e9\ud83d\ude00\udc80\n\"\\\/""#;
        assert_eq!(
            whole(escaped.as_bytes()).unwrap(),
            Val::from("é😀\u{fffd}\n\"\\/".to_owned())
        );
        assert_eq!(read(" { \"a\" : [ 1 , 2 ] } \n").unwrap(), r#"{"a":[1,2]}"#);
    }

    #[test]
    fn what_is_no_document_is_refused() {
        let deep = "[".repeat(100_000);
        let deep_object = "{\"a\":".repeat(100_000);
        let long = "9".repeat(1_000_000);
        assert!(read(&long).is_ok());
        for text in [
            "",
            "[1",
            "{\"a\"}",
            "[1 2]",
            "nul",
            "\"x",
            "{} {}",
            "]",
            &deep,
            &deep_object,
            "\"\\",
        ] {
            assert!(read(text).is_err(), "{}", &text[..text.len().min(9)]);
            let nothing = prune(text.as_bytes(), &Interest::default(), None);
            let wrapped = format!("{{\"k\":{text}}}");
            let mut residual = Residual::default();
            let summed = prune(
                wrapped.as_bytes(),
                &Interest::default(),
                Some(&mut residual),
            );
            drop((nothing, summed));
        }
    }
}
