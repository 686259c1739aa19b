//! The configuration: read from a file or a URL, checked once, and from then on only values that make sense.

use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cannery_formats::Key;
use cannery_lake::{Address, Credentials};
use cannery_runtime::RealDisk;
use cannery_runtime::disk::{Disk as _, Kind, read};
use cannery_runtime::secret::redact;
use cannery_runtime::{PrivateUrl, Secret};
use serde::Serialize;

pub(crate) mod environment;
mod raw;
pub(crate) mod source;
mod tree;
mod typed;
pub(crate) mod units;

use environment::Environment;
use raw::{RawConfig, RawServe, RawStorage, Service};
use units::Span;

pub(crate) const DEFAULT_WORKSPACE: &str = "cannery-data";
const DEFAULT_LISTEN: &str = "127.0.0.1:8420";
const DEFAULT_NODE: &str = "@/etc/hostname";
const DEFAULT_FLUSH_TIMEOUT: Span = Span(Duration::from_secs(60));
const NODE_BYTES_MAX: u64 = 253;

/// A checked configuration.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Config {
    pub(crate) workspace: PathBuf,
    pub(crate) node: String,
    pub(crate) object_storage: Vec<Storage>,
    pub(crate) serve: Serve,
    pub(crate) flush_timeout: Span,
}

/// One checked storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Storage {
    pub(crate) id: String,
    #[serde(serialize_with = "as_url")]
    pub(crate) url: Address,
    pub(crate) prefix: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint_url: Option<PrivateUrl>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) region_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) aws_access_key_id: Option<Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) aws_secret_access_key: Option<Secret>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Serve {
    pub(crate) listen: SocketAddr,
    pub(crate) monitoring_listen: Option<SocketAddr>,
}

/// Who wrote a configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// Somebody on this machine.
    Here,
    /// Whoever answers at a URL.
    Elsewhere,
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
    fn hiding(mut self, environment: &Environment) -> Self {
        self.reason = environment.hide(&self.reason);
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
        origin: Origin,
    ) -> Result<Self, ConfigError> {
        let mut tree = tree::parse(text)?;
        environment.substitute(&mut tree)?;
        let templates = text.contains("{{");
        typed::read(&tree)
            .and_then(|raw| Self::check(raw, workspace, origin))
            .map_err(|error| {
                if templates {
                    error.hiding(environment)
                } else {
                    error
                }
            })
    }

    /// The configuration that an empty file stands for.
    pub(crate) fn embedded(workspace: Option<&Path>) -> Result<Self, ConfigError> {
        Self::check(RawConfig::default(), workspace, Origin::Here)
    }

    fn check(
        raw: RawConfig,
        workspace: Option<&Path>,
        origin: Origin,
    ) -> Result<Self, ConfigError> {
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
        Ok(Self {
            node: check_node(raw.node.as_deref().unwrap_or(DEFAULT_NODE), origin)?,
            serve: Serve::check(&raw.serve)?,
            flush_timeout: raw.flush_timeout.unwrap_or(DEFAULT_FLUSH_TIMEOUT),
            object_storage,
            workspace,
        })
    }

    /// The JSON Schema of the configuration.
    pub(crate) fn schema() -> serde_json::Value {
        schemars::schema_for!(RawConfig).to_value()
    }

    /// The keys whose values differ and that a running process cannot change; for a reload.
    pub(crate) fn fixed_changes(&self, new: &Self) -> Vec<&'static str> {
        [
            ("workspace", self.workspace != new.workspace),
            ("node", self.node != new.node),
            ("object_storage", self.object_storage != new.object_storage),
            ("serve", self.serve != new.serve),
        ]
        .into_iter()
        .filter_map(|(key, differs)| differs.then_some(key))
        .collect()
    }
}

impl Storage {
    fn check(raw: RawStorage, at: usize, workspace: &Path) -> Result<Self, ConfigError> {
        let id = raw.id.clone().unwrap_or_else(|| {
            if at == 0 {
                "main".to_owned()
            } else {
                format!("mirror{at}")
            }
        });
        let wrong =
            |reason: String| ConfigError::new(0, format!("object storage `{id}`: {reason}"));
        if id.is_empty()
            || !id
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte))
        {
            return Err(ConfigError::new(
                0,
                format!(
                    "object storage id `{}` may contain only letters, digits, `_`, `-` and `.`",
                    id.escape_debug()
                ),
            ));
        }
        let (mut address, prefix) = Self::address(&raw, workspace).map_err(wrong)?;
        if let Address::S3 {
            endpoint, region, ..
        } = &mut address
        {
            endpoint.clone_from(&raw.endpoint_url);
            region.clone_from(&raw.region_name);
        }
        if let Address::Az { endpoint, .. } = &mut address {
            endpoint.clone_from(&raw.endpoint_url);
        }
        refuse_unused(&raw, &address).map_err(wrong)?;
        if raw.aws_access_key_id.is_some() != raw.aws_secret_access_key.is_some() {
            return Err(wrong(
                "`aws_access_key_id` and `aws_secret_access_key` come only together".to_owned(),
            ));
        }
        Ok(Self {
            id,
            url: address,
            prefix,
            endpoint_url: raw.endpoint_url,
            region_name: raw.region_name,
            aws_access_key_id: raw.aws_access_key_id,
            aws_secret_access_key: raw.aws_secret_access_key,
        })
    }

    fn address(raw: &RawStorage, workspace: &Path) -> Result<(Address, String), String> {
        let (address, within) = match (&raw.url, &raw.bucket) {
            (Some(_), Some(_)) => return Err("give either `url` or `bucket`, not both".to_owned()),
            (Some(url), None) => Address::parse(url.expose()).map_err(|error| error.to_string())?,
            (None, Some(bucket)) if !is_bucket(bucket) => {
                return Err(
                    "`bucket` may contain only letters, digits, `.`, `_` and `-`".to_owned(),
                );
            }
            (None, Some(bucket)) => {
                let scheme = match raw.service_name.unwrap_or(Service::S3) {
                    Service::S3 => "s3",
                    Service::Gs => "gs",
                    Service::Az => "az",
                };
                Address::parse(&format!("{scheme}://{bucket}"))
                    .map_err(|error| error.to_string())?
            }
            (None, None) if raw.endpoint_url.is_some() || raw.service_name.is_some() => {
                return Err("it has neither `url` nor `bucket`".to_owned());
            }
            (None, None) => (Address::File(workspace.join("lake")), String::new()),
        };
        let parts = [
            within.as_str(),
            raw.prefix.as_deref().unwrap_or_default().trim_matches('/'),
        ];
        let prefix = parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join("/");
        if !prefix.is_empty() {
            Key::new(&prefix).map_err(|error| format!("`prefix`: {}", error.reason))?;
        }
        Ok((address, prefix))
    }

    /// Where its objects are, without secrets.
    pub(crate) fn place(&self) -> String {
        match self.prefix.as_str() {
            "" => self.url.url(),
            prefix => format!("{}/{prefix}", self.url.url()),
        }
    }

    pub(crate) fn credentials(&self, environment: Vec<(String, Secret)>) -> Credentials {
        Credentials {
            access_key_id: self.aws_access_key_id.clone(),
            secret_access_key: self.aws_secret_access_key.clone(),
            environment,
        }
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
        Ok(Self {
            listen: address("listen", raw.listen.as_deref().unwrap_or(DEFAULT_LISTEN))?,
            monitoring_listen: raw
                .monitoring_listen
                .as_deref()
                .map(|text| address("monitoring_listen", text))
                .transpose()?,
        })
    }
}

fn is_bucket(name: &str) -> bool {
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
}

/// A key that has no effect on this kind of storage would be believed to have one.
fn refuse_unused(raw: &RawStorage, address: &Address) -> Result<(), String> {
    let (s3, endpoint) = match address {
        Address::S3 { .. } => (true, true),
        Address::Az { .. } => (false, true),
        Address::File(_) | Address::Memory | Address::Gs { .. } => (false, false),
    };
    let given = [
        ("endpoint_url", raw.endpoint_url.is_some() && !endpoint),
        ("region_name", raw.region_name.is_some() && !s3),
        ("aws_access_key_id", raw.aws_access_key_id.is_some() && !s3),
        (
            "aws_secret_access_key",
            raw.aws_secret_access_key.is_some() && !s3,
        ),
    ];
    match given.into_iter().find(|(_, unused)| *unused) {
        Some((key, _)) => Err(format!(
            "`{key}` has no effect on {}; remove it",
            address.url()
        )),
        None => Ok(()),
    }
}

fn refuse_twins(storages: &[Storage]) -> Result<(), ConfigError> {
    for (at, storage) in storages.iter().enumerate() {
        for other in &storages[..at] {
            if other.id == storage.id {
                return Err(ConfigError::new(
                    0,
                    format!("two object storages have the id `{}`", storage.id),
                ));
            }
            if is_same_place(other, storage) {
                let (one, two) = (&other.id, &storage.id);
                return Err(ConfigError::new(
                    0,
                    format!("object storages `{one}` and `{two}` are the same place"),
                ));
            }
        }
    }
    Ok(())
}

/// Whether two storages would be one: two copies in one place are one copy.
fn is_same_place(one: &Storage, two: &Storage) -> bool {
    let folder = |path: &Path| {
        std::fs::canonicalize(path)
            .or_else(|_| std::path::absolute(path))
            .ok()
    };
    match (&one.url, &two.url) {
        (Address::File(one_path), Address::File(two_path)) => {
            let tidy =
                |path: Option<PathBuf>| path.map(|path| path.components().collect::<PathBuf>());
            tidy(folder(one_path)) == tidy(folder(two_path)) && one.prefix == two.prefix
        }
        (Address::Memory, Address::Memory) => false,
        (one_address, two_address) => one_address == two_address && one.prefix == two.prefix,
    }
}

/// A node's name becomes a part of object names and of log lines. Only a configuration of this machine may name a file: the
/// author of one from elsewhere must not read files here.
fn check_node(text: &str, origin: Origin) -> Result<String, ConfigError> {
    let wrong = |reason: String| ConfigError::new(0, format!("`node`: {reason}"));
    let name = match text.strip_prefix('@') {
        None => text.to_owned(),
        Some(_) if origin == Origin::Elsewhere && text != DEFAULT_NODE => {
            return Err(wrong(
                "a configuration from a URL may not name a file".to_owned(),
            ));
        }
        Some(file) => match read_name(Path::new(file)) {
            Ok(content) => String::from_utf8_lossy(&content).into_owned(),
            // A machine without the file still has to run out of the box.
            Err(_) if text == DEFAULT_NODE => "localhost".to_owned(),
            Err(error) => return Err(wrong(format!("cannot read `{file}`: {error}"))),
        },
    };
    let name = name.trim();
    let sound = !name.is_empty()
        && name.len() as u64 <= NODE_BYTES_MAX
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    match (sound, text.strip_prefix('@')) {
        (true, _) => Ok(name.to_owned()),
        (false, Some(file)) => Err(wrong(format!("`{file}` does not hold a host name"))),
        (false, None) => Err(wrong(format!(
            "`{}` is not a host name",
            name.escape_debug()
        ))),
    }
}

/// Follows links, as `/etc/hostname` may be one, but waits for no pipe.
fn read_name(file: &Path) -> std::io::Result<Vec<u8>> {
    let path = std::fs::canonicalize(file)?;
    if RealDisk.metadata(&path)?.kind != Kind::File {
        return Err(std::io::Error::other("it is not a regular file"));
    }
    read(&RealDisk, &path, NODE_BYTES_MAX)
}

fn as_url<S: serde::Serializer>(address: &Address, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&address.url())
}

#[cfg(test)]
mod tests;
