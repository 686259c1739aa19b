//! Spools: from the keys of the configuration, and the flags of a command, to settings that make sense.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cannery_collect::schema::SchemaFile;
use cannery_collect::spool::{BadFiles, SpoolFull};
use cannery_formats::NodeName;
use cannery_formats::spool::{Datatype, Experiment, ObjectHome};
use serde::{Serialize, Serializer};

mod raw;

pub(crate) use raw::{BadFilesWord, RawDatatype, RawSpool, SpoolFullWord};

use super::ConfigError;
use super::units::{Bytes, Span};

const DEFAULT_EXTENSION: &str = ".json";
/// Rows are held in memory one by one, and a loader reads a bundle as one object.
const BUNDLE_BYTES_LIMIT: u64 = 1 << 30;

/// One checked spool, as it is shown.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct SpoolConfig {
    #[serde(serialize_with = "shown")]
    pub(crate) experiment: Experiment,
    pub(crate) home: PathBuf,
    #[serde(serialize_with = "version_of")]
    pub(crate) object_home: ObjectHome,
    pub(crate) organization: Option<String>,
    pub(crate) datatypes: Vec<DatatypeConfig>,
    pub(crate) extensions: Vec<String>,
    pub(crate) bundle_bytes_max: Bytes,
    pub(crate) bundle_age_max: Span,
    pub(crate) min_file_age: Span,
    pub(crate) scan_interval: Span,
    pub(crate) flush_timeout: Span,
    pub(crate) upload_schema: bool,
    pub(crate) bad_files: BadFilesWord,
    pub(crate) quarantine_bytes_max: Bytes,
    pub(crate) spool_bytes_max: Option<Bytes>,
    pub(crate) spool_full: SpoolFullWord,
    pub(crate) id_column: bool,
    pub(crate) index_loadable: bool,
}

/// One datatype of a checked spool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct DatatypeConfig {
    #[serde(serialize_with = "shown")]
    pub(crate) name: Datatype,
    pub(crate) schema_file: PathBuf,
}

fn shown<S: Serializer>(word: &impl std::fmt::Display, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(word)
}

fn version_of<S: Serializer>(home: &ObjectHome, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(home.version())
}

/// Checks all spools. A spool's files are known by the node's name, so that must be one for object names.
pub(super) fn check_all(
    raw: Vec<RawSpool>,
    workspace: &Path,
    node: &str,
) -> Result<Vec<SpoolConfig>, ConfigError> {
    let wrong = |at: usize, reason: String| {
        ConfigError::new(0, reason)
            .below(&at.to_string())
            .below("spools")
    };
    if !raw.is_empty() {
        NodeName::parse(node).map_err(|error| {
            let reason = format!("{error}; set `node` to a name such as mlab1-lga01");
            ConfigError::new(0, reason).below("node")
        })?;
    }
    let mut spools: Vec<SpoolConfig> = Vec::new();
    for (at, raw) in raw.into_iter().enumerate() {
        let spool = SpoolConfig::check(raw, workspace).map_err(|reason| wrong(at, reason))?;
        if spools
            .iter()
            .any(|known| known.experiment == spool.experiment)
        {
            let reason = format!(
                "experiment `{}` has two spools; list all its datatypes in one",
                spool.experiment
            );
            return Err(wrong(at, reason));
        }
        spools.push(spool);
    }
    Ok(spools)
}

impl SpoolConfig {
    /// The datatypes for a person.
    pub(crate) fn names(&self) -> Vec<&str> {
        let datatypes = self.datatypes.iter();
        datatypes.map(|datatype| datatype.name.as_str()).collect()
    }

    /// The folder in the workspace for everything of this spool.
    pub(crate) fn folder(&self, workspace: &Path) -> PathBuf {
        workspace.join("collect").join(self.experiment.as_str())
    }

    /// Checks one spool; the error says which key is wrong.
    pub(crate) fn check(raw: RawSpool, workspace: &Path) -> Result<Self, String> {
        let experiment = raw
            .experiment
            .ok_or("`experiment` is missing: the measurement service, such as ndt")?;
        let experiment =
            Experiment::new(&experiment).map_err(|error| format!("`experiment`: {error}"))?;
        let home = raw.home.unwrap_or_else(|| workspace.join("spool"));
        let default = ObjectHome::V1.version();
        let object_home = raw.object_home.as_deref().unwrap_or(default);
        let object_home = ObjectHome::new(object_home, raw.organization.as_deref())
            .map_err(|error| format!("`object_home`: {error}"))?;
        let bundle_bytes_max = raw.bundle_bytes_max.unwrap_or(Bytes(20 << 20));
        if !(1..=BUNDLE_BYTES_LIMIT).contains(&bundle_bytes_max.0) {
            return Err("`bundle_bytes_max` must be from 1 byte to 1GiB".to_owned());
        }
        let minutes = |minutes: u64| Span(Duration::from_secs(60 * minutes));
        Ok(Self {
            datatypes: check_datatypes(raw.datatypes, &home)?,
            extensions: check_extensions(raw.extensions)?,
            organization: raw.organization,
            bundle_age_max: above_zero(raw.bundle_age_max, minutes(60), "bundle_age_max")?,
            min_file_age: raw.min_file_age.unwrap_or(minutes(120)),
            scan_interval: above_zero(raw.scan_interval, minutes(5), "scan_interval")?,
            flush_timeout: raw.flush_timeout.unwrap_or(minutes(1)),
            upload_schema: raw.upload_schema.unwrap_or(true),
            bad_files: raw.bad_files.unwrap_or(BadFilesWord(BadFiles::Quarantine)),
            quarantine_bytes_max: raw.quarantine_bytes_max.unwrap_or(Bytes(1 << 30)),
            spool_bytes_max: raw.spool_bytes_max,
            spool_full: raw.spool_full.unwrap_or(SpoolFullWord(SpoolFull::Refuse)),
            id_column: raw.id_column.unwrap_or(false),
            index_loadable: raw.index_loadable.unwrap_or(false),
            experiment,
            home,
            object_home,
            bundle_bytes_max,
        })
    }

    /// This spool as it was written, for what is said on top of it.
    pub(crate) fn to_raw(&self) -> RawSpool {
        let datatypes = self.datatypes.iter().map(|datatype| RawDatatype {
            name: datatype.name.to_string(),
            schema_file: Some(datatype.schema_file.clone()),
        });
        RawSpool {
            experiment: Some(self.experiment.to_string()),
            home: Some(self.home.clone()),
            object_home: Some(self.object_home.version().to_owned()),
            organization: self.organization.clone(),
            datatypes: datatypes.collect(),
            extensions: Some(self.extensions.clone()),
            bundle_bytes_max: Some(self.bundle_bytes_max),
            bundle_age_max: Some(self.bundle_age_max),
            min_file_age: Some(self.min_file_age),
            scan_interval: Some(self.scan_interval),
            flush_timeout: Some(self.flush_timeout),
            upload_schema: Some(self.upload_schema),
            bad_files: Some(self.bad_files),
            quarantine_bytes_max: Some(self.quarantine_bytes_max),
            spool_bytes_max: self.spool_bytes_max,
            spool_full: Some(self.spool_full),
            id_column: Some(self.id_column),
            index_loadable: Some(self.index_loadable),
        }
    }
}

fn above_zero(span: Option<Span>, default: Span, key: &str) -> Result<Span, String> {
    match span.unwrap_or(default) {
        Span(Duration::ZERO) => Err(format!("`{key}` must be longer than 0s")),
        span => Ok(span),
    }
}

fn check_datatypes(raw: Vec<RawDatatype>, home: &Path) -> Result<Vec<DatatypeConfig>, String> {
    if raw.is_empty() {
        return Err("`datatypes` is empty: name at least one, such as foo1".to_owned());
    }
    let mut datatypes: Vec<DatatypeConfig> = Vec::new();
    for raw in raw {
        let name = Datatype::new(&raw.name).map_err(|error| format!("`datatypes`: {error}"))?;
        if datatypes.iter().any(|known| known.name == name) {
            return Err(format!("`datatypes`: `{name}` stands there twice"));
        }
        let schema_file = raw
            .schema_file
            .unwrap_or_else(|| SchemaFile::default_path(home, &name));
        datatypes.push(DatatypeConfig { name, schema_file });
    }
    Ok(datatypes)
}

fn check_extensions(raw: Option<Vec<String>>) -> Result<Vec<String>, String> {
    let extensions = raw.unwrap_or_else(|| vec![DEFAULT_EXTENSION.to_owned()]);
    if extensions.is_empty() {
        return Err("`extensions` is empty: nothing would ever be collected".to_owned());
    }
    let sound = |extension: &&String| {
        extension.len() > 1
            && extension.starts_with('.')
            && !extension.contains(|c: char| c.is_control() || c == '/')
    };
    match extensions.iter().find(|extension| !sound(extension)) {
        Some(odd) => Err(format!(
            "`extensions`: `{}` is none; write for example .json",
            odd.escape_debug()
        )),
        None => Ok(extensions),
    }
}

#[cfg(test)]
mod tests;
