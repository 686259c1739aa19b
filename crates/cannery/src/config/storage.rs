//! One object storage: from the keys of the configuration to an address that makes sense.

use std::path::{Path, PathBuf};

use cannery_formats::Key;
use cannery_lake::{Address, Credentials};
use cannery_runtime::{PrivateUrl, Secret};
use serde::Serialize;

use super::ConfigError;
use super::raw::{RawStorage, Reconciliation, Service};

impl RawStorage {
    /// Whether it is a folder of this machine that is named, and not the one in the workspace.
    pub(super) fn names_folder(&self) -> bool {
        let address = self.url.as_ref().map(|url| Address::parse(url.expose()));
        matches!(address, Some(Ok((Address::File(_), _))))
    }
}

/// One checked storage.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Storage {
    pub(crate) id: String,
    #[serde(serialize_with = "as_url")]
    pub(crate) url: Address,
    pub(crate) prefix: String,
    pub(crate) reconciliation_algorithm: Reconciliation,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) endpoint_url: Option<PrivateUrl>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) region_name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) aws_access_key_id: Option<Secret>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) aws_secret_access_key: Option<Secret>,
}

impl Storage {
    pub(super) fn check(raw: RawStorage, at: usize, workspace: &Path) -> Result<Self, ConfigError> {
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
            reconciliation_algorithm: raw.reconciliation_algorithm.unwrap_or_default(),
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

/// Refuses storages that could not be told apart.
pub(super) fn refuse_twins(storages: &[Storage]) -> Result<(), ConfigError> {
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

fn as_url<S: serde::Serializer>(address: &Address, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&address.url())
}
