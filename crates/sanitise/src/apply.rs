//! What a rule makes of one value. Values are JSON texts, known to be well-formed.

mod address;

use std::borrow::Cow;

use cannery_formats::uid::{LakeKey, Uid};

use crate::rules::{Meaning, Missing, Op, Pattern, Stamp, Table, Unit, format_time, milliseconds};
use crate::sanitiser::Context;
use crate::scan::{Quoted, Scan, base64_object, quote};

/// What becomes of a value.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Nothing.
    Keep,
    /// It is another JSON text.
    To(String),
    /// It goes, with its key.
    Drop,
}

/// What rules may look at besides the value.
pub(crate) struct Around<'a> {
    pub(crate) meaning: &'a Meaning,
    pub(crate) key: &'a LakeKey,
    pub(crate) context: &'a Context<'a>,
    pub(crate) uid: Uid,
}

/// Applies one rule to a value that is there.
pub(crate) fn apply(op: &Op, json: &str, around: &Around<'_>) -> Change {
    match op {
        Op::Rename { map } => on_text(json, |text| map.get(text).map(|name| quoted(name))),
        Op::Stamp(_) | Op::ContentId => Change::To(set(op, around)),
        Op::EpochToTime { unit, format } => epoch_to_time(json, *unit, format),
        Op::Bytes => bytes(json),
        Op::Drop => Change::Drop,
        Op::Redact { pattern, with } => on_text(json, |text| redact(text, pattern, with)),
        Op::Hmac { domain } => hmac(json, domain, around.key),
        Op::TruncateIp { v4, v6 } => truncate_ip(json, *v4, *v6),
        Op::Lookup {
            table,
            pattern,
            missing,
        } => {
            let entries = &around.meaning.tables[table];
            match pattern {
                None => lookup(json, table, entries, missing, around.key),
                // A list or a map where a text was expected might hold anything: it does not stay.
                Some(_) if is_container(json) && !matches!(missing, Missing::Keep) => {
                    Change::To("null".to_owned())
                }
                Some(pattern) => on_text(json, |text| {
                    lookup_within(text, table, entries, pattern, missing, around.key)
                }),
            }
        }
        // Fills what is missing, and arranges keys: never about a value that is there.
        Op::NullFill | Op::RenameKeys { .. } | Op::Nest { .. } => Change::Keep,
    }
}

/// The JSON text that a rule puts in where a key is missing.
pub(crate) fn set(op: &Op, around: &Around<'_>) -> String {
    let context = around.context;
    match op {
        Op::ContentId => quoted(&around.uid.to_string()),
        Op::Stamp(Stamp::BucketDate) => quoted(context.bucket),
        Op::Stamp(Stamp::Textname) => quoted(context.textname),
        Op::Stamp(Stamp::Kind) => quoted(context.kind),
        Op::Stamp(Stamp::ReportId) => context.report_id.map_or("null".to_owned(), quoted),
        Op::Stamp(Stamp::Text(text)) => quoted(text),
        _ => "null".to_owned(),
    }
}

fn quoted(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len() + 2);
    quote(text, &mut out);
    String::from_utf8(out).expect("a text stays text with escapes")
}

/// Changes a string by what it says; anything else is kept.
fn is_container(json: &str) -> bool {
    json.starts_with(['{', '['])
}

fn on_text(json: &str, change: impl FnOnce(&str) -> Option<String>) -> Change {
    let changed = Quoted::of_json(json).and_then(|string| change(&string.text()));
    changed.map_or(Change::Keep, Change::To)
}

fn epoch_to_time(json: &str, unit: Unit, format: &str) -> Change {
    let factor = match unit {
        Unit::Seconds => 1000.0,
        Unit::Milliseconds => 1.0,
    };
    let is_number = json.starts_with(|first: char| first == '-' || first.is_ascii_digit());
    let time = is_number
        .then(|| milliseconds(json, factor))
        .flatten()
        .and_then(|time| format_time(format, time));
    time.map_or(Change::Keep, |time| Change::To(quoted(&time)))
}

fn bytes(json: &str) -> Change {
    match Quoted::of_json(json) {
        Some(string) if string.lone => Change::To(base64_object(&string.bytes())),
        _ => Change::Keep,
    }
}

fn redact(text: &str, pattern: &Pattern, with: &str) -> Option<String> {
    match pattern.regex().replace_all(text, regex::NoExpand(with)) {
        Cow::Borrowed(_) => None,
        Cow::Owned(text) => Some(quoted(&text)),
    }
}

/// A null says nothing, so it stays.
fn hmac(json: &str, domain: &str, key: &LakeKey) -> Change {
    if json == "null" {
        return Change::Keep;
    }
    let value = match Quoted::of_json(json) {
        Some(string) => string.to_wtf8(),
        None => compact(json),
    };
    Change::To(quoted(&pseudonym(key, domain, &value)))
}

/// What stands in place of a value: the same for the same value, key and `domain`. No measurement has that time, so it is
/// never the uid of one.
fn pseudonym(key: &LakeKey, domain: &str, value: &[u8]) -> String {
    Uid::of_bytes(key, i64::MIN, domain.as_bytes(), value).to_string()
}

/// A value without white space, which is no part of what it says.
fn compact(json: &str) -> Cow<'_, [u8]> {
    let mut scan = Scan::of_text(json);
    scan.value()
        .expect("it stands in a document that is well-formed");
    scan.into_compact()
}

/// What is no address might be anything: it does not stay.
fn truncate_ip(json: &str, v4: u8, v6: u8) -> Change {
    if json == "null" || json == "\"\"" {
        return Change::Keep;
    }
    let text = Quoted::of_json(json).map(Quoted::text);
    let short = text.and_then(|text| address::truncate(&text, v4, v6));
    Change::To(short.map_or("null".to_owned(), |short| quoted(&short)))
}

fn lookup(json: &str, name: &str, table: &Table, missing: &Missing, key: &LakeKey) -> Change {
    let text = Quoted::of_json(json).map(Quoted::text);
    let found = text.and_then(|text| table.entries.get(&*text));
    match (found, missing) {
        (Some(found), _) => Change::To(found.clone()),
        (None, Missing::Keep) => Change::Keep,
        (None, Missing::Null) => Change::To("null".to_owned()),
        (None, Missing::Hmac) => hmac(json, name, key),
    }
}

fn lookup_within(
    text: &str,
    name: &str,
    table: &Table,
    pattern: &Pattern,
    missing: &Missing,
    key: &LakeKey,
) -> Option<String> {
    let replaced = pattern
        .regex()
        .replace_all(text, |found: &regex::Captures<'_>| {
            let part = &found[0];
            match (table.text(part), missing) {
                (Some(text), _) => text.to_owned(),
                (None, Missing::Keep) => part.to_owned(),
                (None, Missing::Null) => String::new(),
                (None, Missing::Hmac) => pseudonym(key, name, part.as_bytes()),
            }
        });
    (replaced != text).then(|| quoted(&replaced))
}

#[cfg(test)]
mod tests;
