//! What an operation changes, in words that a replay by newer code understands the same way.

use bytes::Bytes;

use crate::data::Data;
use crate::date::Date;
use crate::declaration::Declaration;
use crate::entry::{Death, Lease, Meta, Standing};
use crate::key::Key;
use crate::op::Counts;

/// A handle to the data of an entry.
pub trait Handle: Clone + std::fmt::Debug {
    /// The length of the data in bytes.
    fn data_len(&self) -> usize;
}

impl Handle for Bytes {
    fn data_len(&self) -> usize {
        self.len()
    }
}

impl Handle for Data {
    fn data_len(&self) -> usize {
        self.as_bytes().len()
    }
}

/// All of an entry but its data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Whole {
    /// Its number.
    pub seq: u64,
    /// Its key.
    pub key: Key,
    /// Its dates, priority and counters.
    pub meta: Meta,
    /// Where it stands.
    pub standing: Standing,
}

/// A change that needs no data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Effect {
    /// An entry waits, or waits again, or goes on waiting, with this.
    Wait {
        /// Which entry.
        seq: u64,
        /// What is known of it now.
        meta: Meta,
    },
    /// An entry was handed out.
    Start {
        /// Which entry.
        seq: u64,
        /// To whom.
        lease: Lease,
    },
    /// The holder of a lease was heard of.
    Beat {
        /// Which entry.
        seq: u64,
        /// When.
        start: Date,
    },
    /// An entry was given up.
    Die {
        /// Which entry.
        seq: u64,
        /// What is known of it now.
        meta: Meta,
        /// When and why.
        death: Box<Death>,
    },
    /// An entry left the journal.
    End {
        /// Which entry.
        seq: u64,
        /// Why.
        cause: Cause,
    },
    /// The counts grew by this.
    Count(Box<Counts>),
    /// A declaration is in force from now on.
    Declare {
        /// Its version.
        version: u32,
        /// What it says.
        declaration: Box<Declaration>,
    },
}

/// Why an entry left the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It was done.
    Done,
    /// It expired.
    Expired,
    /// Somebody took it out.
    Cancelled,
    /// It became part of another entry of its key.
    Absorbed,
    /// Somebody took it off the dead list.
    Forgotten,
}

/// Who keeps what a state decides.
pub trait Ledger<D> {
    /// Keeps an entry with new data; gives back the handle to the data. What was kept of this entry before is replaced.
    fn put(&mut self, whole: &Whole, data: &Data) -> D;

    /// Keeps a change.
    fn note(&mut self, effect: &Effect);

    /// Nobody refers to this data any more.
    fn free(&mut self, data: &D);
}
