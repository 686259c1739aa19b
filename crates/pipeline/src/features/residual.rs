//! What no feature reads: for each place in the documents and each type found there, in how many documents.

use std::collections::BTreeMap;

use hashbrown::HashMap;

/// More places than a file of documents that somebody designed has; names that are data, such as those of headers, end here.
const PLACES_MAX: usize = 20_000;
/// Longer names are cut.
const NAME_BYTES_MAX: usize = 120;

/// The type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Null,
    Bool,
    Number,
    String,
    EmptyArray,
    EmptyObject,
}

const SHAPES: [(Shape, &str); 6] = [
    (Shape::Null, "null"),
    (Shape::Bool, "boolean"),
    (Shape::Number, "number"),
    (Shape::String, "string"),
    (Shape::EmptyArray, "[]"),
    (Shape::EmptyObject, "{}"),
];

/// A place in the documents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spot(usize);

#[derive(Debug, Default)]
struct Node {
    keys: HashMap<Box<[u8]>, usize>,
    items: Option<usize>,
    /// In how many documents each type was seen, and the last of them.
    seen: [(u64, u64); SHAPES.len()],
}

/// Sums up documents.
#[derive(Debug)]
pub struct Residual {
    nodes: Vec<Node>,
    document: u64,
    /// Documents with a place that was not taken any more.
    dropped: (u64, u64),
}

impl Default for Residual {
    fn default() -> Self {
        Self {
            nodes: vec![Node::default()],
            document: 0,
            dropped: (0, 0),
        }
    }
}

impl Residual {
    /// Stands for all places that were too many.
    pub(crate) const MORE: &'static str = "(more places than are counted)";

    /// Begins the next document, at its root.
    pub(super) fn begin(&mut self) -> Spot {
        self.document += 1;
        Spot(0)
    }

    pub(super) fn key(&mut self, at: Option<Spot>, key: &[u8]) -> Option<Spot> {
        let Spot(at) = at?;
        let key = &key[..key.len().min(NAME_BYTES_MAX)];
        if let Some(found) = self.nodes[at].keys.get(key) {
            return Some(Spot(*found));
        }
        let made = self.make()?;
        self.nodes[at].keys.insert(key.into(), made);
        Some(Spot(made))
    }

    pub(super) fn items(&mut self, at: Option<Spot>) -> Option<Spot> {
        let Spot(at) = at?;
        if let Some(found) = self.nodes[at].items {
            return Some(Spot(found));
        }
        let made = self.make()?;
        self.nodes[at].items = Some(made);
        Some(Spot(made))
    }

    fn make(&mut self) -> Option<usize> {
        if self.nodes.len() >= PLACES_MAX {
            return None;
        }
        self.nodes.push(Node::default());
        Some(self.nodes.len() - 1)
    }

    /// Notes a type at a place, once a document.
    pub(super) fn note(&mut self, at: Option<Spot>, shape: Shape) {
        let document = self.document;
        let seen = match at {
            Some(Spot(at)) => &mut self.nodes[at].seen[shape as usize],
            None => &mut self.dropped,
        };
        if seen.1 != document {
            *seen = (seen.0 + 1, document);
        }
    }

    /// Each place with a type, as `test_keys.requests[].response.body: string`, and in how many documents it was found.
    #[must_use]
    pub fn counts(&self) -> BTreeMap<String, u64> {
        let mut counts = BTreeMap::new();
        self.collect(0, "", &mut counts);
        if self.dropped.0 > 0 {
            counts.insert(Self::MORE.to_owned(), self.dropped.0);
        }
        counts
    }

    fn collect(&self, at: usize, name: &str, counts: &mut BTreeMap<String, u64>) {
        let node = &self.nodes[at];
        for ((_, shape), (count, _)) in SHAPES.iter().zip(node.seen) {
            if count > 0 {
                *counts.entry(format!("{name}: {shape}")).or_default() += count;
            }
        }
        for (key, child) in &node.keys {
            let key = String::from_utf8_lossy(key).replace('\0', "\u{fffd}");
            let dot = if name.is_empty() { "" } else { "." };
            self.collect(*child, &format!("{name}{dot}{key}"), counts);
        }
        if let Some(child) = node.items {
            self.collect(child, &format!("{name}[]"), counts);
        }
    }
}
