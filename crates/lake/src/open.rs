//! From a URL or the keys of the configuration to a store.

use std::path::PathBuf;
use std::sync::Arc;

use cannery_runtime::{Disk, PrivateUrl, Rng, Secret};
use object_store::aws::{AmazonS3Builder, AmazonS3ConfigKey};
use object_store::azure::{AzureConfigKey, MicrosoftAzureBuilder};
use object_store::gcp::{GoogleCloudStorageBuilder, GoogleConfigKey};
use object_store::memory::InMemory;
use object_store::{ClientOptions, ObjectStore, RetryConfig};

use crate::disk_store::DiskStore;
use crate::listing_check::CheckedConnector;

/// Where a lake is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A local folder.
    File(PathBuf),
    /// Memory: gone when the process ends.
    Memory,
    /// S3 or what speaks it.
    S3 {
        /// The bucket.
        bucket: String,
        /// The server, if it is not Amazon's.
        endpoint: Option<PrivateUrl>,
        /// The region.
        region: Option<String>,
    },
    /// Google Cloud Storage.
    Gs {
        /// The bucket.
        bucket: String,
    },
    /// Azure Blob Storage.
    Az {
        /// The container.
        container: String,
        /// The server, if it is not Azure's.
        endpoint: Option<PrivateUrl>,
    },
}

/// Who is asking.
#[derive(Clone, Debug, Default)]
pub struct Credentials {
    /// `aws_access_key_id` of the configuration.
    pub access_key_id: Option<Secret>,
    /// `aws_secret_access_key` of the configuration.
    pub secret_access_key: Option<Secret>,
    /// The variables `AWS_*`, `GOOGLE_*` and `AZURE_*` of the environment, which the stores' own tools use as well.
    pub environment: Vec<(String, Secret)>,
}

/// A store cannot be opened as configured.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OpenError(pub String);

impl Address {
    /// Reads a URL: `file:PATH`, `memory:`, `s3://BUCKET[/PREFIX]`, `gs://BUCKET[/PREFIX]` or `az://CONTAINER[/PREFIX]`.
    /// The prefix is returned beside the address.
    ///
    /// # Errors
    /// [`OpenError`] says what the URL lacks.
    pub fn parse(url: &str) -> Result<(Self, String), OpenError> {
        // What an error quotes must not show what may stand before an `@`.
        let shown = PrivateUrl::new(url);
        let unknown = || {
            OpenError(format!(
                "`{shown}` is not the URL of a lake; use file:, memory:, s3://, gs:// or az://"
            ))
        };
        let (scheme, rest) = url.split_once(':').ok_or_else(unknown)?;
        match scheme {
            "file" => {
                let path = rest.strip_prefix("//").unwrap_or(rest);
                let relative = rest.starts_with("//") && !path.starts_with('/');
                if path.is_empty() || relative || path.starts_with('~') {
                    return Err(OpenError(format!(
                        "`{shown}` names no folder; write file:./folder or file:/folder, with the whole path"
                    )));
                }
                Ok((Self::File(path.into()), String::new()))
            }
            "memory" => Ok((Self::Memory, rest.trim_matches('/').to_owned())),
            "s3" | "gs" | "az" => {
                let rest = rest.strip_prefix("//").ok_or_else(unknown)?;
                if rest.contains(['?', '#', '@']) {
                    let reason =
                        "a user, a query or a fragment; give credentials by their own keys";
                    return Err(OpenError(format!("`{shown}` must not have {reason}")));
                }
                let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
                if name.is_empty() {
                    return Err(OpenError(format!(
                        "`{shown}` names no bucket; write {scheme}://bucket"
                    )));
                }
                let name = name.to_owned();
                let address = match scheme {
                    "s3" => Self::S3 {
                        bucket: name,
                        endpoint: None,
                        region: None,
                    },
                    "gs" => Self::Gs { bucket: name },
                    _ => Self::Az {
                        container: name,
                        endpoint: None,
                    },
                };
                Ok((address, prefix.trim_matches('/').to_owned()))
            }
            _ => Err(unknown()),
        }
    }

    /// The address as a URL without secrets, as it appears in rows that name their object.
    #[must_use]
    pub fn url(&self) -> String {
        match self {
            Self::File(path) => format!("file:{}", path.display()),
            Self::Memory => "memory:".to_owned(),
            Self::S3 { bucket, .. } => format!("s3://{bucket}"),
            Self::Gs { bucket } => format!("gs://{bucket}"),
            Self::Az { container, .. } => format!("az://{container}"),
        }
    }

    /// Makes the store. Nothing is read, written or connected to.
    ///
    /// # Errors
    /// [`OpenError`] when something in the address or the credentials is missing or malformed.
    pub fn open(
        &self,
        credentials: &Credentials,
        disk: Arc<dyn Disk>,
        rng: Rng,
    ) -> Result<Arc<dyn ObjectStore>, OpenError> {
        match self {
            Self::File(path) => Ok(Arc::new(DiskStore::new(disk, path, rng))),
            Self::Memory => Ok(Arc::new(InMemory::new())),
            Self::S3 {
                bucket,
                endpoint,
                region,
            } => open_s3(bucket, endpoint.as_ref(), region.as_deref(), credentials),
            Self::Gs { bucket } => open_gs(bucket, credentials),
            Self::Az {
                container,
                endpoint,
            } => open_az(container, endpoint.as_ref(), credentials),
        }
    }
}

fn open_s3(
    bucket: &str,
    endpoint: Option<&PrivateUrl>,
    region: Option<&str>,
    credentials: &Credentials,
) -> Result<Arc<dyn ObjectStore>, OpenError> {
    let mut builder = AmazonS3Builder::new()
        .with_client_options(client_options(endpoint)?)
        .with_http_connector(CheckedConnector)
        .with_retry(no_retries())
        // One key at a time is deleted anyway, and the answer to a single delete says why it was refused.
        .with_disable_bulk_delete(true);
    // Keys of the configuration and a token of the environment would be two identities in one request.
    let own = credentials.access_key_id.is_some();
    let identity = [
        AmazonS3ConfigKey::AccessKeyId,
        AmazonS3ConfigKey::SecretAccessKey,
        AmazonS3ConfigKey::Token,
    ];
    for (key, value) in credentials.known::<AmazonS3ConfigKey>("AWS_") {
        if !(own && identity.contains(&key)) {
            builder = builder.with_config(key, value);
        }
    }
    builder = builder.with_bucket_name(bucket);
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint.expose());
    }
    if let Some(region) = region {
        builder = builder.with_region(region);
    }
    if let Some(id) = &credentials.access_key_id {
        builder = builder.with_access_key_id(id.expose());
    }
    if let Some(secret) = &credentials.secret_access_key {
        builder = builder.with_secret_access_key(secret.expose());
    }
    Ok(Arc::new(builder.build().map_err(|error| unusable(&error))?))
}

fn open_gs(bucket: &str, credentials: &Credentials) -> Result<Arc<dyn ObjectStore>, OpenError> {
    let mut builder = GoogleCloudStorageBuilder::new()
        .with_client_options(client_options(None)?)
        .with_http_connector(CheckedConnector)
        .with_retry(no_retries());
    for (key, value) in credentials.known::<GoogleConfigKey>("GOOGLE_") {
        builder = builder.with_config(key, value);
    }
    Ok(Arc::new(
        builder
            .with_bucket_name(bucket)
            .build()
            .map_err(|error| unusable(&error))?,
    ))
}

fn open_az(
    container: &str,
    endpoint: Option<&PrivateUrl>,
    credentials: &Credentials,
) -> Result<Arc<dyn ObjectStore>, OpenError> {
    let mut builder = MicrosoftAzureBuilder::new()
        .with_client_options(client_options(endpoint)?)
        .with_http_connector(CheckedConnector)
        .with_retry(no_retries());
    for (key, value) in credentials.known::<AzureConfigKey>("AZURE_") {
        builder = builder.with_config(key, value);
    }
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint.expose().to_owned());
    }
    Ok(Arc::new(
        builder
            .with_container_name(container)
            .build()
            .map_err(|error| unusable(&error))?,
    ))
}

impl Credentials {
    /// The environment variables that a store's builder knows; others with the same beginning belong to other tools.
    fn known<K: std::str::FromStr>(&self, beginning: &str) -> impl Iterator<Item = (K, String)> {
        self.environment
            .iter()
            .filter(move |(name, _)| name.starts_with(beginning))
            .filter_map(|(name, value)| {
                Some((
                    name.to_ascii_lowercase().parse().ok()?,
                    value.expose().to_owned(),
                ))
            })
    }
}

fn unusable(error: &object_store::Error) -> OpenError {
    OpenError(cannery_runtime::secret::redact(&error.to_string()))
}

fn client_options(endpoint: Option<&PrivateUrl>) -> Result<ClientOptions, OpenError> {
    let plain = match endpoint {
        None => false,
        Some(endpoint) => match endpoint.expose().split_once("://") {
            Some(("http", _)) => true,
            Some(("https", _)) => false,
            _ => {
                return Err(OpenError(
                    "`endpoint_url` must begin with https:// or http://".to_owned(),
                ));
            }
        },
    };
    Ok(ClientOptions::new().with_allow_http(plain))
}

/// The lake repeats requests itself, with its own clock, deadline and metrics.
fn no_retries() -> RetryConfig {
    RetryConfig {
        max_retries: 0,
        ..RetryConfig::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_name_a_place_and_a_prefix() {
        for (url, address, prefix) in [
            ("file:./lake", Address::File("./lake".into()), ""),
            ("file:///srv/lake", Address::File("/srv/lake".into()), ""),
            ("memory:", Address::Memory, ""),
            ("gs://b/p/q/", Address::Gs { bucket: "b".into() }, "p/q"),
            (
                "s3://b",
                Address::S3 {
                    bucket: "b".into(),
                    endpoint: None,
                    region: None,
                },
                "",
            ),
            (
                "az://c/x",
                Address::Az {
                    container: "c".into(),
                    endpoint: None,
                },
                "x",
            ),
        ] {
            assert_eq!(
                Address::parse(url),
                Ok((address, prefix.to_owned())),
                "{url}"
            );
        }
    }

    #[test]
    fn a_wrong_url_says_what_is_expected() {
        for url in [
            "lake",
            "ftp://x/y",
            "s3:bucket",
            "s3://",
            "file:",
            "file://",
            "s3://u@b",
            "file://tmp/x",
            "file:~/x",
            "s3://b?x",
            "gs://b#x",
        ] {
            assert!(Address::parse(url).is_err(), "{url}");
        }
        let error = Address::parse("ftp://x").unwrap_err().to_string();
        assert!(
            error.contains("use file:, memory:, s3://, gs:// or az://"),
            "{error}"
        );
    }
}
