//! Whether an object has a key twice.

use std::borrow::Cow;
use std::collections::HashSet;

use super::string::Quoted;

/// Up to here a look at every key so far is faster than a table; beyond it, it would be quadratic.
const FEW: usize = 32;

/// The keys of the objects that are open, innermost last.
#[derive(Default)]
pub(crate) struct Keys<'a> {
    open: Vec<(u64, Quoted<'a>)>,
    /// Of the objects that have many.
    many: Vec<(usize, HashSet<Cow<'a, [u8]>>)>,
}

/// An object that is open: where its keys begin.
#[derive(Clone, Copy)]
pub(crate) struct Frame(usize);

impl<'a> Keys<'a> {
    pub(crate) fn open(&self) -> Frame {
        Frame(self.open.len())
    }

    pub(crate) fn close(&mut self, frame: Frame) {
        let Frame(base) = frame;
        self.open.truncate(base);
        if self.many.last().is_some_and(|(of, _)| *of == base) {
            self.many.pop();
        }
    }

    /// Adds the key after `count` others; false when it is there already.
    #[inline]
    pub(crate) fn add(
        &mut self,
        frame: &Frame,
        count: usize,
        name: Quoted<'a>,
        print: u64,
    ) -> bool {
        if count >= FEW {
            return self.add_to_many(frame, count, name);
        }
        let so_far = &self.open[frame.0..];
        // A name with an escape may say the same as one with another print.
        let twice = so_far.iter().any(|(other_print, other)| {
            (*other_print == print || name.escaped || other.escaped) && other.says_same(&name)
        });
        self.open.push((print, name));
        !twice
    }

    #[cold]
    fn add_to_many(&mut self, frame: &Frame, count: usize, name: Quoted<'a>) -> bool {
        if count == FEW {
            let few = &self.open[frame.0..];
            let names = few.iter().map(|(_, name)| name.to_wtf8()).collect();
            self.many.push((frame.0, names));
        }
        let (_, names) = self
            .many
            .last_mut()
            .expect("it was pushed when the object had few keys, and inner ones are closed");
        names.insert(name.to_wtf8())
    }
}

/// A number that differs for most keys that differ, and costs nearly nothing.
#[inline]
pub(crate) fn fingerprint(key: &[u8]) -> u64 {
    const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
    let length = key.len();
    let word = |at: usize| {
        let bytes = key[at..at + 8].try_into().expect("eight bytes");
        u64::from_le_bytes(bytes)
    };
    let half = |at: usize| {
        let bytes = key[at..at + 4].try_into().expect("four bytes");
        u64::from(u32::from_le_bytes(bytes))
    };
    let mixed = match length {
        0 => 0,
        1..=3 => key
            .iter()
            .fold(0, |mixed, byte| mixed << 8 | u64::from(*byte)),
        4..=7 => half(0) << 32 | half(length - 4),
        _ => word(0) ^ word(length - 8).rotate_left(23),
    };
    (mixed ^ length as u64).wrapping_mul(SPREAD)
}
