//! The part that hashed, projection, mirrors and the timed variant share: put the union, read it back, delete inputs.
//!
//! The listing and the reading of its archives are one step. A content-named archive cannot change, only vanish; and
//! a replica that finds one vanished starts afresh, as after a crash, which is in the model anyway.

use crate::algorithm::Move;
use crate::sets::{Set, Sets};
use crate::store::{Answer, Bucket, Request};

/// Which inputs a merge deletes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Deletes {
    /// Those that the union strictly holds.
    StrictlyHeld,
    /// All of them, as the document says. Broken: the union may be one of them.
    AllInputs,
    /// Those that are strictly held, but without waiting for the put. Broken: nothing proves that it will take effect.
    BeforeThePut,
    /// None. Broken: nothing is lost, but there is never one archive.
    Nothing,
}

/// Where a replica stands within a merge.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Merge {
    Put(Inputs),
    ReadBack(Inputs),
    Delete(Sets),
    DeleteThenPut(Sets, Set),
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Inputs {
    secondaries: Sets,
    /// What was read elsewhere and goes into the union; nothing is deleted there.
    more: Set,
}

impl Inputs {
    fn union(self) -> Set {
        self.secondaries.union().and(self.more)
    }

    fn to_delete(self, rule: Deletes) -> Sets {
        match rule {
            Deletes::StrictlyHeld | Deletes::BeforeThePut => self.secondaries.without(self.union()),
            Deletes::AllInputs => self.secondaries,
            Deletes::Nothing => Sets::default(),
        }
    }
}

impl Merge {
    /// `None` if there is nothing to merge.
    pub(crate) fn begin(listing: Sets, rule: Deletes) -> Option<Self> {
        (listing.len() > 1).then(|| Self::of(listing, Set::default(), rule))
    }

    pub(crate) fn of(secondaries: Sets, more: Set, rule: Deletes) -> Self {
        let inputs = Inputs { secondaries, more };
        match rule {
            Deletes::StrictlyHeld | Deletes::AllInputs | Deletes::Nothing => Self::Put(inputs),
            Deletes::BeforeThePut => Self::DeleteThenPut(inputs.to_delete(rule), inputs.union()),
        }
    }

    pub(crate) fn moves(self, moves: &mut Vec<Move<Request>>) {
        match self {
            Self::Put(inputs) => moves.push(Move::Send(Request::Put(inputs.union()))),
            Self::ReadBack(_) => moves.push(Move::Look(0)),
            Self::DeleteThenPut(rest, union) if rest.is_empty() => {
                moves.push(Move::Send(Request::Put(union)));
            }
            Self::Delete(rest) | Self::DeleteThenPut(rest, _) => {
                moves.extend(rest.iter().map(|set| Move::Send(Request::Delete(set))));
            }
        }
    }

    /// `None` means to start afresh, here and below.
    pub(crate) fn look(self, bucket: &Bucket, rule: Deletes) -> Option<Self> {
        match self {
            Self::ReadBack(inputs) if bucket.secondaries.contains(inputs.union()) => {
                Self::deleting(inputs.to_delete(rule))
            }
            Self::ReadBack(_) | Self::Put(_) | Self::Delete(_) | Self::DeleteThenPut(..) => None,
        }
    }

    pub(crate) fn answered(self, request: Request, answer: Answer) -> Option<Self> {
        match (self, request) {
            (_, _) if answer == Answer::Refused => None,
            (Self::Put(inputs), _) => Some(Self::ReadBack(inputs)),
            (Self::Delete(rest), Request::Delete(set)) => Self::deleting(rest.without(set)),
            (Self::DeleteThenPut(rest, union), Request::Delete(set)) => {
                Some(Self::DeleteThenPut(rest.without(set), union))
            }
            (Self::Delete(_) | Self::DeleteThenPut(..) | Self::ReadBack(_), _) => None,
        }
    }

    fn deleting(rest: Sets) -> Option<Self> {
        (!rest.is_empty()).then_some(Self::Delete(rest))
    }

    /// In a few words for a trace: what a replica is about to do.
    pub(crate) fn plan(self) -> String {
        match self {
            Self::Put(inputs) => format!("merge into {}", inputs.union()),
            Self::ReadBack(inputs) => format!("read back {}", inputs.union()),
            Self::Delete(rest) | Self::DeleteThenPut(rest, _) => format!("delete S={rest}"),
        }
    }
}
