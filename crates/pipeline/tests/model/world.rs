//! Replica steps: everything that can happen to an hour, and in which order, which is any order.
//!
//! There is no clock. A replica that is not chosen for a while has stalled; so every run of this model with any delays
//! at all is in it, and a replica may stall longer than each of them, or for ever.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Mutex;

use stateright::{Model, Property};

use crate::algorithm::{Algorithm, Move, RequestOf};
use crate::rest::{Rest, rest};
use crate::store::{Answer, Store};

pub(crate) const REPLICAS_MAX: usize = 3;
const IN_FLIGHT_MAX: usize = 2;

/// No entry that was ever in the store is gone.
pub(crate) const NOTHING_LOST: &str = "nothing that was durable is lost";
/// Where no replica finds anything to do, the hour is as it should be.
pub(crate) const REST_IS_RIGHT: &str = "an hour at rest is one archive with everything";
/// From every state, one replica that starts afresh brings the hour there, whatever the others were doing.
pub(crate) const ONE_IS_ENOUGH: &str = "any one replica can finish alone";

/// An hour, those who work on it, and how much is tried.
pub(crate) struct Hour<A: Algorithm> {
    pub(crate) algorithm: A,
    pub(crate) replicas: usize,
    /// What collectors upload, each whenever it likes and until it hears an answer, with the replica it runs beside.
    pub(crate) uploads: Vec<(usize, RequestOf<A>)>,
    /// How many requests may be on their way at once with nobody waiting for them.
    pub(crate) in_flight: usize,
    /// How many requests in all may be sent and not be answered; `None` is without end.
    pub(crate) unheard_max: Option<u8>,
    /// A replica may crash at any place.
    pub(crate) crashes: bool,
    /// Replicas that stand at the same places in another order are the same state. Costs the names in traces.
    pub(crate) interchangeable: bool,
    pub(crate) properties: &'static [&'static str],
    /// What is known of each store; far fewer than states.
    pub(crate) rests: Mutex<HashMap<A::Store, Rest>>,
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(crate) struct World<S: Store, P> {
    pub(crate) store: S,
    pub(crate) places: [P; REPLICAS_MAX],
    /// Bit `n`: the collector has heard that upload `n` is done, and will not send it again.
    pub(crate) heard: u8,
    /// Requests whose sender has given up waiting or crashed. Each takes effect later, or never.
    pub(crate) in_flight: [Option<S::Request>; IN_FLIGHT_MAX],
    /// How many there have been, if that is limited.
    pub(crate) unheard: u8,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) enum Action<Request> {
    /// A collector sends an upload and hears the answer.
    Upload(usize),
    /// A collector sends an upload and hears nothing. It will send it again.
    UploadUnheard(usize),
    /// A replica makes its next move, with the answer.
    Move(usize, Move<Request>),
    /// A replica sends its next request and hears nothing. It stands where it stood: it may send again, or crash.
    Unheard(usize, Request),
    /// A replica forgets what it was doing and starts afresh.
    Crash(usize),
    /// A request that nobody waits for takes effect.
    Land(Request),
    /// Something that no replica does.
    Outside(Request),
}

pub(crate) type WorldOf<A> = World<<A as Algorithm>::Store, <A as Algorithm>::Place>;

impl<A: Algorithm> Hour<A> {
    /// Whether there was room for one more.
    fn fly(&self, world: &mut WorldOf<A>, request: RequestOf<A>) -> bool {
        if let Some(max) = self.unheard_max {
            if world.unheard == max {
                return false;
            }
            world.unheard += 1;
        }
        let free = world.in_flight[..self.in_flight]
            .iter()
            .position(Option::is_none);
        let Some(free) = free else { return false };
        world.in_flight[free] = Some(request);
        world.in_flight.sort_unstable();
        world.in_flight.reverse();
        true
    }

    fn make(&self, world: &mut WorldOf<A>, replica: usize, step: Move<RequestOf<A>>) {
        let place = world.places[replica];
        world.places[replica] = match step {
            Move::Look(choice) => self.algorithm.look(place, choice, &world.store),
            Move::Send(request) => {
                let answer = world.store.apply(request);
                self.algorithm.answered(place, request, answer)
            }
        };
    }

    /// Whether anything happened.
    fn act(&self, world: &mut WorldOf<A>, action: Action<RequestOf<A>>) -> bool {
        match action {
            Action::Upload(upload) => {
                if world.store.apply(self.uploads[upload].1) == Answer::Refused {
                    return false;
                }
                world.heard |= 1 << upload;
            }
            Action::UploadUnheard(upload) => return self.fly(world, self.uploads[upload].1),
            Action::Move(replica, step) => self.make(world, replica, step),
            Action::Unheard(_, request) => return self.fly(world, request),
            Action::Crash(replica) => world.places[replica] = A::Place::default(),
            Action::Land(request) => {
                let landing = world.in_flight.iter().position(|one| *one == Some(request));
                world.in_flight[landing.expect("only what is on its way lands")] = None;
                world.in_flight.sort_unstable();
                world.in_flight.reverse();
                world.store.apply(request);
            }
            Action::Outside(request) => return world.store.apply(request) == Answer::Done,
        }
        true
    }

    pub(crate) fn rest_of(&self, store: &A::Store) -> Rest {
        let mut known = self
            .rests
            .lock()
            .expect("no check panics while it holds this");
        if let Some(known) = known.get(store) {
            return *known;
        }
        let new = rest(&self.algorithm, store);
        known.insert(store.clone(), new);
        new
    }

    fn replica_actions(
        &self,
        world: &WorldOf<A>,
        replica: usize,
        moves: &mut Vec<Move<RequestOf<A>>>,
        actions: &mut Vec<Action<RequestOf<A>>>,
    ) {
        self.algorithm.moves(world.places[replica], moves);
        for step in moves.drain(..) {
            actions.push(Action::Move(replica, step));
            if let Move::Send(request) = step
                && self.in_flight > 0
            {
                actions.push(Action::Unheard(replica, request));
            }
        }
        if self.crashes && world.places[replica] != A::Place::default() {
            actions.push(Action::Crash(replica));
        }
    }
}

impl<A: Algorithm> Model for Hour<A> {
    type State = WorldOf<A>;
    type Action = Action<RequestOf<A>>;

    fn init_states(&self) -> Vec<Self::State> {
        vec![World {
            store: A::Store::default(),
            places: [A::Place::default(); REPLICAS_MAX],
            heard: 0,
            in_flight: [None; IN_FLIGHT_MAX],
            unheard: 0,
        }]
    }

    fn actions(&self, world: &Self::State, actions: &mut Vec<Self::Action>) {
        for upload in (0..self.uploads.len()).filter(|upload| world.heard & 1 << upload == 0) {
            actions.push(Action::Upload(upload));
            if self.in_flight > 0 {
                actions.push(Action::UploadUnheard(upload));
            }
        }
        let mut moves = Vec::new();
        for replica in 0..self.replicas {
            self.replica_actions(world, replica, &mut moves, actions);
        }
        actions.extend(world.in_flight.into_iter().flatten().map(Action::Land));
        let mut requests = Vec::new();
        self.algorithm.outside(&world.store, &mut requests);
        actions.extend(requests.into_iter().map(Action::Outside));
    }

    fn next_state(&self, world: &Self::State, action: Self::Action) -> Option<Self::State> {
        let mut next = world.clone();
        if !self.act(&mut next, action) {
            return None;
        }
        if self.interchangeable {
            next.places[..self.replicas].sort_unstable();
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        let all = [
            Property::<Self>::always(NOTHING_LOST, |hour, world| {
                !hour.algorithm.lost(&world.store)
            }),
            Property::<Self>::always(REST_IS_RIGHT, |hour, world| {
                hour.rest_of(&world.store) != Rest::Wrong
            }),
            Property::<Self>::always(ONE_IS_ENOUGH, |hour, world| {
                hour.rest_of(&world.store) != Rest::NeverComes
            }),
        ];
        let wanted = |property: &Property<Self>| self.properties.contains(&property.name);
        all.into_iter().filter(wanted).collect()
    }
}
