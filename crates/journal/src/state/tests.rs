//! That a replay of what a ledger kept gives the same state: after a restart nothing is known but that.

use std::collections::BTreeSet;
use std::time::Duration;

use cannery_runtime::Rng;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use super::*;
use crate::add::Add;
use crate::data::Data;
use crate::date::Expiration;
use crate::entry::Query;
use crate::key::Key;
use crate::op::{Op, Reply, Retry};
use crate::token::{Token, TokenSource};

/// Data by the place of its record; a record is written once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Place(usize);

impl Handle for Place {
    fn data_len(&self) -> usize {
        1
    }
}

#[derive(Clone, Debug)]
enum Record {
    Put(Whole),
    Note(Effect),
}

/// A log in memory that knows which data is still referred to.
#[derive(Default)]
struct Log {
    records: Vec<Record>,
    live: BTreeSet<Place>,
}

impl Ledger<Place> for Log {
    fn put(&mut self, whole: &Whole, _data: &Data) -> Place {
        let place = Place(self.records.len());
        self.records.push(Record::Put(whole.clone()));
        self.live.insert(place);
        place
    }

    fn note(&mut self, effect: &Effect) {
        self.records.push(Record::Note(effect.clone()));
    }

    fn free(&mut self, data: &Place) {
        assert!(self.live.remove(data), "{data:?} was freed before");
    }
}

/// One request; tokens are counted from the last one handed out, dates from the moment.
#[derive(Clone, Debug)]
enum Step {
    Pass(i64),
    Add(Vec<(u8, u8, i64, i64, Option<i64>)>),
    Claim(u32),
    End(Ending, Vec<usize>),
    Cancel(u8),
    Requeue(u8),
    Forget(u8),
    Declare(u64),
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    Done,
    DoneAndClaim,
    Beat,
    Release,
    Fail,
    FailForGood,
}

fn step() -> impl Strategy<Value = Step> {
    let add = (
        0..3_u8,
        select(vec![0, 20, 200]),
        -20..20_i64,
        select(vec![0, 0, 30]),
        option::weighted(0.3, -1..120_i64),
    );
    let ending = select(vec![
        Ending::Done,
        Ending::DoneAndClaim,
        Ending::Beat,
        Ending::Release,
        Ending::Fail,
        Ending::Fail,
        Ending::FailForGood,
    ]);
    prop_oneof![
        4 => select(vec![1, 10, 49, 50, 51, 102]).prop_map(Step::Pass),
        5 => vec(add, 1..4).prop_map(Step::Add),
        4 => (1..4_u32).prop_map(Step::Claim),
        5 => (ending, vec(0..4_usize, 1..4)).prop_map(|(how, picks)| Step::End(how, picks)),
        1 => (0..3_u8).prop_map(Step::Cancel),
        2 => (0..3_u8).prop_map(Step::Requeue),
        1 => (0..3_u8).prop_map(Step::Forget),
        1 => (30..60_u64).prop_map(Step::Declare),
    ]
}

fn declared(merge: bool) -> Declaration {
    Declaration {
        lease: Duration::from_millis(50),
        timeouts_max: 1,
        merge,
        ..Declaration::default()
    }
}

fn key(number: u8) -> Key {
    Key::new(format!("k{number}")).unwrap()
}

impl Step {
    fn op(&self, now: Date, tokens: &[Token], merge: bool) -> Op {
        let after = |millis: i64| Date::from_millis(now.as_millis() + millis);
        match self {
            Self::Pass(_) => Op::Sweep,
            Self::Add(adds) => {
                let adds = adds.iter();
                let adds = adds.map(|(number, priority, insertion, process, expiration)| Add {
                    key: key(*number),
                    insertion: after(*insertion),
                    expiration: Expiration::from(expiration.map(after)),
                    priority: Priority(*priority),
                    process: after(*insertion + *process),
                    data: Data::null(),
                });
                Op::Add(adds.collect())
            }
            Self::Claim(count) => claim(*count),
            Self::End(how, picks) => {
                let latest = |pick: &usize| tokens.iter().rev().nth(*pick).copied();
                how.op(picks.iter().filter_map(latest).collect(), now)
            }
            Self::Cancel(number) => Op::Cancel(key(*number)),
            Self::Requeue(number) => Op::Requeue(key(*number)),
            Self::Forget(number) => Op::Forget(key(*number)),
            Self::Declare(lease) => Op::Declare(Box::new(Declaration {
                lease: Duration::from_millis(*lease),
                ..declared(merge)
            })),
        }
    }
}

impl Ending {
    fn op(self, tokens: Vec<Token>, now: Date) -> Op {
        let fail = |tokens, retry| Op::Fail {
            tokens,
            reason: "no luck".to_owned(),
            retry,
        };
        match self {
            Self::Done => Op::Done(tokens),
            Self::DoneAndClaim => Op::DoneAndClaim {
                done: tokens,
                worker: "w".to_owned(),
                count: 2,
            },
            Self::Beat => Op::Heartbeat(tokens),
            Self::Release => Op::Release { tokens, at: None },
            Self::Fail => fail(tokens, Retry::At(now)),
            Self::FailForGood => fail(tokens, Retry::Never),
        }
    }
}

fn claim(count: u32) -> Op {
    Op::Claim {
        worker: "w".to_owned(),
        count,
    }
}

/// A state with its log and its time.
struct Life {
    state: State<Place>,
    log: Log,
    tokens: TokenSource,
    handed_out: Vec<Token>,
    now: Date,
    merge: bool,
}

impl Life {
    fn new(merge: bool) -> Self {
        Self {
            state: State::new(declared(merge)),
            log: Log::default(),
            tokens: TokenSource::new(1, Rng::seeded(1)),
            handed_out: Vec::new(),
            now: Date::from_millis(1_000_000),
            merge,
        }
    }

    fn apply(&mut self, op: &Op) -> Reply<Place> {
        let reply = self
            .state
            .apply(op, self.now, &mut self.tokens, &mut self.log)
            .unwrap();
        if let Reply::Claimed(claimed) | Reply::DoneAndClaimed(_, claimed) = &reply {
            let leases = claimed
                .entries
                .iter()
                .filter_map(|entry| entry.lease.as_ref());
            self.handed_out.extend(leases.map(|lease| lease.token));
        }
        reply
    }

    fn live(&mut self, step: &Step) -> Reply<Place> {
        if let Step::Pass(millis) = step {
            self.now = Date::from_millis(self.now.as_millis() + millis);
        }
        let op = step.op(self.now, &self.handed_out, self.merge);
        self.apply(&op)
    }

    /// What the log knew after so many of its records, as a life that goes on from there.
    fn restarted(&self, records: usize, moment: &Moment) -> Self {
        let mut replay = Replay::new(declared(self.merge));
        let mut live = BTreeSet::new();
        for (place, record) in self.log.records[..records].iter().enumerate() {
            let freed = match record.clone() {
                Record::Put(whole) => {
                    live.insert(Place(place));
                    replay.restore(whole, Place(place))
                }
                Record::Note(effect) => replay.replay(effect),
            };
            if let Some(freed) = freed {
                assert!(live.remove(&freed), "{freed:?} was freed before");
            }
        }
        let mut tokens = TokenSource::new(1, Rng::seeded(1));
        for _ in 0..moment.handed_out {
            tokens.next_token();
        }
        Self {
            state: replay.finish(),
            log: Log {
                records: self.log.records[..records].to_vec(),
                live,
            },
            tokens,
            handed_out: self.handed_out[..moment.handed_out].to_vec(),
            now: moment.now,
            merge: self.merge,
        }
    }

    /// That the ledger frees what nobody refers to, and nothing else.
    fn data_is_accounted_for(&self) {
        let state = &self.state;
        let there = state.find(|_| true);
        let held: BTreeSet<Place> = there.iter().map(|id| *state.data(*id)).collect();
        assert_eq!(held.len(), there.len(), "two entries with the same data");
        assert_eq!(held, self.log.live);
    }
}

/// Everything that can be seen of a state without touching it.
#[derive(Debug, PartialEq)]
struct Picture {
    entries: Vec<Entry<Place>>,
    stats: crate::op::Stats,
    len: usize,
    next_seq: u64,
    next_sweep: Option<Date>,
    next_wake: Option<Date>,
    declarations: BTreeMap<u32, Declaration>,
}

fn picture(state: &mut State<Place>, now: Date) -> Picture {
    let entries = state.list(&Query::all()).entries;
    // Those that no entry has any more are not missed.
    let (last, _) = state.declaration();
    let is_used =
        |version: u32| version == last || entries.iter().any(|entry| entry.meta.version == version);
    let declarations = state.declarations().clone().into_iter();
    Picture {
        declarations: declarations
            .filter(|(version, _)| is_used(*version))
            .collect(),
        entries,
        stats: state.stats(now),
        len: state.len(),
        next_seq: state.next_seq(),
        next_sweep: state.next_sweep(),
        next_wake: state.next_wake(),
    }
}

/// Where a life stood after a step.
struct Moment {
    records: usize,
    handed_out: usize,
    now: Date,
    picture: Picture,
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn a_replay_gives_the_same_state(
        merge in prop::bool::weighted(0.8),
        steps in vec(step(), 1..40),
        more in vec(step(), 1..10),
    ) {
        let mut life = Life::new(merge);
        let mut moments = Vec::new();
        for step in &steps {
            life.live(step);
            life.data_is_accounted_for();
            moments.push(Moment {
                records: life.log.records.len(),
                handed_out: life.handed_out.len(),
                now: life.now,
                picture: picture(&mut life.state, life.now),
            });
        }
        for moment in &moments {
            let mut again = life.restarted(moment.records, moment);
            again.data_is_accounted_for();
            prop_assert_eq!(&picture(&mut again.state, moment.now), &moment.picture);
        }
        // The restored state also behaves the same.
        let last = moments.last().unwrap();
        let mut again = life.restarted(last.records, last);
        for step in &more {
            prop_assert_eq!(life.live(step), again.live(step));
            again.data_is_accounted_for();
            prop_assert_eq!(picture(&mut life.state, life.now), picture(&mut again.state, again.now));
        }
    }

    #[test]
    fn a_damaged_log_gives_a_state_that_holds_together(
        merge in prop::bool::weighted(0.8),
        steps in vec(step(), 1..40),
        holes in vec(any::<prop::sample::Index>(), 1..4),
    ) {
        let mut life = Life::new(merge);
        steps.iter().for_each(|step| drop(life.live(step)));
        prop_assume!(!life.log.records.is_empty());
        let holes: BTreeSet<usize> = holes.iter().map(|hole| hole.index(life.log.records.len())).collect();
        let mut replay = Replay::new(declared(merge));
        for (place, record) in life.log.records.iter().enumerate() {
            if holes.contains(&place) {
                continue;
            }
            match record.clone() {
                Record::Put(whole) => replay.restore(whole, Place(place)),
                Record::Note(effect) => replay.replay(effect),
            };
        }
        replay.reconcile(0);
        let state = replay.finish();
        prop_assert_eq!(state.counts().live(), state.len() as u64);
        let mut keys = BTreeSet::new();
        for entry in state.list(&Query::all()).entries {
            let place = match entry.status {
                Status::Processing => 'P',
                Status::Waiting | Status::Blocked => 'W',
                Status::Dead => continue,
            };
            prop_assert!(keys.insert((place, entry.key)) || !merge);
        }
    }
}

#[test]
fn a_replay_without_the_beginning_passes_over_what_it_does_not_know() {
    let mut life = Life::new(true);
    life.apply(&Step::Add(vec![(0, 20, 0, 0, None), (1, 20, 0, 0, None)]).op(life.now, &[], true));
    life.apply(&claim(2));
    let mut replay: Replay<Place> = Replay::new(declared(true));
    for record in &life.log.records {
        if let Record::Note(effect) = record {
            assert_eq!(replay.replay(effect.clone()), None);
        }
    }
    replay.reconcile(0);
    let state = replay.finish();
    assert!(state.is_empty());
    assert_eq!((state.counts().adds, state.counts().lost), (2, 2));
}
