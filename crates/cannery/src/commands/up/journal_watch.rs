//! The journals of a running process: opened at the start or as soon as their databases answer, let in to others, looked
//! after, shown on the dashboard.

mod command;
mod listing;
mod page;
mod samples;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_journal::metrics::{JournalMetrics, Measured};
use cannery_journal::{Engine as _, Health, Journal, Stats};
use cannery_runtime::{Clock, Tasks};
use cannery_serve::{Card, Check, Markup, Readiness, Section, State};
use futures::future::{BoxFuture, join_all, try_join_all};
use indicatif::HumanCount;
use tokio_util::sync::CancellationToken;

use super::Context;
use crate::config::Config;
use crate::config::journal::{DEFAULT_JOURNAL, EngineAddress};
use crate::failure::Failure;
use crate::journals::{self, Journals, Opened};
use listing::Listings;
use samples::Samples;

/// A database that is down must not keep the dashboard from starting: it is where a person looks.
const FIRST_LIMIT: Duration = Duration::from_secs(15);
const OPEN_AGAIN_AFTER: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// What is wrong with a journal at first.
const NOT_OPEN: &str = "not open yet";
/// How long a page waits for fresh numbers.
const FRESH_LIMIT: Duration = Duration::from_secs(1);

/// All journals of the configuration, and those that were declared by hand on this machine.
#[derive(Debug)]
pub(super) struct JournalWatch {
    clock: Clock,
    metrics: JournalMetrics,
    readiness: Readiness,
    /// The arguments that lead another command to the same place.
    same_place: String,
    desks: Vec<Desk>,
}

/// One journal, open or not.
#[derive(Debug)]
struct Desk {
    name: String,
    engine: EngineAddress,
    opened: Mutex<Option<Opened>>,
    /// Why it cannot be used.
    trouble: Mutex<Option<String>>,
    samples: Mutex<Samples>,
    listings: Listings,
}

impl JournalWatch {
    pub(super) fn new(
        config: &Config,
        metrics: JournalMetrics,
        readiness: &Readiness,
        context: &Context,
    ) -> Self {
        let configured = config.journals.iter();
        let mut places: BTreeMap<String, EngineAddress> = configured
            .map(|(name, settings)| (name.clone(), settings.engine.clone()))
            .collect();
        if config.journals[DEFAULT_JOURNAL].engine == EngineAddress::Embedded {
            // Those that were declared by hand are kept where `default` is.
            for name in journals::folders(config) {
                places.entry(name).or_insert(EngineAddress::Embedded);
            }
        }
        let desks = places.into_iter().map(|(name, engine)| {
            metrics.expect(&name);
            readiness.set(check_name(&name), Check::NotReady(NOT_OPEN.to_owned()));
            Desk {
                name,
                engine,
                opened: Mutex::default(),
                trouble: Mutex::new(Some(NOT_OPEN.to_owned())),
                samples: Mutex::default(),
                listings: Listings::default(),
            }
        });
        Self {
            desks: desks.collect(),
            clock: context.clock.clone(),
            metrics,
            readiness: readiness.clone(),
            same_place: context.same_place.clone(),
        }
    }

    /// The names of the journals, where they are kept, and whether they are open.
    pub(super) fn places(&self) -> impl Iterator<Item = (&str, &EngineAddress, bool)> {
        let open = |desk: &Desk| lock(&desk.opened).is_some();
        self.desks
            .iter()
            .map(move |desk| (desk.name.as_str(), &desk.engine, open(desk)))
    }

    /// A journal, once it is open.
    pub(super) fn journal(&self, name: &str) -> Option<Journal> {
        let desk = self.desks.iter().find(|desk| desk.name == name)?;
        lock(&desk.opened)
            .as_ref()
            .map(|opened| opened.journal.clone())
    }

    /// Opens what can be opened now. A database that does not answer is no failure: it is tried again. Anything else is.
    pub(super) async fn first(
        &self,
        journals: &Journals<'_>,
        tasks: &Tasks,
    ) -> Result<(), Failure> {
        let (local, databases): (Vec<_>, Vec<_>) = self
            .desks
            .iter()
            .partition(|desk| desk.engine == EngineAddress::Embedded);
        for desk in local {
            // Reading back a large journal takes its time.
            self.open(desk, journals, tasks).await?;
        }
        let opening = databases.into_iter().map(|desk| async move {
            let opening = self.open(desk, journals, tasks);
            match self.clock.timeout(FIRST_LIMIT, opening).await {
                Ok(Err(failure)) if failure.kind == "unavailable" => {
                    self.mark(desk, Some(failure.message));
                    Ok(())
                }
                Ok(outcome) => outcome,
                Err(late) => {
                    self.mark(desk, Some(late.to_string()));
                    Ok(())
                }
            }
        });
        try_join_all(opening).await.map(drop)
    }

    /// Tries on to open what is not open; never ends.
    pub(super) async fn keep_opening(&self, journals: &Journals<'_>, tasks: &Tasks) {
        let closed = self
            .desks
            .iter()
            .filter(|desk| lock(&desk.opened).is_none());
        join_all(closed.map(|desk| async move {
            while lock(&desk.opened).is_none() {
                self.clock.sleep(OPEN_AGAIN_AFTER).await;
                if let Err(failure) = self.open(desk, journals, tasks).await {
                    self.mark(desk, Some(failure.message));
                }
            }
        }))
        .await;
        std::future::pending::<()>().await;
    }

    async fn open(
        &self,
        desk: &Desk,
        journals: &Journals<'_>,
        tasks: &Tasks,
    ) -> Result<(), Failure> {
        let opened = journals.open_to_stay(&desk.name, tasks).await?;
        opened.serve(tasks).await;
        *lock(&desk.opened) = Some(opened);
        self.look(desk);
        Ok(())
    }

    /// Looks after the open journals until `stop`.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let looking = async {
            loop {
                self.clock.sleep(LOOK_EVERY).await;
                for desk in &self.desks {
                    self.look(desk);
                }
            }
        };
        let sampling = join_all(self.desks.iter().map(|desk| self.sample(desk)));
        tokio::select! {
            () = stop.cancelled() => {}
            () = looking => {}
            _ = sampling => {}
        }
    }

    /// Whether an open journal works.
    fn look(&self, desk: &Desk) {
        let health = lock(&desk.opened)
            .as_ref()
            .map(|opened| opened.journal.health());
        match health {
            None => {}
            Some(Health::Good | Health::Warn(_)) => self.mark(desk, None),
            Some(Health::Bad(reason)) => self.mark(desk, Some(reason)),
        }
    }

    /// Remembers whether a journal can be used, and tells about it when that changes.
    fn mark(&self, desk: &Desk, reason: Option<String>) {
        let before = std::mem::replace(&mut *lock(&desk.trouble), reason.clone());
        let check = match reason {
            Some(reason) => {
                if before.is_none_or(|before| before == NOT_OPEN) {
                    tracing::error!(
                        journal = desk.name,
                        reason,
                        "the journal cannot be used; trying on"
                    );
                }
                Check::NotReady(reason)
            }
            None => {
                if before.is_some_and(|before| before != NOT_OPEN) {
                    tracing::info!(journal = desk.name, "the journal can be used again");
                }
                Check::Ready
            }
        };
        self.readiness.set(check_name(&desk.name), check);
    }

    /// Closes all journals; the names of those that took longer than `limit`.
    pub(super) async fn close(&self, limit: Duration) -> Vec<String> {
        let closing = self.desks.iter().map(|desk| async {
            let opened = lock(&desk.opened).take()?;
            let closed = self.clock.timeout(limit, opened.close()).await;
            closed.is_err().then(|| check_name(&desk.name))
        });
        join_all(closing).await.into_iter().flatten().collect()
    }

    fn card(&self, desk: &Desk) -> Card {
        let seen = self.seen(desk);
        let mut card = Card::new(check_name(&desk.name), seen.state).detail("where", seen.place());
        if let Some(note) = &seen.note {
            card = card.note(note);
        }
        let Some(stats) = &seen.stats else {
            return card.value("?", "entries due");
        };
        let count = |count| HumanCount(count).to_string();
        card = card
            .value(count(stats.due()), "entries due")
            .detail("waiting", count(stats.waiting()))
            .detail("processing", count(stats.processing()))
            .detail("dead", count(stats.dead))
            .detail("done", count(stats.counts.done));
        match lock(&desk.samples).curve() {
            Some(values) => card.series(samples::TITLE, values),
            None => card,
        }
    }

    /// What is known of a journal at the moment, without asking anybody.
    fn seen(&self, desk: &Desk) -> Seen {
        let measured = self.metrics.journal(&desk.name);
        let stats = measured.as_ref().and_then(|journal| journal.last_stats());
        let trouble = lock(&desk.trouble).clone();
        let warning = measured
            .as_ref()
            .and_then(|journal| match journal.health() {
                Health::Warn(warning) => Some(warning),
                Health::Good | Health::Bad(_) => None,
            });
        let dead = stats.as_ref().map_or(0, |stats| stats.dead);
        let (state, note) = match (trouble, warning) {
            (Some(trouble), _) => (State::Bad, Some(trouble)),
            (None, Some(warning)) => (State::Warn, Some(warning)),
            (None, None) if dead > 0 => (State::Warn, Some(self.dead_note(&desk.name, dead))),
            (None, None) => {
                let idle = stats
                    .as_ref()
                    .is_none_or(|stats| stats.waiting() + stats.processing() == 0);
                (if idle { State::Idle } else { State::Good }, None)
            }
        };
        Seen {
            journal: lock(&desk.opened)
                .as_ref()
                .map(|opened| opened.journal.clone()),
            engine: desk.engine.clone(),
            measured,
            stats,
            state,
            note,
        }
    }

    fn dead_note(&self, name: &str, dead: u64) -> String {
        let entries = if dead == 1 {
            "entry was"
        } else {
            "entries were"
        };
        format!(
            "{} {entries} given up; see `cannery journal dead ls {name}{}`",
            HumanCount(dead),
            self.same_place
        )
    }

    async fn refreshed(&self) {
        // What is not fresh in time is shown as it was.
        self.clock
            .timeout(FRESH_LIMIT, self.metrics.refresh())
            .await
            .ok();
    }
}

/// A journal as it is shown.
struct Seen {
    journal: Option<Journal>,
    engine: EngineAddress,
    measured: Option<Arc<Measured>>,
    stats: Option<Arc<Stats>>,
    state: State,
    note: Option<String>,
}

impl Seen {
    fn place(&self) -> String {
        let usage = self.measured.as_ref().and_then(|journal| journal.usage());
        match usage {
            Some(usage) if usage.segments > 0 => {
                let files = if usage.segments == 1 { "file" } else { "files" };
                let bytes = indicatif::HumanBytes(usage.bytes);
                format!("{}, {bytes} in {} {files}", self.engine, usage.segments)
            }
            Some(_) | None => self.engine.to_string(),
        }
    }
}

fn check_name(journal: &str) -> String {
    format!("journal {journal}")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Section for JournalWatch {
    fn slug(&self) -> &str {
        "journals"
    }

    fn title(&self) -> &str {
        "Journals"
    }

    fn cards(&self) -> BoxFuture<'_, Vec<Card>> {
        Box::pin(async move {
            self.refreshed().await;
            self.desks.iter().map(|desk| self.card(desk)).collect()
        })
    }

    fn page(&self) -> Option<BoxFuture<'_, Markup>> {
        Some(Box::pin(self.whole_page()))
    }

    fn refresh(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.metrics.refresh())
    }
}
