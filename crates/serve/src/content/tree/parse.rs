//! Reads JSON as far as it is shown: what is beyond is passed over, counted, and checked all the same.

/// How deep the tree is; deeper things are passed over.
const DEPTH_MAX: usize = 32;
/// How deep a document may be at all. Reading calls itself that often.
const NESTED_MAX: usize = 200;
/// How many items the tree has at most.
const ITEMS_MAX: usize = 4_000;
/// How many items of one array or object are shown.
const SIBLINGS_MAX: usize = 200;
/// Of a string so many bytes are kept: more than is shown.
const KEPT_BYTES_MAX: usize = 2_400;

/// A value, with its key in an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    pub(super) key: Option<String>,
    pub(super) shape: Shape,
}

/// What a value is. Of arrays and objects the first items, and how many there are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Literal {
        text: String,
        class: &'static str,
        chars: usize,
    },
    Array {
        items: Vec<Item>,
        all: u64,
    },
    Object {
        items: Vec<Item>,
        all: u64,
    },
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    left: usize,
}

/// The document, or where it is no JSON.
pub(super) fn parse(text: &str) -> Result<Item, usize> {
    let mut reader = Reader {
        text,
        at: 0,
        left: ITEMS_MAX,
    };
    let shape = reader.value(0, true)?;
    reader.space();
    match reader.byte() {
        None => Ok(Item { key: None, shape }),
        Some(_) => Err(reader.at),
    }
}

impl<'a> Reader<'a> {
    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn space(&mut self) {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte() {
            self.at += 1;
        }
    }

    fn take(&mut self, wanted: u8) -> Result<(), usize> {
        match self.byte() == Some(wanted) {
            true => self.at += 1,
            false => return Err(self.at),
        }
        Ok(())
    }

    /// A value, kept if it is `shown`.
    fn value(&mut self, depth: usize, shown: bool) -> Result<Shape, usize> {
        if depth > NESTED_MAX {
            return Err(self.at);
        }
        self.space();
        match self.byte() {
            Some(b'{') => self.items(depth, shown, true),
            Some(b'[') => self.items(depth, shown, false),
            Some(b'"') => {
                let written = self.string()?;
                Ok(literal(written, "tree-string", shown))
            }
            Some(b'-' | b'0'..=b'9') => {
                let written = self.number()?;
                Ok(literal(written, "tree-number", shown))
            }
            _ => {
                let written = self.word()?;
                Ok(literal(written, "tree-word", shown))
            }
        }
    }

    fn items(&mut self, depth: usize, shown: bool, is_object: bool) -> Result<Shape, usize> {
        let end = if is_object { b'}' } else { b']' };
        let (mut items, mut all) = (Vec::new(), 0_u64);
        self.at += 1;
        self.space();
        if self.byte() == Some(end) {
            self.at += 1;
            return Ok(shape(is_object, items, all));
        }
        loop {
            // Of the first level all is shown that fits, even when what is below it used up the rest.
            let has_room = self.left > 0 || depth == 0;
            let keeps = shown && has_room && depth < DEPTH_MAX && items.len() < SIBLINGS_MAX;
            let key = match is_object {
                true => Some(self.key()?),
                false => None,
            };
            if keeps {
                self.left = self.left.saturating_sub(1);
            }
            let value = self.value(depth + 1, keeps)?;
            if keeps {
                let key = key.map(|key| kept(key).to_owned());
                items.push(Item { key, shape: value });
            }
            all += 1;
            self.space();
            if self.byte() == Some(b',') {
                self.at += 1;
                continue;
            }
            self.take(end)?;
            return Ok(shape(is_object, items, all));
        }
    }

    /// A key with the colon behind it, without quotes.
    fn key(&mut self) -> Result<&'a str, usize> {
        self.space();
        let written = self.string()?;
        self.space();
        self.take(b':')?;
        Ok(&written[1..written.len() - 1])
    }

    /// A string as it is written, with quotes.
    fn string(&mut self) -> Result<&'a str, usize> {
        let start = self.at;
        self.take(b'"')?;
        loop {
            match self.byte() {
                Some(b'"') => break,
                Some(b'\\') => self.escape()?,
                Some(0..b' ') | None => return Err(self.at),
                Some(_) => self.at += 1,
            }
        }
        self.at += 1;
        Ok(&self.text[start..self.at])
    }

    fn escape(&mut self) -> Result<(), usize> {
        let bytes = &self.text.as_bytes()[self.at..];
        self.at += match bytes {
            [
                _,
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't',
                ..,
            ] => 2,
            [_, b'u', a, b, c, d, ..] if [a, b, c, d].iter().all(|x| x.is_ascii_hexdigit()) => 6,
            _ => return Err(self.at),
        };
        Ok(())
    }

    fn number(&mut self) -> Result<&'a str, usize> {
        let start = self.at;
        if self.byte() == Some(b'-') {
            self.at += 1;
        }
        match self.byte() {
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
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

    fn digits(&mut self) -> Result<(), usize> {
        let start = self.at;
        while self.byte().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at == start { Err(start) } else { Ok(()) }
    }

    fn word(&mut self) -> Result<&'a str, usize> {
        for word in ["null", "false", "true"] {
            if self.text[self.at..].starts_with(word) {
                self.at += word.len();
                return Ok(word);
            }
        }
        Err(self.at)
    }
}

fn shape(is_object: bool, items: Vec<Item>, all: u64) -> Shape {
    match is_object {
        true => Shape::Object { items, all },
        false => Shape::Array { items, all },
    }
}

fn literal(written: &str, class: &'static str, shown: bool) -> Shape {
    let (text, chars) = match shown {
        true => (kept(written).to_owned(), written.chars().count()),
        false => (String::new(), 0),
    };
    Shape::Literal { text, class, chars }
}

/// The begin of a text.
fn kept(text: &str) -> &str {
    let mut end = text.len().min(KEPT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
