//! One connection that hears from other processes, tells them, and polls once a second in case a word was lost.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_postgres::types::ToSql;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::Shared;
use super::fault::Fault;
use super::journal::{PgJournal, lock};
use super::marks::Position;
use super::pool::{ANSWER_LIMIT, Connection, Doing};
use super::row::{self, Place};
use crate::error::Error;

const CHANNEL: &str = "cannery_journal";
/// Nobody is told more often.
const TELL_EVERY: Duration = Duration::from_millis(5);
const POLL_EVERY: Duration = Duration::from_secs(1);
/// How often everything is looked at, in polls.
const TIDY_EVERY: u32 = 10;
/// A look that takes long comes less often: at most this share of the time is spent looking.
const TIDY_SHARE: u32 = 50;
const BACKOFF_MAX: Duration = Duration::from_secs(5);
/// PostgreSQL takes less than 8,000 bytes; more places than fit mean: look everywhere.
const PLACES_MAX: usize = 200;

/// What happened to a journal that other processes have to hear of.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct News {
    /// The earliest process date of each priority.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    due: BTreeMap<i16, i64>,
    /// It has another declaration.
    #[serde(default, skip_serializing_if = "is_false")]
    declared: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde hands it over so")]
fn is_false(flag: &bool) -> bool {
    !flag
}

#[derive(Debug, Serialize, Deserialize)]
struct Message {
    from: i64,
    journal: i32,
    news: News,
}

impl Shared {
    /// Others shall look at these places.
    pub(super) fn announce<'a>(&self, journal: i32, places: impl Iterator<Item = &'a Place>) {
        {
            let mut news = lock(&self.news);
            let due = &mut news.entry(journal).or_default().due;
            for place in places {
                let date = due.entry(place.priority).or_insert(place.position.process);
                *date = place.position.process.min(*date);
            }
        }
        self.news_waiting.notify_one();
    }

    pub(super) fn announce_declaration(&self, journal: i32) {
        lock(&self.news).entry(journal).or_default().declared = true;
        self.news_waiting.notify_one();
    }
}

/// Keeps a connection that listens until it is told to stop.
pub(super) async fn run(shared: Arc<Shared>, stop: CancellationToken) {
    let mut pause = Duration::from_millis(100);
    let mut first = true;
    while !stop.is_cancelled() {
        let error = tokio::select! {
            () = stop.cancelled() => return,
            ended = Listener::live(&shared, first, &mut pause) => ended,
        };
        first = false;
        shared.pool.failed(&error, Doing::Reading);
        tracing::warn!(%error, "the journal's listening connection ended; it is made again");
        tokio::select! {
            () = stop.cancelled() => return,
            () = shared.timer.sleep(shared.rng.jitter(pause)) => {}
        }
        pause = (pause * 2).min(BACKOFF_MAX);
    }
}

struct Listener<'a> {
    shared: &'a Arc<Shared>,
    connection: Connection,
    heard: mpsc::UnboundedReceiver<String>,
    polls: u32,
    /// Not tidied before this poll.
    tidy_at: u32,
    /// Beside the listening, which must not wait for it.
    tidying: Option<AbortOnDropHandle<Duration>>,
}

/// Looks after the journals that something happened to; says how long the looking took.
async fn tidy(shared: Arc<Shared>) -> Duration {
    let mut spent = Duration::ZERO;
    for journal in shared.open_journals() {
        if !journal.touched.load(Ordering::Relaxed) {
            continue;
        }
        match journal.tidy().await {
            Ok(looking) => spent += looking,
            Err(fault) => {
                journal.touched.store(true, Ordering::Relaxed);
                tracing::warn!(journal = journal.name(), error = %fault.error, "cannot tidy");
            }
        }
    }
    spent
}

impl<'a> Listener<'a> {
    /// One life of the connection; gives back why it ended.
    async fn live(shared: &'a Arc<Shared>, first: bool, pause: &mut Duration) -> Error {
        let (tell, heard) = mpsc::unbounded_channel();
        let hear = move |notification: tokio_postgres::Notification| {
            // Nobody listens any more when the connection is about to be dropped.
            tell.send(notification.payload().to_owned()).ok();
        };
        let connection = match Connection::open(shared.pool.address(), &shared.timer, hear).await {
            Ok(connection) => connection,
            Err(error) => return error,
        };
        let mut listener = Self {
            shared,
            connection,
            heard,
            polls: 0,
            tidy_at: TIDY_EVERY,
            tidying: None,
        };
        // A word that is lost in a crash is found by the poll, so nobody waits for the disk.
        let begin = format!("set synchronous_commit = off; listen {CHANNEL}");
        if let Err(error) = listener.connection.client().batch_execute(&begin).await {
            return error.into();
        }
        *pause = Duration::from_millis(100);
        if !first {
            listener.catch_up();
        }
        match listener.turn().await {
            Ok(()) => Error::new(
                crate::error::ErrorKind::Unavailable,
                "the server closed the connection",
            ),
            Err(fault) => fault.error,
        }
    }

    /// What was said while nobody listened is unknown.
    fn catch_up(&self) {
        for journal in self.shared.open_journals() {
            journal.marks().reset();
            journal.touched.store(true, Ordering::Relaxed);
            journal.ring();
        }
        self.shared.rearm();
    }

    async fn turn(&mut self) -> Result<(), Fault> {
        let timer = self.shared.timer.clone();
        let mut next_poll = timer.elapsed() + POLL_EVERY;
        let mut next_tell = timer.elapsed();
        let mut news = false;
        loop {
            let now = timer.elapsed();
            let until_poll = next_poll.saturating_sub(now);
            let until_tell = next_tell.saturating_sub(now);
            tokio::select! {
                payload = self.heard.recv() => match payload {
                    Some(payload) => self.hear(&payload).await?,
                    None => return Ok(()),
                },
                () = self.shared.news_waiting.notified() => news = true,
                () = timer.sleep(until_tell), if news => {
                    news = false;
                    next_tell = timer.elapsed() + TELL_EVERY;
                    self.shared.telling.store(true, Ordering::Release);
                    let told = self.tell().await;
                    self.shared.telling.store(false, Ordering::Release);
                    told?;
                }
                () = timer.sleep(until_poll) => {
                    next_poll = timer.elapsed() + POLL_EVERY;
                    self.tick().await?;
                }
            }
        }
    }

    async fn query(
        &mut self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<tokio_postgres::Row>, Fault> {
        let timer = self.shared.timer.clone();
        let connection = &mut self.connection;
        let work = async {
            let statement = connection.prepare(sql).await?;
            Ok::<_, Fault>(connection.client().query(&statement, params).await?)
        };
        timer
            .timeout(ANSWER_LIMIT, work)
            .await
            .map_err(Fault::timed_out)?
    }

    async fn tell(&mut self) -> Result<(), Fault> {
        let mut all = std::mem::take(&mut *lock(&self.shared.news)).into_iter();
        while let Some((journal, news)) = all.next() {
            let told = self.tell_of(journal, news.clone()).await;
            if told.is_err() {
                // The next connection tells it; what came in the meantime is newer.
                let mut waiting = lock(&self.shared.news);
                for (journal, news) in all.chain([(journal, news)]) {
                    waiting.entry(journal).or_insert(news);
                }
                drop(waiting);
                self.shared.news_waiting.notify_one();
                return told;
            }
        }
        Ok(())
    }

    async fn tell_of(&mut self, journal: i32, mut news: News) -> Result<(), Fault> {
        if news.due.len() > PLACES_MAX {
            let first = news.due.values().min().copied().unwrap_or(i64::MIN);
            news.due = BTreeMap::from([(EVERYTHING, first)]);
        }
        let message = Message {
            from: self.shared.incarnation,
            journal,
            news,
        };
        let payload = serde_json::to_string(&message)
            .map_err(|error| row::corrupt(format!("a message does not become JSON: {error}")))?;
        let notify = "select pg_notify($1::text, $2::text)";
        self.query(notify, &[&CHANNEL, &payload]).await.map(drop)
    }

    async fn hear(&mut self, payload: &str) -> Result<(), Fault> {
        // A newer program may say what this one does not understand; the poll finds out.
        let Ok(message) = serde_json::from_str::<Message>(payload) else {
            return Ok(());
        };
        if message.from == self.shared.incarnation {
            return Ok(());
        }
        let journals = self.shared.open_journals();
        let Some(journal) = journals.iter().find(|open| open.id == message.journal) else {
            return Ok(());
        };
        if message.news.declared {
            journal.reload().await?;
        }
        journal.hear(&message.news);
        Ok(())
    }

    /// Once a second: one statement, or a look at the journals that need one.
    async fn tick(&mut self) -> Result<(), Fault> {
        self.polls = self.polls.saturating_add(1);
        self.tidy_now_and_then().await;
        self.poll().await?;
        let pool = &self.shared.pool;
        pool.worked(Doing::Reading);
        if pool.should_probe() {
            // It ends by itself: its statement has a limit.
            tokio::spawn(Arc::clone(pool).probe());
        }
        Ok(())
    }

    /// Looking at everything takes its time in a great journal: it is done beside the rest, and not often then.
    async fn tidy_now_and_then(&mut self) {
        match &mut self.tidying {
            Some(tidying) if tidying.is_finished() => {
                let spent = tidying.await.unwrap_or_default().as_secs();
                let spent = u32::try_from(spent).unwrap_or(u32::MAX);
                let pause = TIDY_EVERY.max(spent.saturating_mul(TIDY_SHARE));
                self.tidy_at = self.polls.saturating_add(pause);
                self.tidying = None;
            }
            None if self.polls >= self.tidy_at => {
                let tidying = tokio::spawn(tidy(Arc::clone(self.shared)));
                self.tidying = Some(AbortOnDropHandle::new(tidying));
            }
            Some(_) | None => {}
        }
    }

    /// Looks at all open journals with one statement, which also shows that the connection lives.
    async fn poll(&mut self) -> Result<(), Fault> {
        let journals = self.shared.open_journals();
        let flights: Vec<_> = journals
            .iter()
            .map(|journal| journal.marks().begin())
            .collect();
        let sql = poll_sql(&journals);
        let now = self.shared.now();
        let counters: Vec<i64> = journals
            .iter()
            .map(|journal| journal.lowest_counter())
            .collect();
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![&now];
        for (flight, counter) in flights.iter().zip(&counters) {
            params.extend([
                &flight.priorities as &(dyn ToSql + Sync),
                &flight.dates,
                &flight.seqs,
                counter,
            ]);
        }
        let answer = self.query(&sql, &params).await;
        for (journal, flight) in journals.iter().zip(&flights) {
            match &answer {
                Ok(rows) => journal.polled(flight, rows)?,
                Err(_) => journal.marks().fail(flight),
            }
        }
        for (journal, version) in answer.as_deref().map_or(Vec::new(), versions) {
            let behind = journals
                .iter()
                .find(|open| open.id == journal && row::version(open.view().version) < version);
            if let Some(behind) = behind {
                behind.reload().await?;
            }
        }
        answer.map(drop)
    }
}

/// In the place of a priority: look at all of them.
const EVERYTHING: i16 = -1;

fn versions(rows: &[tokio_postgres::Row]) -> Vec<(i32, i32)> {
    rows.iter()
        .filter(|row| row.get::<_, Option<i32>>(6).is_some())
        .map(|row| (row.get(1), row.get(6)))
        .collect()
}

impl PgJournal {
    /// Another process said so.
    fn hear(&self, news: &News) {
        self.touched.store(true, Ordering::Relaxed);
        {
            let mut marks = self.marks();
            for (priority, date) in &news.due {
                if *priority == EVERYTHING {
                    marks.reset();
                } else {
                    marks.lower(*priority, Position::of(*date));
                }
            }
        }
        let now = self.shared.estimate();
        // A little early does no harm; the clocks are not quite the same.
        if news.due.values().any(|date| *date <= now.saturating_add(2)) {
            self.ring();
        }
        self.shared.rearm();
    }

    /// What the poll found of this journal.
    fn polled(
        &self,
        flight: &super::marks::Flight,
        rows: &[tokio_postgres::Row],
    ) -> Result<(), Fault> {
        let mut first = BTreeMap::new();
        let mut now = None;
        for row in rows {
            if row::cell::<Option<i32>>(row, 1)? != Some(self.id) {
                continue;
            }
            now = Some(row::cell::<i64>(row, 0)?);
            if let Some(place) = Place::read(row, 2)? {
                first.insert(place.priority, place.position);
            }
            if row::cell::<Option<bool>>(row, 5)? == Some(true) {
                self.touched.store(true, Ordering::Relaxed);
            }
        }
        let Some(now) = now else {
            self.marks().fail(flight);
            return Ok(());
        };
        self.shared.saw(now);
        let due = {
            let mut marks = self.marks();
            marks.finish(flight, &first, crate::date::Date::from_millis(now));
            marks.next_due()
        };
        if due.is_some_and(|due| due <= now) {
            self.touched.store(true, Ordering::Relaxed);
            self.ring();
        }
        self.shared.rearm();
        Ok(())
    }
}

/// Of each journal one row with its version and whether anything is processed, and one for each priority with its first
/// claimable entry: date, journal, priority, process date, number, busy, version.
fn poll_sql(journals: &[Arc<PgJournal>]) -> String {
    let mut sql = "with t as materialized (select coalesce($1::bigint, \
        floor(extract(epoch from statement_timestamp()) * 1000)::bigint) as now) \
        select t.now, null::int, null::smallint, null::bigint, null::bigint, null::boolean, \
        null::int from t"
        .to_owned();
    for (place, journal) in journals.iter().enumerate() {
        let view = journal.view();
        let (id, w, p) = (journal.id, &view.sql.waiting, &view.sql.processing);
        let at = 2 + place * 4;
        sql.push_str(&format!(
            " union all select t.now, {id}, null, null, null, \
                exists (select 1 from {p} where counter >= ${}::bigint), \
                (select version from journals where id = {id}) from t \
              union all select t.now, {id}, m.priority, x.process_date, x.seq, null, null \
              from t, unnest(${}::smallint[], ${}::bigint[], ${}::bigint[]) as m(priority, d, s) \
              cross join lateral (select w.process_date, w.seq from {w} w \
                where w.priority = m.priority and (w.process_date, w.seq) >= (m.d, m.s) \
                    and w.expiration >= (select now from t) and not {} \
                order by w.process_date, w.seq limit 1) x",
            at + 3,
            at,
            at + 1,
            at + 2,
            view.sql.blocked(),
        ));
    }
    sql
}
