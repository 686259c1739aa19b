//! Content sets, and sets of them. Small enough to be bits: the checker copies and hashes them millions of times.

use std::fmt;

/// What an archive holds: a set of up to four entries, written `{a,b}`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Set(u8);

const NAMES: [char; 4] = ['a', 'b', 'c', 'd'];

impl Set {
    /// The set of the entries named by the letters of `names`.
    pub(crate) fn of(names: &str) -> Self {
        let bit = |name| NAMES.iter().position(|known| *known == name);
        let bits = names
            .chars()
            .map(|name| 1 << bit(name).expect("an entry is a, b, c or d"));
        Self(bits.fold(0, |all, bit: u8| all | bit))
    }

    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Every entry of `other` is in this set; equal sets hold each other.
    pub(crate) fn holds(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl fmt::Display for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let inside = (0..4).filter(|bit| self.0 & (1 << bit) != 0);
        let names: Vec<String> = inside.map(|bit| NAMES[bit].to_string()).collect();
        write!(f, "{{{}}}", names.join(","))
    }
}

impl fmt::Debug for Set {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// The content-named objects of a folder. Name and content are one: bit `n` is the object that holds the set `n`.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Sets(u16);

impl Sets {
    pub(crate) fn one(set: Set) -> Self {
        Self(1 << set.0)
    }

    pub(crate) fn with(self, set: Set) -> Self {
        Self(self.0 | 1 << set.0)
    }

    pub(crate) fn without(self, set: Set) -> Self {
        Self(self.0 & !(1 << set.0))
    }

    pub(crate) fn contains(self, set: Set) -> bool {
        self.0 & 1 << set.0 != 0
    }

    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn len(self) -> u32 {
        self.0.count_ones()
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Set> {
        (0..16).map(Set).filter(move |set| self.contains(*set))
    }

    /// The only member, if there is exactly one.
    pub(crate) fn only(self) -> Option<Set> {
        self.iter().next().filter(|_| self.len() == 1)
    }

    /// Everything that any member holds.
    pub(crate) fn union(self) -> Set {
        self.iter().fold(Set::default(), Set::and)
    }
}

impl fmt::Display for Sets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let members: Vec<String> = self.iter().map(|set| set.to_string()).collect();
        write!(f, "{}", members.join(" "))
    }
}

impl fmt::Debug for Sets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{self}]")
    }
}
