//! Primary by compare-and-swap: secondaries go into a primary that only grows, and are deleted once they are in it.

use crate::algorithm::{Algorithm, Move};
use crate::sets::{Set, Sets};
use crate::store::{Answer, Bucket, Request};

pub(crate) struct PrimaryCas {
    pub(crate) put: Put,
}

/// How the primary is replaced.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Put {
    /// Only if it is still the version that was read.
    OnVersion,
    /// Whatever it is by now. Broken.
    Blindly,
    /// On the version that was read, but a conflict is taken for "somebody else has done it". Broken.
    ConflictIsDone,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Place {
    #[default]
    Start,
    /// The primary was read, or found absent.
    Read(Option<Set>),
    Put {
        from: Option<Set>,
        inputs: Sets,
    },
    ReadBack {
        all: Set,
        inputs: Sets,
    },
    Delete(Sets),
}

impl PrimaryCas {
    fn request(&self, from: Option<Set>, inputs: Sets) -> Request {
        let to = from.unwrap_or_default().and(inputs.union());
        match self.put {
            Put::OnVersion | Put::ConflictIsDone => Request::SwapPrimary { from, to },
            Put::Blindly => Request::PutPrimary(to),
        }
    }
}

fn with_secondaries(primary: Option<Set>, inputs: Sets) -> Place {
    let all = primary.unwrap_or_default().and(inputs.union());
    if inputs.is_empty() {
        Place::Start
    } else if primary == Some(all) {
        Place::ReadBack { all, inputs }
    } else {
        Place::Put {
            from: primary,
            inputs,
        }
    }
}

fn deleting(rest: Sets) -> Place {
    if rest.is_empty() {
        Place::Start
    } else {
        Place::Delete(rest)
    }
}

impl Algorithm for PrimaryCas {
    type Store = Bucket;
    type Place = Place;

    fn moves(&self, place: Place, moves: &mut Vec<Move<Request>>) {
        match place {
            Place::Start | Place::Read(_) | Place::ReadBack { .. } => moves.push(Move::Look(0)),
            Place::Put { from, inputs } => moves.push(Move::Send(self.request(from, inputs))),
            Place::Delete(rest) => {
                moves.extend(rest.iter().map(|set| Move::Send(Request::Delete(set))));
            }
        }
    }

    fn look(&self, place: Place, _choice: u8, bucket: &Bucket) -> Place {
        match place {
            Place::Start => Place::Read(bucket.primary),
            Place::Read(primary) => with_secondaries(primary, bucket.secondaries),
            Place::ReadBack { all, inputs } if bucket.primary.is_some_and(|p| p.holds(all)) => {
                deleting(inputs)
            }
            Place::ReadBack { .. } | Place::Put { .. } | Place::Delete(_) => Place::Start,
        }
    }

    fn answered(&self, place: Place, request: Request, answer: Answer) -> Place {
        match (place, request) {
            (Place::Put { inputs, .. }, _)
                if answer == Answer::Refused && self.put == Put::ConflictIsDone =>
            {
                deleting(inputs)
            }
            (_, _) if answer == Answer::Refused => Place::Start,
            (Place::Put { from, inputs }, _) => Place::ReadBack {
                all: from.unwrap_or_default().and(inputs.union()),
                inputs,
            },
            (Place::Delete(rest), Request::Delete(set)) => deleting(rest.without(set)),
            (Place::Delete(_) | Place::Start | Place::Read(_) | Place::ReadBack { .. }, _) => {
                Place::Start
            }
        }
    }

    fn lost(&self, bucket: &Bucket) -> bool {
        bucket.held() != bucket.ever
    }

    fn right(&self, bucket: &Bucket) -> bool {
        bucket.secondaries.is_empty() && bucket.primary.unwrap_or_default() == bucket.ever
    }
}

#[cfg(test)]
mod tests {
    use super::{PrimaryCas, Put};
    use crate::check::{Bounds, always_holds, finds_loss, long};

    #[test]
    fn loses_nothing_and_ends_in_one_archive() {
        let mut all = Bounds::for_every_algorithm();
        if long() {
            all.push(Bounds::three_replicas(&["a", "b"], 2, None));
        }
        for bounds in all {
            always_holds(bounds.hour(PrimaryCas {
                put: Put::OnVersion,
            }));
        }
    }

    #[test]
    fn a_put_without_the_version_would_lose_data() {
        finds_loss(Bounds::two_replicas().hour(PrimaryCas { put: Put::Blindly }));
    }

    #[test]
    fn deleting_after_a_conflict_would_lose_data() {
        finds_loss(Bounds::two_replicas().hour(PrimaryCas {
            put: Put::ConflictIsDone,
        }));
    }
}
