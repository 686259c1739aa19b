//! The configuration: read from a file or a URL, checked once, and from then on only values that make sense.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cannery_runtime::secret::redact;
use serde::Serialize;

pub(crate) mod database;
pub(crate) mod environment;
pub(crate) mod feed;
pub(crate) mod journal;
mod node;
pub(crate) mod permission;
pub(crate) mod pipeline;
pub(crate) mod raw;
pub(crate) mod source;
pub(crate) mod spool;
mod storage;
mod tree;
mod typed;
pub(crate) mod units;

use database::{DatabasePlace, Purpose};
use environment::{Environment, Used};
use feed::FeedConfig;
use journal::JournalSettings;
use node::{DEFAULT_NODE, check_node};
use permission::Origin;
use pipeline::PipelineConfig;
use raw::{RawConfig, RawServe, RawStorage};
use spool::SpoolConfig;
pub(crate) use storage::Storage;
use storage::refuse_twins;
use units::Span;

pub(crate) const DEFAULT_WORKSPACE: &str = "cannery-data";
const DEFAULT_LISTEN: &str = "127.0.0.1:8420";
const DEFAULT_MONITORING_HOURS: u32 = 72;
/// A month: what is shown of feeds is held in memory.
const MONITORING_HOURS_MAX: u32 = 31 * 24;
const DEFAULT_FLUSH_TIMEOUT: Span = Span(Duration::from_secs(60));

/// A checked configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Config {
    pub(crate) workspace: PathBuf,
    pub(crate) node: String,
    pub(crate) object_storage: Vec<Storage>,
    pub(crate) spools: Vec<SpoolConfig>,
    pub(crate) feeds: Vec<FeedConfig>,
    pub(crate) journals: BTreeMap<String, JournalSettings>,
    pub(crate) catalog: DatabasePlace,
    pub(crate) state: DatabasePlace,
    pub(crate) pipeline: PipelineConfig,
    pub(crate) serve: Serve,
    pub(crate) monitoring_hours: u32,
    pub(crate) flush_timeout: Span,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Serve {
    pub(crate) listen: SocketAddr,
    pub(crate) monitoring_listen: Option<SocketAddr>,
    pub(crate) admin_listen: Option<SocketAddr>,
    pub(crate) proxied: bool,
    pub(crate) tls: Option<Tls>,
}

/// The files for TLS, which are read when the server starts and whenever they change.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Tls {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Something in the configuration is wrong: where, and what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ConfigError {
    line: u64,
    path: Vec<String>,
    reason: String,
}

impl ConfigError {
    pub(crate) fn new(line: u64, reason: impl Into<String>) -> Self {
        Self {
            line,
            path: Vec::new(),
            reason: redact(&reason.into()),
        }
    }

    /// The line, unless a more exact one is known.
    fn or_line(mut self, line: u64) -> Self {
        if self.line == 0 {
            self.line = line;
        }
        self
    }

    /// The same error without values from the environment.
    fn hiding(mut self, used: &Used) -> Self {
        self.reason = used.hide(&self.reason);
        self
    }

    /// The same error, seen from the map that holds `key`.
    fn below(mut self, key: &str) -> Self {
        self.path.insert(0, key.to_owned());
        self
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.line > 0 {
            write!(f, "line {}: ", self.line)?;
        }
        if !self.path.is_empty() {
            write!(f, "`{}`: ", self.path.join("."))?;
        }
        f.write_str(&self.reason)
    }
}

impl std::error::Error for ConfigError {}

impl Config {
    /// Reads and checks a configuration. `workspace` is that of the command line and wins.
    pub(crate) fn parse(
        text: &str,
        environment: &Environment,
        workspace: Option<&Path>,
        origin: &Origin,
    ) -> Result<Self, ConfigError> {
        let mut tree = tree::parse(text)?;
        let used = environment.substitute(&mut tree)?;
        typed::read(&tree)
            .and_then(|raw| {
                origin.check(&raw, workspace)?;
                Self::check(raw, workspace)
            })
            .map_err(|error| error.hiding(&used))
    }

    /// The configuration that an empty file stands for.
    pub(crate) fn embedded(workspace: Option<&Path>) -> Result<Self, ConfigError> {
        Self::check(RawConfig::default(), workspace)
    }

    fn check(raw: RawConfig, workspace: Option<&Path>) -> Result<Self, ConfigError> {
        let workspace = workspace
            .map(Path::to_owned)
            .or(raw.workspace)
            .unwrap_or_else(|| PathBuf::from(DEFAULT_WORKSPACE));
        let mut storages = raw.object_storage;
        if storages.is_empty() {
            storages.push(RawStorage::default());
        }
        let object_storage = storages
            .into_iter()
            .enumerate()
            .map(|(at, storage)| Storage::check(storage, at, &workspace))
            .collect::<Result<Vec<_>, _>>()?;
        refuse_twins(&object_storage)?;
        let pipeline = pipeline::check(raw.pipeline, &workspace, &object_storage)?;
        let node = check_node(raw.node.as_deref().unwrap_or(DEFAULT_NODE))?;
        let catalog = database::check(Purpose::Catalog, raw.catalog.as_ref(), &workspace)?;
        let state = database::check(Purpose::State, raw.state.as_ref(), &workspace)?;
        database::check_apart(&catalog, &state)?;
        Ok(Self {
            spools: spool::check_all(raw.spools, &workspace, &node)?,
            feeds: feed::check_all(raw.feeds)?,
            node,
            journals: journal::check(raw.journals, pipeline.max_delay)?,
            catalog,
            state,
            pipeline,
            serve: Serve::check(&raw.serve)?,
            monitoring_hours: check_monitoring_hours(raw.monitoring_hours)?,
            flush_timeout: raw.flush_timeout.unwrap_or(DEFAULT_FLUSH_TIMEOUT),
            object_storage,
            workspace,
        })
    }

    /// The JSON Schema of the configuration.
    pub(crate) fn schema() -> serde_json::Value {
        schemars::schema_for!(RawConfig).to_value()
    }

    /// Takes over what a running process can change; says whether that is anything.
    pub(crate) fn take_over(&mut self, new: &Self) -> bool {
        let changed = self.feeds != new.feeds || self.flush_timeout != new.flush_timeout;
        self.feeds.clone_from(&new.feeds);
        self.flush_timeout = new.flush_timeout;
        changed
    }

    /// What is allowed and may still be a mistake.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let admin = self.serve.admin_listen;
        let exposed = admin.filter(|address| !address.ip().is_loopback());
        let exposed = exposed.map(|address| {
            format!("`serve.admin_listen` is {address}: whoever reaches that port can stop the process; a loopback address such as 127.0.0.1 keeps others away")
        });
        let storage = &self.pipeline.storage;
        let is_apart = storage.is_apart(&storage.autoclaved);
        let unsanitised = (is_apart && self.pipeline.rules.is_none()).then(|| {
            format!("archives go to object storage `{}`, and there are no `pipeline.rules`: measurements are there as they came", storage.autoclaved)
        });
        exposed.into_iter().chain(unsanitised).collect()
    }

    /// The keys whose values differ and that a running process cannot change; for a reload.
    pub(crate) fn fixed_changes(&self, new: &Self) -> Vec<&'static str> {
        [
            ("workspace", self.workspace != new.workspace),
            ("node", self.node != new.node),
            ("object_storage", self.object_storage != new.object_storage),
            ("spools", self.spools != new.spools),
            ("journals", self.journals != new.journals),
            ("catalog", self.catalog != new.catalog),
            ("state", self.state != new.state),
            ("pipeline", self.pipeline != new.pipeline),
            ("serve", self.serve != new.serve),
            (
                "monitoring_hours",
                self.monitoring_hours != new.monitoring_hours,
            ),
        ]
        .into_iter()
        .filter_map(|(key, differs)| differs.then_some(key))
        .collect()
    }
}

fn check_monitoring_hours(hours: Option<u32>) -> Result<u32, ConfigError> {
    match hours.unwrap_or(DEFAULT_MONITORING_HOURS) {
        hours @ 1..=MONITORING_HOURS_MAX => Ok(hours),
        _ => Err(ConfigError::new(
            0,
            format!("`monitoring_hours` must be between 1 and {MONITORING_HOURS_MAX}"),
        )),
    }
}

impl Serve {
    fn check(raw: &RawServe) -> Result<Self, ConfigError> {
        let address = |key: &str, text: &str| {
            text.parse().map_err(|_| {
                ConfigError::new(
                    0,
                    format!(
                        "`serve.{key}`: `{}` is not an address; write for example {DEFAULT_LISTEN}",
                        text.escape_debug()
                    ),
                )
            })
        };
        let optional =
            |key: &str, text: Option<&str>| text.map(|text| address(key, text)).transpose();
        let serve = Self {
            listen: address("listen", raw.listen.as_deref().unwrap_or(DEFAULT_LISTEN))?,
            monitoring_listen: optional("monitoring_listen", raw.monitoring_listen.as_deref())?,
            admin_listen: optional("admin_listen", raw.admin_listen.as_deref())?,
            proxied: raw.proxied,
            tls: raw.tls.as_ref().map(|tls| Tls {
                certificate: tls.certificate.clone(),
                key: tls.key.clone(),
            }),
        };
        serve.check_apart()?;
        Ok(serve)
    }

    /// Who may look must not be able to stop the process: two audiences never share a port.
    fn check_apart(&self) -> Result<(), ConfigError> {
        let named = [
            ("listen", Some(self.listen)),
            ("monitoring_listen", self.monitoring_listen),
            ("admin_listen", self.admin_listen),
        ];
        for (at, (key, address)) in named.iter().enumerate() {
            let before = named[..at].iter();
            let clash = before.filter(|(_, other)| {
                let pair = address.zip(*other);
                pair.is_some_and(|(one, two)| is_same_port(one, two))
            });
            if let Some((other, _)) = clash.into_iter().next() {
                let reason = format!(
                    "`serve.{key}` and `serve.{other}` are the same address; give each a port of its own"
                );
                return Err(ConfigError::new(0, reason));
            }
        }
        Ok(())
    }
}

/// Whether both cannot be listened on at once. Port 0 is a new one each time.
fn is_same_port(one: SocketAddr, two: SocketAddr) -> bool {
    let covers = |a: SocketAddr, b: SocketAddr| a.ip() == b.ip() || a.ip().is_unspecified();
    one.port() != 0 && one.port() == two.port() && (covers(one, two) || covers(two, one))
}

#[cfg(test)]
mod tests;
