//! Projection: hashed keeps the last secondary for good, and the primary is a plain copy of it. For stores without
//! compare-and-swap.

use crate::algorithm::{Algorithm, Move};
use crate::merge::{Deletes, Merge};
use crate::sets::Set;
use crate::store::{Answer, Bucket, Request};

pub(crate) struct Projection {
    pub(crate) keeps: Keeps,
}

/// What becomes of the last secondary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keeps {
    ForGood,
    /// Deleted once it was copied. Broken: then the primary is all there is, and anybody may overwrite it.
    UntilCopied,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Place {
    #[default]
    Start,
    Merge(Merge),
    /// The only secondary was read; is the primary a copy of it?
    Compare(Set),
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
}

impl Algorithm for Projection {
    type Store = Bucket;
    type Place = Place;

    fn moves(&self, place: Place, moves: &mut Vec<Move<Request>>) {
        match place {
            Place::Start | Place::Compare(_) => moves.push(Move::Look(0)),
            Place::Merge(merge) => merge.moves(moves),
            Place::Copy(set) => moves.push(Move::Send(Request::PutPrimary(set))),
            Place::Delete(set) => moves.push(Move::Send(Request::Delete(set))),
        }
    }

    fn look(&self, place: Place, _choice: u8, bucket: &Bucket) -> Place {
        match place {
            Place::Start => match bucket.secondaries.only() {
                Some(set) => Place::Compare(set),
                None => merging(Merge::begin(bucket.secondaries, Deletes::StrictlyHeld)),
            },
            Place::Merge(merge) => merging(merge.look(bucket, Deletes::StrictlyHeld)),
            Place::Compare(set) if bucket.primary == Some(set) => self.copied(set),
            Place::Compare(set) => Place::Copy(set),
            Place::Copy(_) | Place::Delete(_) => Place::Start,
        }
    }

    fn answered(&self, place: Place, request: Request, answer: Answer) -> Place {
        match place {
            Place::Merge(merge) => merging(merge.answered(request, answer)),
            Place::Copy(set) if answer == Answer::Done => self.copied(set),
            Place::Copy(_) | Place::Delete(_) | Place::Start | Place::Compare(_) => Place::Start,
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
