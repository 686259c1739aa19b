//! S3 servers over HTTP: moto, which honours conditions, and rclone, which claims to.

use std::path::Path;
use std::process::Command;

use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{HttpRequest, HttpRequestBody};
use serde::Deserialize;
use tempfile::TempDir;

use crate::server::{self, Ready, Server};
use crate::{Error, Result, tools};

/// What a client needs to use a bucket.
#[derive(Clone, Debug)]
pub struct S3Access {
    /// `http://127.0.0.1:<port>`; buckets are in the path.
    pub endpoint: String,
    /// Any will do; this is what signatures are made for.
    pub region: String,
    /// Exists, and is empty at first.
    pub bucket: String,
    /// The access key.
    pub key_id: String,
    /// The secret key.
    pub secret: String,
}

/// The file of requests, in the folder of the server.
const REQUESTS: &str = "requests.jsonl";

/// Its own command looks at a condition and then writes, in any number of threads: between the two another may write. Here
/// one request changes something at a time. Every request is written down before it is answered.
const MOTO: &str = r#"
import json, sys, threading
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import run_simple

moto = DomainDispatcherApplication(create_backend_app)
changing = threading.Lock()
writing = threading.Lock()
requests = open(sys.argv[2], "a", buffering=1)

def application(environ, start_response):
    request = {"method": environ["REQUEST_METHOD"], "path": environ["PATH_INFO"], "range": environ.get("HTTP_RANGE")}
    with writing:
        requests.write(json.dumps(request) + "\n")
    if environ["REQUEST_METHOD"] in ("GET", "HEAD"):
        return moto(environ, start_response)
    with changing:
        return moto(environ, start_response)

run_simple("127.0.0.1", int(sys.argv[1]), application, threaded=True, request_handler=MotoRequestHandler)
"#;

/// A request as the server got it.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct S3Request {
    /// GET, HEAD, PUT, POST or DELETE.
    pub method: String,
    /// `/<bucket>/<key>`.
    pub path: String,
    /// What the header `Range` says.
    pub range: Option<String>,
}

/// A running server with an empty bucket.
#[derive(Debug)]
pub struct S3Server {
    access: S3Access,
    // Dropped before the folder that it writes to.
    _server: Server,
    dir: TempDir,
}

impl S3Server {
    /// moto: create-if-absent and If-Match are right, and atomic as it is run here. It takes any secret.
    ///
    /// # Errors
    /// [`Error::MissingTool`], or the end of the log.
    pub async fn moto() -> Result<Self> {
        let program = tools::python("moto_server")?.with_file_name("python3");
        let command = |port: u16, _: &S3Access, dir: &Path| {
            let mut command = server::command(&program);
            command.args(["-c", MOTO, &port.to_string()]);
            command.arg(dir.with_file_name(REQUESTS));
            command
        };
        Self::start("moto_server", command).await
    }

    /// rclone: ignores every condition and overwrites. A probe must find it out.
    ///
    /// # Errors
    /// [`Error::MissingTool`], or the end of the log.
    pub async fn rclone() -> Result<Self> {
        let program = tools::python("rclone")?;
        let command = |port: u16, access: &S3Access, dir: &Path| {
            let mut command = server::command(&program);
            let (address, key) = (
                format!("127.0.0.1:{port}"),
                format!("{},{}", access.key_id, access.secret),
            );
            command
                .args([
                    "serve",
                    "s3",
                    "--config",
                    "",
                    "--addr",
                    &address,
                    "--auth-key",
                    &key,
                ])
                .arg(dir);
            command
        };
        Self::start("rclone", command).await
    }

    async fn start(name: &str, command: impl Fn(u16, &S3Access, &Path) -> Command) -> Result<Self> {
        let dir = server::temp_dir(name)?;
        let data = dir.path().join("data");
        std::fs::create_dir(&data).map_err(Error::io(format!("make a folder for `{name}`")))?;
        let ready = |port| Ready::Http(S3Access::on(port).endpoint);
        let command = |port| command(port, &S3Access::on(port), &data);
        let log = dir.path().join("log");
        let (server, port) = Server::launch(name, &log, command, ready).await?;
        let access = S3Access::on(port);
        access.create_bucket(&access.bucket).await?;
        Ok(Self {
            access,
            _server: server,
            dir,
        })
    }

    /// All requests so far, in their order; only moto tells of them.
    ///
    /// # Errors
    /// When nobody wrote them down.
    pub fn requests(&self) -> Result<Vec<S3Request>> {
        let doing = "read the requests that the server wrote down";
        let text = std::fs::read_to_string(self.dir.path().join(REQUESTS));
        let text = text.map_err(Error::io(doing))?;
        let lines = text.lines().map(serde_json::from_str);
        let requests: std::result::Result<_, serde_json::Error> = lines.collect();
        requests.map_err(|error| Error::failed(doing, &error))
    }

    /// How to reach it.
    #[must_use]
    pub fn access(&self) -> &S3Access {
        &self.access
    }
}

impl S3Access {
    pub(crate) fn on(port: u16) -> Self {
        Self {
            endpoint: format!("http://127.0.0.1:{port}"),
            region: "us-east-1".into(),
            bucket: "cannery".into(),
            key_id: "testkey".into(),
            secret: "testsecret".into(),
        }
    }

    /// Creates another bucket.
    ///
    /// # Errors
    /// When the server does not answer with success.
    pub async fn create_bucket(&self, bucket: &str) -> Result<()> {
        let doing = || format!("create the bucket `{bucket}` at `{}`", self.endpoint);
        let mut request = put(&format!("{}/{bucket}", self.endpoint));
        let credential = AwsCredential {
            key_id: self.key_id.clone(),
            secret_key: self.secret.clone(),
            token: None,
        };
        AwsAuthorizer::new(&credential, "s3", &self.region)
            .try_authorize(&mut request, None)
            .map_err(|error| Error::failed(doing(), &error))?;
        send(request)
            .await
            .map_err(|why| Error::failed(doing(), &why))
    }
}

/// A PUT without a body, to be signed.
pub(crate) fn put(url: &str) -> HttpRequest {
    let mut request = HttpRequest::new(HttpRequestBody::empty());
    *request.method_mut() = reqwest::Method::PUT;
    *request.uri_mut() = url.parse().expect("our own addresses are valid");
    request
}

/// Sends a signed request without a body; success, or what the server said.
pub(crate) async fn send(request: HttpRequest) -> std::result::Result<(), String> {
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(server::READY_LIMIT);
    let client = client.build().map_err(|error| error.to_string())?;
    let answer = client
        .request(request.method().clone(), request.uri().to_string())
        .headers(request.headers().clone())
        .send()
        .await
        .map_err(|error| error.to_string())?;
    if answer.status().is_success() {
        return Ok(());
    }
    let status = answer.status();
    Err(format!(
        "{status}: {}",
        answer.text().await.unwrap_or_default()
    ))
}
