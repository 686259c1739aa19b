//! One YAML document as JSON text, written while the parser tells of it: there is no tree.
//!
//! Scalars are read as PyYAML wrote them. A number keeps its digits; whatever YAML has and JSON has not becomes a string.

mod scalar;

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, ScanError, Tag};

use super::bytes::Stand;
use crate::fault::{Bad, DEPTH_MAX};
use scalar::Resolved;

/// A document that is a map, as JSON.
#[derive(Debug)]
pub(super) struct Entry {
    json: Vec<u8>,
    members: Vec<Member>,
}

/// Where a member of the outermost map stands.
#[derive(Debug)]
struct Member {
    key: Range<usize>,
    end: usize,
}

impl Entry {
    /// Writes the members of `header` that this one has not, and then its own.
    pub(super) fn write_with(&self, header: &Self, out: &mut Vec<u8>) {
        let own: HashSet<&[u8]> = self.members.iter().map(|member| self.key(member)).collect();
        let inherited = header
            .members
            .iter()
            .filter(|member| !own.contains(header.key(member)))
            .map(|member| &header.json[member.key.start..member.end]);
        let members = self.members.iter();
        let members = members.map(|member| &self.json[member.key.start..member.end]);
        out.push(b'{');
        for (number, member) in inherited.chain(members).enumerate() {
            if number > 0 {
                out.push(b',');
            }
            out.extend_from_slice(member);
        }
        out.push(b'}');
    }

    fn key(&self, member: &Member) -> &[u8] {
        &self.json[member.key.clone()]
    }
}

/// Makes JSON of at most `max` bytes of a document; `None` when the document says nothing.
pub(super) fn to_json(document: &[u8], max: usize) -> Result<Option<Entry>, Bad> {
    let stand = Stand::of(document)?;
    let mut writer = Writer {
        stand: &stand,
        max,
        json: Vec::with_capacity(document.len()),
        open: Vec::new(),
        anchors: HashMap::new(),
        members: Vec::new(),
        line: 1,
    };
    let options = granit_parser::options! {
        flow_nesting_limit: DEPTH_MAX,
        block_nesting_limit: DEPTH_MAX,
    };
    for event in Parser::new_from_str_with_options(&stand.text, options) {
        let (event, span) = event.map_err(|error| not_yaml(&error))?;
        writer.line = span.start.line();
        writer.event(&event)?;
    }
    match writer.json.first() {
        None => Ok(None),
        Some(b'{') => Ok(Some(Entry {
            json: writer.json,
            members: writer.members,
        })),
        Some(_) if writer.json == b"null" => Ok(None),
        Some(_) => Err(Bad::NotAMap),
    }
}

/// The parser's messages may quote the document, the names of its kinds of error cannot.
fn not_yaml(error: &ScanError) -> Bad {
    let kind = format!("{:?}", error.kind());
    let name = kind.chars().take_while(|char| char.is_ascii_alphanumeric());
    let mut reason = String::new();
    for char in name {
        if char.is_ascii_uppercase() && !reason.is_empty() {
            reason.push(' ');
        }
        reason.push(char.to_ascii_lowercase());
    }
    Bad::Yaml {
        line: error.marker().line(),
        reason,
    }
}

struct Writer<'a> {
    stand: &'a Stand<'a>,
    max: usize,
    json: Vec<u8>,
    open: Vec<Open>,
    /// What finished anchors stand for.
    anchors: HashMap<usize, Range<usize>>,
    members: Vec<Member>,
    line: usize,
}

/// A list or map that is being written.
struct Open {
    start: usize,
    anchor: usize,
    is_map: bool,
    /// How many nodes it has; of a map, those at even places are keys.
    nodes: usize,
}

impl Writer<'_> {
    fn event(&mut self, event: &Event<'_>) -> Result<(), Bad> {
        match event {
            Event::Scalar(text, style, anchor, tag) => {
                self.scalar(text, *style, *anchor, tag.as_deref())?;
            }
            Event::SequenceStart(_, anchor, _) => self.open(*anchor, false)?,
            Event::MappingStart(_, anchor, _) => self.open(*anchor, true)?,
            Event::SequenceEnd | Event::MappingEnd => self.close(),
            Event::Alias(anchor) => self.alias(*anchor)?,
            Event::DocumentStart(..) if !self.json.is_empty() => {
                return self.fail("a second document in one");
            }
            _ => {}
        }
        if self.json.len() > self.max {
            return Err(Bad::TooLong { max: self.max });
        }
        Ok(())
    }

    fn fail<T>(&self, reason: &str) -> Result<T, Bad> {
        Err(Bad::Yaml {
            line: self.line,
            reason: reason.to_owned(),
        })
    }

    fn is_key(&self) -> bool {
        let top = self.open.last();
        top.is_some_and(|top| top.is_map && top.nodes % 2 == 0)
    }

    /// What stands between the nodes.
    fn before(&mut self) {
        if let Some(top) = self.open.last() {
            match (top.is_map, top.nodes) {
                (_, 0) => {}
                (true, nodes) if nodes % 2 == 1 => self.json.push(b':'),
                _ => self.json.push(b','),
            }
        }
    }

    /// A node that begins at `start` is written.
    fn after(&mut self, start: usize, anchor: usize) {
        let node = start..self.json.len();
        if anchor != 0 {
            self.anchors.insert(anchor, node.clone());
        }
        let is_outermost = self.open.len() == 1;
        let Some(top) = self.open.last_mut() else {
            return;
        };
        let is_key = top.nodes % 2 == 0;
        top.nodes += 1;
        if is_outermost && is_key {
            self.members.push(Member {
                end: node.end,
                key: node,
            });
        } else if is_outermost && let Some(member) = self.members.last_mut() {
            member.end = node.end;
        }
    }

    fn scalar(
        &mut self,
        text: &str,
        style: ScalarStyle,
        anchor: usize,
        tag: Option<&Tag>,
    ) -> Result<(), Bad> {
        let is_key = self.is_key();
        self.before();
        let start = self.json.len();
        match scalar::resolve(text, style, tag) {
            Resolved::Bytes(bytes) => super::bytes::quote_bytes(&bytes, &mut self.json),
            Resolved::Plain(json) if !is_key => self.json.extend_from_slice(json.as_bytes()),
            Resolved::Plain(_) | Resolved::Text => self.stand.quote(text, &mut self.json),
            Resolved::NotBase64 => return self.fail("binary that is not base64"),
        }
        self.after(start, anchor);
        Ok(())
    }

    fn open(&mut self, anchor: usize, is_map: bool) -> Result<(), Bad> {
        if self.is_key() {
            return self.fail("a key that is a list or a map");
        }
        if self.open.len() == DEPTH_MAX {
            return self.fail("nested too deep");
        }
        self.before();
        self.open.push(Open {
            start: self.json.len(),
            anchor,
            is_map,
            nodes: 0,
        });
        self.json.push(if is_map { b'{' } else { b'[' });
        Ok(())
    }

    fn close(&mut self) {
        if let Some(closed) = self.open.pop() {
            self.json.push(if closed.is_map { b'}' } else { b']' });
            self.after(closed.start, closed.anchor);
        }
    }

    /// Writes again what an anchor stands for. Small texts grow large that way, so the room is checked before.
    fn alias(&mut self, anchor: usize) -> Result<(), Bad> {
        let Some(node) = self.anchors.get(&anchor).cloned() else {
            return self.fail("an alias inside of what it stands for");
        };
        if self.json.len() + node.len() + 3 > self.max {
            return Err(Bad::AliasBomb { max: self.max });
        }
        let first = self.json[node.start];
        let is_key = self.is_key();
        if is_key && matches!(first, b'{' | b'[') {
            return self.fail("a key that is a list or a map");
        }
        self.before();
        let start = self.json.len();
        let quotes = is_key && first != b'"';
        if quotes {
            self.json.push(b'"');
        }
        self.json.extend_from_within(node);
        if quotes {
            self.json.push(b'"');
        }
        self.after(start, 0);
        Ok(())
    }
}
