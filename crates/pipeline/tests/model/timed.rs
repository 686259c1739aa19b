//! The document's primary algorithm to the letter: a decision tree, a wait of five seconds before a copy, and a poll
//! every second while a primary is about to be deleted. It loses data.
//!
//! Where the document leaves room, the model is kind to it: a look sees the whole folder at one moment, contents and
//! all, and merges delete only what is strictly held.

use crate::algorithm::{Algorithm, Move};
use crate::merge::{Deletes, Merge};
use crate::sets::{Set, Sets};
use crate::store::{Answer, Bucket, Request};

pub(crate) struct Timed {
    pub(crate) pace: Pace,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// A replica may stall between any two steps, as processes and networks do.
    MayStall,
    /// Copies are free of stalls, and only a delete may come late.
    DeletesMayStall,
    /// No time ever passes between the last poll and the request that it allows. What the document hopes for.
    Punctual,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Place {
    #[default]
    Start,
    Merge(Merge),
    /// One secondary, no primary: five seconds, then a second look.
    Wait(Set),
    /// The second look saw the same.
    Copy(Set),
    /// The secondary is in the primary.
    DeleteSecondary(Set),
    /// The secondary strictly holds the primary: a poll, then the delete.
    Watch {
        secondary: Set,
        primary: Set,
    },
    /// The last poll saw no change.
    DeletePrimary {
        secondary: Set,
        primary: Set,
    },
}

fn merging(merge: Option<Merge>) -> Place {
    merge.map_or(Place::Start, Place::Merge)
}

/// The tree.
fn decide(bucket: &Bucket) -> Place {
    let Some(secondary) = bucket.secondaries.only() else {
        return merging(Merge::begin(bucket.secondaries, Deletes::StrictlyHeld));
    };
    match bucket.primary {
        None => Place::Wait(secondary),
        Some(primary) if primary == secondary => Place::DeleteSecondary(secondary),
        Some(primary) if secondary.holds(primary) => Place::Watch { secondary, primary },
        Some(primary) => Place::Merge(Merge::of(
            Sets::one(secondary),
            primary,
            Deletes::StrictlyHeld,
        )),
    }
}

fn unchanged(bucket: &Bucket, secondary: Set, primary: Option<Set>) -> bool {
    bucket.secondaries == Sets::one(secondary) && bucket.primary == primary
}

impl Timed {
    fn copy(&self, set: Set) -> Request {
        match self.pace {
            Pace::MayStall => Request::PutPrimary(set),
            Pace::DeletesMayStall | Pace::Punctual => Request::PutPrimaryAtOnce(set),
        }
    }

    fn delete_primary(&self, secondary: Set, primary: Set) -> Request {
        match self.pace {
            Pace::MayStall | Pace::DeletesMayStall => Request::DeletePrimary,
            Pace::Punctual => Request::DeletePrimaryAtOnce {
                seen: primary,
                beside: secondary,
            },
        }
    }
}

impl Algorithm for Timed {
    type Store = Bucket;
    type Place = Place;

    fn moves(&self, place: Place, moves: &mut Vec<Move<Request>>) {
        match place {
            Place::Start | Place::Wait(_) | Place::Watch { .. } => moves.push(Move::Look(0)),
            Place::Merge(merge) => merge.moves(moves),
            Place::Copy(set) => moves.push(Move::Send(self.copy(set))),
            Place::DeleteSecondary(set) => moves.push(Move::Send(Request::Delete(set))),
            Place::DeletePrimary { secondary, primary } => {
                // The next poll may come before the request is sent, and may stop it.
                moves.push(Move::Look(0));
                moves.push(Move::Send(self.delete_primary(secondary, primary)));
            }
        }
    }

    fn look(&self, place: Place, _choice: u8, bucket: &Bucket) -> Place {
        match place {
            Place::Start => decide(bucket),
            Place::Merge(merge) => merging(merge.look(bucket, Deletes::StrictlyHeld)),
            Place::Wait(set) if unchanged(bucket, set, None) => Place::Copy(set),
            Place::Watch { secondary, primary } | Place::DeletePrimary { secondary, primary }
                if unchanged(bucket, secondary, Some(primary)) =>
            {
                Place::DeletePrimary { secondary, primary }
            }
            Place::Wait(_)
            | Place::Watch { .. }
            | Place::DeletePrimary { .. }
            | Place::Copy(_)
            | Place::DeleteSecondary(_) => Place::Start,
        }
    }

    fn answered(&self, place: Place, request: Request, answer: Answer) -> Place {
        match place {
            Place::Merge(merge) => merging(merge.answered(request, answer)),
            Place::Start
            | Place::Wait(_)
            | Place::Copy(_)
            | Place::DeleteSecondary(_)
            | Place::Watch { .. }
            | Place::DeletePrimary { .. } => Place::Start,
        }
    }

    fn lost(&self, bucket: &Bucket) -> bool {
        bucket.held() != bucket.ever
    }

    fn right(&self, bucket: &Bucket) -> bool {
        bucket.secondaries.is_empty() && bucket.primary.unwrap_or_default() == bucket.ever
    }

    fn tell(&self, before: Place, after: Place) -> String {
        match (before, after) {
            (Place::Wait(_), Place::Copy(_)) => "5 s later: unchanged".into(),
            (Place::Watch { .. } | Place::DeletePrimary { .. }, Place::DeletePrimary { .. }) => {
                "poll: unchanged".into()
            }
            (_, Place::Start) => "look: changed, restart".into(),
            (_, Place::Merge(merge)) => format!("look: {}", merge.plan()),
            (_, Place::Wait(set)) => format!("look: wait, copy {set}"),
            (_, Place::DeleteSecondary(set)) => format!("look: delete S={set}"),
            (_, Place::Watch { .. } | Place::DeletePrimary { .. }) => "look: delete P".into(),
            (_, Place::Copy(set)) => format!("look: copy {set}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Pace, Timed};
    use crate::check::{Bounds, always_holds, finds_loss};
    use crate::draw::diagram;
    use crate::world::Hour;

    const PAGE: &str = include_str!("../../../../docs/consolidation.md");

    /// No faults at all but stalls and, if asked for, requests that arrive late.
    fn without_crashes(pace: Pace, replicas: usize, in_flight: usize) -> Hour<Timed> {
        let bounds = Bounds {
            replicas,
            uploads: &["a", "ab"],
            in_flight,
            unheard_max: None,
            crashes: false,
        };
        bounds.hour(Timed { pace })
    }

    fn is_on_the_page(drawing: &str) {
        assert!(
            PAGE.contains(drawing.trim_end()),
            "docs/consolidation.md shows another trace; put this one there:\n{drawing}"
        );
    }

    #[test]
    fn a_copy_that_stalls_loses_data() {
        let steps = finds_loss(without_crashes(Pace::MayStall, 2, 0));
        let drawing = diagram(["replica A", "replica B"], &steps);
        insta::assert_snapshot!("a_copy_that_stalls", drawing);
        is_on_the_page(&drawing);
    }

    #[test]
    fn a_delete_that_stalls_loses_data() {
        let steps = finds_loss(without_crashes(Pace::DeletesMayStall, 2, 0));
        let drawing = diagram(["replica A", "replica B"], &steps);
        insta::assert_snapshot!("a_delete_that_stalls", drawing);
        is_on_the_page(&drawing);
    }

    /// One replica alone is enough, if the network keeps a request for a while.
    #[test]
    fn a_request_that_arrives_late_loses_data() {
        finds_loss(without_crashes(Pace::DeletesMayStall, 1, 1));
    }

    #[test]
    fn three_replicas_with_every_fault_lose_data() {
        let bounds = Bounds {
            replicas: 3,
            ..Bounds::two_replicas()
        };
        let pace = Pace::MayStall;
        finds_loss(bounds.hour(Timed { pace }));
    }

    /// The model does not condemn the tree, only the trust in delays.
    #[test]
    fn if_nobody_ever_stalled_nothing_would_be_lost() {
        let bounds = Bounds {
            replicas: 3,
            uploads: &["a", "b", "ab"],
            in_flight: 0,
            unheard_max: None,
            crashes: true,
        };
        let pace = Pace::Punctual;
        always_holds(bounds.hour(Timed { pace }));
    }
}
