//! The specification written once more, in the plainest way: a list of entries that is searched from end to end. It
//! shares the words (dates, entries, replies) with the journal and none of its decisions.

use cannery_journal::{
    Add, Added, Beat, Cancelled, Claimed, Counts, Data, Date, Death, Declaration, Error, ErrorKind,
    Expiration, Fate, Key, Lease, Meta, Op, Priority, Reply, Retry, Standing, Token,
};

mod inspect;

const FIVE_MINUTES: i64 = 300_000;

pub(crate) struct Oracle {
    items: Vec<Item>,
    /// The last is in force; the version of the first is 1.
    declarations: Vec<Declaration>,
    counts: Counts,
    adds: u64,
    claims: u64,
}

#[derive(Clone)]
struct Item {
    number: u64,
    key: Key,
    meta: Meta,
    standing: Standing,
    data: Data,
}

fn later(date: Date, millis: u128) -> Date {
    Date::from_millis(date.as_millis() + i64::try_from(millis).unwrap())
}

impl Item {
    fn waits(&self) -> bool {
        self.standing == Standing::Waiting
    }

    fn lease(&self) -> Option<&Lease> {
        match &self.standing {
            Standing::Processing(lease) => Some(lease),
            _ => None,
        }
    }

    fn is_dead(&self) -> bool {
        matches!(self.standing, Standing::Dead(_))
    }

    fn has_expired(&self, now: Date) -> bool {
        self.meta.expiration.date().is_some_and(|date| now > date)
    }
}

/// How a claim ended without being done.
enum Back {
    TimedOut,
    Released(Option<Date>),
    Failed(String, Retry),
}

impl Oracle {
    pub(crate) fn new(declaration: Declaration) -> Self {
        Self {
            items: Vec::new(),
            declarations: vec![declaration],
            counts: Counts::default(),
            adds: 0,
            claims: 0,
        }
    }

    pub(crate) fn apply(&mut self, op: Op, now: Date) -> Result<Reply<Data>, Error> {
        let swept = self.sweep(now);
        Ok(match op {
            Op::Add(adds) => Reply::Added(adds.into_iter().map(|add| self.add(add, now)).collect()),
            Op::Claim { worker, count } => Reply::Claimed(self.claim(&worker, count, now)),
            Op::DoneAndClaim {
                done,
                worker,
                count,
            } => {
                let fates = done.iter().map(|token| self.done(token)).collect();
                Reply::DoneAndClaimed(fates, self.claim(&worker, count, now))
            }
            Op::Heartbeat(tokens) => {
                Reply::Beats(tokens.iter().map(|token| self.beat(token, now)).collect())
            }
            Op::Done(tokens) => Reply::Fates(tokens.iter().map(|token| self.done(token)).collect()),
            Op::Release { tokens, at } => self.end(&tokens, now, || Back::Released(at)),
            Op::Fail {
                tokens,
                reason,
                retry,
            } => self.end(&tokens, now, || Back::Failed(reason.clone(), retry)),
            Op::Cancel(key) => Reply::Cancelled(self.cancel(&key)),
            Op::Requeue(key) => Reply::Moved(self.requeue(&key, now)),
            Op::Forget(key) => {
                let before = self.items.len();
                self.items.retain(|item| item.key != key || !item.is_dead());
                let gone = (before - self.items.len()) as u64;
                self.counts.forgotten += gone;
                Reply::Moved(gone)
            }
            Op::Get(key) => {
                let mut all = self.listed();
                all.retain(|entry| entry.key == key);
                // The oldest first, where a key waits more than once.
                all.sort_by_key(|entry| (entry.status, entry.seq));
                Reply::Entries(all)
            }
            Op::List(query) => Reply::Page(self.page(&query)),
            Op::Stats => Reply::Stats(Box::new(self.stats(now))),
            Op::Sweep => Reply::Swept(swept),
            Op::Declare(new) => {
                let current = self.declarations.last().unwrap();
                if current.merge != new.merge && !self.items.is_empty() {
                    return Err(Error::new(
                        ErrorKind::Invalid,
                        "not while there are entries",
                    ));
                }
                if *current != *new {
                    self.declarations.push(*new);
                }
                Reply::Declared(self.version())
            }
        })
    }

    fn version(&self) -> u32 {
        u32::try_from(self.declarations.len()).unwrap()
    }

    fn merges(&self) -> bool {
        self.declarations.last().unwrap().merge
    }

    fn declared(&self, version: u32) -> &Declaration {
        &self.declarations[version as usize - 1]
    }

    fn deadline(&self, item: &Item) -> Option<Date> {
        let lease = self.declared(item.meta.version).lease;
        item.lease()
            .map(|held| later(held.start, lease.as_millis()))
    }

    /// What has expired counts as deleted, so it goes before the time-outs look for successors.
    fn sweep(&mut self, now: Date) -> u64 {
        let before = self.items.len();
        self.items
            .retain(|item| !item.waits() || !item.has_expired(now));
        let expired = (before - self.items.len()) as u64;
        self.counts.expired += expired;
        let late: Vec<u64> = self
            .items
            .iter()
            .filter(|item| self.deadline(item).is_some_and(|deadline| now > deadline))
            .map(|item| item.number)
            .collect();
        self.counts.timeouts += late.len() as u64;
        for number in &late {
            self.come_back(*number, &Back::TimedOut, now);
        }
        expired + late.len() as u64
    }

    fn add(&mut self, add: Add, now: Date) -> Added {
        self.counts.adds += 1;
        let latest = Date::from_millis(now.as_millis() + FIVE_MINUTES);
        let insertion = add.insertion.min(latest);
        self.counts.clamped += u64::from(add.insertion > latest);
        let (merges, version) = (self.merges(), self.version());
        let bound = self.declarations.last().unwrap().max_delay;
        // What was to be done at once is to be done at once, however wrong the clock of who added it.
        let process = if add.process == add.insertion {
            insertion
        } else {
            add.process
        };
        let waiting = self
            .items
            .iter_mut()
            .find(|item| merges && item.waits() && item.key == add.key && !item.has_expired(now));
        if let Some(item) = waiting {
            let meta = &mut item.meta;
            meta.expiration = later_of(meta.expiration, add.expiration);
            meta.priority = meta.priority.min(add.priority);
            let first = meta.arrived;
            let allowed = bound.map_or(process, |delay| {
                process.min(later(first, delay.as_millis()))
            });
            meta.process = meta.process.max(allowed);
            if insertion < meta.newest {
                self.counts.stale += 1;
                return Added::Stale;
            }
            (meta.newest, meta.timeouts, meta.version) = (insertion, 0, version);
            item.data = add.data;
            self.counts.merged += 1;
            return Added::Merged;
        }
        self.adds += 1;
        self.items.push(Item {
            number: self.adds,
            key: add.key,
            meta: Meta {
                insertion,
                newest: insertion,
                arrived: now,
                expiration: add.expiration,
                process,
                priority: add.priority,
                timeouts: 0,
                strikes: 0,
                version,
            },
            standing: Standing::Waiting,
            data: add.data,
        });
        // What has expired on arrival counts as deleted from the start.
        self.sweep(now);
        Added::Inserted
    }

    fn is_blocked(&self, item: &Item) -> bool {
        self.merges()
            && item.waits()
            && self
                .items
                .iter()
                .any(|other| other.key == item.key && other.lease().is_some())
    }

    fn claim(&mut self, worker: &str, count: u32, now: Date) -> Claimed<Data> {
        let mut due: Vec<(Priority, Date, u64)> = self
            .items
            .iter()
            .filter(|item| item.waits() && item.meta.process <= now && !self.is_blocked(item))
            .map(|item| (item.meta.priority, item.meta.process, item.number))
            .collect();
        due.sort_unstable();
        if due.iter().any(|(priority, ..)| priority.0 < 200) {
            due.retain(|(priority, ..)| priority.0 < 200);
        }
        due.truncate(count as usize);
        let mut entries = Vec::new();
        for (_, _, number) in due {
            self.claims += 1;
            self.counts.claims += 1;
            let token = Token {
                incarnation: 99,
                counter: self.claims,
                nonce: 0,
            };
            let place = self.place(number);
            self.items[place].standing = Standing::Processing(Box::new(Lease {
                token,
                start: now,
                worker: worker.into(),
            }));
            entries.push(self.shown(&self.items[place]));
        }
        let dates = self.items.iter().filter(|item| !self.is_blocked(item));
        let next_wake = dates
            .filter_map(|item| match &item.standing {
                Standing::Waiting => Some(item.meta.process),
                Standing::Processing(_) => self.deadline(item).map(|date| later(date, 1)),
                Standing::Dead(_) => None,
            })
            .min();
        Claimed { entries, next_wake }
    }

    fn place(&self, number: u64) -> usize {
        let place = self.items.iter().position(|item| item.number == number);
        place.unwrap()
    }

    fn held(&self, token: &Token) -> Option<u64> {
        self.items
            .iter()
            .find(|item| item.lease().is_some_and(|lease| lease.token == *token))
            .map(|item| item.number)
    }

    fn beat(&mut self, token: &Token, now: Date) -> Beat {
        let Some(number) = self.held(token) else {
            return Beat::Lost;
        };
        let place = self.place(number);
        if let Standing::Processing(lease) = &mut self.items[place].standing {
            lease.start = now;
        }
        Beat::Until(self.deadline(&self.items[place]).unwrap())
    }

    fn done(&mut self, token: &Token) -> Fate {
        let Some(number) = self.held(token) else {
            return Fate::Lost;
        };
        self.items.retain(|item| item.number != number);
        self.counts.done += 1;
        Fate::Done
    }

    fn end(&mut self, tokens: &[Token], now: Date, back: impl Fn() -> Back) -> Reply<Data> {
        let mut fates = Vec::new();
        for token in tokens {
            let Some(number) = self.held(token) else {
                fates.push(Fate::Lost);
                continue;
            };
            match back() {
                Back::Released(_) => self.counts.releases += 1,
                Back::Failed(..) => self.counts.failures += 1,
                Back::TimedOut => unreachable!("nobody asks for a time-out"),
            }
            fates.push(self.come_back(number, &back(), now));
        }
        Reply::Fates(fates)
    }

    fn come_back(&mut self, number: u64, back: &Back, now: Date) -> Fate {
        let mut old = self.items.remove(self.place(number));
        let limit = self.declared(old.meta.version).timeouts_max;
        let worker = old.lease().unwrap().worker.clone();
        let (at, blame) = match back {
            Back::TimedOut => (None, true),
            Back::Released(at) => (*at, false),
            Back::Failed(_, Retry::At(at)) => (Some(*at), true),
            Back::Failed(_, Retry::Never) => (None, true),
        };
        old.meta.process = old.meta.process.max(at.unwrap_or(old.meta.process));
        old.meta.timeouts += u8::from(blame);
        old.meta.strikes += u16::from(blame);
        old.standing = Standing::Waiting;
        let too_often = old.meta.timeouts > limit || old.meta.strikes > 4 * u16::from(limit);
        let never = matches!(back, Back::Failed(_, Retry::Never));
        if old.has_expired(now) {
            self.counts.expired += 1;
            self.blame_successor(&old);
            return Fate::Expired;
        }
        if never || (blame && too_often) {
            self.counts.died += 1;
            self.blame_successor(&old);
            let reason = match back {
                Back::Failed(reason, _) => reason.clone(),
                _ => format!(
                    "timed out: {} attempts in a row did not end, {} in all; the last was of worker `{worker}`",
                    old.meta.timeouts, old.meta.strikes
                ),
            };
            old.standing = Standing::Dead(Box::new(Death {
                date: now,
                reason: reason.into(),
            }));
            self.items.push(old);
            return Fate::Dead;
        }
        self.wait_again(old)
    }

    fn successor(&mut self, key: &Key) -> Option<&mut Item> {
        let merges = self.merges();
        self.items
            .iter_mut()
            .find(|item| merges && item.waits() && item.key == *key)
    }

    fn blame_successor(&mut self, old: &Item) {
        if let Some(next) = self.successor(&old.key) {
            next.meta.strikes = next.meta.strikes.max(old.meta.strikes);
        }
    }

    /// The entry waits, and is one with what waits already.
    fn wait_again(&mut self, old: Item) -> Fate {
        let Some(next) = self.successor(&old.key) else {
            self.items.push(old);
            return Fate::Waiting;
        };
        let next = next.clone();
        self.items.retain(|item| item.number != next.number);
        // Usually the old one was there first, but a person may have put back something older while it was processed.
        let first = if next.meta.arrived < old.meta.arrived {
            &next.meta
        } else {
            &old.meta
        };
        let bound = self.declared(next.meta.version).max_delay;
        let allowed = bound.map_or(next.meta.process, |delay| {
            next.meta
                .process
                .min(later(first.arrived, delay.as_millis()))
        });
        let newer = if next.meta.newest < old.meta.newest {
            &old
        } else {
            &next
        };
        let meta = Meta {
            insertion: first.insertion,
            newest: newer.meta.newest,
            arrived: first.arrived,
            expiration: later_of(old.meta.expiration, next.meta.expiration),
            process: old.meta.process.max(allowed),
            priority: old.meta.priority.min(next.meta.priority),
            timeouts: old.meta.timeouts.max(next.meta.timeouts),
            strikes: old.meta.strikes.max(next.meta.strikes),
            version: newer.meta.version,
        };
        let one = Item {
            meta,
            ..newer.clone()
        };
        self.items.push(one);
        self.counts.absorbed += 1;
        Fate::Absorbed
    }

    fn cancel(&mut self, key: &Key) -> Cancelled {
        let ours = |item: &&Item| item.key == *key;
        let waiting = self.items.iter().filter(ours).filter(|item| item.waits());
        let held = self.items.iter().filter(ours);
        let cancelled = Cancelled {
            waiting: waiting.count() as u64,
            processing: held.filter(|item| item.lease().is_some()).count() as u64,
        };
        self.items.retain(|item| item.key != *key || item.is_dead());
        self.counts.cancelled += cancelled.waiting + cancelled.processing;
        cancelled
    }

    fn requeue(&mut self, key: &Key, now: Date) -> u64 {
        let mut dead: Vec<Item> = self
            .items
            .extract_if(.., |item| item.key == *key && item.is_dead())
            .collect();
        dead.sort_by_key(|item| item.number);
        let count = dead.len() as u64;
        for mut item in dead {
            if item.has_expired(now) {
                item.meta.expiration = Expiration::NEVER;
            }
            (item.meta.timeouts, item.meta.strikes) = (0, 0);
            item.meta.process = item.meta.process.min(now).max(item.meta.insertion);
            item.standing = Standing::Waiting;
            self.wait_again(item);
        }
        count
    }
}

/// No date is later than any.
fn later_of(one: Expiration, other: Expiration) -> Expiration {
    match (one.date(), other.date()) {
        (Some(one), Some(other)) => Expiration::at(one.max(other)),
        _ => Expiration::NEVER,
    }
}
