//! Writes a document anew: what no rule touches is copied as it stands, in spans as long as possible.

use std::borrow::Cow;

use crate::apply::{Around, Change, apply, set};
use crate::plan::{Interest, Node};
use crate::rules::{Op, Rule};
use crate::scan::quote;
use crate::walk::{CloseHit, Hit, Item, ValueHit};

/// Writes one document.
pub(crate) struct Edit<'a> {
    text: &'a str,
    around: &'a Around<'a>,
    /// Which rules are for this document.
    active: &'a [bool],
    /// Those that look at every string.
    everywhere: Vec<usize>,
    out: &'a mut Vec<u8>,
    /// Up to here the text is copied, replaced or left out.
    done: usize,
    /// The container whose first items were all dropped, and how many: the next one is its first now.
    dropped: Item,
}

impl<'a> Edit<'a> {
    pub(crate) fn new(
        text: &'a str,
        around: &'a Around<'a>,
        active: &'a [bool],
        out: &'a mut Vec<u8>,
    ) -> Self {
        let dropped = Item {
            container: 0,
            index: 0,
        };
        let rules = &around.meaning.rules;
        let everywhere = (0..rules.len()).filter(|number| rules[*number].is_everywhere());
        Self {
            text,
            around,
            active,
            everywhere: everywhere.collect(),
            out,
            done: 0,
            dropped,
        }
    }

    /// Appends the document with all that the rules do at `hits`.
    pub(crate) fn write(mut self, hits: &[Hit<'_>]) {
        for hit in hits {
            match hit {
                // Inside of something that is replaced or gone.
                Hit::Value(ValueHit { start: at, .. }) | Hit::Close(CloseHit { at, .. })
                    if *at < self.done => {}
                Hit::Value(hit) => self.value(hit),
                Hit::Close(hit) => self.close(hit),
            }
        }
        self.copy_to(self.text.len());
    }

    fn copy_to(&mut self, end: usize) {
        self.out
            .extend_from_slice(&self.text.as_bytes()[self.done..end]);
        self.done = end;
    }

    fn rule(&self, number: usize) -> Option<&'a Rule> {
        self.active[number].then(|| &self.around.meaning.rules[number])
    }

    fn value(&mut self, hit: &ValueHit<'_>) {
        match self.change(hit) {
            Change::Keep => {}
            Change::To(text) => {
                self.copy_to(hit.start);
                self.out.extend_from_slice(text.as_bytes());
                self.done = hit.end;
            }
            Change::Drop => self.drop(hit),
        }
    }

    /// What all rules together make of a value.
    fn change(&self, hit: &ValueHit<'_>) -> Change {
        let before = &self.text[hit.start..hit.end];
        let mut now = Cow::Borrowed(before);
        for rule in self.rules_at(hit.node) {
            match apply(&rule.op, &now, self.around) {
                Change::Keep => {}
                Change::To(text) => now = Cow::Owned(text),
                Change::Drop => return Change::Drop,
            }
        }
        match now {
            Cow::Owned(now) if now != before => Change::To(now),
            _ => Change::Keep,
        }
    }

    fn rules_at<'n>(&'n self, node: Option<&'n Node>) -> impl Iterator<Item = &'a Rule> + 'n {
        let everywhere = self.everywhere.iter().copied();
        let here = node.map_or(&[][..], |node| &node.interests);
        let here = here.iter().filter_map(|interest| match interest {
            Interest::Rule(number) => Some(*number),
            Interest::Version | Interest::Time(_) => None,
        });
        everywhere
            .chain(here)
            .filter_map(|number| self.rule(number))
    }

    /// Leaves out an item and one comma: that behind it if all before it are gone, else that before it.
    fn drop(&mut self, hit: &ValueHit<'_>) {
        let bytes = self.text.as_bytes();
        let is_space = |byte: &u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
        let before = if self.dropped.container == hit.item.container {
            self.dropped.index
        } else {
            0
        };
        if before == hit.item.index {
            self.copy_to(hit.item_start);
            let spaces = |at: usize| bytes[at..].iter().take_while(|byte| is_space(byte)).count();
            let mut end = hit.end + spaces(hit.end);
            if bytes[end] == b',' {
                end += 1;
                end += spaces(end);
            }
            self.done = end;
            self.dropped = Item {
                container: hit.item.container,
                index: before + 1,
            };
        } else {
            let comma = bytes[..hit.item_start]
                .iter()
                .rposition(|byte| *byte == b',')
                .expect("an item that is not the first follows a comma");
            self.copy_to(comma);
            self.done = hit.end;
        }
    }

    /// Puts in the keys that an object lacks.
    fn close(&mut self, hit: &CloseHit<'_>) {
        let all_dropped = Item {
            container: hit.container,
            index: hit.members,
        };
        let mut first = hit.members == 0 || self.dropped == all_dropped;
        let sets = hit.node.sets.iter().zip(&hit.has);
        for (missing, _) in sets.filter(|(_, has)| !**has) {
            let Some(value) = self.missing(&missing.rules) else {
                continue;
            };
            self.copy_to(hit.at);
            if !first {
                self.out.push(b',');
            }
            first = false;
            quote(&missing.key, self.out);
            self.out.push(b':');
            self.out.extend_from_slice(value.as_bytes());
        }
    }

    /// What a key gets that is not there. A null gives way to anything.
    fn missing(&self, rules: &[usize]) -> Option<String> {
        let active = || rules.iter().filter_map(|number| self.rule(*number));
        let mut stamps = active().filter(|rule| !matches!(rule.op, Op::NullFill));
        let rule = stamps.next_back().or_else(|| active().next())?;
        Some(set(&rule.op, self.around))
    }
}
