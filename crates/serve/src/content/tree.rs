//! A JSON document as a tree that is unfolded by its reader, without a script: strict, bounded, every literal as it is written.
//!
//! What is no JSON is shown as text, and what is no text in hexadecimal digits. Of what is too much the begin is shown, and it
//! is said how much is not.

use std::fmt::Write as _;

use maud::{Markup, Render, html};

use super::text::{clean_to, grouped};

mod parse;

use parse::{Item, Shape, parse};

/// Characters of a string or a key.
const STRING_CHARS_MAX: usize = 500;
const KEY_CHARS_MAX: usize = 120;
/// Of what is no JSON.
const TEXT_CHARS_MAX: usize = 8_000;
const HEX_BYTES_MAX: usize = 1_024;
const HEX_WIDTH: usize = 16;
/// Small things are unfolded from the start.
const OPEN_ITEMS_MAX: u64 = 6;
const OPEN_DEPTH_MAX: usize = 2;

/// A document, read as far as it is shown.
#[derive(Clone, Debug)]
pub struct Tree(Form);

#[derive(Clone, Debug)]
enum Form {
    Json(Item),
    Text { text: String, why: String },
    Hex { bytes: Vec<u8>, all: usize },
}

impl Tree {
    /// Reads a document. This takes as long as passing once over its bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        let Ok(text) = std::str::from_utf8(bytes) else {
            let shown = &bytes[..bytes.len().min(HEX_BYTES_MAX)];
            let (bytes, all) = (shown.to_vec(), bytes.len());
            return Self(Form::Hex { bytes, all });
        };
        Self(match parse(text) {
            Ok(item) => Form::Json(item),
            Err(at) => Form::Text {
                text: lines(text),
                why: format!("It is no JSON from byte {at} on, and shown as text."),
            },
        })
    }

    /// Whether it is JSON.
    #[must_use]
    pub fn is_json(&self) -> bool {
        matches!(self.0, Form::Json(_))
    }
}

/// A text in which line breaks are, and nothing else that commands a screen.
fn lines(text: &str) -> String {
    let mut left = TEXT_CHARS_MAX;
    let mut shown = String::new();
    for line in text.split('\n') {
        if left == 0 {
            shown.push('…');
            break;
        }
        let line = clean_to(line.strip_suffix('\r').unwrap_or(line), left);
        left = left.saturating_sub(line.chars().count() + 1);
        shown.push_str(&line);
        shown.push('\n');
    }
    shown
}

/// Bytes as `offset  hexadecimal digits  letters`.
fn hex(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (at, line) in bytes.chunks(HEX_WIDTH).enumerate() {
        let digits: Vec<String> = line.iter().map(|byte| format!("{byte:02x}")).collect();
        let letters = line.iter().map(|byte| match byte {
            b' '..=b'~' => char::from(*byte),
            _ => '.',
        });
        let letters: String = letters.collect();
        let width = HEX_WIDTH * 3 - 1;
        writeln!(
            text,
            "{:06x}  {:width$}  {letters}",
            at * HEX_WIDTH,
            digits.join(" ")
        )
        .expect("a text has room");
    }
    text
}

impl Render for Tree {
    fn render(&self) -> Markup {
        match &self.0 {
            Form::Json(item) => html! { div.card.tree { (whole(item)) } },
            Form::Text { text, why } => html! {
                div.card.tree { p.none { (why) } pre tabindex="0" { (text) } }
            },
            Form::Hex { bytes, all } => html! {
                div.card.tree {
                    p.none { "It is no text. The first " (bytes.len()) " of " (grouped(&all.to_string())) " bytes:" }
                    pre tabindex="0" { (hex(bytes)) }
                }
            },
        }
    }
}

/// The document itself is not folded.
fn whole(item: &Item) -> Markup {
    match &item.shape {
        Shape::Literal { .. } => html! { ul { (node(item, 0)) } },
        Shape::Array { items, all } | Shape::Object { items, all } => html! {
            @if items.is_empty() && *all == 0 { p.none { "It is empty." } }
            (children(items, *all, 1))
        },
    }
}

fn children(items: &[Item], all: u64, depth: usize) -> Markup {
    let hidden = all - u64::try_from(items.len()).unwrap_or(all).min(all);
    html! {
        ul {
            @for item in items { (node(item, depth)) }
            @if hidden > 0 { li.tree-more { "and " (grouped(&hidden.to_string())) " more that are not shown" } }
        }
    }
}

fn node(item: &Item, depth: usize) -> Markup {
    let key = html! {
        @if let Some(key) = &item.key { span.tree-key { (clean_to(key, KEY_CHARS_MAX)) } ": " }
    };
    match &item.shape {
        Shape::Literal { text, class, chars } => html! {
            li {
                (key) span.(class) { (clean_to(text, STRING_CHARS_MAX)) }
                @if *chars > STRING_CHARS_MAX { span.tree-more { " " (grouped(&chars.to_string())) " characters" } }
            }
        },
        Shape::Array { items, all } => folded(&key, items, *all, ["[", "]", "item"], depth),
        Shape::Object { items, all } => folded(&key, items, *all, ["{", "}", "key"], depth),
    }
}

fn folded(key: &Markup, items: &[Item], all: u64, words: [&str; 3], depth: usize) -> Markup {
    let [begin, end, noun] = words;
    let plural = if all == 1 { "" } else { "s" };
    if all == 0 {
        return html! { li { (key) span.tree-word { (begin) (end) } } };
    }
    let summary = html! {
        (key) span.tree-word { (begin) "…" (end) } " " span.tree-more { (grouped(&all.to_string())) " " (noun) (plural) }
    };
    if items.is_empty() {
        return html! { li { (summary) span.tree-more { ", not shown" } } };
    }
    let is_open = all <= OPEN_ITEMS_MAX && depth <= OPEN_DEPTH_MAX;
    html! { li { details open[is_open] { summary { (summary) } (children(items, all, depth + 1)) } } }
}

#[cfg(test)]
mod tests;
