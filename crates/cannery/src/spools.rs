//! From the configuration to an open spool: schemas read and settled in the lake, folders locked, the outbox taken up.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use cannery_collect::quarantine::Quarantine;
use cannery_collect::schema::{
    SchemaError, SchemaFile, SchemaFileError, Settled, settle, settle_index,
};
use cannery_collect::spool::{
    DatatypeSettings, Flushed, Progress, Spool, SpoolParts, SpoolSettings, SpoolStatus, status,
};
use cannery_formats::spool::table_key;
use cannery_formats::table_schema::TableSchema;
use cannery_formats::{Digest, Key, NodeName};
use cannery_journal::{ErrorKind as JournalErrorKind, Journal};
use cannery_lake::Mirrors;
use cannery_runtime::disk::{Disk, read, write_durably};
use cannery_runtime::folder_lock::{FolderLock, FolderLockError};
use cannery_runtime::{Clock, Rng};
use tokio_util::sync::CancellationToken;

use crate::commands::Context;
use crate::config::Config;
use crate::config::spool::{RawSpool, SpoolConfig};
use crate::failure::{ExitCode, Failure};
use crate::local_list::LocalList;
use crate::version;

/// How long a file that was found without an event must not have changed, where the system does not tell of writers.
const SETTLE: Duration = Duration::from_secs(5);

/// A path is shorter.
const NOTE_BYTES_MAX: u64 = 8_192;

/// What spools are made with.
#[derive(Clone)]
pub(crate) struct SpoolTools {
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) clock: Clock,
    pub(crate) rng: Rng,
    pub(crate) mirrors: Mirrors,
    pub(crate) workspace: PathBuf,
    pub(crate) node: NodeName,
    /// What the process calls itself to others that find a spool locked.
    pub(crate) command: &'static str,
    /// Whether files from elsewhere are collected, which the lake may have.
    pub(crate) backlog: bool,
}

/// A spool that can run.
pub(crate) struct Opened {
    spool: Spool,
    journal: Journal,
    /// Nobody else collects the same files meanwhile.
    _locks: Vec<FolderLock>,
}

/// The spools that a command is about: those of the configuration, with what the command line says on top.
///
/// # Errors
/// When there is none, or what is said makes no sense.
pub(crate) fn chosen(config: &Config, said: &RawSpool) -> Result<Vec<SpoolConfig>, Failure> {
    let wrong = |reason: String| {
        let message = format!("cannot collect: {reason}");
        let next = "correct the flags, or the configuration under `spools`";
        Failure::new(ExitCode::Usage, "config_invalid", message, next)
    };
    let is_meant = |spool: &&SpoolConfig| {
        let named = said.experiment.as_deref();
        named.is_none_or(|name| name == spool.experiment.as_str())
    };
    let mut raw: Vec<RawSpool> = config
        .spools
        .iter()
        .filter(is_meant)
        .map(SpoolConfig::to_raw)
        .collect();
    if raw.is_empty() && said.experiment.is_some() {
        raw.push(RawSpool::default());
    }
    if raw.is_empty() {
        let next = "list them in the configuration under `spools` or `feeds`, or name a spool with `--experiment NAME --datatype NAME`";
        return Err(Failure::new(
            ExitCode::Usage,
            "no_spool",
            "there is no spool and no feed to collect",
            next,
        ));
    }
    node_of(config)?;
    raw.into_iter()
        .map(|raw| SpoolConfig::check(raw.overlaid(said.clone()), &config.workspace).map_err(wrong))
        .collect()
}

/// The node as object names hold it.
pub(crate) fn node_of(config: &Config) -> Result<NodeName, Failure> {
    NodeName::parse(&config.node).map_err(|error| {
        let next = "set `node` in the configuration to a name such as mlab1-lga01";
        Failure::new(ExitCode::Usage, "config_invalid", error.to_string(), next)
    })
}

/// How much there is of bad files.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InQuarantine {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
}

/// What lies on the disk of a spool, whether it is collected or not; changes nothing.
pub(crate) fn look(
    spool: &SpoolConfig,
    config: &Config,
    context: &Context,
) -> io::Result<(SpoolStatus, InQuarantine)> {
    let names: Vec<_> = spool
        .datatypes
        .iter()
        .map(|datatype| datatype.name.clone())
        .collect();
    let root = spool.home.join(spool.experiment.as_str());
    let outbox = spool.folder(&config.workspace).join("outbox");
    let found = status(&context.disk(), &root, &names, &outbox)?;
    // Whoever looks evicts nothing.
    let clock = context.clock.clone();
    let quarantine = Quarantine::open(context.disk(), clock, &spool.home, u64::MAX)?;
    let bad = InQuarantine {
        files: quarantine.list()?.len() as u64,
        bytes: quarantine.bytes(),
    };
    Ok((found, bad))
}

impl SpoolTools {
    /// Opens a spool. `unavailable` may pass by itself; anything else does not.
    pub(crate) async fn open(&self, config: &SpoolConfig) -> Result<Opened, Failure> {
        let files = self.schema_files(config)?;
        let locks = self.lock(config)?;
        let datatypes = self.settle_all(config, &files).await?;
        let folder = config.folder(&self.workspace);
        let place = self.place(config, &folder)?;
        let journal = self.journal(config, &place).await?;
        let parts = SpoolParts {
            outbox: place.join("outbox"),
            ask_lake: self.backlog,
            disk: Arc::clone(&self.disk),
            clock: self.clock.clone(),
            rng: self.rng.clone(),
            mirrors: self.mirrors.clone(),
            journal: journal.clone(),
            inventory: folder.join("inventory"),
        };
        match Spool::open(self.settings(config, datatypes), parts).await {
            Ok(spool) => Ok(Opened {
                spool,
                journal,
                _locks: locks,
            }),
            Err(error) => {
                journal.close().await;
                Err(unusable(config, &error))
            }
        }
    }

    /// Where the bundles of this home wait. Those of another one must not be taken for them: their files lie elsewhere.
    fn place(&self, config: &SpoolConfig, folder: &Path) -> Result<PathBuf, Failure> {
        let home = std::path::absolute(&config.home).unwrap_or_else(|_| config.home.clone());
        let digest = Digest::of(home.as_os_str().as_encoded_bytes()).to_string();
        if self.backlog {
            return Ok(folder.join("imports").join(&digest[..16]));
        }
        let note = folder.join("home");
        let failed = |error: io::Error| unusable(config, &error);
        let before = match read(&*self.disk, &note, NOTE_BYTES_MAX) {
            Ok(before) => Some(before),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(failed(error)),
        };
        let here = home.as_os_str().as_encoded_bytes();
        if before.as_deref() == Some(here) {
            return Ok(folder.to_owned());
        }
        if let Some(before) = before {
            self.leave(config, folder, &String::from_utf8_lossy(&before))?;
        }
        write_durably(&*self.disk, &note, here).map_err(failed)?;
        Ok(folder.to_owned())
    }

    /// The home has changed. What was sealed of the old one is shipped from there first; then nothing is known of the new.
    fn leave(&self, config: &SpoolConfig, folder: &Path, before: &str) -> Result<(), Failure> {
        let outbox = folder.join("outbox");
        let failed = |error: io::Error| unusable(config, &error);
        let left = status(&self.disk, Path::new(""), &[], &outbox).map_err(failed)?;
        if !left.bundles.is_empty() {
            let message = format!(
                "spool `{}` has sealed bundles of files in `{before}`, and its home is another one now",
                config.experiment
            );
            let next = format!(
                "run `cannery collect --once --experiment {} --home {before}` first",
                config.experiment
            );
            return Err(Failure::new(ExitCode::Usage, "home_changed", message, next));
        }
        match self.disk.remove_file(&outbox.join(".complete")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
            Ok(()) | Err(_) => Ok(()),
        }
    }

    /// The schema files of all datatypes. A missing one is no reason to wait: somebody has to write it.
    pub(crate) fn schema_files(&self, config: &SpoolConfig) -> Result<Vec<SchemaFile>, Failure> {
        let files = config
            .datatypes
            .iter()
            .map(|datatype| SchemaFile::read(&*self.disk, &datatype.name, &datatype.schema_file));
        files.map(|file| file.map_err(Failure::from)).collect()
    }

    /// Two processes that collect the same folder would ship its files twice; two of one workspace would share an outbox.
    fn lock(&self, config: &SpoolConfig) -> Result<Vec<FolderLock>, Failure> {
        let folder = config.home.join(".cannery");
        // One process for each experiment of a workspace, and for each datatype of a home.
        let workspace = config.folder(&self.workspace);
        let own = FolderLock::acquire(&*self.disk, &workspace, self.command, &self.clock);
        let locks = config.datatypes.iter().map(|datatype| {
            let folder = folder.join(format!("{}-{}", config.experiment, datatype.name));
            FolderLock::acquire(&*self.disk, &folder, self.command, &self.clock)
        });
        std::iter::once(own)
            .chain(locks)
            .map(|lock| lock.map_err(|error| not_ours(config, &error)))
            .collect()
    }

    /// Makes the tables in the lake fit, and gives back what rows are checked against.
    async fn settle_all(
        &self,
        config: &SpoolConfig,
        files: &[SchemaFile],
    ) -> Result<Vec<DatatypeSettings>, Failure> {
        let mut datatypes = Vec::new();
        for (datatype, file) in config.datatypes.iter().zip(files) {
            let key = table_key(&config.object_home, &config.experiment, &datatype.name);
            let source = file.path().display().to_string();
            let table = file.table(config.id_column);
            let settled = self.settle(config, &key, &table, &source).await?;
            datatypes.push(DatatypeSettings {
                name: datatype.name.clone(),
                fields: settled.schema.datatype_fields().to_vec(),
            });
        }
        if config.index_loadable {
            let (home, experiment) = (&config.object_home, &config.experiment);
            settle_index(&self.mirrors, home, experiment, config.upload_schema).await?;
        }
        Ok(datatypes)
    }

    async fn settle(
        &self,
        config: &SpoolConfig,
        key: &Key,
        table: &TableSchema,
        source: &str,
    ) -> Result<Settled, Failure> {
        let settled = settle(&self.mirrors, key, table, config.upload_schema, source).await?;
        if !settled.is_everywhere() {
            tracing::warn!(
                %key,
                "the table schema in the lake lacks fields, and `upload_schema` is off: a loader will refuse rows that have them"
            );
        }
        Ok(settled)
    }

    /// The list that schedules the shipping, on this machine's disk whatever other journals are on.
    async fn journal(&self, config: &SpoolConfig, folder: &Path) -> Result<Journal, Failure> {
        let list = LocalList {
            disk: Arc::clone(&self.disk),
            dir: folder.join("journal"),
            owner: self.command,
            clock: self.clock.clone(),
            rng: self.rng.clone(),
        };
        let opened = list.open(&format!("spool {}", config.experiment)).await;
        opened.map_err(|error| match error.kind {
            JournalErrorKind::Locked => in_use(config, &error.message),
            _ => Failure::from(error.while_doing(format!(
                "cannot open the shipping list of spool `{}`",
                config.experiment
            ))),
        })
    }

    fn settings(&self, config: &SpoolConfig, datatypes: Vec<DatatypeSettings>) -> SpoolSettings {
        SpoolSettings {
            experiment: config.experiment.clone(),
            home: config.home.clone(),
            object_home: config.object_home.clone(),
            node: self.node.clone(),
            datatypes,
            extensions: config.extensions.clone(),
            bundle_bytes_max: config.bundle_bytes_max.0,
            bundle_age_max: config.bundle_age_max.0,
            min_file_age: config.min_file_age.0,
            scan_interval: config.scan_interval.0,
            settle: SETTLE,
            bad_files: config.bad_files.0,
            quarantine_bytes_max: config.quarantine_bytes_max.0,
            spool_bytes_max: config.spool_bytes_max.map(|bytes| bytes.0),
            spool_full: config.spool_full.0,
            id_column: config.id_column,
            index_loadable: config.index_loadable,
            version: format!("cannery@{}", version::SHORT),
            git_commit: version::COMMIT.to_owned(),
        }
    }
}

impl Opened {
    pub(crate) fn progress(&self) -> Arc<Progress> {
        self.spool.progress()
    }

    /// Collects until `stop`, then flushes; says what is left.
    pub(crate) async fn run(
        self,
        stop: CancellationToken,
        flush_timeout: Duration,
    ) -> io::Result<Flushed> {
        let flushed = self.spool.run(stop, flush_timeout).await;
        self.journal.close().await;
        flushed
    }

    /// Collects what is there, and ends.
    pub(crate) async fn run_until_drained(
        self,
        stop: CancellationToken,
        flush_timeout: Duration,
    ) -> io::Result<Flushed> {
        let flushed = self.spool.until_drained(stop, flush_timeout).await;
        self.journal.close().await;
        flushed
    }
}

impl From<SchemaFileError> for Failure {
    fn from(error: SchemaFileError) -> Self {
        let next = "`cannery schema` shows the table that a schema file makes";
        Self::new(ExitCode::Usage, "schema_file", error.to_string(), next)
    }
}

impl From<SchemaError> for Failure {
    fn from(error: SchemaError) -> Self {
        match error {
            SchemaError::Lake(error) => Self::from(error),
            error if error.is_transient() => Self::new(
                ExitCode::Error,
                "unavailable",
                error.to_string(),
                "try again",
            ),
            error => {
                let next = "`cannery lake cat` shows the table schema in the lake";
                Self::new(ExitCode::Usage, "schema", error.to_string(), next)
            }
        }
    }
}

fn not_ours(config: &SpoolConfig, error: &FolderLockError) -> Failure {
    match error {
        FolderLockError::Held { .. } => in_use(config, &error.to_string()),
        FolderLockError::Io { source, .. } => unusable(config, source),
    }
}

fn in_use(config: &SpoolConfig, why: &str) -> Failure {
    let message = format!(
        "spool `{}` is collected by another process: {why}",
        config.experiment
    );
    Failure::new(
        ExitCode::Locked,
        "locked",
        message,
        "stop that process, or collect other datatypes here",
    )
}

fn unusable(config: &SpoolConfig, error: &io::Error) -> Failure {
    let code = match error.kind() {
        io::ErrorKind::StorageFull => ExitCode::Full,
        _ => ExitCode::Error,
    };
    let (experiment, home) = (&config.experiment, config.home.display());
    let message = format!("cannot collect spool `{experiment}` in `{home}`: {error}");
    let next =
        "make the folder and the workspace writable; what is there is taken up at the next start";
    Failure::new(code, "spool_unusable", message, next)
}
