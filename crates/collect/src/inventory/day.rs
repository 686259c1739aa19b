//! The lines of one day: what hangs together, and what does not.

use std::collections::HashSet;

use cannery_formats::{Digest, InventoryLine, Key};
use jiff::Timestamp;

use super::Item;

/// What an account of a day says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Day {
    /// The lines that hang together, each with its end.
    pub(super) text: Vec<u8>,
    pub(super) last: Option<Last>,
    /// Without the last line: where that begins, and what is the last then.
    before: Option<(usize, Option<Last>)>,
    /// Objects in lines that do not hang together with those before them.
    pub(super) strays: Vec<Item>,
    /// How many lines are none, or do not name the one before them.
    pub(super) bad: u64,
    /// Whether something behind the last line has no end.
    pub(super) torn: bool,
}

/// The last line of all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Last {
    pub(super) digest: Digest,
    pub(super) confirmed: Timestamp,
}

impl Day {
    /// Reads an account. The first line may name anything as the one before it.
    pub(super) fn read(text: &[u8]) -> Self {
        let mut day = Self::default();
        let mut rest = text;
        while let Some(end) = rest.iter().position(|byte| *byte == b'\n') {
            day.take(&rest[..end]);
            rest = &rest[end + 1..];
        }
        // A whole line without its end was never acknowledged, or lost its end since: its object is not forgotten.
        day.torn = !rest.is_empty();
        day.strays.extend(InventoryLine::parse(rest).map(item_of));
        day
    }

    fn take(&mut self, line: &[u8]) {
        match InventoryLine::parse(line) {
            Ok(parsed) if self.bad == 0 && self.goes_on_with(&parsed) => {
                self.push(line, parsed.confirmed);
            }
            parsed => {
                if parsed.is_ok() && self.bad == 0 {
                    self.doubt_last();
                }
                self.bad += 1;
                self.strays.extend(parsed.map(item_of));
            }
        }
    }

    fn push(&mut self, line: &[u8], confirmed: Timestamp) {
        self.before = Some((self.text.len(), self.last));
        self.text.extend_from_slice(line);
        self.text.push(b'\n');
        self.last = Some(Last {
            digest: Digest::of(line),
            confirmed,
        });
    }

    /// The line after it says that the last line was another: it is not to be believed.
    fn doubt_last(&mut self) {
        if let Some((start, last)) = self.before.take() {
            self.strays.extend(items_in(&self.text[start..]));
            self.text.truncate(start);
            self.last = last;
        }
    }

    fn goes_on_with(&self, line: &InventoryLine) -> bool {
        self.last.is_none_or(|last| last.digest == line.prev)
    }

    pub(super) fn is_sound(&self) -> bool {
        self.bad == 0 && !self.torn
    }

    /// Adds lines for the items; `before` is the last line of the day before, if this day has none yet.
    pub(super) fn extend(&mut self, items: Vec<Item>, confirmed: Timestamp, before: Digest) {
        for item in items {
            let prev = self.last.map_or(before, |last| last.digest);
            let line = InventoryLine {
                key: item.key,
                size: item.bytes,
                sha256: item.sha256,
                confirmed,
                prev,
            };
            self.push(&line.to_bytes(), confirmed);
        }
    }

    /// Leaves those of the items that have no line here.
    pub(super) fn lacking(&self, items: &mut Vec<Item>) {
        let mut lacking: HashSet<Key> = items.iter().map(|item| item.key.clone()).collect();
        for line in items_in(&self.text) {
            if lacking.is_empty() {
                break;
            }
            lacking.remove(&line.key);
        }
        items.retain(|item| lacking.contains(&item.key));
    }

    /// Whether every object of another account has a line here.
    pub(super) fn has_all_of(&self, other: &Self) -> bool {
        let known = self.keys();
        let mut theirs = items_in(&other.text).chain(other.strays.iter().cloned());
        theirs.all(|item| known.contains(&item.key))
    }

    /// Whether this account has the best of several in it, or everything that any of them has.
    fn goes_beyond(&self, best: &Self, all: &[Self]) -> bool {
        self.text.starts_with(&best.text) || all.iter().all(|other| self.has_all_of(other))
    }

    fn keys(&self) -> HashSet<Key> {
        items_in(&self.text).map(|item| item.key).collect()
    }
}

fn item_of(line: InventoryLine) -> Item {
    Item {
        key: line.key,
        bytes: line.size,
        sha256: line.sha256,
    }
}

/// The objects in lines that were found good before.
pub(super) fn items_in(text: &[u8]) -> impl Iterator<Item = Item> {
    text.split(|byte| *byte == b'\n')
        .filter_map(|line| InventoryLine::parse(line).ok())
        .map(item_of)
}

/// Makes one account of several of the same day. What comes out has every object of all of them, either in its lines or, where
/// they cannot stay as they are, among its strays.
///
/// Usually one account is the beginning of another. Where they differ, what is in the lake stays as it is, because others may
/// have read it; except that this node's own account wins if it has every object: then the other was tampered with.
pub(super) fn unite(local: Day, lakes: Vec<Day>) -> Day {
    // The first of the longest.
    let longest = (0..lakes.len())
        .rev()
        .max_by_key(|at| lakes[*at].text.len());
    let (base, others) = match longest {
        Some(at) if !local.goes_beyond(&lakes[at], &lakes) => {
            let mut others = lakes;
            let base = others.remove(at);
            others.push(local);
            (base, others)
        }
        Some(_) | None => (local, lakes),
    };
    gather(base, others)
}

fn gather(mut base: Day, others: Vec<Day>) -> Day {
    let mut strays = std::mem::take(&mut base.strays);
    for other in others {
        if !base.text.starts_with(&other.text) {
            strays.extend(items_in(&other.text));
        }
        strays.extend(other.strays);
    }
    if !strays.is_empty() {
        let mut known = base.keys();
        strays.retain(|item| known.insert(item.key.clone()));
    }
    base.strays = strays;
    base
}
