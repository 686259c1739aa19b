//! Random histories: few keys, few priorities, and moments around the ends of leases and lives.

use std::time::Duration;

use cannery_journal::{
    Add, Data, Date, Declaration, Expiration, Key, Op, Priority, Query, Retry, Status, Token,
};
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

/// A journal and what happens to it.
#[derive(Clone, Debug)]
pub(crate) struct Case {
    variant: usize,
    merge: bool,
    pub(crate) steps: Vec<Step>,
}

/// One thing that happens. Dates are relative to the moment of the step.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Pass(i64),
    Add(Vec<NewAdd>),
    Claim(u32),
    DoneAndClaim(Vec<Pick>, u32),
    Heartbeat(Vec<Pick>),
    Done(Vec<Pick>),
    Release(Vec<Pick>, Option<i64>),
    Fail(Vec<Pick>, Option<i64>),
    Cancel(u8),
    Requeue(u8),
    Forget(u8),
    Get(u8),
    List(Vec<Status>, u8, Option<u8>, u32),
    Declare(usize, bool),
}

/// One of the tokens handed out so far, counted from the last.
pub(crate) type Pick = usize;

#[derive(Clone, Debug)]
pub(crate) struct NewAdd {
    key: u8,
    priority: u8,
    insertion: i64,
    process: i64,
    expiration: Option<i64>,
}

impl Case {
    pub(crate) fn declaration(&self) -> Declaration {
        variant(self.variant, self.merge)
    }
}

fn variant(number: usize, merge: bool) -> Declaration {
    let (lease, timeouts_max, max_delay) =
        [(50, 1, None), (30, 2, Some(60)), (80, 0, Some(0))][number];
    Declaration {
        lease: Duration::from_millis(lease),
        timeouts_max,
        max_delay: max_delay.map(Duration::from_millis),
        merge,
        ..Declaration::default()
    }
}

pub(crate) fn case() -> impl Strategy<Value = Case> {
    (0..3_usize, prop::bool::weighted(0.8), vec(step(), 1..50)).prop_map(
        |(variant, merge, steps)| Case {
            variant,
            merge,
            steps,
        },
    )
}

pub(crate) fn step() -> impl Strategy<Value = Step> {
    let picks = || vec(0..6_usize, 0..4);
    let key = || 0..3_u8;
    prop_oneof![
        8 => select(vec![0, 1, 2, 10, 29, 30, 31, 49, 50, 51, 52, 79, 81, 102, 300]).prop_map(Step::Pass),
        8 => vec(add(), 1..4).prop_map(Step::Add),
        6 => (0..4_u32).prop_map(Step::Claim),
        2 => (picks(), 0..4_u32).prop_map(|(picks, count)| Step::DoneAndClaim(picks, count)),
        1 => picks().prop_map(Step::Heartbeat),
        1 => picks().prop_map(Step::Done),
        2 => (picks(), option::of(-5..60_i64)).prop_map(|(picks, at)| Step::Release(picks, at)),
        3 => (picks(), option::weighted(0.8, -5..60_i64)).prop_map(|(picks, at)| Step::Fail(picks, at)),
        1 => key().prop_map(Step::Cancel),
        2 => key().prop_map(Step::Requeue),
        1 => key().prop_map(Step::Forget),
        1 => key().prop_map(Step::Get),
        1 => list(),
        1 => (0..3_usize, prop::bool::weighted(0.8)).prop_map(|(variant, merge)| Step::Declare(variant, merge)),
    ]
}

pub(crate) fn add() -> impl Strategy<Value = NewAdd> {
    let priority = select(vec![0, 20, 20, 199, 200, 255]);
    let insertion = prop_oneof![4 => Just(0), 4 => -40..40_i64, 1 => Just(299_999), 1 => Just(300_001), 1 => Just(400_000)];
    let process = select(vec![0, 0, 0, 1, 20, 50, 51, 120, 9_999]);
    let expiration = option::weighted(0.4, select(vec![-1, 0, 1, 20, 30, 49, 50, 51, 100, 200]));
    (0..3_u8, priority, insertion, process, expiration).prop_map(
        |(key, priority, insertion, process, expiration)| NewAdd {
            key,
            priority,
            insertion,
            process,
            expiration,
        },
    )
}

fn list() -> impl Strategy<Value = Step> {
    let statuses = vec(
        select(vec![
            Status::Processing,
            Status::Waiting,
            Status::Blocked,
            Status::Dead,
        ]),
        0..3,
    );
    let priority = option::weighted(0.3, select(vec![0, 20, 200]));
    (statuses, 0..4_u8, priority, 1..4_u32).prop_map(|(statuses, prefix, priority, limit)| {
        Step::List(statuses, prefix, priority, limit)
    })
}

pub(crate) fn after(now: Date, millis: i64) -> Date {
    Date::from_millis(now.as_millis() + millis)
}

fn key_of(number: u8) -> Key {
    Key::new(format!("k{number}")).unwrap()
}

impl NewAdd {
    /// The add; its data says which one it was.
    pub(crate) fn at(&self, now: Date, serial: usize) -> Add {
        let insertion = after(now, self.insertion);
        Add {
            key: key_of(self.key),
            insertion,
            expiration: Expiration::from(self.expiration.map(|millis| after(now, millis))),
            priority: Priority(self.priority),
            process: after(insertion, self.process),
            data: Data::from_value(&serial).unwrap(),
        }
    }
}

fn picked(picks: &[Pick], tokens: &[Token]) -> Vec<Token> {
    picks
        .iter()
        .filter_map(|pick| tokens.iter().rev().nth(*pick).copied())
        .collect()
}

impl Step {
    /// The request that this is at a moment, with the tokens that were handed out so far. Nothing for time that passes.
    pub(crate) fn op(&self, now: Date, place: usize, tokens: &[Token]) -> Option<Op> {
        let worker = "w".to_owned();
        Some(match self {
            Self::Pass(_) => return None,
            Self::Add(adds) => {
                let adds = adds.iter().enumerate();
                Op::Add(adds.map(|(n, add)| add.at(now, place * 10 + n)).collect())
            }
            Self::Claim(count) => Op::Claim {
                worker,
                count: *count,
            },
            Self::DoneAndClaim(picks, count) => Op::DoneAndClaim {
                done: picked(picks, tokens),
                worker,
                count: *count,
            },
            Self::Heartbeat(picks) => Op::Heartbeat(picked(picks, tokens)),
            Self::Done(picks) => Op::Done(picked(picks, tokens)),
            Self::Release(picks, at) => Op::Release {
                tokens: picked(picks, tokens),
                at: at.map(|millis| after(now, millis)),
            },
            Self::Fail(picks, at) => Op::Fail {
                tokens: picked(picks, tokens),
                reason: format!("failed in step {place}"),
                retry: at.map_or(Retry::Never, |millis| Retry::At(after(now, millis))),
            },
            Self::Cancel(key) => Op::Cancel(key_of(*key)),
            Self::Requeue(key) => Op::Requeue(key_of(*key)),
            Self::Forget(key) => Op::Forget(key_of(*key)),
            Self::Get(key) => Op::Get(key_of(*key)),
            Self::List(statuses, prefix, priority, limit) => Op::List(Query {
                statuses: statuses.clone(),
                prefix: ["", "k", "k1", "none"][usize::from(*prefix)].to_owned(),
                priority: priority.map(Priority),
                limit: *limit,
                after: None,
            }),
            Self::Declare(number, merge) => Op::Declare(Box::new(variant(*number, *merge))),
        })
    }
}
