//! From a name to an open journal: one of the configuration, or one that was declared.

mod heir;
mod unknown;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cannery_journal::embedded::{Embedded, Place};
use cannery_journal::metrics::JournalMetrics;
use cannery_journal::postgres::{Database, EngineClock};
use cannery_journal::remote::{self, Remote, Served};
use cannery_journal::{Declaration, Engine, Error, ErrorKind, Journal};
use cannery_runtime::{Clock, RealDisk, Rng, Tasks};
use tokio::sync::Mutex;

use crate::config::Config;
use crate::config::journal::{
    DEFAULT_JOURNAL, DatabaseUrl, EngineAddress, JournalSettings, check_name,
};
use crate::failure::{ExitCode, Failure};
use heir::{Claim, Heir};

/// How long a journal is waited for that another command owns for a moment.
const LOCK_LIMIT: Duration = Duration::from_secs(5);
const LOCK_PAUSE: Duration = Duration::from_millis(20);

/// Opens journals.
#[derive(Debug)]
pub(crate) struct Journals<'a> {
    config: &'a Config,
    clock: &'a Clock,
    rng: &'a Rng,
    /// Of a process that owns its journals and lets others in.
    serving: Option<JournalMetrics>,
    /// One connection to a database, however many journals it holds.
    databases: Mutex<Vec<(DatabaseUrl, Arc<Database>)>>,
}

/// A journal that there is.
#[derive(Debug)]
pub(crate) struct Known {
    pub(crate) name: String,
    pub(crate) engine: EngineAddress,
    /// Whether it stands in the configuration; else it was declared.
    pub(crate) configured: bool,
}

impl<'a> Journals<'a> {
    pub(crate) fn new(config: &'a Config, clock: &'a Clock, rng: &'a Rng) -> Self {
        Self {
            config,
            clock,
            rng,
            serving: None,
            databases: Mutex::default(),
        }
    }

    /// For `cannery up`: what it opens is measured.
    pub(crate) fn serving(self, metrics: JournalMetrics) -> Self {
        Self {
            serving: Some(metrics),
            ..self
        }
    }

    /// The settings that every journal has that says nothing else.
    pub(crate) fn default_settings(&self) -> &JournalSettings {
        &self.config.journals[DEFAULT_JOURNAL]
    }

    /// Opens a journal as it is, for a moment; none where there is none yet.
    pub(crate) async fn look(&self, name: &str) -> Result<Option<Opened>, Failure> {
        let settings = self.config.journals.get(name);
        let engine = &settings.unwrap_or(self.default_settings()).engine;
        match self.open_on(engine, name, None, None).await {
            Ok(opened) => Ok(Some(opened)),
            Err(error) if error.kind == ErrorKind::Unknown => Ok(None),
            Err(error) => Err(self.failure(name, error)),
        }
    }

    /// The settings of a journal that was declared; those of `default` where there is none yet.
    pub(crate) async fn settings(&self, name: &str) -> Result<JournalSettings, Failure> {
        let default = self.default_settings();
        if check_name(name).is_err() || self.config.journals.contains_key(name) {
            return Ok(default.clone());
        }
        match self.look(name).await? {
            Some(opened) => {
                let declaration = opened.journal.declaration();
                opened.close().await;
                Ok(JournalSettings::of(default.engine.clone(), &declaration))
            }
            None => Ok(default.clone()),
        }
    }

    /// Opens a journal of the configuration or one that was declared, for a moment.
    ///
    /// # Errors
    /// `unknown_journal` names the known ones.
    pub(crate) async fn open(&self, name: &str) -> Result<Opened, Failure> {
        self.open_for(name, None).await
    }

    /// Opens a journal to stay: if another process owns its files, this one takes them over when the owner ends.
    ///
    /// # Errors
    /// As [`Journals::open`].
    pub(crate) async fn open_to_stay(&self, name: &str, tasks: &Tasks) -> Result<Opened, Failure> {
        self.open_for(name, Some(tasks)).await
    }

    async fn open_for(&self, name: &str, stay: Option<&Tasks>) -> Result<Opened, Failure> {
        let (engine, declaration) = match self.config.journals.get(name) {
            Some(settings) => (&settings.engine, Some(settings.declaration())),
            None if check_name(name).is_err() => return Err(self.unknown(name).await),
            None => (&self.default_settings().engine, None),
        };
        match self.open_on(engine, name, declaration, stay).await {
            Ok(opened) => Ok(opened),
            Err(error) if error.kind == ErrorKind::Unknown => Err(self.unknown(name).await),
            Err(error) => Err(self.failure(name, error)),
        }
    }

    /// Makes a journal, or changes its declaration; gives back its version.
    pub(crate) async fn declare(
        &self,
        name: &str,
        settings: &JournalSettings,
    ) -> Result<(Opened, u32), Failure> {
        let refused =
            |reason: String, next: &str| Failure::new(ExitCode::Usage, "invalid", reason, next);
        check_name(name).map_err(|reason| refused(reason, "choose another name"))?;
        if self.config.journals.contains_key(name) {
            let reason = format!("journal `{name}` is declared by the configuration");
            return Err(refused(reason, "change it there, under `journals`"));
        }
        let declaration = settings.declaration();
        let opened = self
            .open_on(&settings.engine, name, Some(declaration.clone()), None)
            .await
            .map_err(|error| self.failure(name, error))?;
        // Whoever owns the journal already has to be told.
        let version = opened.journal.declare(declaration).await?;
        Ok((opened, version))
    }

    /// Every journal of the configuration, and those that were declared where `default` is kept.
    pub(crate) async fn known(&self) -> Result<Vec<Known>, Failure> {
        let default = &self.default_settings().engine;
        let declared = match default {
            EngineAddress::Embedded => folders(self.config),
            EngineAddress::Postgres(url) => self.names_in(url).await?,
        };
        let configured = self.config.journals.iter().map(|(name, settings)| Known {
            name: name.clone(),
            engine: settings.engine.clone(),
            configured: true,
        });
        let others = declared
            .into_iter()
            .filter(|name| !self.config.journals.contains_key(name))
            .map(|name| Known {
                name,
                engine: default.clone(),
                configured: false,
            });
        let mut known: Vec<Known> = configured.chain(others).collect();
        known.sort_by(|one, two| one.name.cmp(&two.name));
        Ok(known)
    }

    async fn open_on(
        &self,
        engine: &EngineAddress,
        name: &str,
        declaration: Option<Declaration>,
        stay: Option<&Tasks>,
    ) -> Result<Opened, Error> {
        match engine {
            EngineAddress::Embedded => self.embedded(name, declaration, stay).await,
            EngineAddress::Postgres(url) => {
                let database = self.database(url).await?;
                let journal = database.open(name, declaration).await?;
                let journal = self.measured(name, journal);
                Ok(self.opened(name, journal, engine.clone(), None))
            }
        }
    }

    fn measured(&self, name: &str, engine: Arc<dyn Engine>) -> Arc<dyn Engine> {
        match &self.serving {
            Some(metrics) => metrics.measure(name, engine),
            None => engine,
        }
    }

    async fn names_in(&self, url: &DatabaseUrl) -> Result<Vec<String>, Error> {
        self.database(url).await?.names().await
    }

    async fn database(&self, url: &DatabaseUrl) -> Result<Arc<Database>, Error> {
        let mut databases = self.databases.lock().await;
        if let Some((_, database)) = databases.iter().find(|(known, _)| known == url) {
            return Ok(Arc::clone(database));
        }
        let (clock, rng) = (self.clock.clone(), self.rng.clone());
        let database = Database::connect(url.expose(), EngineClock::Server, clock, rng).await?;
        databases.push((url.clone(), Arc::clone(&database)));
        Ok(database)
    }

    /// Lets go of the databases; the journals must be closed before.
    pub(crate) async fn close(self) {
        for (_, database) in self.databases.into_inner() {
            database.close().await;
        }
    }

    /// Opens the files, or goes through the process that owns them. One that is about to end is waited for.
    async fn embedded(
        &self,
        name: &str,
        declaration: Option<Declaration>,
        stay: Option<&Tasks>,
    ) -> Result<Opened, Error> {
        let dir = home(self.config).join(name);
        let socket = dir.join("socket");
        let place = Place {
            disk: Arc::new(RealDisk),
            dir,
            owner: self.owner().to_owned(),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
        };
        let begun = self.clock.elapsed();
        loop {
            let locked = match Embedded::open(place.clone(), declaration.clone()).await {
                Ok(engine) => {
                    let engine = self.measured(name, engine);
                    return Ok(self.opened(name, engine, EngineAddress::Embedded, Some(socket)));
                }
                Err(error) if error.kind == ErrorKind::Locked => error,
                Err(error) => return Err(error),
            };
            match Remote::connect(&socket, self.clock.clone()).await {
                Ok(owner) => {
                    let engine: Arc<dyn Engine> = match stay {
                        Some(tasks) => {
                            let claim = Claim {
                                name: name.to_owned(),
                                place,
                                socket,
                                tasks: tasks.clone(),
                                metrics: self.serving.clone(),
                            };
                            Heir::of(claim, owner)
                        }
                        None => owner,
                    };
                    return Ok(self.opened(name, engine, EngineAddress::Embedded, None));
                }
                Err(error) => {
                    tracing::debug!(%error, "the owner of the journal does not serve it");
                }
            }
            if self.clock.since(begun) >= LOCK_LIMIT {
                return Err(locked);
            }
            self.clock
                .sleep(LOCK_PAUSE + self.rng.jitter(LOCK_PAUSE))
                .await;
        }
    }

    fn opened(
        &self,
        name: &str,
        engine: Arc<dyn Engine>,
        address: EngineAddress,
        socket: Option<PathBuf>,
    ) -> Opened {
        Opened {
            journal: Journal::new(name, engine),
            engine: address,
            socket,
            served: Mutex::new(None),
        }
    }

    /// What this process calls itself to others that find a journal locked.
    fn owner(&self) -> &'static str {
        match self.serving {
            Some(_) => "cannery up",
            None => "cannery journal",
        }
    }

    async fn unknown(&self, name: &str) -> Failure {
        match self.known().await {
            Ok(known) => {
                let names: Vec<&str> = known.iter().map(|known| known.name.as_str()).collect();
                unknown::failure(name, &names)
            }
            Err(failure) => failure,
        }
    }

    fn failure(&self, name: &str, error: Error) -> Failure {
        Failure::from(error.while_doing(format!("cannot open journal `{name}`")))
    }
}

fn home(config: &Config) -> PathBuf {
    config.workspace.join("journals")
}

/// The journals that have a folder of their own, declared by the configuration or not.
pub(crate) fn folders(config: &Config) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(home(config)) else {
        return Vec::new();
    };
    let is_journal = |path: &Path| path.join("journal.json").exists();
    entries
        .flatten()
        .filter(|entry| is_journal(&entry.path()))
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| check_name(name).is_ok())
        .collect()
}

/// Lets other processes on this machine take part. Where no socket can be made, this process goes on alone.
async fn let_in(socket: &Path, engine: Arc<dyn Engine>, tasks: &Tasks) -> Option<Served> {
    match remote::serve(socket, engine, tasks).await {
        Ok(served) => Some(served),
        Err(error) => {
            tracing::warn!(%error, "other commands on this journal have to wait until this one ends");
            None
        }
    }
}

/// An open journal.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) journal: Journal,
    pub(crate) engine: EngineAddress,
    /// Where others can be let in: only while this process owns the files.
    socket: Option<PathBuf>,
    served: Mutex<Option<Served>>,
}

impl Opened {
    /// Lets other processes on this machine take part, if this one owns the files; may be called twice.
    pub(crate) async fn serve(&self, tasks: &Tasks) {
        let Some(socket) = &self.socket else {
            return;
        };
        let mut served = self.served.lock().await;
        if served.is_none() {
            let engine = Arc::clone(self.journal.engine());
            *served = let_in(socket, engine, tasks).await;
        }
    }

    /// Ends it; what was acknowledged is safe.
    pub(crate) async fn close(self) {
        if let Some(served) = self.served.into_inner() {
            served.stop().await;
        }
        self.journal.close().await;
    }
}
