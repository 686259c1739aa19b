//! Compare-and-swap and projection in one store at once, because replicas do not agree on what it can do. Broken: the one relies on
//! nobody deleting the primary, and the other deletes it. That is why they write down once for all which it is.

use crate::algorithm::{Algorithm, Move};
use crate::primary_cas::{self, PrimaryCas, Put};
use crate::projection::{self, Keeps, Projection};
use crate::store::{Answer, Bucket, Request};

const SWAPS: PrimaryCas = PrimaryCas {
    put: Put::OnVersion,
};
const COPIES: Projection = Projection {
    keeps: Keeps::ForGood,
};

/// Whoever starts afresh may think either.
pub(crate) struct Mixed;

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Place {
    #[default]
    Start,
    Swaps(primary_cas::Place),
    Copies(projection::Place),
}

fn swaps(place: primary_cas::Place) -> Place {
    match place {
        primary_cas::Place::Start => Place::Start,
        place => Place::Swaps(place),
    }
}

fn copies(place: projection::Place) -> Place {
    match place {
        projection::Place::Start => Place::Start,
        place => Place::Copies(place),
    }
}

impl Algorithm for Mixed {
    type Store = Bucket;
    type Place = Place;

    fn moves(&self, place: Place, moves: &mut Vec<Move<Request>>) {
        match place {
            Place::Start => moves.extend([Move::Look(0), Move::Look(1)]),
            Place::Swaps(place) => SWAPS.moves(place, moves),
            Place::Copies(place) => COPIES.moves(place, moves),
        }
    }

    fn look(&self, place: Place, choice: u8, bucket: &Bucket) -> Place {
        match place {
            Place::Start if choice == 0 => swaps(SWAPS.look(<_>::default(), 0, bucket)),
            Place::Start => copies(COPIES.look(<_>::default(), 0, bucket)),
            Place::Swaps(place) => swaps(SWAPS.look(place, choice, bucket)),
            Place::Copies(place) => copies(COPIES.look(place, choice, bucket)),
        }
    }

    fn answered(&self, place: Place, request: Request, answer: Answer) -> Place {
        match place {
            Place::Start => Place::Start,
            Place::Swaps(place) => swaps(SWAPS.answered(place, request, answer)),
            Place::Copies(place) => copies(COPIES.answered(place, request, answer)),
        }
    }

    fn lost(&self, bucket: &Bucket) -> bool {
        bucket.held() != bucket.ever
    }

    fn right(&self, bucket: &Bucket) -> bool {
        !self.lost(bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::Mixed;
    use crate::check::{Bounds, finds_loss};

    #[test]
    fn both_in_one_store_would_lose_data() {
        finds_loss(Bounds::two_replicas().hour(Mixed));
    }
}
