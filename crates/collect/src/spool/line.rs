//! The line that files run through: found, taken, bundled, sealed, shipped, removed.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use cannery_formats::spool::BundleName;
use cannery_journal::Journal;
use cannery_journal::worker::Worker;
use cannery_lake::Mirrors;
use cannery_runtime::disk::Disk;
use cannery_runtime::{Clock, Rng};
use tokio::runtime::Handle;
use tokio::sync::{Semaphore, mpsc};
use tokio_util::sync::CancellationToken;

use crate::inventory::{Inventory, InventoryParts};

use super::bad::Bad;
use super::budget::Budget;
use super::bundle::RowStyle;
use super::bundler::Bundler;
use super::drain::{Drain, Refused};
use super::find::{Finder, FinderParts, Sightings};
use super::foreman::Foreman;
use super::guard::Guard;
use super::held::Held;
use super::intake::{Intake, Sender};
use super::known::Known;
use super::lock;
use super::outbox::{Outbox, Sealed};
use super::place::FilePlace;
use super::progress::{Progress, Quarantined};
use super::recall::Recall;
use super::room::Room;
use super::settings::SpoolSettings;
use super::shipper::{Event, Hand, Shipper};
use super::take::Taker;
use super::upkeep::Upkeep;
use crate::quarantine::Quarantine;
use crate::schedule::Schedule;
use crate::turns::Turns;

/// Files that were found and not taken yet.
const SIGHTINGS: usize = 1_024;
/// Batches of files that were taken and are not bundled yet.
const TAKEN: usize = 16;
const TAKEN_BYTES: usize = 32 << 20;
/// Bundles that are open or sealed: with a lake that is down, files stay where they are.
const BUNDLES_MAX: usize = 16;
const SHIPS_AT_ONCE: usize = 4;
/// How long the end of something is waited for when its time is over.
const GRACE: Duration = Duration::from_secs(1);

/// What a spool is made of.
#[derive(Debug)]
pub struct SpoolParts {
    /// Where sealed bundles wait: `<workspace>/collect/<experiment>/outbox`.
    pub outbox: PathBuf,
    /// Where lines of the inventory wait: `<workspace>/collect/<experiment>/inventory`.
    pub inventory: PathBuf,
    /// The disk that holds the outbox and the spool.
    pub disk: Arc<dyn Disk>,
    /// The time.
    pub clock: Clock,
    /// Chance.
    pub rng: Rng,
    /// Where bundles go.
    pub mirrors: Mirrors,
    /// Whether the files that lie there may be in the lake, whatever the outbox says: as of a backlog from elsewhere.
    pub ask_lake: bool,
    /// Schedules the shipping; losing it loses nothing.
    pub journal: Journal,
}

/// How a spool ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flushed {
    /// Sealed bundles that are left for the next start.
    pub left: Vec<String>,
    /// Files that are left in their folders, of a spool that was drained: somebody writes to them or wrote them anew, they
    /// are wrong and young, or the disk refused their bundle. None of a spool that was stopped before it was drained, which
    /// may leave any number.
    pub waiting: u64,
}

/// A spool that runs.
pub struct Spool {
    settings: Arc<SpoolSettings>,
    schedule: Schedule,
    parts: SpoolParts,
    outbox: Outbox,
    inventory: Inventory,
    held: Arc<Held>,
    room: Arc<Room>,
    look_again: Arc<AtomicBool>,
    settled: Arc<AtomicBool>,
    refused: Arc<Refused>,
    quarantine: Arc<Mutex<Quarantine>>,
    progress: Arc<Progress>,
    /// Bundles in the outbox, of an outbox that may have been lost.
    doubt: Option<BTreeSet<BundleName>>,
}

/// What ends a spool, beside being stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stopped,
    Drained,
}

impl Spool {
    /// Opens a spool and takes up what an earlier run left in the outbox.
    ///
    /// # Errors
    /// As the disk or the journal says.
    pub async fn open(settings: SpoolSettings, parts: SpoolParts) -> io::Result<Self> {
        let outbox = Outbox::open(Arc::clone(&parts.disk), &parts.outbox)?;
        let (disk, clock) = (Arc::clone(&parts.disk), parts.clock.clone());
        let bytes_max = settings.quarantine_bytes_max;
        let quarantine = Quarantine::open(disk, clock, &settings.home, bytes_max)?;
        let progress = Progress::new(&settings);
        progress.quarantined(Quarantined::of(&quarantine));
        let inventory = Inventory::new(InventoryParts {
            folder: parts.inventory.clone(),
            disk: Arc::clone(&parts.disk),
            clock: parts.clock.clone(),
            mirrors: parts.mirrors.clone(),
            home: settings.inventory_home(),
        });
        let mut spool = Self {
            inventory,
            schedule: Schedule::new(parts.journal.clone(), &parts.clock, &parts.rng),
            settings: Arc::new(settings),
            outbox,
            held: Arc::default(),
            look_again: Arc::default(),
            settled: Arc::default(),
            refused: Arc::default(),
            quarantine: Arc::new(Mutex::new(quarantine)),
            progress: Arc::new(progress),
            doubt: None,
            room: Arc::new(Room {
                free: Arc::new(Semaphore::new(BUNDLES_MAX)),
                taken: Mutex::default(),
                begun: Mutex::default(),
            }),
            parts,
        };
        spool.take_up().await?;
        Ok(spool)
    }

    async fn take_up(&mut self) -> io::Result<()> {
        let outbox = self.outbox.clone();
        let found = tokio::task::spawn_blocking(move || outbox.recover())
            .await
            .map_err(io::Error::other)??;
        for (id, why) in &found.damaged {
            tracing::error!(
                bundle = id,
                why,
                "a sealed bundle is damaged; it was set aside"
            );
        }
        let in_outbox: BTreeSet<_> = found
            .sealed
            .iter()
            .map(|sealed| sealed.name.clone())
            .collect();
        let known = self.known(in_outbox.clone());
        for datatype in 0..self.settings.datatypes.len() {
            known.give_back_strays(datatype).await?;
        }
        if self.parts.ask_lake || !self.outbox.is_complete()? {
            self.doubt = Some(in_outbox);
        }
        for sealed in &found.sealed {
            self.progress.took_up(sealed);
            let permit = Arc::clone(&self.room.free).try_acquire_owned().ok();
            lock(&self.room.taken).insert(sealed.id.clone(), permit);
            for place in self.places(sealed) {
                self.held.hold(&place);
            }
            self.schedule.add_anew(&sealed.id).await;
        }
        Ok(())
    }

    fn known(&self, in_outbox: BTreeSet<BundleName>) -> Known {
        Known {
            mirrors: self.parts.mirrors.clone(),
            disk: Arc::clone(&self.parts.disk),
            settings: Arc::clone(&self.settings),
            in_outbox,
        }
    }

    fn places<'a>(&self, sealed: &'a Sealed) -> impl Iterator<Item = FilePlace> + 'a {
        let name = &sealed.name.datatype;
        let known = self.settings.datatypes.iter();
        let datatype = known
            .map(|known| &known.name)
            .position(|known| known == name);
        let date = sealed.name.date;
        sealed.files.iter().filter_map(move |file| {
            Some(FilePlace {
                datatype: datatype?,
                date,
                name: file.name.clone(),
            })
        })
    }

    /// What has passed through, while it runs and after.
    #[must_use]
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Collects until `stop`; then seals what is open and ships for at most `flush_timeout` more.
    ///
    /// # Errors
    /// When the files cannot be watched.
    pub async fn run(
        self,
        stop: CancellationToken,
        flush_timeout: Duration,
    ) -> io::Result<Flushed> {
        self.collect(stop, flush_timeout, End::Stopped).await
    }

    /// Collects what is there and ends by itself: once a scan found nothing more that could be taken, what is open is
    /// sealed, and shipped however long that takes. `stop` ends it earlier, as it does [`Spool::run`]. What comes while it
    /// runs is taken or left.
    ///
    /// # Errors
    /// When the files cannot be watched.
    pub async fn until_drained(
        self,
        stop: CancellationToken,
        flush_timeout: Duration,
    ) -> io::Result<Flushed> {
        self.collect(stop, flush_timeout, End::Drained).await
    }

    async fn collect(
        self,
        stop: CancellationToken,
        flush_timeout: Duration,
        end: End,
    ) -> io::Result<Flushed> {
        let ending = stop.child_token();
        let (finder, sightings) = Finder::start(self.finder_parts(), SIGHTINGS)?;
        let finder = Arc::new(Mutex::new(Some(finder)));
        let (sealed, sealed_ids) = mpsc::unbounded_channel();
        let (halt, lost) = (stop.child_token(), CancellationToken::new());
        let bundler = self.start_bundler(sealed, halt.clone(), ending.clone(), lost.clone());
        let (sender, bundler) = bundler?;
        let ticks = sender.messages.clone();
        let intake = self.start_intake(sightings, sender, ending.clone())?;
        let (events, done) = mpsc::unbounded_channel();
        let (ended, give_up) = (CancellationToken::new(), CancellationToken::new());
        let mut worker = self.start_worker(events, ended.clone(), give_up.clone());
        let uploader = self.inventory.start();
        let upkeep = Upkeep {
            schedule: self.schedule.clone(),
            clock: self.parts.clock.clone(),
            room: Arc::clone(&self.room),
            finder: Arc::clone(&finder),
            look_again: Arc::clone(&self.look_again),
            doubtful: self.doubt.is_some().then(|| self.outbox.clone()),
            census: Arc::clone(self.progress.census()),
            settle: self.settings.settle,
            settled: Arc::clone(&self.settled),
            refused_at: 0,
            stop: ending.clone(),
        };
        let upkeep = tokio::spawn(upkeep.run(sealed_ids, done, ticks));
        let guard = self.guard();
        let guard = tokio::spawn(guard.run(self.parts.clock.clone(), ended.clone()));
        let drain = self.drain(&finder);
        let mut waiting = tokio::select! {
            biased;
            () = stop.cancelled() => None,
            () = lost.cancelled() => None,
            waiting = drain.wait(), if end == End::Drained => Some(waiting),
        };
        ending.cancel();
        if lost.is_cancelled() {
            // Nothing can be bundled any more.
            halt.cancel();
        }
        let mut begun = self.parts.clock.elapsed();
        let let_go = self.progress.let_go();
        // No more files; what was taken is bundled, and what is open is sealed.
        let finder = lock(&finder).take();
        let joined = tokio::task::spawn_blocking(move || {
            if let Some(finder) = finder {
                finder.stop();
            }
            (intake.join(), bundler.join())
        });
        let sound = matches!(joined.await, Ok((Ok(()), Ok(()))));
        self.hurry().await;
        if waiting.is_some() {
            tokio::select! {
                () = self.shipped() => {}
                () = stop.cancelled() => {}
            }
            begun = self.parts.clock.elapsed();
        }
        let clock = self.parts.clock.clone();
        let left = |begun| flush_timeout.saturating_sub(clock.since(begun)).max(GRACE);
        clock.timeout(left(begun), self.shipped()).await.ok();
        ended.cancel();
        if clock.timeout(GRACE, &mut worker).await.is_err() {
            // What is being shipped may wait for a lake that does not answer; it is shipped by the next start. What is
            // being removed comes to its end.
            give_up.cancel();
            worker.await.ok();
        }
        guard.await.ok();
        upkeep.abort();
        if let Some(waiting) = &mut waiting {
            *waiting += self.progress.let_go() - let_go;
            if self.doubt.is_some() && *waiting == 0 {
                self.outbox.set_complete()?;
            }
        }
        uploader.finish(left(begun)).await;
        if lost.is_cancelled() {
            let why = "its folder in the workspace was removed while it ran";
            return Err(io::Error::new(io::ErrorKind::NotFound, why));
        }
        if !sound {
            let why = "one of its threads was ended by a mistake in the program";
            return Err(io::Error::other(why));
        }
        let left = tokio::task::spawn_blocking(move || self.outbox.left());
        let left = left.await.map_err(io::Error::other)??;
        Ok(Flushed {
            left,
            waiting: waiting.unwrap_or(0),
        })
    }

    /// What failed a while ago is not due for a while: it is tried once more before the end.
    async fn hurry(&self) {
        let left: Vec<String> = lock(&self.room.taken).keys().cloned().collect();
        for id in left {
            self.schedule.add_anew(&id).await;
        }
    }

    /// Waits until the outbox is empty.
    async fn shipped(&self) {
        while !lock(&self.room.taken).is_empty() {
            self.parts.clock.sleep(Duration::from_millis(20)).await;
        }
    }

    fn guard(&self) -> Guard {
        let (quarantine, progress) = (Arc::clone(&self.quarantine), Arc::clone(&self.progress));
        Guard::new(&self.settings, quarantine, progress)
    }

    fn drain(&self, finder: &Arc<Mutex<Option<Finder>>>) -> Drain {
        Drain {
            census: Arc::clone(self.progress.census()),
            refused: Arc::clone(&self.refused),
            finder: Arc::clone(finder),
            clock: self.parts.clock.clone(),
            settle: self.settings.settle,
        }
    }

    fn finder_parts(&self) -> FinderParts {
        let settings = &self.settings;
        FinderParts {
            root: settings.root(),
            datatypes: self.datatypes(),
            scan_interval: settings.scan_interval,
            min_file_age: settings.min_file_age,
            disk: Arc::clone(&self.parts.disk),
            clock: self.parts.clock.clone(),
            census: Arc::clone(self.progress.census()),
        }
    }

    fn start_bundler(
        &self,
        sealed: mpsc::UnboundedSender<String>,
        stop: CancellationToken,
        ending: CancellationToken,
        lost: CancellationToken,
    ) -> io::Result<(Sender, JoinHandle<()>)> {
        let budget = Arc::new(Budget::new(TAKEN_BYTES));
        let settings = &self.settings;
        let style = RowStyle {
            version: settings.version.clone(),
            git_commit: settings.git_commit.clone(),
            lake_url: self.parts.mirrors.first().url().to_owned(),
            id_column: settings.id_column,
            index_loadable: settings.index_loadable,
        };
        let listener = Foreman {
            runtime: Handle::current(),
            clock: self.parts.clock.clone(),
            room: Arc::clone(&self.room),
            sealed,
            look_again: Arc::clone(&self.look_again),
            stop,
            ending,
            lost,
            progress: Arc::clone(&self.progress),
        };
        let bundler = Bundler::new(
            self.outbox.clone(),
            Arc::clone(settings),
            style,
            self.parts.clock.clone(),
            Arc::clone(&self.held),
            Arc::clone(&budget),
            listener,
        );
        let (messages, inbox) = std::sync::mpsc::sync_channel(TAKEN);
        let thread = std::thread::Builder::new()
            .name("spool-bundle".to_owned())
            .spawn(move || bundler.run(&inbox))?;
        Ok((
            Sender {
                messages,
                budget,
                unsent: Vec::new(),
                unsent_bytes: 0,
            },
            thread,
        ))
    }

    fn start_intake(
        &self,
        sightings: Sightings,
        bundler: Sender,
        stop: CancellationToken,
    ) -> io::Result<JoinHandle<()>> {
        let SpoolParts { disk, clock, .. } = &self.parts;
        let intake = Intake {
            stop: stop.clone(),
            settled: Arc::clone(&self.settled),
            taker: Taker::new(&self.settings, Arc::clone(disk), clock.clone()),
            bad: Bad::new(
                &self.settings,
                disk,
                Arc::clone(&self.quarantine),
                Arc::clone(&self.progress),
            ),
            held: Arc::clone(&self.held),
            bundler,
            datatypes: self.datatypes(),
            look_again: Arc::clone(&self.look_again),
            recall: self.doubt.clone().map(|in_outbox| {
                let (known, inventory) = (self.known(in_outbox), self.inventory.clone());
                Recall::new(known, inventory, clock.clone(), stop)
            }),
            refused: Arc::clone(&self.refused),
            progress: Arc::clone(&self.progress),
        };
        std::thread::Builder::new()
            .name("spool-take".to_owned())
            .spawn(move || intake.run(sightings))
    }

    fn datatypes(&self) -> Vec<String> {
        let datatypes = self.settings.datatypes.iter();
        datatypes
            .map(|datatype| datatype.name.as_str().to_owned())
            .collect()
    }

    fn start_worker(
        &self,
        events: mpsc::UnboundedSender<Event>,
        ended: CancellationToken,
        give_up: CancellationToken,
    ) -> tokio::task::JoinHandle<()> {
        let (clock, rng) = (self.parts.clock.clone(), self.parts.rng.clone());
        let shipper = Shipper {
            outbox: self.outbox.clone(),
            mirrors: self.parts.mirrors.clone(),
            inventory: self.inventory.clone(),
            root: self.settings.root(),
            datatypes: self.datatypes(),
            held: Arc::clone(&self.held),
            clock: clock.clone(),
            rng: rng.clone(),
            progress: Arc::clone(&self.progress),
            turns: Turns::default(),
            give_up,
            events,
        };
        let hand = Hand(Arc::new(shipper));
        let [first, spare] = self.schedule.lists().map(|list| {
            let worker = Worker::new(list, "spool", clock.clone(), rng.clone());
            let worker = worker.concurrency(SHIPS_AT_ONCE);
            worker.run(hand.clone(), ended.clone())
        });
        let (schedule, room) = (self.schedule.clone(), Arc::clone(&self.room));
        let first = async move {
            first.await;
            if !ended.is_cancelled() {
                tracing::error!(
                    "the journal of the spool cannot be used any more; bundles are shipped all the same"
                );
                let left: Vec<String> = lock(&room.taken).keys().cloned().collect();
                for id in left {
                    schedule.add_to_spare(&id).await;
                }
            }
        };
        tokio::spawn(async move {
            tokio::join!(first, spare);
        })
    }
}
