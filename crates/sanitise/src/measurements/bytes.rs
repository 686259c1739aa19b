//! Bytes that are no text, on their way through a parser of text.

use std::borrow::Cow;
use std::ops::Range;

use crate::fault::Bad;
use crate::scan::{quote, quote_inner};

/// Characters for private use: 512 blocks of 128, of which one stands for the bytes 0x80 to 0xff.
const PRIVATE: Range<u32> = 0xf_0000..0x10_0000;
const BLOCK: u32 = 0x80;

/// A text in which characters of one block stand for bytes that are none.
#[derive(Debug)]
pub(super) struct Stand<'a> {
    pub(super) text: Cow<'a, str>,
    /// Where the block begins, if there is such a byte.
    block: Option<u32>,
}

impl<'a> Stand<'a> {
    /// The text of these bytes. The block is one that the text does not use, so that nothing is mistaken for a byte.
    pub(super) fn of(bytes: &'a [u8]) -> Result<Self, Bad> {
        let error = match std::str::from_utf8(bytes) {
            Ok(text) => {
                return Ok(Self {
                    text: Cow::Borrowed(text),
                    block: None,
                });
            }
            Err(error) => error,
        };
        let block = free_block(bytes).ok_or(Bad::NotUtf8 {
            at: error.valid_up_to(),
        })?;
        let mut text = String::with_capacity(bytes.len() * 2);
        for chunk in bytes.utf8_chunks() {
            text.push_str(chunk.valid());
            let stands = chunk.invalid().iter().map(|byte| {
                char::from_u32(block + u32::from(byte & 0x7f)).expect("the block has characters")
            });
            text.extend(stands);
        }
        Ok(Self {
            text: Cow::Owned(text),
            block: Some(block),
        })
    }

    /// Writes a part of what the text says as a JSON string, with half a surrogate pair for each byte.
    pub(super) fn quote(&self, part: &str, out: &mut Vec<u8>) {
        let Some(block) = self.block else {
            return quote(part, out);
        };
        out.push(b'"');
        let mut rest = part;
        let stands = |char: char| (block..block + BLOCK).contains(&u32::from(char));
        while let Some(at) = rest.find(stands) {
            quote_inner(&rest[..at], out);
            let char = rest[at..].chars().next().expect("it was found there");
            let byte = u8::try_from(u32::from(char) - block).expect("a block has 128 characters");
            lone(byte | 0x80, out);
            rest = &rest[at + char.len_utf8()..];
        }
        quote_inner(rest, out);
        out.push(b'"');
    }
}

/// Writes bytes as a JSON string: text as it is, half a surrogate pair for each other byte.
pub(super) fn quote_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.push(b'"');
    for chunk in bytes.utf8_chunks() {
        quote_inner(chunk.valid(), out);
        for byte in chunk.invalid() {
            lone(*byte, out);
        }
    }
    out.push(b'"');
}

fn lone(byte: u8, out: &mut Vec<u8>) {
    out.extend(format!("\\udc{byte:02x}").as_bytes());
}

/// The first block of which the valid parts of `bytes` have no character.
fn free_block(bytes: &[u8]) -> Option<u32> {
    let count = (PRIVATE.end - PRIVATE.start) / BLOCK;
    let mut used = vec![false; usize::try_from(count).ok()?];
    for char in bytes.utf8_chunks().flat_map(|chunk| chunk.valid().chars()) {
        if PRIVATE.contains(&u32::from(char)) {
            let block = (u32::from(char) - PRIVATE.start) / BLOCK;
            used[usize::try_from(block).ok()?] = true;
        }
    }
    let free = used.iter().position(|used| !used)?;
    Some(PRIVATE.start + u32::try_from(free).ok()? * BLOCK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn through(bytes: &[u8]) -> String {
        let stand = Stand::of(bytes).unwrap();
        let mut out = Vec::new();
        stand.quote(&stand.text, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn bytes_become_half_pairs_and_text_stays() {
        assert_eq!(through("a\"ü\u{f0001}".as_bytes()), "\"a\\\"ü\u{f0001}\"");
        assert_eq!(through(b"caf\xe9 \xff\xc3\xa9"), r#""caf\udce9 \udcffé""#);
        let mut out = Vec::new();
        quote_bytes(b"caf\xe9\n", &mut out);
        assert_eq!(out, br#""caf\udce9\n""#);
    }

    #[test]
    fn a_private_character_is_not_mistaken_for_a_byte() {
        let mut bytes = "\u{f0069}\u{f0085}".as_bytes().to_vec();
        bytes.push(0xe9);
        assert_eq!(through(&bytes), "\"\u{f0069}\u{f0085}\\udce9\"");
        let mut all: Vec<u8> = PRIVATE
            .filter_map(char::from_u32)
            .collect::<String>()
            .into_bytes();
        all.push(0xe9);
        assert!(matches!(Stand::of(&all), Err(Bad::NotUtf8 { .. })));
    }
}
