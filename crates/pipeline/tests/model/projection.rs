//! Projection: hashed keeps the last secondary for good, and the primary is a plain copy of it, which is deleted and created
//! anew. For stores without compare-and-swap.

use crate::algorithm::{Algorithm, Move};
use crate::merge::{Deletes, Merge};
use crate::sets::{Set, Sets};
use crate::store::{Answer, Bucket, Request};

pub(crate) struct Projection {
    pub(crate) keeps: Keeps,
}

/// What becomes of the last secondary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keeps {
    ForGood,
    /// Deleted once it was copied. Broken: then the primary is all there is, and anybody may delete it.
    UntilCopied,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Place {
    #[default]
    Start,
    /// The secondaries were listed, and are read; what is the primary?
    Listed(Sets),
    Merge(Merge),
    /// The primary is another one: it goes, and then comes back as a copy of this. Without compare-and-swap there is no other way.
    DeleteOld(Set),
    Copy(Set),
    Delete(Set),
}

fn merging(merge: Option<Merge>) -> Place {
    merge.map_or(Place::Start, Place::Merge)
}

impl Projection {
    fn copied(&self, set: Set) -> Place {
        match self.keeps {
            Keeps::ForGood => Place::Start,
            Keeps::UntilCopied => Place::Delete(set),
        }
    }

    /// One archive with everything, also with what only the primary has; then the primary becomes a copy of it.
    fn decide(&self, listed: Sets, primary: Option<Set>) -> Place {
        let beside = primary.unwrap_or_default();
        let whole = listed.union().and(beside);
        match listed.only() {
            None if listed.is_empty() && primary.is_none() => Place::Start,
            Some(only) if only == whole && primary == Some(whole) => self.copied(whole),
            Some(only) if only == whole && primary.is_some() => Place::DeleteOld(whole),
            Some(only) if only == whole => Place::Copy(whole),
            // It is there, and was read: nothing is put.
            Some(_) | None if listed.contains(whole) => {
                Place::Merge(Merge::Delete(listed.without(whole)))
            }
            Some(_) | None => Place::Merge(Merge::of(listed, beside, Deletes::StrictlyHeld)),
        }
    }
}

impl Algorithm for Projection {
    type Store = Bucket;
    type Place = Place;

    fn moves(&self, place: Place, moves: &mut Vec<Move<Request>>) {
        match place {
            Place::Start | Place::Listed(_) => moves.push(Move::Look(0)),
            Place::Merge(merge) => merge.moves(moves),
            Place::DeleteOld(_) => moves.push(Move::Send(Request::DeletePrimary)),
            Place::Copy(to) => moves.push(Move::Send(Request::SwapPrimary { from: None, to })),
            Place::Delete(set) => moves.push(Move::Send(Request::Delete(set))),
        }
    }

    fn look(&self, place: Place, _choice: u8, bucket: &Bucket) -> Place {
        match place {
            Place::Start => Place::Listed(bucket.secondaries),
            Place::Listed(listed) => self.decide(listed, bucket.primary),
            Place::Merge(merge) => merging(merge.look(bucket, Deletes::StrictlyHeld)),
            Place::DeleteOld(_) | Place::Copy(_) | Place::Delete(_) => Place::Start,
        }
    }

    fn answered(&self, place: Place, request: Request, answer: Answer) -> Place {
        match place {
            Place::Merge(merge) => merging(merge.answered(request, answer)),
            Place::DeleteOld(set) => Place::Copy(set),
            Place::Copy(set) if answer == Answer::Done => self.copied(set),
            Place::Copy(_) | Place::Delete(_) | Place::Start | Place::Listed(_) => Place::Start,
        }
    }

    /// Stronger than for the others where it is kept: the primary does not count.
    fn lost(&self, bucket: &Bucket) -> bool {
        match self.keeps {
            Keeps::ForGood => bucket.secondaries.union() != bucket.ever,
            Keeps::UntilCopied => bucket.held() != bucket.ever,
        }
    }

    fn right(&self, bucket: &Bucket) -> bool {
        bucket.secondaries.union() == bucket.ever && bucket.primary == bucket.secondaries.only()
    }
}

#[cfg(test)]
mod tests {
    use super::{Keeps, Projection};
    use crate::check::{Bounds, always_holds, finds_loss};

    #[test]
    fn loses_nothing_and_ends_in_one_archive() {
        let mut all = Bounds::for_every_algorithm();
        all.push(Bounds::three_replicas(&["a", "b", "ab"], 1, None));
        for bounds in all.iter_mut().filter(|bounds| bounds.unheard_max.is_some()) {
            // Nobody ever deletes here, so states only pile up: with three, the long search has no end within hours.
            bounds.replicas = 2;
        }
        for bounds in all {
            always_holds(bounds.hour(Projection {
                keeps: Keeps::ForGood,
            }));
        }
    }

    #[test]
    fn deleting_the_last_secondary_would_lose_data() {
        finds_loss(Bounds::two_replicas().hour(Projection {
            keeps: Keeps::UntilCopied,
        }));
    }
}
