//! The archive of a running process on the dashboard: buckets, what stages did, files, measurements, and what was bad.
//!
//! Everything that is shown came from anybody, and is escaped, cut and counted. What the pages of the archive as a whole show is
//! read in the background, while somebody looks (`snapshot.rs`); a page about one thing asks for it, for a bounded time. The
//! databases are opened once more for the pages alone, so that nobody who looks holds up a stage.
//!
//! All audiences see the same: measurements are shown as they are in the archive, which is sanitised; what is not (reports,
//! cans, quarantined pieces, hashes of them) is never shown, only where it is.

mod bad;
mod buckets;
mod files;
mod measurement;
mod runs;
mod snapshot;

use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_catalog::Catalog;
use cannery_formats::archive::Generation;
use cannery_formats::{BucketDate, Uid};
use cannery_journal::Journal;
use cannery_runtime::Clock;
use cannery_serve::{Address, Answer, Asked, Card, Markup, Panel, Section, State as Condition};
use cannery_state::State;
use futures::future::BoxFuture;
use jiff::Timestamp;
use tokio::sync::{Semaphore, watch};
use tokio_util::sync::CancellationToken;

use super::Context;
use super::lake_watch::LakeWatch;
use crate::config::Config;
use crate::config::pipeline::Stores;
use crate::lakes::StageLakes;
use crate::pipeline::Recipe;
use snapshot::{Snapshot, Wanted};

const SLUG: &str = "archive";
/// How long a page waits for a database or the lake.
const LIMIT: Duration = Duration::from_secs(5);
/// So many pages ask at once; more wait, within the same limit.
const ASKING_MAX: usize = 4;
/// So many measurements are in memory at once.
const READING_MAX: usize = 2;
/// What could not be opened is tried again.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// How long a page waits for the first look.
const FIRST_LOOK: Duration = Duration::from_secs(2);

const LOOK_EVERY: Duration = Duration::from_millis(20);
const NOT_YET: &str = "it is not open yet";

type JournalNow = Box<dyn Fn() -> Option<Journal> + Send + Sync>;

/// The archive, as far as pages show it.
pub(super) struct ArchiveWatch {
    clock: Clock,
    catalog_at: String,
    state_at: String,
    lakes: Arc<LakeWatch>,
    stores: Stores,
    journal: JournalNow,
    ours: Generation,
    same_place: String,
    /// How long reports are gathered at most.
    debounce: Duration,
    catalog: Mutex<Opened<Catalog>>,
    state: Mutex<Opened<State>>,
    snapshot: watch::Sender<Arc<Snapshot>>,
    wanted: Wanted,
    asking: Semaphore,
    reading: Semaphore,
}

/// A database, or why it is not open; nothing before that was tried.
type Opened<T> = Option<Result<T, String>>;

impl ArchiveWatch {
    /// Nothing when the pipeline is turned off.
    pub(super) fn new(
        config: &Config,
        recipe: &Recipe,
        lakes: &Arc<LakeWatch>,
        journal: impl Fn() -> Option<Journal> + Send + Sync + 'static,
        context: &Context,
    ) -> Option<Arc<Self>> {
        if config.pipeline.inputs.is_empty() {
            return None;
        }
        Some(Arc::new(Self {
            clock: context.clock.clone(),
            catalog_at: config.catalog.address(),
            state_at: config.state.address(),
            lakes: Arc::clone(lakes),
            stores: config.pipeline.storage.clone(),
            journal: Box::new(journal),
            ours: recipe.generation(),
            same_place: context.same_place.clone(),
            debounce: config.pipeline.debounce.0,
            catalog: Mutex::new(None),
            state: Mutex::new(None),
            snapshot: watch::Sender::new(Arc::default()),
            wanted: Wanted::default(),
            asking: Semaphore::new(ASKING_MAX),
            reading: Semaphore::new(READING_MAX),
        }))
    }

    /// Where cans and archives are.
    fn stage_lakes(&self) -> StageLakes {
        StageLakes::of(&self.stores, self.lakes.mirrors())
    }

    /// Opens the databases, however late they answer, and reads what somebody looks at, until `stop`.
    pub(super) async fn run(self: Arc<Self>, stop: CancellationToken) {
        let work = async {
            let reading = async {
                self.clock.timeout(FIRST_LOOK, self.tried()).await.ok();
                self.keep_reading().await;
            };
            tokio::join!(self.open_catalog(), self.open_state(), reading);
        };
        tokio::select! {
            () = stop.cancelled() => {}
            () = work => {}
        }
        let (catalog, state) = (self.catalog(), self.state());
        if let Ok(catalog) = catalog {
            catalog.close().await;
        }
        if let Ok(state) = state {
            state.close().await;
        }
    }

    async fn open_catalog(&self) {
        loop {
            let opened = Catalog::open(&self.catalog_at, self.clock.clone()).await;
            let opened = opened.map_err(|error| error.to_string());
            let is_open = opened.is_ok();
            *lock(&self.catalog) = Some(opened);
            if is_open {
                return;
            }
            self.clock.sleep(AGAIN_AFTER).await;
        }
    }

    async fn open_state(&self) {
        loop {
            let opened = State::open(&self.state_at, self.clock.clone()).await;
            let opened = opened.map_err(|error| error.to_string());
            let is_open = opened.is_ok();
            *lock(&self.state) = Some(opened);
            if is_open {
                return;
            }
            self.clock.sleep(AGAIN_AFTER).await;
        }
    }

    /// Waits until it was tried to open both databases.
    async fn tried(&self) {
        while lock(&self.catalog).is_none() || lock(&self.state).is_none() {
            self.clock.sleep(LOOK_EVERY).await;
        }
    }

    fn catalog(&self) -> Result<Catalog, String> {
        let opened = lock(&self.catalog).clone();
        let opened = opened.unwrap_or_else(|| Err(NOT_YET.to_owned()));
        opened.map_err(|why| format!("the catalog cannot be asked: {why}"))
    }

    fn state(&self) -> Result<State, String> {
        let opened = lock(&self.state).clone();
        let opened = opened.unwrap_or_else(|| Err(NOT_YET.to_owned()));
        opened.map_err(|why| format!("the history cannot be asked: {why}"))
    }

    /// The answer, or why there is none in time.
    async fn ask<T, E: Display>(
        &self,
        whom: &str,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, String> {
        let asking = async {
            let _turn = self.asking.acquire().await.map_err(|why| why.to_string())?;
            work.await
                .map_err(|error| format!("{whom} cannot be asked: {error}"))
        };
        match self.clock.timeout(LIMIT, asking).await {
            Ok(answer) => answer,
            Err(_) => Err(format!(
                "{whom} did not answer within {} seconds; the page tries again",
                LIMIT.as_secs()
            )),
        }
    }

    /// What is known, and from now on read again.
    fn look(&self) -> Arc<Snapshot> {
        self.wanted.want(self.clock.elapsed());
        Arc::clone(&self.snapshot.borrow())
    }

    /// The same; the first who looks waits a moment.
    async fn first_look(&self) -> Arc<Snapshot> {
        let snapshot = self.look();
        if snapshot.is_whole() {
            return snapshot;
        }
        let mut changes = self.snapshot.subscribe();
        let whole = changes.wait_for(|snapshot| snapshot.is_whole());
        match self.clock.timeout(FIRST_LOOK, whole).await {
            Ok(Ok(whole)) => Arc::clone(&whole),
            _ => self.look(),
        }
    }

    async fn answer(&self, asked: Asked) -> Answer {
        match asked.names()[..] {
            ["history"] => self.runs_page(&asked).await,
            ["bad"] => self.bad_page().await,
            ["measurement", uid] => match uid.parse::<Uid>() {
                Ok(uid) => self.measurement_page(&uid).await,
                Err(_) => no_uid(),
            },
            ["measurement", uid, "text"] => match uid.parse::<Uid>() {
                Ok(uid) => self.measurement_text(&uid).await,
                Err(_) => no_uid(),
            },
            [bucket] => match bucket.parse::<BucketDate>() {
                Ok(bucket) => self.bucket_page(bucket, &asked).await,
                Err(_) => nothing(),
            },
            [bucket, file] => match bucket.parse::<BucketDate>() {
                Ok(bucket) => self.file_page(bucket, file, &asked).await,
                Err(_) => nothing(),
            },
            _ => nothing(),
        }
    }
}

impl Section for ArchiveWatch {
    fn slug(&self) -> &str {
        SLUG
    }

    fn title(&self) -> &str {
        "Archive"
    }

    fn cards(&self) -> BoxFuture<'_, Vec<Card>> {
        Box::pin(async { self.all_cards() })
    }

    fn page(&self) -> Option<BoxFuture<'_, Markup>> {
        Some(Box::pin(self.buckets_page()))
    }

    fn visit(&self, asked: Asked) -> Option<BoxFuture<'_, Answer>> {
        Some(Box::pin(self.answer(asked)))
    }
}

fn nothing() -> Answer {
    Answer::Absent("There is no such page of the archive.".to_owned())
}

fn no_uid() -> Answer {
    let why = "This is no uid of a measurement: 32 letters a to z and digits 2 to 7.";
    Answer::Absent(why.to_owned())
}

fn address(names: &[&str], pairs: &[(&str, &str)]) -> Option<Address> {
    Address::new(SLUG, names, pairs)
}

/// The page of a file, by its name with the bucket.
fn file_address(file: &str) -> Option<Address> {
    let (bucket, name) = file.split_once('/')?;
    address(&[bucket, name], &[])
}

/// A panel that says why there is nothing to see.
fn trouble(id: &str, title: &str, why: &str) -> Panel {
    Panel::new(id, title, Condition::Bad).note(why)
}

/// A moment for people.
fn moment(at: Timestamp) -> String {
    at.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A moment of a catalog.
fn moment_of(ms: Option<i64>) -> String {
    let at = ms.and_then(|ms| Timestamp::from_millisecond(ms).ok());
    at.map_or_else(|| "not known".to_owned(), moment)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
