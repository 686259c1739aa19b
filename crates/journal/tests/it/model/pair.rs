//! Two journals that live through the same history and must give the same answers.
//!
//! Numbers of entries and tokens differ from engine to engine: entries are compared in order and without their number,
//! tokens by their place among all that were handed out.

use std::sync::Arc;

use cannery_journal::{
    Claimed, Data, Date, Engine, Entry, ErrorKind, Op, Query, Reply, Status, Token,
};

use super::oracle::Oracle;
use super::steps::{Case, Step, after};
use crate::subject::Subject;

/// Who answers.
pub(crate) enum Player {
    Engine(Arc<dyn Engine>),
    Oracle(Box<Oracle>),
}

struct Side {
    player: Player,
    /// All tokens that were handed out, in order.
    tokens: Vec<Token>,
}

type Answer = Result<Reply<Data>, ErrorKind>;

impl Side {
    /// Asks; a listing is read to its end, because pages may be cut anywhere.
    async fn ask(&mut self, op: Op, now: Date) -> Answer {
        let Op::List(mut query) = op else {
            return self.ask_once(op, now).await;
        };
        let mut all = Vec::new();
        loop {
            let Reply::Page(page) = self.ask_once(Op::List(query.clone()), now).await? else {
                panic!("a list is a page");
            };
            assert!(page.entries.len() <= query.limit as usize);
            all.extend(page.entries);
            let Some(next) = page.next else {
                return Ok(Reply::Entries(all));
            };
            assert!(query.after.is_none_or(|after| next > after), "pages go on");
            query.after = Some(next);
        }
    }

    async fn ask_once(&mut self, op: Op, now: Date) -> Answer {
        op.check().unwrap();
        let answer = match &mut self.player {
            Player::Engine(engine) => engine.call(op).await,
            Player::Oracle(oracle) => oracle.apply(op, now),
        };
        answer
            .map(|reply| self.plain(reply))
            .map_err(|error| error.kind)
    }

    /// The reply without what may differ.
    fn plain(&mut self, reply: Reply<Data>) -> Reply<Data> {
        match reply {
            Reply::Claimed(claimed) => Reply::Claimed(self.plain_claimed(claimed)),
            Reply::DoneAndClaimed(fates, claimed) => {
                Reply::DoneAndClaimed(fates, self.plain_claimed(claimed))
            }
            Reply::Entries(entries) => Reply::Entries(self.plain_entries(entries)),
            Reply::Page(mut page) => {
                page.entries = self.plain_entries(page.entries);
                Reply::Page(page)
            }
            other => other,
        }
    }

    fn plain_claimed(&mut self, mut claimed: Claimed<Data>) -> Claimed<Data> {
        for entry in &claimed.entries {
            let token = entry.lease.as_ref().expect("claimed").token;
            assert!(
                !self.tokens.contains(&token),
                "{token} was handed out twice"
            );
            self.tokens.push(token);
        }
        claimed.entries = self.plain_entries(claimed.entries);
        claimed
    }

    fn plain_entries(&self, mut entries: Vec<Entry<Data>>) -> Vec<Entry<Data>> {
        for entry in &mut entries {
            entry.seq = 0;
            if let Some(lease) = &mut entry.lease {
                let place = self.tokens.iter().position(|known| *known == lease.token);
                lease.token = Token {
                    incarnation: 0,
                    counter: place.expect("only a claim hands out tokens") as u64,
                    nonce: 0,
                };
            }
        }
        entries
    }
}

pub(crate) struct Pair<'a> {
    subject: &'a Subject,
    left: Side,
    right: Side,
}

impl<'a> Pair<'a> {
    pub(crate) fn new(subject: &'a Subject, other: Player) -> Self {
        let side = |player| Side {
            player,
            tokens: Vec::new(),
        };
        Self {
            subject,
            left: side(Player::Engine(subject.engine().clone())),
            right: side(other),
        }
    }

    pub(crate) async fn play(&mut self, case: &Case) {
        for (place, step) in case.steps.iter().enumerate() {
            match step {
                Step::Pass(millis) => self.pass(*millis).await,
                other => {
                    let now = self.subject.now();
                    let left = other.op(now, place, &self.left.tokens);
                    let right = other.op(now, place, &self.right.tokens);
                    let (left, right) = left.zip(right).expect("both or none");
                    self.compare(left, right, &format!("step {place}, {step:?}"))
                        .await
                        .ok();
                }
            }
            self.look(place, step).await;
        }
    }

    /// Asks both; gives back what both say.
    async fn compare(&mut self, left: Op, right: Op, what: &str) -> Answer {
        let now = self.subject.now();
        let mut left = self.left.ask(left, now).await;
        let mut right = self.right.ask(right, now).await;
        self.compare_wakes(take_wake(&mut left), take_wake(&mut right), what);
        assert_eq!(left, right, "{what}");
        right
    }

    fn compare_wakes(&self, left: Option<Date>, right: Option<Date>, what: &str) {
        assert_eq!(left.is_some(), right.is_some(), "next_wake after {what}");
        if let Some((left, right)) = left.zip(right) {
            let apart = (left.as_millis() - right.as_millis()).abs();
            assert!(
                apart <= self.subject.wake_slack,
                "next_wake is {left} instead of {right} after {what}"
            );
        }
    }

    /// All entries and all numbers.
    async fn look(&mut self, place: usize, step: &Step) {
        let what = format!("after step {place}, {step:?}");
        let list = || Op::List(Query::all());
        self.compare(list(), list(), &what).await.unwrap();
        self.compare(Op::Stats, Op::Stats, &what).await.unwrap();
    }

    /// Lets time pass. Where an engine sweeps by itself, both do at every moment at which there is something to do.
    async fn pass(&mut self, millis: i64) {
        let target = after(self.subject.now(), millis);
        while self.subject.sweeps_itself
            && let Some(moment) = self.next_sweep().await.filter(|moment| *moment < target)
        {
            self.pass_to(moment).await;
        }
        self.pass_to(target).await;
    }

    async fn pass_to(&mut self, moment: Date) {
        let now = self.subject.now();
        self.subject
            .pass(moment.as_millis() - now.as_millis())
            .await;
        let left = self.left.ask(Op::Sweep, moment).await.unwrap();
        let right = self.right.ask(Op::Sweep, moment).await.unwrap();
        if !self.subject.sweeps_itself {
            assert_eq!(left, right, "what a sweep did");
        }
    }

    /// When a lease runs out or an entry expires next.
    async fn next_sweep(&mut self) -> Option<Date> {
        let now = self.subject.now();
        let Ok(Reply::Entries(entries)) = self.right.ask(Op::List(Query::all()), now).await else {
            panic!("a list is of entries");
        };
        let ends = entries.iter().filter_map(|entry| match entry.status {
            Status::Processing => entry.deadline,
            Status::Waiting | Status::Blocked => entry.meta.expiration.date(),
            Status::Dead => None,
        });
        ends.min().map(|end| after(end, 1))
    }
}

fn take_wake(answer: &mut Answer) -> Option<Date> {
    match answer {
        Ok(Reply::Claimed(claimed) | Reply::DoneAndClaimed(_, claimed)) => claimed.next_wake.take(),
        _ => None,
    }
}
