//! From the disk to the mirrors. Each mirror has a list, hands and a breaker of its own: one that does not answer costs a trial now and
//! then, and takes nothing away from the others.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use cannery_formats::feed::ArchiveName;
use cannery_journal::worker::{Handler, Outcome, Work, Worker};
use cannery_journal::{Date, Journal};
use cannery_lake::{Breaker, Lake, Mirrors};
use futures::future::join_all;
use futures::stream::{self, StreamExt as _};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::monitor::{Task, TaskKind};
use super::shared::Shared;
use super::ship::{
    Pens, Ship, ShipError, Shipped, Upload, Uploads, from_list_key, lacking, list_key,
};
use crate::blocking::blocking;
use crate::schedule::Schedule;
use crate::turns::Turns;

/// For each mirror.
const SHIPS_AT_ONCE: usize = 4;
const PAUSE_FIRST: Duration = Duration::from_secs(1);
const PAUSE_MAX: Duration = Duration::from_secs(300);
/// A mirror that is not the right one any more is looked at by somebody else; so long its archives wait.
const UNCLEAR_PAUSE: Duration = Duration::from_secs(10);

/// The ids of the mirrors that are known to be the right ones.
pub type Cleared = BTreeSet<String>;

/// Where archives leave for the mirrors.
pub(super) struct Docks {
    shared: Arc<Shared>,
    mirrors: Mirrors,
    docks: Vec<Dock>,
    uploads: Arc<dyn Uploads>,
    pens: Pens,
    cleared: Option<watch::Receiver<Cleared>>,
    /// Why the last archive did not get into a store, until one does.
    troubles: Mutex<BTreeMap<String, String>>,
}

/// Where archives leave for one mirror.
struct Dock {
    lake: Lake,
    schedule: Schedule,
    breaker: Breaker,
    turns: Turns,
}

impl Docks {
    /// One for each mirror, with its list.
    pub(super) fn new(
        shared: Arc<Shared>,
        mirrors: Mirrors,
        journals: Vec<Journal>,
        uploads: Arc<dyn Uploads>,
        cleared: Option<watch::Receiver<Cleared>>,
    ) -> Self {
        let docks = mirrors.iter().zip(journals).map(|(lake, journal)| Dock {
            lake: lake.clone(),
            schedule: Schedule::new(journal, &shared.clock, &shared.rng),
            breaker: Breaker::new(shared.clock.clone(), shared.rng.clone()),
            turns: Turns::default(),
        });
        Self {
            docks: docks.collect(),
            shared,
            mirrors,
            uploads,
            pens: Pens::default(),
            cleared,
            troubles: Mutex::default(),
        }
    }

    /// Puts an archive on every list.
    pub(super) async fn list(&self, name: &ArchiveName) {
        self.shared.monitor.waits(name);
        for dock in &self.docks {
            dock.schedule.add(&list_key(name)).await;
        }
    }

    /// Puts an archive on every list, to be shipped at once: what was planned before may be for a time that a wrong clock showed.
    pub(super) async fn list_anew(&self, name: &ArchiveName) {
        self.shared.monitor.waits(name);
        for dock in &self.docks {
            dock.schedule.add_anew(&list_key(name)).await;
        }
    }

    /// Ships what the lists say, until `ending`.
    pub(super) async fn ship_listed(self: Arc<Self>, ending: CancellationToken) {
        let all = (0..self.docks.len()).map(|at| {
            let hand = Hand {
                docks: Arc::clone(&self),
                at,
            };
            hand.work(ending.clone())
        });
        join_all(all).await;
    }

    /// What is shipped before a mirror is known may go to somebody else's.
    async fn until_cleared(&self, lake: &Lake) {
        if let Some(cleared) = &self.cleared {
            let mut cleared = cleared.clone();
            let is_cleared = cleared.wait_for(|cleared| cleared.contains(lake.id()));
            if is_cleared.await.is_err() {
                // Whoever would say it is gone.
                std::future::pending::<()>().await;
            }
        }
    }

    fn is_cleared(&self, lake: &Lake) -> bool {
        let cleared = self.cleared.as_ref();
        cleared.is_none_or(|cleared| cleared.borrow().contains(lake.id()))
    }

    /// The stores that these archives are not in, each with what it said last, if it said something.
    pub(super) async fn lacking(
        &self,
        archives: &[ArchiveName],
    ) -> io::Result<BTreeMap<String, Option<String>>> {
        let (depot, mirrors) = (self.shared.depot.clone(), self.mirrors.clone());
        let archives = archives.to_vec();
        let lacking = blocking(move || {
            let archives = archives.iter();
            let stores = archives.flat_map(|name| lacking(&depot, name, &mirrors));
            Ok(stores.collect::<BTreeSet<_>>())
        });
        let lacking = lacking.await?;
        let troubles = self.troubles();
        let said = |id: String| (id.clone(), troubles.get(&id).cloned());
        Ok(lacking.into_iter().map(said).collect())
    }

    fn troubles(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.troubles.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ships one archive to one mirror; says why not.
    async fn ship(&self, name: &ArchiveName, lake: &Lake) -> Result<(), ShipError> {
        let shipped = self.try_to_ship(name, lake).await;
        let id = lake.id().to_owned();
        match &shipped {
            Ok(()) => drop(self.troubles().remove(&id)),
            Err(error) => drop(self.troubles().insert(id, error.to_string())),
        }
        shipped
    }

    async fn try_to_ship(&self, name: &ArchiveName, lake: &Lake) -> Result<(), ShipError> {
        let told = |name: &ArchiveName, store: &str, uploaded: Result<Upload, &ShipError>| {
            self.remember_upload(name, store, uploaded);
        };
        let ship = Ship {
            depot: &self.shared.depot,
            mirrors: &self.mirrors,
            pens: &self.pens,
            uploads: &*self.uploads,
            told: &told,
        };
        match ship.ship(name, lake).await? {
            Shipped::Everywhere => self.shared.monitor.shipped(name),
            Shipped::Waits => {}
            Shipped::Again(stores) => {
                tracing::warn!(archive = %name, ?stores, "not there any more, and shipped again");
                let docks = self.docks.iter();
                for dock in docks.filter(|dock| stores.iter().any(|id| id == dock.lake.id())) {
                    dock.schedule.add_anew(&list_key(name)).await;
                }
            }
        }
        Ok(())
    }

    fn remember_upload(
        &self,
        name: &ArchiveName,
        store: &str,
        uploaded: Result<Upload, &ShipError>,
    ) {
        if uploaded.is_ok() {
            tracing::info!(archive = %name, store, "uploaded");
        }
        let did = match uploaded {
            Ok(Upload::Stored) => format!("stored {name}"),
            Ok(Upload::Unwanted) => format!("removed {name} again: the hour was deleted"),
            Err(error) => error.to_string(),
        };
        let task = Task {
            kind: TaskKind::Upload,
            at: self.shared.clock.now(),
            hour: name.hour,
            store: Some(store.to_owned()),
            ok: uploaded.is_ok(),
            did: vec![did],
        };
        self.shared.monitor.task(&name.feed, task);
    }

    /// Ships everything to every mirror, for as long as it takes: also what is packed before `packed` says that it is all.
    pub(super) async fn flush(&self, packed: &watch::Receiver<bool>) {
        let all = self.docks.iter();
        let all = all.map(|dock| self.flush_to(dock, packed.clone()));
        join_all(all).await;
    }

    async fn flush_to(&self, dock: &Dock, mut packed: watch::Receiver<bool>) {
        loop {
            self.until_cleared(&dock.lake).await;
            let is_all = *packed.borrow_and_update();
            if self.ship_waiting(&dock.lake).await && is_all {
                return;
            }
            tokio::select! {
                () = self.shared.clock.sleep(PAUSE_FIRST) => {}
                Ok(()) = packed.changed() => {}
            }
        }
    }

    /// Ships what waits to one mirror; whether all of it is there.
    async fn ship_waiting(&self, lake: &Lake) -> bool {
        let Some(waiting) = self.waiting().await else {
            return false;
        };
        let ships: Vec<_> = waiting.iter().map(|name| self.ship(name, lake)).collect();
        let shipped: Vec<Result<(), ShipError>> = stream::iter(ships)
            .buffer_unordered(SHIPS_AT_ONCE)
            .collect()
            .await;
        for error in shipped.iter().filter_map(|shipped| shipped.as_ref().err()) {
            tracing::warn!(%error, "not shipped yet; trying on");
        }
        shipped.iter().all(Result::is_ok)
    }

    /// The archives that wait for being shipped; nothing when the disk does not say.
    pub(super) async fn waiting(&self) -> Option<Vec<ArchiveName>> {
        let depot = self.shared.depot.clone();
        match blocking(move || depot.waiting()).await {
            Ok(waiting) => Some(waiting),
            Err(error) => {
                tracing::warn!(%error, "cannot see which archives wait for being shipped; trying on");
                None
            }
        }
    }

    fn pause(&self, work: &Work) -> Duration {
        let age = Date::from(self.shared.clock.now()).since(work.entry.meta.arrived);
        // As long again as it has been tried already.
        let ceiling = age.clamp(PAUSE_FIRST, PAUSE_MAX);
        ceiling / 2 + self.shared.rng.jitter(ceiling / 2)
    }
}

/// Ships the archives of the list of one mirror.
#[derive(Clone)]
struct Hand {
    docks: Arc<Docks>,
    at: usize,
}

impl Hand {
    fn dock(&self) -> &Dock {
        &self.docks.docks[self.at]
    }

    async fn work(self, ending: CancellationToken) {
        tokio::select! {
            () = ending.cancelled() => return,
            () = self.docks.until_cleared(&self.dock().lake) => {}
        }
        let (clock, rng) = (
            self.docks.shared.clock.clone(),
            self.docks.shared.rng.clone(),
        );
        let [first, spare] = self.dock().schedule.lists().map(|list| {
            let worker = Worker::new(list, "feeds", clock.clone(), rng.clone());
            let worker = worker.concurrency(SHIPS_AT_ONCE).grace(Duration::ZERO);
            worker.run(self.clone(), ending.clone())
        });
        let first = async {
            let summary = first.await;
            if let Some(error) = summary.error {
                let store = self.dock().lake.id();
                tracing::error!(store, %error, "a journal of feeds cannot be used any more; archives are shipped all the same");
                self.list_in_memory().await;
            }
        };
        tokio::join!(first, spare);
    }

    /// Everything that waits is shipped by the list that needs no disk.
    async fn list_in_memory(&self) {
        for name in self.docks.waiting().await.unwrap_or_default() {
            let schedule = &self.dock().schedule;
            schedule.add_to_spare(&list_key(&name)).await;
        }
    }

    fn later(&self, pause: Duration) -> Outcome {
        let now = Date::from(self.docks.shared.clock.now());
        let at = Some(now.plus(pause));
        Outcome::Release { at }
    }

    /// Not to be woken all at once.
    fn spread(&self, pause: Duration) -> Duration {
        pause + self.docks.shared.rng.jitter(pause / 2)
    }
}

#[async_trait]
impl Handler for Hand {
    async fn handle(&self, work: Work) -> Outcome {
        let (docks, dock) = (&self.docks, self.dock());
        let Some(name) = from_list_key(work.entry.key.as_str()) else {
            let reason = "not the key of an archive".to_owned();
            return Outcome::Dead { reason };
        };
        let Some(_turn) = dock.turns.take(work.entry.key.as_str()) else {
            // The lease was lost and the work goes on: whoever does it will end it.
            return self.later(PAUSE_FIRST);
        };
        if !docks.is_cleared(&dock.lake) {
            return self.later(self.spread(UNCLEAR_PAUSE));
        }
        let pass = match dock.breaker.ask() {
            Ok(pass) => pass,
            Err(pause) => return self.later(self.spread(pause)),
        };
        let shipped = tokio::select! {
            shipped = docks.ship(&name, &dock.lake) => shipped,
            () = work.stop.cancelled() => return Outcome::Release { at: None },
        };
        match shipped {
            Ok(()) => {
                pass.succeeded();
                Outcome::Done
            }
            Err(error) => {
                let pause = docks.pause(&work);
                tracing::warn!(%error, ?pause, "not shipped yet; trying on");
                match error.is_of_the_store() {
                    true => pass.failed(),
                    false => drop(pass),
                }
                self.later(pause)
            }
        }
    }
}
