//! What becomes of a store when the faults end: one replica starts afresh and works alone until it finds nothing to do.

use crate::algorithm::{Algorithm, Move, RequestOf};
use crate::store::Store;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Rest {
    /// At rest, and as it should be.
    Right,
    /// At rest, and not as it should be. Nobody will ever mend it.
    Wrong,
    /// There is work, and one replica alone finishes it well.
    Comes,
    /// There is work, and a replica alone does not finish it, or not well.
    NeverComes,
}

/// More requests than any way to rest takes within the bounds of these tests.
const REQUESTS_MAX: usize = 64;

pub(crate) fn rest<A: Algorithm>(algorithm: &A, store: &A::Store) -> Rest {
    let mut store = store.clone();
    let start = A::Place::default();
    if next_request(algorithm, start, &store).is_none() {
        return if algorithm.right(&store) {
            Rest::Right
        } else {
            Rest::Wrong
        };
    }
    algorithm.calm(&mut store);
    let mut place = start;
    for _ in 0..REQUESTS_MAX {
        if let Some((sender, request)) = next_request(algorithm, place, &store) {
            let answer = store.apply(request);
            place = algorithm.answered(sender, request, answer);
        } else if place != start {
            place = start;
        } else if algorithm.right(&store) {
            return Rest::Comes;
        } else {
            return Rest::NeverComes;
        }
    }
    Rest::NeverComes
}

/// The next request of a replica that stands at `place` and is not disturbed, and where it stands when it sends it.
/// `None` if it comes back to the start without one.
fn next_request<A: Algorithm>(
    algorithm: &A,
    place: A::Place,
    store: &A::Store,
) -> Option<(A::Place, RequestOf<A>)> {
    let mut moves = Vec::new();
    algorithm.moves(place, &mut moves);
    // A replica that may send does; looking once more instead would bring it no further.
    let send = moves.iter().find_map(|step| match step {
        Move::Send(request) => Some((place, *request)),
        Move::Look(_) => None,
    });
    send.or_else(|| {
        moves.into_iter().find_map(|step| match step {
            Move::Look(choice) => {
                let next = algorithm.look(place, choice, store);
                let onward = next != A::Place::default() && next != place;
                onward.then(|| next_request(algorithm, next, store))?
            }
            Move::Send(_) => None,
        })
    })
}
