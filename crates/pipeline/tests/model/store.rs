//! The state of the store: the objects of one hour in one bucket, and what a request does to them.

use std::fmt;
use std::hash::Hash;

use crate::sets::{Set, Sets};

/// A store as the world sees it: it takes requests, one at a time, each at once and whole.
pub(crate) trait Store:
    Clone + Eq + Hash + Default + fmt::Debug + fmt::Display + Send + Sync
{
    type Request: Copy + Eq + Ord + Hash + fmt::Debug + fmt::Display + Send + Sync;

    fn apply(&mut self, request: Self::Request) -> Answer;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    /// The condition of the request did not hold, or the store is down: nothing was changed.
    Refused,
}

/// The folder of an hour.
#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Bucket {
    /// Archives whose names are their content.
    pub(crate) secondaries: Sets,
    /// The archive whose name says nothing about its content.
    pub(crate) primary: Option<Set>,
    /// Every entry that was ever here. No replica can see it; it is what "lost" is measured by.
    pub(crate) ever: Set,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Request {
    Put(Set),
    Delete(Set),
    /// Whatever is there is overwritten.
    PutPrimary(Set),
    /// Compare-and-swap. The version of an object is its content, as an ETag is: the weakest version a store may have,
    /// for it comes back when the content does.
    SwapPrimary {
        from: Option<Set>,
        to: Set,
    },
    DeletePrimary,
    /// `DeletePrimary` by a replica that looked and deleted without the least time in between. No store has it.
    DeletePrimaryAtOnce {
        seen: Set,
        beside: Set,
    },
    /// `PutPrimary` in the same way: only while this is the only archive.
    PutPrimaryAtOnce(Set),
}

impl Bucket {
    /// Everything that is in any object.
    pub(crate) fn held(&self) -> Set {
        self.secondaries
            .union()
            .and(self.primary.unwrap_or_default())
    }

    fn put_primary(&mut self, set: Set) -> Answer {
        self.primary = Some(set);
        self.ever = self.ever.and(set);
        Answer::Done
    }

    fn delete_primary(&mut self) -> Answer {
        self.primary = None;
        Answer::Done
    }
}

impl Store for Bucket {
    type Request = Request;

    fn apply(&mut self, request: Request) -> Answer {
        match request {
            Request::Put(set) => {
                self.secondaries = self.secondaries.with(set);
                self.ever = self.ever.and(set);
                Answer::Done
            }
            Request::Delete(set) => {
                self.secondaries = self.secondaries.without(set);
                Answer::Done
            }
            Request::PutPrimary(set) => self.put_primary(set),
            Request::SwapPrimary { from, to } if self.primary == from => self.put_primary(to),
            Request::DeletePrimary => self.delete_primary(),
            Request::DeletePrimaryAtOnce { seen, beside }
                if self.primary == Some(seen) && self.secondaries == Sets::one(beside) =>
            {
                self.delete_primary()
            }
            Request::PutPrimaryAtOnce(set)
                if self.primary.is_none() && self.secondaries == Sets::one(set) =>
            {
                self.put_primary(set)
            }
            Request::SwapPrimary { .. }
            | Request::DeletePrimaryAtOnce { .. }
            | Request::PutPrimaryAtOnce(_) => Answer::Refused,
        }
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.primary {
            Some(set) => write!(f, "P={set}")?,
            None => write!(f, "P=-")?,
        }
        if !self.secondaries.is_empty() {
            write!(f, " S={}", self.secondaries)?;
        }
        Ok(())
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::Put(set) => write!(f, "put S={set}"),
            Request::Delete(set) => write!(f, "delete S={set}"),
            Request::PutPrimary(set) | Request::PutPrimaryAtOnce(set) => write!(f, "put P={set}"),
            Request::SwapPrimary { from: None, to } => write!(f, "create P={to}"),
            Request::SwapPrimary {
                from: Some(from),
                to,
            } => write!(f, "swap P={from} for {to}"),
            Request::DeletePrimary | Request::DeletePrimaryAtOnce { .. } => write!(f, "delete P"),
        }
    }
}
