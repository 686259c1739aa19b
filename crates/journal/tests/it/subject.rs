//! A journal under test, and short words for what the tests do with it.

use std::any::Any;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use cannery_journal::{
    Claimed, Data, Date, Declaration, Engine, Entry, Journal, Key, Lease, NewEntry, Page, Priority,
    Query, Status, Token,
};
use cannery_runtime::clock::SimulatedClock;

/// The lease of [`declared`] in milliseconds.
pub(crate) const LEASE: i64 = 1_000;

/// A journal on an engine whose time the test moves.
pub(crate) struct Subject {
    journal: Journal,
    pub(crate) clock: SimulatedClock,
    /// Whether the engine does by itself, on the simulated clock, what time brings. The model then has to do it at the
    /// same moments.
    pub(crate) sweeps_itself: bool,
    /// By how much `next_wake` may differ from the model's, in milliseconds.
    pub(crate) wake_slack: i64,
    /// What must live as long as the journal: a folder, a server.
    kept: Box<dyn Any + Send>,
}

impl Subject {
    pub(crate) fn new(engine: Arc<dyn Engine>, clock: SimulatedClock) -> Self {
        Self {
            journal: Journal::new("work", engine),
            clock,
            sweeps_itself: false,
            wake_slack: 0,
            kept: Box::new(()),
        }
    }

    /// Keeps something for as long as the journal.
    pub(crate) fn keeping(mut self, kept: impl Any + Send) -> Self {
        self.kept = Box::new(kept);
        self
    }

    /// The engine's date.
    pub(crate) fn now(&self) -> Date {
        Date::from(self.clock.clock().now())
    }

    /// The same journal, whose engine does by itself what time brings.
    pub(crate) fn sweeping_itself(mut self) -> Self {
        self.sweeps_itself = true;
        self
    }

    /// Lets time pass; what it brings has happened afterwards.
    pub(crate) async fn advance(&self, millis: i64) {
        self.pass(millis).await;
        self.journal.sweep().await.unwrap();
    }

    /// Lets time pass and nothing else.
    pub(crate) async fn pass(&self, millis: i64) {
        let by = Duration::from_millis(millis.try_into().unwrap());
        self.clock.advance(by).await;
    }

    /// Lets time pass up to a moment of [`at`].
    pub(crate) async fn advance_to(&self, millis: i64) {
        let from = self.now().as_millis();
        self.advance(at(millis).as_millis() - from).await;
    }

    pub(crate) async fn put(&self, entry: NewEntry) {
        self.journal.add_one(entry).await.unwrap();
    }

    /// What a claim of up to `count` hands out.
    pub(crate) async fn take(&self, count: u32) -> Vec<Entry<Data>> {
        let claimed = self.journal.claim("tester", count).await.unwrap();
        let Claimed { entries, .. } = claimed;
        assert!(entries.len() <= count as usize);
        for entry in &entries {
            assert_eq!(entry.status, Status::Processing);
            assert_eq!(lease(entry).start, self.now());
            assert!(entry.deadline > Some(self.now()) && entry.death.is_none());
        }
        entries
    }

    /// The keys of what a claim of up to `count` hands out.
    pub(crate) async fn take_keys(&self, count: u32) -> Vec<String> {
        keys(&self.take(count).await)
    }

    /// The one entry that can be handed out now.
    pub(crate) async fn take_one(&self) -> Entry<Data> {
        let mut entries = self.take(2).await;
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.remove(0)
    }

    /// The same as a token.
    pub(crate) async fn take_token(&self) -> Token {
        token(&self.take_one().await)
    }

    /// The one entry of a key, wherever it stands.
    pub(crate) async fn only(&self, text: &str) -> Entry<Data> {
        let mut entries = self.journal.get(key(text)).await.unwrap();
        assert_eq!(entries.len(), 1, "{entries:?}");
        entries.remove(0)
    }

    /// The entries of a key by status and data.
    pub(crate) async fn of(&self, text: &str) -> Vec<(Status, String)> {
        let entries = self.journal.get(key(text)).await.unwrap();
        entries
            .iter()
            .map(|entry| (entry.status, data_of(entry)))
            .collect()
    }

    /// All entries, page by page.
    pub(crate) async fn all(&self, query: Query) -> Vec<Entry<Data>> {
        let mut found = Vec::new();
        let mut after = query.after;
        loop {
            let Page { entries, next } = self
                .journal
                .list(Query {
                    after,
                    ..query.clone()
                })
                .await
                .unwrap();
            assert!(entries.len() <= query.limit as usize);
            found.extend(entries);
            let Some(next) = next else {
                return found;
            };
            assert!(after.is_none_or(|after| next > after), "pages go on");
            after = Some(next);
        }
    }

    /// Everything that can be seen from outside, to show that something changed nothing.
    pub(crate) async fn picture(&self) -> String {
        let stats = self.journal.stats().await.unwrap();
        format!("{:?}\n{stats:?}", self.all(Query::all()).await)
    }

    /// That the counts agree with what is there.
    pub(crate) async fn balances(&self) {
        let stats = self.journal.stats().await.unwrap();
        let there = self.all(Query::all()).await.len() as u64;
        assert_eq!(stats.counts.live(), there, "{stats:?}");
        assert_eq!(
            stats.waiting() + stats.processing() + stats.dead,
            there,
            "{stats:?}"
        );
    }
}

impl Deref for Subject {
    type Target = Journal;

    fn deref(&self) -> &Journal {
        &self.journal
    }
}

/// The clock of a test, at [`at`]`(0)`.
pub(crate) fn simulated() -> SimulatedClock {
    SimulatedClock::starting_at("2026-11-15T00:00:00Z".parse().unwrap())
}

/// So many milliseconds after a test began.
pub(crate) fn at(millis: i64) -> Date {
    let start = Date::from("2026-11-15T00:00:00Z".parse::<jiff::Timestamp>().unwrap());
    Date::from_millis(start.as_millis() + millis)
}

/// The declaration of most tests: leases of [`LEASE`], and the third time-out kills.
pub(crate) fn declared() -> Declaration {
    Declaration {
        lease: Duration::from_millis(1_000),
        timeouts_max: 2,
        ..Declaration::default()
    }
}

pub(crate) fn key(text: &str) -> Key {
    Key::new(text).unwrap()
}

/// An entry whose data is its key.
pub(crate) fn entry(text: &str) -> NewEntry {
    NewEntry::new(text, json(text))
}

/// A text as data.
pub(crate) fn json(text: &str) -> Data {
    Data::from_value(&text).unwrap()
}

pub(crate) fn keys(entries: &[Entry<Data>]) -> Vec<String> {
    entries
        .iter()
        .map(|entry| entry.key.as_str().to_owned())
        .collect()
}

/// The data of an entry, which is a text in these tests.
pub(crate) fn data_of(entry: &Entry<Data>) -> String {
    entry.data.to().unwrap()
}

pub(crate) fn lease(entry: &Entry<Data>) -> &Lease {
    entry.lease.as_ref().unwrap()
}

pub(crate) fn token(entry: &Entry<Data>) -> Token {
    lease(entry).token
}

/// The fields of an entry to add, in milliseconds after the test began.
pub(crate) trait Build: Sized {
    fn priority(self, priority: u8) -> Self;
    fn inserted(self, millis: i64) -> Self;
    fn process(self, millis: i64) -> Self;
    fn expires(self, millis: i64) -> Self;
    fn holding(self, text: &str) -> Self;
}

impl Build for NewEntry {
    fn priority(mut self, priority: u8) -> Self {
        self.priority = Some(Priority(priority));
        self
    }

    fn inserted(mut self, millis: i64) -> Self {
        self.insertion_date = Some(at(millis));
        self
    }

    fn process(mut self, millis: i64) -> Self {
        self.process_date = Some(at(millis));
        self
    }

    fn expires(mut self, millis: i64) -> Self {
        self.expiration_date = Some(at(millis));
        self
    }

    fn holding(mut self, text: &str) -> Self {
        self.data = Some(json(text));
        self
    }
}
