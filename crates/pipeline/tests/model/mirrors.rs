//! Mirrors: two stores, each consolidated by itself with hashed, healed only by copying content-named secondaries.
//!
//! Either may be down at any time and for any time, though not both at once. A user may delete the hour: a tombstone in one mirror, and whoever
//! sees it carries it to the other and removes the archives from both.

use std::fmt;

use crate::algorithm::{Algorithm, Move};
use crate::merge::{Deletes, Merge};
use crate::sets::{Set, Sets};
use crate::store::{Answer, Bucket, Request, Store};

#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Mirror {
    pub(crate) bucket: Bucket,
    pub(crate) tombstone: bool,
    pub(crate) down: bool,
}

#[derive(Clone, Default, PartialEq, Eq, Hash, Debug)]
pub(crate) struct Pair([Mirror; 2]);

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum ToMirror {
    Do(usize, Request),
    PutTombstone(usize),
    GoDown(usize),
    ComeBack(usize),
}

impl Store for Pair {
    type Request = ToMirror;

    fn apply(&mut self, request: ToMirror) -> Answer {
        match request {
            ToMirror::Do(at, _) | ToMirror::PutTombstone(at) if self.0[at].down => Answer::Refused,
            ToMirror::Do(at, request) => self.0[at].bucket.apply(request),
            ToMirror::PutTombstone(at) => {
                self.0[at].tombstone = true;
                Answer::Done
            }
            ToMirror::GoDown(at) => {
                self.0[at].down = true;
                Answer::Done
            }
            ToMirror::ComeBack(at) => {
                self.0[at].down = false;
                Answer::Done
            }
        }
    }
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, mirror) in self.0.iter().enumerate() {
            let down = if mirror.down { ", down" } else { "" };
            let tombstone = if mirror.tombstone { ", deleted" } else { "" };
            write!(f, "[{number}: {}{down}{tombstone}]", mirror.bucket)?;
        }
        Ok(())
    }
}

impl fmt::Display for ToMirror {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ToMirror::Do(at, request) => write!(f, "{request} in {at}"),
            ToMirror::PutTombstone(at) => write!(f, "put the tombstone in {at}"),
            ToMirror::GoDown(at) => write!(f, "{at} goes down"),
            ToMirror::ComeBack(at) => write!(f, "{at} comes back"),
        }
    }
}

impl Pair {
    fn deleted(&self) -> bool {
        self.0.iter().any(|mirror| mirror.tombstone)
    }

    fn any_down(&self) -> bool {
        self.0.iter().any(|mirror| mirror.down)
    }
}

pub(crate) struct Mirrors {
    pub(crate) works: Works,
    /// Whether the user may delete the hour.
    pub(crate) user_deletes: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Works {
    /// Lists, merges and deletes within one store.
    WithinOneStore,
    /// Merges in the first store, and deletes in every store what was merged there. Broken.
    AcrossStores,
    /// Within one store, but a tombstone counts only in the mirror where it lies. Broken.
    TombstonePerMirror,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Place {
    #[default]
    Start,
    Merge(usize, Merge),
    /// An audit has listed the first mirror, which had no tombstone, or had one.
    Audit(Sets, bool),
    Copy(usize, Set),
    /// After every put: is there a tombstone by now?
    LookForTombstone(usize, Set),
    /// The hour is deleted: carry the tombstone to both, then remove what was seen.
    Remove {
        tombstones: [bool; 2],
        seen: [Sets; 2],
    },
}

const AUDIT: u8 = 2;

/// The first archive of one mirror that holds something the other mirror lacks, and the mirror that lacks it.
fn missing(seen: [Sets; 2]) -> Option<(usize, Set)> {
    let lacks = |to: usize| {
        let from = seen[1 - to].iter();
        from.into_iter()
            .find(|set| !seen[to].union().holds(*set))
            .map(|set| (to, set))
    };
    lacks(0).or_else(|| lacks(1))
}

fn removing(tombstones: [bool; 2], seen: [Sets; 2]) -> Place {
    if tombstones == [true; 2] && seen.iter().all(|sets| sets.is_empty()) {
        return Place::Start;
    }
    Place::Remove { tombstones, seen }
}

fn remove_moves(tombstones: [bool; 2], seen: [Sets; 2], moves: &mut Vec<Move<ToMirror>>) {
    if let Some(at) = tombstones.iter().position(|there| !there) {
        moves.push(Move::Send(ToMirror::PutTombstone(at)));
        return;
    }
    // One after the other: under a tombstone no delete needs a proof, so their order decides nothing.
    let archives = (0..2).flat_map(|at| seen[at].iter().map(move |set| (at, set)));
    let delete = |(at, set)| Move::Send(ToMirror::Do(at, Request::Delete(set)));
    moves.extend(archives.map(delete).next());
}

fn removed(mut tombstones: [bool; 2], mut seen: [Sets; 2], request: ToMirror) -> Place {
    match request {
        ToMirror::PutTombstone(at) => tombstones[at] = true,
        ToMirror::Do(at, Request::Delete(set)) => seen[at] = seen[at].without(set),
        ToMirror::Do(..) | ToMirror::GoDown(_) | ToMirror::ComeBack(_) => {}
    }
    removing(tombstones, seen)
}

impl Mirrors {
    fn merging(&self, at: usize, before: Option<Merge>, merge: Option<Merge>) -> Place {
        match (before, merge) {
            (Some(Merge::ReadBack(_)), Some(Merge::Delete(inputs)))
                if self.works == Works::AcrossStores =>
            {
                removing([true; 2], [inputs; 2])
            }
            (_, merge) => merge.map_or(Place::Start, |merge| Place::Merge(at, merge)),
        }
    }

    fn consolidate(&self, at: usize, mirror: &Mirror) -> Place {
        if mirror.tombstone || self.works == Works::AcrossStores && at != 0 {
            return Place::Start;
        }
        let merge = Merge::begin(mirror.bucket.secondaries, Deletes::StrictlyHeld);
        self.merging(at, None, merge)
    }

    fn audit(&self, first: Sets, first_deleted: bool, second: &Mirror) -> Place {
        let seen = [first, second.bucket.secondaries];
        match [first_deleted, second.tombstone] {
            [false, false] => missing(seen).map_or(Place::Start, |(to, set)| Place::Copy(to, set)),
            tombstones if self.works == Works::TombstonePerMirror => {
                let own = |at: usize| {
                    if tombstones[at] {
                        seen[at]
                    } else {
                        Sets::default()
                    }
                };
                removing([true; 2], [own(0), own(1)])
            }
            tombstones => removing(tombstones, seen),
        }
    }
}

/// One mirror at a time goes down, and comes back whenever it likes.
fn outage(pair: &Pair, requests: &mut Vec<ToMirror>) {
    match pair.0.iter().position(|mirror| mirror.down) {
        Some(at) => requests.push(ToMirror::ComeBack(at)),
        None => requests.extend([0, 1].map(ToMirror::GoDown)),
    }
}

impl Algorithm for Mirrors {
    type Store = Pair;
    type Place = Place;

    fn moves(&self, place: Place, moves: &mut Vec<Move<ToMirror>>) {
        match place {
            Place::Start => moves.extend([Move::Look(0), Move::Look(1), Move::Look(AUDIT)]),
            Place::Merge(at, merge) => {
                let mut within = Vec::new();
                merge.moves(&mut within);
                moves.extend(within.into_iter().map(|step| match step {
                    Move::Look(choice) => Move::Look(choice),
                    Move::Send(request) => Move::Send(ToMirror::Do(at, request)),
                }));
            }
            Place::Audit(..) | Place::LookForTombstone(..) => moves.push(Move::Look(0)),
            Place::Copy(to, set) => moves.push(Move::Send(ToMirror::Do(to, Request::Put(set)))),
            Place::Remove { tombstones, seen } => remove_moves(tombstones, seen, moves),
        }
    }

    fn look(&self, place: Place, choice: u8, pair: &Pair) -> Place {
        let [first, second] = &pair.0;
        match place {
            Place::Start if choice == 0 && !first.down => self.consolidate(0, first),
            Place::Start if choice == 1 && !second.down => self.consolidate(1, second),
            Place::Start if choice == AUDIT && !first.down => {
                Place::Audit(first.bucket.secondaries, first.tombstone)
            }
            Place::Merge(at, merge) if !pair.0[at].down => {
                let next = merge.look(&pair.0[at].bucket, Deletes::StrictlyHeld);
                self.merging(at, Some(merge), next)
            }
            Place::Audit(seen, deleted) if !second.down => self.audit(seen, deleted, second),
            Place::LookForTombstone(to, set) if pair.deleted() && !pair.any_down() => {
                let mut seen = [Sets::default(); 2];
                seen[to] = Sets::one(set);
                removing([first.tombstone, second.tombstone], seen)
            }
            // A list that failed is an error, and so is a listing that cannot be had: nothing is decided by it.
            Place::Start
            | Place::Merge(..)
            | Place::Audit(..)
            | Place::Copy(..)
            | Place::LookForTombstone(..)
            | Place::Remove { .. } => Place::Start,
        }
    }

    fn answered(&self, place: Place, request: ToMirror, answer: Answer) -> Place {
        match (place, request) {
            (_, _) if answer == Answer::Refused => Place::Start,
            (Place::Merge(at, merge), ToMirror::Do(_, request)) => {
                self.merging(at, Some(merge), merge.answered(request, answer))
            }
            (Place::Copy(to, set), _) => Place::LookForTombstone(to, set),
            (Place::Remove { tombstones, seen }, request) => removed(tombstones, seen, request),
            (
                Place::Start | Place::Merge(..) | Place::Audit(..) | Place::LookForTombstone(..),
                _,
            ) => Place::Start,
        }
    }

    /// In each mirror by itself: what it once had, it has. A tombstone in any mirror means intended absence.
    fn lost(&self, pair: &Pair) -> bool {
        let lacks = |mirror: &Mirror| mirror.bucket.held() != mirror.bucket.ever;
        !pair.deleted() && pair.0.iter().any(lacks)
    }

    fn right(&self, pair: &Pair) -> bool {
        if pair.any_down() {
            return true;
        }
        let [first, second] = &pair.0;
        if pair.deleted() {
            // The broken one carries no tombstones; it is judged by the archives alone.
            let carries = self.works != Works::TombstonePerMirror;
            let clean = |mirror: &Mirror| {
                mirror.bucket.secondaries.is_empty() && (mirror.tombstone || !carries)
            };
            return clean(first) && clean(second);
        }
        let ever = first.bucket.ever.and(second.bucket.ever);
        let whole = |mirror: &Mirror| {
            let secondaries = mirror.bucket.secondaries;
            secondaries.len() <= 1 && secondaries.union() == ever
        };
        whole(first) && whole(second)
    }

    fn outside(&self, pair: &Pair, requests: &mut Vec<ToMirror>) {
        outage(pair, requests);
        if self.user_deletes && !pair.deleted() {
            requests.extend([0, 1].map(ToMirror::PutTombstone));
        }
    }

    fn calm(&self, pair: &mut Pair) {
        for mirror in &mut pair.0 {
            mirror.down = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::Mutex;

    use super::{Mirrors, ToMirror, Works};
    use crate::check::{always_holds, finds, finds_loss, long};
    use crate::sets::Set;
    use crate::store::Request;
    use crate::world::{Hour, NOTHING_LOST, ONE_IS_ENOUGH, REST_IS_RIGHT};

    /// Every upload goes to both mirrors, and each is repeated until that mirror has answered.
    fn hour(replicas: usize, uploads: &[&str], algorithm: Mirrors) -> Hour<Mirrors> {
        let both = uploads.iter().enumerate().flat_map(|(replica, names)| {
            let put = Request::Put(Set::of(names));
            [0, 1].map(|at| (replica, ToMirror::Do(at, put)))
        });
        Hour {
            algorithm,
            replicas,
            uploads: both.collect(),
            in_flight: 0,
            unheard_max: None,
            crashes: true,
            interchangeable: true,
            properties: &[NOTHING_LOST, REST_IS_RIGHT, ONE_IS_ENOUGH],
            rests: Mutex::new(HashMap::new()),
        }
    }

    /// One request at a time is lost or late, `unheard_max` in all.
    fn with_late_requests(hour: Hour<Mirrors>, unheard_max: Option<u8>) -> Hour<Mirrors> {
        Hour {
            in_flight: 1,
            unheard_max,
            ..hour
        }
    }

    fn mirrors(works: Works, user_deletes: bool) -> Mirrors {
        Mirrors {
            works,
            user_deletes,
        }
    }

    #[test]
    fn each_mirror_keeps_what_it_had_and_both_become_the_same() {
        let kept = || mirrors(Works::WithinOneStore, false);
        always_holds(hour(2, &["a", "b"], kept()));
        always_holds(with_late_requests(hour(1, &["a", "b"], kept()), Some(1)));
        always_holds(with_late_requests(hour(3, &["a"], kept()), None));
        if long() {
            always_holds(with_late_requests(hour(2, &["a", "b"], kept()), Some(1)));
        }
    }

    #[test]
    fn a_deleted_hour_comes_back_from_no_mirror() {
        let deletable = || mirrors(Works::WithinOneStore, true);
        always_holds(with_late_requests(hour(2, &["a"], deletable()), None));
        if long() {
            always_holds(with_late_requests(hour(3, &["a"], deletable()), None));
            always_holds(hour(2, &["a", "b"], deletable()));
        }
    }

    #[test]
    fn consolidating_across_stores_would_lose_data() {
        finds_loss(hour(2, &["a", "b"], mirrors(Works::AcrossStores, false)));
    }

    #[test]
    fn a_tombstone_for_its_own_mirror_only_would_leave_a_deleted_hour_behind() {
        let broken = mirrors(Works::TombstonePerMirror, true);
        finds(hour(2, &["a"], broken), &[REST_IS_RIGHT]);
    }
}
