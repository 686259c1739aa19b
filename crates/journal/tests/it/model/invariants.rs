//! The invariants of the specification, asserted on one engine while a random history plays.

use std::collections::HashSet;
use std::time::Duration;

use cannery_journal::{
    Beat, Claimed, Data, Date, Declaration, Entry, Fate, Key, Op, Query, Reply, Stats, Status,
    Token,
};
use proptest::collection::vec;

use super::steps::{self, Case, Step, after};
use super::{Cases, check};
use crate::subject::{Build as _, Subject, at, declared, entry, keys};

/// Looks at a journal before and after every step.
pub(crate) struct Watch<'a> {
    subject: &'a Subject,
    entries: Vec<Entry<Data>>,
    stats: Stats,
    /// All tokens that were handed out, in order.
    tokens: Vec<Token>,
    requeued: u64,
}

impl<'a> Watch<'a> {
    pub(crate) async fn new(subject: &'a Subject) -> Self {
        Self {
            subject,
            entries: subject.all(Query::all()).await,
            stats: subject.stats().await.unwrap(),
            tokens: Vec::new(),
            requeued: 0,
        }
    }

    pub(crate) async fn play(&mut self, case: &Case) {
        for (place, step) in case.steps.iter().enumerate() {
            match step.op(self.subject.now(), place, &self.tokens) {
                None => self.pass(step).await,
                Some(op) => self.call(op).await,
            }
            self.one_of_each_key();
            self.counts_balance();
        }
    }

    /// The entries and numbers of now; gives back those of before.
    async fn look(&mut self) -> (Vec<Entry<Data>>, Stats) {
        let entries = self.subject.all(Query::all()).await;
        let stats = self.subject.stats().await.unwrap();
        (
            std::mem::replace(&mut self.entries, entries),
            std::mem::replace(&mut self.stats, stats),
        )
    }

    async fn pass(&mut self, step: &Step) {
        let Step::Pass(millis) = step else {
            panic!("{step:?} is a request");
        };
        self.subject.advance(*millis).await;
        let now = self.subject.now();
        let (entries, stats) = self.look().await;
        let late = |entry: &&Entry<Data>| entry.deadline.is_some_and(|deadline| deadline < now);
        let timeouts = self.stats.counts.timeouts - stats.counts.timeouts;
        // Invariant 5: a time-out counts exactly once.
        assert_eq!(timeouts, entries.iter().filter(late).count() as u64);
        assert_eq!(self.entries.iter().filter(late).count(), 0);
        for entry in &self.entries {
            let waits = matches!(entry.status, Status::Waiting | Status::Blocked);
            assert!(!(waits && entry.meta.expiration.is_past(now)), "{entry:?}");
        }
    }

    async fn call(&mut self, op: Op) {
        let reply = match self.subject.engine().call(op.clone()).await {
            Ok(reply) => reply,
            Err(error) => {
                let before = self.look().await;
                assert_eq!((&before.0, &before.1), (&self.entries, &self.stats));
                assert!(matches!(op, Op::Declare(_)), "{op:?}: {error}");
                return;
            }
        };
        let (entries, stats) = self.look().await;
        match (&op, &reply) {
            (Op::Add(adds), _) => {
                let now = self.subject.now();
                let lasting = adds.iter().filter(|add| !add.expiration.is_past(now));
                lasting.for_each(|add| self.waits(&add.key));
            }
            (Op::Claim { count, .. }, Reply::Claimed(claimed)) => {
                self.claim_is_right(&entries, &[], *count, claimed);
            }
            (Op::DoneAndClaim { done, count, .. }, Reply::DoneAndClaimed(fates, claimed)) => {
                self.only_held_tokens_count(&entries, done, &lost_fates(fates));
                self.claim_is_right(&entries, done, *count, claimed);
            }
            (Op::Heartbeat(tokens), Reply::Beats(beats)) => {
                let lost: Vec<bool> = beats.iter().map(|beat| *beat == Beat::Lost).collect();
                let held = held_tokens(&entries);
                for (token, lost) in tokens.iter().zip(&lost) {
                    assert_eq!(held.contains(token), !lost, "{token}");
                }
                self.unless_all_lost(&lost, &entries, &stats);
            }
            (
                Op::Done(tokens) | Op::Release { tokens, .. } | Op::Fail { tokens, .. },
                Reply::Fates(fates),
            ) => {
                let lost = lost_fates(fates);
                self.only_held_tokens_count(&entries, tokens, &lost);
                self.unless_all_lost(&lost, &entries, &stats);
            }
            (Op::Requeue(_), Reply::Moved(count)) => self.requeued += count,
            _ => {}
        }
    }

    /// Invariant 1, for the moment: what was added waits.
    fn waits(&self, key: &Key) {
        let found = self
            .entries
            .iter()
            .filter(|entry| matches!(entry.status, Status::Waiting | Status::Blocked))
            .any(|entry| entry.key == *key);
        assert!(found, "`{key}` was added and does not wait");
    }

    /// Invariant 2: at most one waiting and one processing entry of a key.
    fn one_of_each_key(&self) {
        if !self.subject.declaration().merge {
            return;
        }
        let mut seen = HashSet::new();
        for entry in &self.entries {
            let place = match entry.status {
                Status::Waiting | Status::Blocked => 'W',
                Status::Processing => 'P',
                Status::Dead => continue,
            };
            assert!(seen.insert((place, &entry.key)), "two of {entry:?}");
        }
    }

    /// Invariant 3: what is handed out is due, unexpired, in order, the first that there is, and nobody else's. And the
    /// state of `next_wake`, which is invariant 7.
    fn claim_is_right(
        &mut self,
        before: &[Entry<Data>],
        done: &[Token],
        count: u32,
        claimed: &Claimed<Data>,
    ) {
        let now = self.subject.now();
        let is_done = |entry: &Entry<Data>| {
            let lease = entry.lease.as_ref();
            lease.is_some_and(|lease| done.contains(&lease.token))
        };
        let freed: Vec<&Key> = before
            .iter()
            .filter(|entry| is_done(entry))
            .map(|entry| &entry.key)
            .collect();
        let mut due: Vec<&Entry<Data>> = before
            .iter()
            .filter(|entry| match entry.status {
                Status::Waiting => true,
                Status::Blocked => freed.contains(&&entry.key),
                Status::Processing | Status::Dead => false,
            })
            .filter(|entry| entry.meta.process <= now && !entry.meta.expiration.is_past(now))
            .collect();
        due.sort_by_key(|entry| (entry.meta.priority, entry.meta.process, entry.seq));
        let fast = due.iter().any(|entry| !entry.meta.priority.is_slow());
        let expected: Vec<u64> = due
            .iter()
            .filter(|entry| !fast || !entry.meta.priority.is_slow())
            .take(count as usize)
            .map(|entry| entry.seq)
            .collect();
        let handed_out: Vec<u64> = claimed.entries.iter().map(|entry| entry.seq).collect();
        assert_eq!(handed_out, expected);
        for entry in &claimed.entries {
            let token = entry.lease.as_ref().unwrap().token;
            assert!(!self.tokens.contains(&token), "{token} came back");
            self.tokens.push(token);
        }
        self.wake_is_early_enough(claimed.next_wake);
    }

    fn wake_is_early_enough(&self, next_wake: Option<Date>) {
        let moments = self.entries.iter().filter_map(|entry| match entry.status {
            Status::Waiting => Some(entry.meta.process),
            Status::Processing => entry.deadline.map(|deadline| after(deadline, 1)),
            Status::Blocked | Status::Dead => None,
        });
        if let Some(first) = moments.min() {
            let latest = after(first, self.subject.wake_slack);
            assert!(
                next_wake.is_some_and(|wake| wake <= latest),
                "{next_wake:?} > {first}"
            );
        }
    }

    /// Invariant 4: a token counts while its lease lasts, once, and never again.
    fn only_held_tokens_count(&self, before: &[Entry<Data>], tokens: &[Token], lost: &[bool]) {
        let mut held = held_tokens(before);
        assert_eq!(tokens.len(), lost.len());
        for (token, lost) in tokens.iter().zip(lost) {
            assert_eq!(held.remove(token), !lost, "{token}");
        }
    }

    /// `LeaseLost` changes nothing.
    fn unless_all_lost(&self, lost: &[bool], before: &[Entry<Data>], stats: &Stats) {
        if lost.iter().all(|lost| *lost) {
            assert_eq!((before, stats), (&self.entries[..], &self.stats));
        }
    }

    /// Invariants 5 and 6: the counts agree with each other and with what is there.
    fn counts_balance(&self) {
        let counts = &self.stats.counts;
        let gone = counts.merged + counts.stale + counts.absorbed + counts.done;
        let ended = counts.expired + counts.cancelled + counts.forgotten;
        assert_eq!(
            counts.adds,
            gone + ended + self.entries.len() as u64,
            "{counts:?}"
        );
        let of = |statuses: &[Status]| {
            let there = self.entries.iter();
            there
                .filter(|entry| statuses.contains(&entry.status))
                .count() as u64
        };
        let dead = of(&[Status::Dead]);
        assert_eq!(counts.died, dead + counts.forgotten + self.requeued);
        assert_eq!(self.stats.dead, dead);
        assert_eq!(
            self.stats.waiting(),
            of(&[Status::Waiting, Status::Blocked])
        );
        assert_eq!(self.stats.processing(), of(&[Status::Processing]));
        assert_eq!(counts.lost, 0);
    }
}

fn held_tokens(entries: &[Entry<Data>]) -> HashSet<Token> {
    let leases = entries.iter().filter_map(|entry| entry.lease.as_ref());
    leases.map(|lease| lease.token).collect()
}

fn lost_fates(fates: &[Fate]) -> Vec<bool> {
    fates.iter().map(|fate| *fate == Fate::Lost).collect()
}

/// Invariant 7 as a worker lives it: who sleeps until `next_wake` misses nothing, and who sees none has nothing to wait
/// for.
pub(crate) fn next_wake_is_never_late(open: impl AsyncFn(Declaration) -> Subject, cases: Cases) {
    check(cases, &vec(steps::add(), 1..12), async |adds| {
        let work = open(declared()).await;
        let now = work.now();
        let adds = adds.iter().enumerate().map(|(n, add)| add.at(now, n));
        let reply = work.engine().call(Op::Add(adds.collect())).await;
        assert!(matches!(reply, Ok(Reply::Added(_))), "{reply:?}");
        // Nobody ever answers: in the end everything is dead or expired.
        for _ in 0..1_000 {
            let claimed = work.claim("w", 3).await.unwrap();
            let Some(wake) = claimed.next_wake else {
                let left = work.all(Query::all()).await;
                assert!(left.iter().all(|entry| entry.status == Status::Dead));
                return;
            };
            let wait = wake.as_millis() - work.now().as_millis();
            if wait > 0 {
                work.advance(wait - 1).await;
                assert_eq!(work.take_keys(1).await, [""; 0], "before {wake}");
                work.advance(1).await;
            }
        }
        panic!("the journal is never empty");
    });
}

/// Invariant 8: a key that is added again and again, always to be processed later, runs after `max_delay`.
pub(crate) fn no_key_starves(open: impl AsyncFn(Declaration) -> Subject, cases: Cases) {
    let rounds = vec((1..40_i64, 0..200_i64), 20..40);
    check(cases, &(0..300_u64, rounds), async |(max_delay, rounds)| {
        let work = open(Declaration {
            max_delay: Some(Duration::from_millis(max_delay)),
            ..declared()
        })
        .await;
        let mut first = None;
        let bound = i64::try_from(max_delay).unwrap();
        for (gap, delay) in rounds {
            let now = work.now().as_millis() - at(0).as_millis();
            work.put(entry("k").inserted(now).process(now + delay))
                .await;
            // The first date is its own; what comes later may put it off by `max_delay` at most.
            let latest = *first.get_or_insert(delay.max(bound));
            work.advance(gap).await;
            let taken = keys(&work.take(9).await);
            if taken == ["k"] {
                return;
            }
            assert!(now + gap < latest, "{} ms and not run", now + gap);
        }
    });
}
