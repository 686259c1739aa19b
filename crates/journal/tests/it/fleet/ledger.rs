//! Who held what, and when: from what the workers told, the rules that must have been kept.
//!
//! A lease is taken to be held from the moment its worker heard of it until the worker was about to end it, or until the
//! last deadline that it heard of. It is held for longer than that, so two that overlap are proof of a mistake.

use std::collections::{BTreeMap, HashMap};

use cannery_journal::{Beat, Counts, Date, Fate, Token};

use super::event::{End, Event, Held, Nuisance, What};

#[derive(Debug)]
struct Lease {
    key: String,
    heard: Date,
    deadline: Date,
    /// The first time that its worker was about to end it, and how often it was.
    ending: Option<Date>,
    endings: u32,
    /// A done was announced.
    doing: bool,
    /// How it ended, as the journal acknowledged.
    ended: Option<End>,
}

impl Lease {
    fn until(&self) -> Date {
        self.ending
            .map_or(self.deadline, |ending| ending.min(self.deadline))
    }
}

/// What is known of all leases.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    leases: HashMap<Token, Lease>,
    /// How many entries the claims that were never answered asked for.
    unanswered: u64,
    /// Leases of which a done was announced, and of which it was acknowledged.
    pub(crate) announced: u64,
    pub(crate) done: u64,
    /// Ends and heartbeats that came too late.
    pub(crate) lost: u64,
    pub(crate) failed: u64,
    pub(crate) disturbed: BTreeMap<Nuisance, u64>,
    wrong: Vec<String>,
}

impl Ledger {
    pub(crate) fn leases(&self) -> usize {
        self.leases.len()
    }

    /// What was wrong at once when it was heard.
    pub(crate) fn wrong(&self) -> &[String] {
        &self.wrong
    }

    pub(crate) fn hear(&mut self, Event { at, what }: Event) {
        match what {
            What::Claiming { count } => self.unanswered += u64::from(count),
            What::Claimed { count, leases } => {
                self.unanswered -= u64::from(count);
                for held in leases {
                    self.claimed(at, held);
                }
            }
            What::Beaten(beats) => {
                for (token, beat) in beats {
                    self.beaten(at, token, beat);
                }
            }
            What::Ending { end, tokens } => {
                for token in tokens {
                    let lease = self.leases.get_mut(&token).unwrap();
                    lease.ending.get_or_insert(at);
                    lease.endings += 1;
                    if end == End::Done && !lease.doing {
                        lease.doing = true;
                        self.announced += 1;
                    }
                }
            }
            What::Ended { end, fates } => {
                for (token, fate) in fates {
                    self.ended(at, token, end, fate);
                }
            }
            What::Failed(_) => self.failed += 1,
            What::Wrong(text) => self.wrong.push(text),
            What::Disturbed(nuisance) => *self.disturbed.entry(nuisance).or_default() += 1,
        }
    }

    fn claimed(&mut self, heard: Date, held: Held) {
        let lease = Lease {
            key: held.key,
            heard,
            deadline: held.deadline,
            ending: None,
            endings: 0,
            doing: false,
            ended: None,
        };
        if let Some(earlier) = self.leases.insert(held.token, lease) {
            let text = format!("token {} was given out twice: {earlier:?}", held.token);
            self.wrong.push(text);
        }
    }

    fn beaten(&mut self, at: Date, token: Token, beat: Beat) {
        let lease = self.leases.get_mut(&token).unwrap();
        match beat {
            Beat::Until(deadline) => lease.deadline = deadline,
            Beat::Lost => self.lost(at, token, 0),
        }
    }

    fn ended(&mut self, at: Date, token: Token, end: End, fate: Fate) {
        if fate == Fate::Lost {
            return self.lost(at, token, 1);
        }
        let lease = self.leases.get_mut(&token).unwrap();
        let fits = match end {
            End::Done => fate == Fate::Done,
            End::Release | End::Fail => matches!(fate, Fate::Waiting | Fate::Absorbed),
        };
        if lease.ended.is_some() || !fits {
            let text = format!("{end:?} of {token} answered {fate:?}: {lease:?}");
            self.wrong.push(text);
        }
        lease.ended = Some(end);
        self.done += u64::from(end == End::Done);
    }

    /// A lease may only be lost after its deadline, or by an end before the `asking` one whose answer was lost.
    fn lost(&mut self, at: Date, token: Token, asking: u32) {
        self.lost += 1;
        let lease = &self.leases[&token];
        if lease.ended.is_none() && lease.endings <= asking && at <= lease.deadline {
            let text = format!("{token} was lost before its deadline, at {at}: {lease:?}");
            self.wrong.push(text);
        }
    }

    /// All that was wrong. `adds` says of each key how often it may have been added.
    pub(crate) fn check(&self, adds: &BTreeMap<String, u64>) -> Vec<String> {
        let mut wrong = self.wrong.clone();
        let mut by_key: BTreeMap<&str, Vec<&Lease>> = BTreeMap::new();
        for lease in self.leases.values() {
            by_key.entry(&lease.key).or_default().push(lease);
        }
        for (key, leases) in &mut by_key {
            leases.sort_by_key(|lease| (lease.heard, lease.until()));
            wrong.extend(overlap(leases));
            if !adds.contains_key(*key) {
                wrong.push(format!("`{key}` comes from nowhere"));
            }
        }
        for (key, adds) in adds {
            let leases = by_key.get(key.as_str()).map_or(&[][..], Vec::as_slice);
            wrong.extend(times_done(key, *adds, leases));
        }
        wrong
    }

    /// What is wrong between what the journal counted and what the workers told, once nothing is left in it.
    pub(crate) fn check_counts(&self, counts: &Counts) -> Vec<String> {
        let told = self.leases.len() as u64;
        let ends = counts.done + counts.releases + counts.failures + counts.timeouts;
        let rules = [
            (counts.live() == 0, "adds do not balance"),
            (counts.claims == ends, "claims and ends do not balance"),
            (counts.claims >= told, "fewer claims than leases"),
            (
                counts.claims <= told + self.unanswered,
                "more claims than were asked for",
            ),
            (counts.done >= self.done, "fewer done than acknowledged"),
            (counts.done <= self.announced, "more done than announced"),
        ];
        let broken = rules.into_iter().filter(|(kept, _)| !kept);
        broken
            .map(|(_, rule)| {
                let (done, announced, unanswered) = (self.done, self.announced, self.unanswered);
                format!("{rule}: {told} leases, {unanswered} unanswered, {done} done, {announced} announced: {counts:?}")
            })
            .collect()
    }
}

fn overlap(leases: &[&Lease]) -> Vec<String> {
    let mut wrong = Vec::new();
    let mut last: Option<&Lease> = None;
    for lease in leases {
        if let Some(other) = last.filter(|other| lease.heard < other.until()) {
            wrong.push(format!("held twice at once: {other:?} and {lease:?}"));
        }
        last = last.into_iter().chain([*lease]).max_by_key(|l| l.until());
    }
    wrong
}

/// Every add is done once: acknowledged, or by a done whose answer was lost.
fn times_done(key: &str, adds: u64, leases: &[&Lease]) -> Vec<String> {
    let is_done = |lease: &&&Lease| lease.ended == Some(End::Done);
    let done = leases.iter().filter(is_done).count() as u64;
    let perhaps = leases.iter().any(|lease| lease.doing);
    let mut wrong = Vec::new();
    if !perhaps {
        wrong.push(format!("`{key}` is lost: {leases:?}"));
    }
    if done > adds {
        wrong.push(format!(
            "`{key}` was done {done} times, added {adds} times: {leases:?}"
        ));
    }
    let last_done = leases
        .iter()
        .rposition(|lease| lease.ended == Some(End::Done));
    if adds == 1 && last_done.is_some_and(|place| place + 1 < leases.len()) {
        wrong.push(format!("`{key}` came back after it was done: {leases:?}"));
    }
    wrong
}

#[cfg(test)]
mod tests;
