//! A file's JSON as one line, changed as little as one line allows.

use std::borrow::Cow;

use crate::json_scan::{JsonFault, Scan};

/// The one JSON value in `bytes`, on one line.
///
/// A value without a line break is given back as it is, only without the white space around it. In any other, the white
/// space between its parts is left out. Nothing else changes: numbers, escapes, the order of keys and keys that come
/// twice stay as they are written.
///
/// # Errors
/// [`JsonFault`] when there is no value, more than one, or none that RFC 8259 allows.
pub fn json_line(bytes: &[u8]) -> Result<Cow<'_, [u8]>, JsonFault> {
    let mut scan = Scan::new(bytes)?;
    scan.space();
    let start = scan.position();
    if start == bytes.len() {
        return Err(JsonFault::Empty);
    }
    scan.broke_line = false;
    scan.value()?;
    let value = &bytes[start..scan.position()];
    let broke_line = scan.broke_line;
    scan.end()?;
    Ok(if broke_line {
        Cow::Owned(without_space(value))
    } else {
        Cow::Borrowed(value)
    })
}

/// `value` is valid JSON.
fn without_space(value: &[u8]) -> Vec<u8> {
    let mut line = Vec::with_capacity(value.len());
    let mut rest = value;
    while let Some(quote) = rest.iter().position(|byte| *byte == b'"') {
        copy_without_space(&rest[..quote], &mut line);
        let end = quote + string_bytes(&rest[quote..]);
        line.extend_from_slice(&rest[quote..end]);
        rest = &rest[end..];
    }
    copy_without_space(rest, &mut line);
    line
}

fn copy_without_space(part: &[u8], line: &mut Vec<u8>) {
    for word in part.split(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')) {
        line.extend_from_slice(word);
    }
}

/// The length of the string at the start of `bytes`, with its quotes.
fn string_bytes(bytes: &[u8]) -> usize {
    let mut at = 1;
    loop {
        match bytes.get(at) {
            None | Some(b'"') => return (at + 1).min(bytes.len()),
            Some(b'\\') => at += 2,
            Some(_) => at += 1,
        }
    }
}

#[cfg(test)]
mod tests;
