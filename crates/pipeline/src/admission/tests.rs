use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use proptest::prelude::*;

use super::*;

/// What the budget should do, said plainly: a queue, and what runs.
#[derive(Default)]
struct Model {
    waiting: VecDeque<(usize, u64)>,
    running: BTreeMap<usize, u64>,
}

impl Model {
    /// Lets in whoever fits, from the front of the queue only.
    fn settle(&mut self, budget: u64) {
        while let Some((id, need)) = self.waiting.front().copied() {
            let taken: u64 = self.running.values().sum();
            if !self.running.is_empty() && taken + need > budget {
                return;
            }
            self.waiting.pop_front();
            self.running.insert(id, need);
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Ask(u64),
    /// One of those that run ends.
    End(usize),
    /// One of those that wait gives up.
    GiveUp(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => prop_oneof![1..40_u64, 90..130_u64].prop_map(Step::Ask),
        3 => any::<usize>().prop_map(Step::End),
        1 => any::<usize>().prop_map(Step::GiveUp),
    ]
}

type Asking = Pin<Box<dyn Future<Output = Admitted>>>;

#[derive(Default)]
struct Real {
    asking: BTreeMap<usize, Asking>,
    running: BTreeMap<usize, Admitted>,
}

impl Real {
    fn ask(&mut self, admission: &Admission, id: usize, need: u64) {
        let admission = admission.clone();
        self.asking
            .insert(id, Box::pin(async move { admission.admit(need).await }));
    }

    /// Polls everybody, the last first: the order of asking must not depend on it.
    fn settle(&mut self) {
        let mut context = Context::from_waker(Waker::noop());
        let mut let_in = Vec::new();
        for (id, asking) in self.asking.iter_mut().rev() {
            if let Poll::Ready(admitted) = asking.as_mut().poll(&mut context) {
                let_in.push((*id, admitted));
            }
        }
        for (id, admitted) in let_in {
            self.asking.remove(&id);
            self.running.insert(id, admitted);
        }
    }
}

fn nth<T>(map: &BTreeMap<usize, T>, at: usize) -> Option<usize> {
    (!map.is_empty()).then(|| {
        *map.keys()
            .nth(at % map.len())
            .expect("it is below the length")
    })
}

fn check(model: &Model, real: &Real, admission: &Admission, budget: u64) {
    let runs: Vec<_> = real.running.keys().collect();
    assert_eq!(runs, model.running.keys().collect::<Vec<_>>());
    let taken: u64 = model.running.values().sum();
    assert!(taken <= budget || model.running.len() == 1, "over budget");
    match model.waiting.is_empty() {
        true => assert_eq!(admission.taken_bytes(), taken.min(budget)),
        // What is free is kept for who waits first.
        false => assert_eq!(admission.taken_bytes(), budget),
    }
}

proptest! {
    #[test]
    fn who_fits_runs_in_the_order_of_asking(steps in prop::collection::vec(step(), 1..80)) {
        let budget = 100;
        let admission = Admission::new(budget);
        let (mut model, mut real) = (Model::default(), Real::default());
        for (id, step) in steps.into_iter().enumerate() {
            match step {
                Step::Ask(need) => {
                    model.waiting.push_back((id, need));
                    real.ask(&admission, id, need);
                }
                Step::End(at) => {
                    if let Some(id) = nth(&real.running, at) {
                        real.running.remove(&id);
                        model.running.remove(&id);
                    }
                }
                Step::GiveUp(at) => {
                    if let Some(id) = nth(&real.asking, at) {
                        real.asking.remove(&id);
                        model.waiting.retain(|(waiting, _)| *waiting != id);
                    }
                }
            }
            model.settle(budget);
            real.settle();
            check(&model, &real, &admission, budget);
        }
        while let Some(id) = nth(&real.running, 0) {
            real.running.remove(&id);
            model.running.remove(&id);
            model.settle(budget);
            real.settle();
            check(&model, &real, &admission, budget);
        }
        prop_assert!(real.asking.is_empty(), "everything runs in the end");
        prop_assert_eq!(admission.taken_bytes(), 0);
    }
}

#[test]
fn a_large_budget_is_counted_in_larger_units() {
    let budget = 1 << 44;
    let admission = Admission::new(budget);
    let (mut real, half) = (Real::default(), (budget / 2) + 1);
    real.ask(&admission, 0, half);
    real.settle();
    real.ask(&admission, 1, half);
    real.settle();
    assert_eq!((real.running.len(), real.asking.len()), (1, 1));
    assert!(admission.taken_bytes() >= half && admission.taken_bytes() < budget);
}

#[test]
fn without_a_budget_one_runs_at_a_time() {
    let admission = Admission::new(0);
    let mut real = Real::default();
    for id in 0..2 {
        real.ask(&admission, id, 0);
        real.settle();
    }
    assert_eq!((real.running.len(), real.asking.len()), (1, 1));
}
