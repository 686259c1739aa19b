//! The API of a running server, as the command line calls it.
//!
//! A token is only sent to the server that it is of: that of the workspace goes to the `cannery up` of the workspace, and none goes
//! over a wire that others can read.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cannery_formats::object_path::Area;
use cannery_formats::{ObjectPath, UserName};
use cannery_runtime::disk::{Disk, read, write_private};
use cannery_runtime::workspace::WorkspaceLock;
use cannery_runtime::{PrivateUrl, RealDisk, Secret};
use cannery_serve::encode_component;
use cannery_state::identity::LOCAL_USER;
use reqwest::{Method, RequestBuilder, Response, StatusCode};
use serde::{Deserialize, Serialize};
use url::{Host, Url};

use crate::cli::stor::ServerArgs;
use crate::commands::Context;
use crate::failure::{ExitCode, Failure};

const FILE_BYTES_MAX: u64 = 4096;

const CONNECT_LIMIT: Duration = Duration::from_secs(10);

/// A server that says nothing for so long is not waited for; storing a large object in a slow lake takes its time.
const SILENCE_MAX: Duration = Duration::from_secs(300);

/// An answer that is an error is short.
const ERROR_BYTES_MAX: usize = 64 * 1024;

/// `api.json` in the workspace: where its server is.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ApiFile {
    /// The address that it listens on.
    pub(crate) url: String,
    /// Its process.
    pub(crate) pid: u32,
}

impl ApiFile {
    fn path(workspace: &Path) -> PathBuf {
        workspace.join("api.json")
    }

    /// Tells others where this process is.
    pub(crate) fn write(disk: &dyn Disk, workspace: &Path, url: &str) -> io::Result<()> {
        let file = Self {
            url: url.to_owned(),
            pid: std::process::id(),
        };
        let text = serde_json::to_vec(&file).expect("a text and a number are JSON");
        write_private(disk, &Self::path(workspace), &text)
    }

    /// At the end of the process.
    pub(crate) fn remove(disk: &dyn Disk, workspace: &Path) {
        if let Err(error) = disk.remove_file(&Self::path(workspace)) {
            tracing::debug!(%error, "cannot remove `api.json`");
        }
    }

    /// The server of the workspace, if it runs: another program may have got its port since.
    fn find(workspace: &Path) -> Option<Self> {
        let text = read(&RealDisk, &Self::path(workspace), FILE_BYTES_MAX).ok()?;
        let file: Self = serde_json::from_slice(&text).ok()?;
        let holder = WorkspaceLock::holder(&RealDisk, workspace)?;
        (holder.pid == file.pid).then_some(file)
    }
}

/// The file of the token that the command line uses by itself.
pub(crate) fn token_path(workspace: &Path) -> PathBuf {
    workspace.join("token")
}

/// The token of the workspace; nothing where there is none.
pub(crate) fn read_token(workspace: &Path) -> Option<Secret> {
    let text = read(&RealDisk, &token_path(workspace), FILE_BYTES_MAX).ok()?;
    let text = String::from_utf8(text).ok()?;
    Some(Secret::new(text.trim())).filter(|token| !token.expose().is_empty())
}

/// A server, and as whom it is asked.
pub(crate) struct ApiClient {
    http: reqwest::Client,
    url: Url,
    token: Option<Secret>,
    user: UserName,
}

/// A path on the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RemotePath {
    pub(crate) user: UserName,
    pub(crate) path: ObjectPath,
}

impl RemotePath {
    /// `/USER/AREA/…`, each component encoded by itself.
    pub(crate) fn encoded(&self) -> String {
        let mut text = format!("/{}", self.user);
        let components = self.path.as_str().split('/').skip(1);
        for component in components {
            text.push('/');
            text += &encode_component(component);
        }
        text
    }

    pub(crate) fn child(&self, name: &str) -> Result<Self, Failure> {
        let path = self.path.child(name).map_err(invalid_path)?;
        Ok(Self {
            user: self.user.clone(),
            path,
        })
    }

    /// The directory that it lies in; nothing for that of an area.
    pub(crate) fn parent(&self) -> Option<Self> {
        let path = self.path.parent()?;
        Some(Self {
            user: self.user.clone(),
            path,
        })
    }
}

impl std::fmt::Display for RemotePath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "/{}{}", self.user, self.path)
    }
}

fn invalid_path(error: impl std::fmt::Display) -> Failure {
    let next = "write for example `stor/notes/a.txt` or `/ann/public/map.png`";
    Failure::new(ExitCode::Usage, "invalid_path", error.to_string(), next)
}

impl ApiClient {
    /// The server that was named, or that of the workspace.
    pub(crate) async fn find(args: &ServerArgs, context: &Context) -> Result<Self, Failure> {
        let local = || UserName::new(LOCAL_USER).expect("a valid name");
        let user = args.user.clone().unwrap_or_else(local);
        let (url, token) = match &args.url {
            Some(url) => (url.clone(), context.api_token.clone()),
            None => {
                let workspace = context.config().await?.workspace;
                let file =
                    ApiFile::find(&workspace).ok_or_else(|| not_running(&workspace, context))?;
                let token = context.api_token.clone().or_else(|| read_token(&workspace));
                (file.url, token)
            }
        };
        let url = checked_url(&url, token.is_some())?;
        // The certificate names the machine as others know it, not its loopback, where nobody stands in between.
        let is_own = args.url.is_none() && is_loopback(&url);
        let http = reqwest::Client::builder()
            .no_proxy()
            .connect_timeout(CONNECT_LIMIT)
            .read_timeout(SILENCE_MAX)
            .redirect(reqwest::redirect::Policy::none())
            .tls_danger_accept_invalid_certs(is_own)
            .build();
        let http = http.map_err(|error| unreachable(&url, &error))?;
        Ok(Self {
            http,
            url,
            token,
            user,
        })
    }

    /// Reads a path as a person writes it.
    pub(crate) fn path(&self, text: &str) -> Result<RemotePath, Failure> {
        let (user, rest) = match text.strip_prefix('/') {
            None => (self.user.clone(), text.strip_prefix("~~/").unwrap_or(text)),
            Some(absolute) => {
                let (user, rest) = absolute.split_once('/').unwrap_or((absolute, ""));
                (UserName::new(user).map_err(invalid_path)?, rest)
            }
        };
        let mut components = rest.split('/').filter(|component| !component.is_empty());
        let area = components.next().unwrap_or_default();
        let area = Area::ALL.into_iter().find(|one| one.name() == area);
        let area = area.ok_or_else(|| {
            invalid_path(format!(
                "`{}` is not below `stor`, `public` or `jobs` of a user",
                text.escape_debug()
            ))
        })?;
        let path = ObjectPath::from_components(area, components).map_err(invalid_path)?;
        Ok(RemotePath { user, path })
    }

    /// The address of a path.
    pub(crate) fn address(&self, path: &RemotePath) -> Url {
        let mut url = self.url.clone();
        url.set_path(&path.encoded());
        url
    }

    /// A request, with the credential.
    pub(crate) fn request(&self, method: Method, path: &RemotePath) -> RequestBuilder {
        self.query(method, path, &[])
    }

    /// The same with a query.
    pub(crate) fn query(
        &self,
        method: Method,
        path: &RemotePath,
        query: &[(&str, &str)],
    ) -> RequestBuilder {
        let mut url = self.address(path);
        if !query.is_empty() {
            url.query_pairs_mut().extend_pairs(query);
        }
        let request = self.http.request(method, url);
        match &self.token {
            Some(token) => request.bearer_auth(token.expose()),
            None => request,
        }
    }

    /// Sends a request; an answer that says no is a failure.
    pub(crate) async fn send(&self, request: RequestBuilder) -> Result<Response, Failure> {
        let response = request.send().await;
        let response = response.map_err(|error| unreachable(&self.url, &error))?;
        match response.status() {
            status if status.is_success() => Ok(response),
            status => Err(refusal(status, response).await),
        }
    }
}

/// A token goes over loopback or TLS, and nowhere else.
fn checked_url(text: &str, with_token: bool) -> Result<Url, Failure> {
    let wrong = |reason: &str| {
        let shown = PrivateUrl::new(text).to_string();
        let message = format!("cannot use the server `{}`: {reason}", shown.escape_debug());
        let next = "write for example `https://cannery.example.org` in `--url` or CANNERY_URL";
        Failure::new(ExitCode::Usage, "invalid_url", message, next)
    };
    let url = Url::parse(text).map_err(|error| wrong(&error.to_string()))?;
    if url.host().is_none() {
        return Err(wrong("it has no host"));
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(wrong(
            "it holds a user name or a password; use CANNERY_TOKEN",
        ));
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err(wrong("it must end after the host and the port"));
    }
    match url.scheme() {
        "https" => Ok(url),
        "http" if is_loopback(&url) || !with_token => Ok(url),
        "http" => Err(wrong(
            "others can read a token on its way over plain http; use https",
        )),
        _ => Err(wrong("it is neither https nor http")),
    }
}

fn is_loopback(url: &Url) -> bool {
    match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

fn not_running(workspace: &Path, context: &Context) -> Failure {
    let message = format!("no server runs in the workspace `{}`", workspace.display());
    let next = format!(
        "start `cannery up{}`, or name a server with `--url` or CANNERY_URL",
        context.same_place
    );
    Failure::new(ExitCode::Error, "not_running", message, next)
}

/// The server cannot be asked, or the connection broke.
pub(crate) fn unreachable(url: &Url, error: &reqwest::Error) -> Failure {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    let message = format!("no answer from the server `{url}`: {cause}");
    let next = "start `cannery up`, or check `--url` and CANNERY_URL";
    Failure::new(ExitCode::Error, "unreachable", message, next)
}

#[derive(Deserialize)]
struct ErrorBody {
    code: String,
    message: String,
}

/// What the server said, in its words.
async fn refusal(status: StatusCode, mut response: Response) -> Failure {
    let mut text = Vec::new();
    while let Ok(Some(piece)) = response.chunk().await
        && text.len() <= ERROR_BYTES_MAX
    {
        text.extend_from_slice(&piece);
    }
    let body = serde_json::from_slice::<ErrorBody>(&text).ok();
    let is_over_quota = body
        .as_ref()
        .is_some_and(|body| body.code == "QuotaExceeded");
    let message = match body {
        Some(body) => format!("{} ({})", body.message, body.code),
        None => format!("the server answered {status}"),
    };
    let (code, kind, next) = match status {
        _ if is_over_quota => (
            ExitCode::Full,
            "quota",
            "delete what is not needed, or raise the limit with `cannery user set NAME --bytes-max SIZE`",
        ),
        StatusCode::NOT_FOUND => (
            ExitCode::Absent,
            "absent",
            "see what is there with `cannery stor ls`",
        ),
        StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN => (
            ExitCode::Auth,
            "denied",
            "use a token of the user in CANNERY_TOKEN; `cannery token create` makes one",
        ),
        StatusCode::INSUFFICIENT_STORAGE | StatusCode::PAYLOAD_TOO_LARGE => (
            ExitCode::Full,
            "full",
            "free some space on the server, then run it again",
        ),
        StatusCode::PRECONDITION_FAILED => (
            ExitCode::Error,
            "condition",
            "look at what is there now, then decide",
        ),
        status if status.is_server_error() => (
            ExitCode::Error,
            "unavailable",
            "run it again in a while; the log of the server says more",
        ),
        _ => (ExitCode::Error, "refused", "correct the request"),
    };
    Failure::new(code, kind, message, next)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_goes_over_loopback_or_tls_alone() {
        for url in [
            "http://127.0.0.1:8420",
            "http://[::1]:8420/",
            "http://localhost:1",
            "https://h.example",
        ] {
            assert!(checked_url(url, true).is_ok(), "{url}");
        }
        for url in [
            "http://h.example",
            "http://192.0.2.1",
            "http://127.0.0.1.example",
            "ftp://localhost",
            "http://ann:secret@localhost",
            "http://localhost/prefix",
            "localhost:8420",
            "",
        ] {
            assert!(checked_url(url, true).is_err(), "{url}");
        }
        assert!(checked_url("http://h.example", false).is_ok());
    }

    #[test]
    fn components_are_encoded_each_by_itself() {
        let path = ObjectPath::from_components(Area::Stor, ["a b", "100%", "ä?#"]).unwrap();
        let user = UserName::new("ann").unwrap();
        let path = RemotePath { user, path };
        assert_eq!(path.encoded(), "/ann/stor/a%20b/100%25/%C3%A4%3F%23");
    }
}
