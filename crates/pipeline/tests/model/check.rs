//! How much is tried, and how a check is read.

use std::collections::HashMap;
use std::sync::Mutex;

use stateright::{Checker, HasDiscoveries, Model};

use crate::algorithm::Algorithm;
use crate::draw::{Step, list, steps};
use crate::sets::Set;
use crate::store::{Bucket, Request};
use crate::world::{Hour, NOTHING_LOST, ONE_IS_ENOUGH, REST_IS_RIGHT};

/// The bounds of one search. Within them it is exhaustive: every order of every step, any number of crashes, lost
/// answers and repeated uploads.
pub(crate) struct Bounds {
    pub(crate) replicas: usize,
    /// What the collectors upload, one archive each.
    pub(crate) uploads: &'static [&'static str],
    /// Requests that nobody waits for, at one time.
    pub(crate) in_flight: usize,
    /// Requests without an answer in all; `None` is without end.
    pub(crate) unheard_max: Option<u8>,
    pub(crate) crashes: bool,
}

/// Larger bounds are asked for: `CANNERY_LONG=1`, or the long run of all tests.
pub(crate) fn long() -> bool {
    ["CANNERY_LONG", "CANNERY_TEST_LONG"]
        .iter()
        .any(|name| std::env::var_os(name).is_some_and(|value| value == "1"))
}

impl Bounds {
    /// Enough for every mistake that a test makes on purpose.
    pub(crate) fn two_replicas() -> Self {
        Self {
            replicas: 2,
            uploads: &["a", "ab"],
            in_flight: 1,
            unheard_max: None,
            crashes: true,
        }
    }

    pub(crate) fn three_replicas(
        uploads: &'static [&'static str],
        in_flight: usize,
        unheard_max: Option<u8>,
    ) -> Self {
        Self {
            replicas: 3,
            uploads,
            in_flight,
            unheard_max,
            crashes: true,
        }
    }

    /// What every safe algorithm must stand: every fault without end on two archives, every order and every crash on
    /// three. In the long run, three archives and a request that is lost or late.
    pub(crate) fn for_every_algorithm() -> Vec<Self> {
        let mut all = vec![
            Self::three_replicas(&["a", "b"], 1, None),
            Self::three_replicas(&["a", "b", "c"], 0, None),
        ];
        if long() {
            all.push(Self::three_replicas(&["a", "b", "c"], 1, Some(1)));
        }
        all
    }

    pub(crate) fn hour<A: Algorithm<Store = Bucket>>(&self, algorithm: A) -> Hour<A> {
        let uploads = self
            .uploads
            .iter()
            .map(|names| Request::Put(Set::of(names)));
        Hour {
            algorithm,
            replicas: self.replicas,
            uploads: uploads.enumerate().collect(),
            in_flight: self.in_flight,
            unheard_max: self.unheard_max,
            crashes: self.crashes,
            interchangeable: true,
            properties: &[NOTHING_LOST, REST_IS_RIGHT, ONE_IS_ENOUGH],
            rests: Mutex::new(HashMap::new()),
        }
    }
}

/// Searches everything and expects every property to hold.
#[allow(
    clippy::print_stdout,
    reason = "whoever reads the output of a test should know how much was searched"
)]
pub(crate) fn always_holds<A: Algorithm>(hour: Hour<A>) {
    let checker = hour.checker().spawn_bfs().join();
    println!(
        "{}: {} states, {} steps, up to {} deep",
        std::any::type_name::<A>(),
        checker.unique_state_count(),
        checker.state_count(),
        checker.max_depth()
    );
    if let Some((property, trace)) = checker.discoveries().into_iter().next() {
        let steps = list(&steps(checker.model(), trace));
        panic!("not so: {property}\n{steps}");
    }
    assert!(checker.is_done(), "the search was not exhaustive");
}

/// Searches until `property` is broken, and expects that. What comes back is one of the shortest ways there.
#[allow(clippy::print_stdout, reason = "a trace is to be read")]
pub(crate) fn finds<A: Algorithm>(
    mut hour: Hour<A>,
    property: &'static [&'static str; 1],
) -> Vec<Step> {
    hour.properties = property;
    // A trace should call a replica by one name from beginning to end.
    hour.interchangeable = false;
    let any = HasDiscoveries::Any;
    let checker = hour.checker().finish_when(any).spawn_bfs().join();
    let Some(trace) = checker.discovery(property[0]) else {
        let count = checker.unique_state_count();
        panic!(
            "the mistake was not found in {count} states: {}",
            property[0]
        );
    };
    let steps = steps(checker.model(), trace);
    println!("found: not always so: {}\n{}", property[0], list(&steps));
    steps
}

pub(crate) fn finds_loss<A: Algorithm>(hour: Hour<A>) -> Vec<Step> {
    finds(hour, &[NOTHING_LOST])
}
