//! Hashed: list, fetch all, merge, put, delete the inputs that the union strictly holds.

use crate::algorithm::{Algorithm, Move};
use crate::merge::{Deletes, Merge};
use crate::store::{Answer, Bucket, Request};

pub(crate) struct Hashed {
    pub(crate) deletes: Deletes,
}

impl Algorithm for Hashed {
    type Store = Bucket;
    type Place = Option<Merge>;

    fn moves(&self, place: Self::Place, moves: &mut Vec<Move<Request>>) {
        match place {
            None => moves.push(Move::Look(0)),
            Some(merge) => merge.moves(moves),
        }
    }

    fn look(&self, place: Self::Place, _choice: u8, bucket: &Bucket) -> Self::Place {
        match place {
            None => Merge::begin(bucket.secondaries, self.deletes),
            Some(merge) => merge.look(bucket, self.deletes),
        }
    }

    fn answered(&self, place: Self::Place, request: Request, answer: Answer) -> Self::Place {
        place.and_then(|merge| merge.answered(request, answer))
    }

    fn lost(&self, bucket: &Bucket) -> bool {
        bucket.held() != bucket.ever
    }

    fn right(&self, bucket: &Bucket) -> bool {
        bucket.secondaries.union() == bucket.ever && bucket.secondaries.len() <= 1
    }
}

#[cfg(test)]
mod tests {
    use super::{Deletes, Hashed};
    use crate::check::{Bounds, always_holds, finds, finds_loss};
    use crate::world::ONE_IS_ENOUGH;

    #[test]
    fn loses_nothing_and_ends_in_one_archive() {
        let mut all = Bounds::for_every_algorithm();
        all.push(Bounds::three_replicas(&["a", "b", "ab"], 2, None));
        for bounds in all {
            always_holds(bounds.hour(Hashed {
                deletes: Deletes::StrictlyHeld,
            }));
        }
    }

    #[test]
    fn deleting_every_input_would_lose_data() {
        finds_loss(Bounds::two_replicas().hour(Hashed {
            deletes: Deletes::AllInputs,
        }));
    }

    #[test]
    fn deleting_nothing_would_never_end_in_one_archive() {
        let bounds = Bounds::two_replicas();
        let deletes = Deletes::Nothing;
        finds(bounds.hour(Hashed { deletes }), &[ONE_IS_ENOUGH]);
    }

    #[test]
    fn deleting_before_the_put_would_lose_data() {
        let bounds = Bounds {
            uploads: &["a", "b"],
            ..Bounds::two_replicas()
        };
        finds_loss(bounds.hour(Hashed {
            deletes: Deletes::BeforeThePut,
        }));
    }
}
