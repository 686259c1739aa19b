//! Which parts of a document filters look at: the rest need not be built, and is what no feature reads.

use std::collections::BTreeMap;

/// One step into a document.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Step {
    /// The value of a key.
    Key(String),
    /// Every element of an array, every value of an object.
    Items,
}

/// A tree of the parts that are looked at. A node that is there is looked at: whether it is there, its type, its value if
/// it is no array or object, and how many elements an array has whose items are looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Interest {
    /// Everything within counts.
    pub(super) whole: bool,
    keys: BTreeMap<Box<[u8]>, Interest>,
    items: Option<Box<Interest>>,
}

impl Interest {
    /// Everything.
    pub(super) fn everything() -> Self {
        Self {
            whole: true,
            ..Self::default()
        }
    }

    /// The node at the end of `path`, made if it is not there.
    pub(super) fn at(&mut self, path: &[Step]) -> &mut Self {
        let mut node = self;
        for step in path {
            node = match step {
                Step::Key(key) => node.keys.entry(key.as_bytes().into()).or_default(),
                Step::Items => node.items.get_or_insert_default(),
            };
        }
        node
    }

    /// Adds everything that another tree has.
    pub(super) fn join(&mut self, other: &Self) {
        self.whole |= other.whole;
        for (key, node) in &other.keys {
            self.keys.entry(key.clone()).or_default().join(node);
        }
        if let Some(items) = &other.items {
            self.items.get_or_insert_default().join(items);
        }
    }

    /// Makes the node of a key all that has to be looked at: what is asked of every value is asked of it too.
    pub(super) fn settle(&mut self) {
        if self.whole {
            *self = Self::everything();
            return;
        }
        if let Some(items) = &mut self.items {
            items.settle();
        }
        for node in self.keys.values_mut() {
            if let Some(items) = &self.items {
                node.join(items);
            }
            node.settle();
        }
    }

    /// What is of interest in the value of a key, once settled.
    pub(super) fn key(&self, key: &[u8]) -> Option<&Self> {
        self.keys.get(key).or(self.items.as_deref())
    }

    /// What is of interest in the elements of an array.
    pub(super) fn items(&self) -> Option<&Self> {
        self.items.as_deref()
    }
}
