//! The configuration as it is written: every key, its type and its meaning. The JSON Schema is made from this.

use std::collections::BTreeMap;
use std::path::PathBuf;

use cannery_runtime::{PrivateUrl, Secret};
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize};

use super::feed::RawFeed;
use super::journal::RawJournal;
use super::pipeline::RawPipeline;
use super::spool::RawSpool;
use super::units::Span;

/// The configuration of Cannery. Every key has a default that works, and an empty file is a valid configuration.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map of keys")]
#[schemars(title = "Cannery configuration")]
pub(crate) struct RawConfig {
    /// The folder under which everything local lives. Default: ./cannery-data
    pub(crate) workspace: Option<PathBuf>,
    /// This machine's name in object names: a literal, or `@FILE` to read it from a file. Default: @/etc/hostname
    pub(crate) node: Option<String>,
    /// The lake. More than one entry: mirrors, which all get every object that is collected, but for one that `pipeline.storage`
    /// names for archives alone. Default: a folder in the workspace
    pub(crate) object_storage: Vec<RawStorage>,
    /// Folders of small files that are collected into the lake. Default: none
    pub(crate) spools: Vec<RawSpool>,
    /// URLs that are downloaded again and again. Default: none
    pub(crate) feeds: Vec<RawFeed>,
    /// Journals by name. `default` is always there, and what it says is the default of all others.
    pub(crate) journals: BTreeMap<String, RawJournal>,
    /// Where the catalog is: sqlite:FILE, or postgres://user@host/database. Default: catalog.db in the workspace
    #[serde(deserialize_with = "secret_text")]
    #[schemars(with = "Option<String>")]
    pub(crate) catalog: Option<Secret>,
    /// Where what is not in the lake is, such as the history of executions: sqlite:FILE, or postgres://user@host/database.
    /// Default: state.sqlite in the workspace
    #[serde(deserialize_with = "secret_text")]
    #[schemars(with = "Option<String>")]
    pub(crate) state: Option<Secret>,
    /// How reports become cans, archives and rows of the catalog.
    pub(crate) pipeline: RawPipeline,
    /// The dashboard and the monitoring endpoints.
    pub(crate) serve: RawServe,
    /// How many hours the pages of feeds look back. Default: 72
    pub(crate) monitoring_hours: Option<u32>,
    /// How long a stop may take before what still runs is given up. Default: 60s
    pub(crate) flush_timeout: Option<Span>,
}

/// One object storage: a `url`, or the keys of an S3 service.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map of keys")]
pub(crate) struct RawStorage {
    /// Its name in commands, errors and metrics.
    pub(crate) id: Option<String>,
    /// file:FOLDER, memory:, s3://BUCKET, gs://BUCKET or az://CONTAINER, each with an optional /PREFIX.
    #[serde(deserialize_with = "private_url")]
    #[schemars(with = "Option<String>")]
    pub(crate) url: Option<PrivateUrl>,
    /// What every object key begins with. Default: none
    pub(crate) prefix: Option<String>,
    /// How the archives of an hour become one: hashed, or primary for a key that everybody knows. Default: hashed
    pub(crate) reconciliation_algorithm: Option<Reconciliation>,
    /// The URL of an S3 service that is not Amazon's.
    #[serde(deserialize_with = "private_url")]
    #[schemars(with = "Option<String>")]
    pub(crate) endpoint_url: Option<PrivateUrl>,
    /// The region of the bucket. Default: us-east-1
    pub(crate) region_name: Option<String>,
    /// The bucket, where no `url` names it.
    pub(crate) bucket: Option<String>,
    /// What kind of service it is, where no `url` says so.
    pub(crate) service_name: Option<Service>,
    /// Default: the environment variable AWS_ACCESS_KEY_ID
    #[serde(deserialize_with = "secret")]
    #[schemars(with = "Option<String>")]
    pub(crate) aws_access_key_id: Option<Secret>,
    /// Default: the environment variable AWS_SECRET_ACCESS_KEY
    #[serde(deserialize_with = "secret")]
    #[schemars(with = "Option<String>")]
    pub(crate) aws_secret_access_key: Option<Secret>,
}

/// How the archives that replicas made of an hour become one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Reconciliation {
    #[default]
    Hashed,
    Primary,
}

/// The kind of a storage service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Service {
    S3,
    Gs,
    Az,
}

/// Where the HTTP server listens.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, expecting = "a map of keys")]
pub(crate) struct RawServe {
    /// The address of the dashboard. Default: 127.0.0.1:8420
    pub(crate) listen: Option<String>,
    /// Another address with read-only routes alone, safe to expose. Default: none
    pub(crate) monitoring_listen: Option<String>,
    /// An address for an operator of this process, who may stop it there. Default: none
    pub(crate) admin_listen: Option<String>,
    /// Whether a proxy stands in front of `listen`: then nobody counts as being on this machine. Default: false
    pub(crate) proxied: bool,
    /// The files for TLS on `listen`, which credentials from other machines need. Default: none, plain HTTP
    pub(crate) tls: Option<RawTls>,
}

/// The files for TLS.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, expecting = "a map of keys")]
pub(crate) struct RawTls {
    /// The certificate in PEM, followed by those between it and one that clients know.
    pub(crate) certificate: PathBuf,
    /// Its private key in PEM.
    pub(crate) key: PathBuf,
}

/// Remembered nowhere: only the password in it is a secret.
fn secret_text<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(Secret::unremembered))
}

fn secret<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Secret>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(Secret::new))
}

pub(super) fn private_url<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<PrivateUrl>, D::Error> {
    Ok(Option::<String>::deserialize(deserializer)?.map(PrivateUrl::new))
}
