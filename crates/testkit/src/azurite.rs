//! The Azure Blob emulator.

use object_store::azure::{AzureAccessKey, AzureAuthorizer, AzureCredential};
use reqwest::header::{CONTENT_LENGTH, HeaderValue};
use tempfile::TempDir;

use crate::server::{self, Ready, Server};
use crate::{Error, Result, s3, tools};

/// The account that every Azurite has.
pub const ACCOUNT: &str = "devstoreaccount1";
/// Its key, which is public and the same everywhere.
pub const ACCOUNT_KEY: &str =
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";

/// A running emulator with an empty container.
#[derive(Debug)]
pub struct Azurite {
    endpoint: String,
    container: String,
    // Dropped before the folder that it writes to.
    _server: Server,
    _dir: TempDir,
}

impl Azurite {
    /// Starts it on a free port.
    ///
    /// # Errors
    /// [`Error::MissingTool`], or the end of the log.
    pub async fn start() -> Result<Self> {
        let program = tools::node("azurite-blob")?;
        let dir = server::temp_dir("azurite")?;
        let command = |port: u16| {
            let mut command = server::command(&program);
            command.args(["--silent", "--skipApiVersionCheck", "--disableTelemetry"]);
            command.args(["--blobHost", "127.0.0.1", "--blobPort", &port.to_string()]);
            command.arg("--location").arg(dir.path());
            command
        };
        let ready = |port| Ready::Http(endpoint(port));
        let log = dir.path().join("log");
        let (server, port) = Server::launch("azurite-blob", &log, command, ready).await?;
        let azurite = Self {
            endpoint: endpoint(port),
            container: "cannery".into(),
            _server: server,
            _dir: dir,
        };
        azurite.create_container(&azurite.container).await?;
        Ok(azurite)
    }

    /// The blob endpoint, with the account in its path.
    #[must_use]
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// A container that exists.
    #[must_use]
    pub fn container(&self) -> &str {
        &self.container
    }

    /// Creates another container.
    ///
    /// # Errors
    /// When the emulator does not answer with success.
    pub async fn create_container(&self, container: &str) -> Result<()> {
        let failed =
            |why: String| Error::failed(format!("create the container `{container}`"), &why);
        let mut request = s3::put(&format!("{}/{container}?restype=container", self.endpoint));
        request
            .headers_mut()
            .insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
        let key =
            AzureAccessKey::try_new(ACCOUNT_KEY).map_err(|error| failed(error.to_string()))?;
        AzureAuthorizer::new(&AzureCredential::AccessKey(key), ACCOUNT)
            .try_authorize(&mut request)
            .map_err(|error| failed(error.to_string()))?;
        s3::send(request).await.map_err(failed)
    }
}

fn endpoint(port: u16) -> String {
    format!("http://127.0.0.1:{port}/{ACCOUNT}")
}
