//! Where a configuration comes from: a file, a URL with the last good copy behind it, or nowhere.

use std::path::{Path, PathBuf};
use std::time::Duration;

use cannery_formats::Digest;
use cannery_runtime::disk::{create_dir_all, read, write_private};
use cannery_runtime::{PrivateUrl, RealDisk};
use reqwest::StatusCode;
use reqwest::header::{ETAG, IF_NONE_MATCH};
use serde::{Deserialize, Serialize};

use super::environment::Environment;
use super::permission::{Origin, Permission};
use super::tree::{TEXT_BYTES_MAX, is_blank};
use super::{Config, ConfigError, DEFAULT_WORKSPACE};

const FETCH_TIMEOUT: Duration = Duration::from_secs(15);
const REDIRECTS_MAX: usize = 5;

/// Where to look for the configuration.
#[derive(Clone, Debug)]
pub(crate) enum Source {
    /// Nowhere: the embedded defaults.
    Embedded,
    /// A file on this machine.
    File(PathBuf),
    /// A URL.
    Url(PrivateUrl),
}

/// What is needed to read a configuration, and to read it again later.
#[derive(Clone)]
pub(crate) struct Loader {
    pub(crate) source: Source,
    pub(crate) environment: Environment,
    /// `--workspace`
    pub(crate) workspace: Option<PathBuf>,
    /// `--config-allow`
    pub(crate) allowed: Vec<Permission>,
    /// `--config-insecure`
    pub(crate) allow_http: bool,
}

/// A configuration that could not be had or used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LoadError {
    #[error("configuration {place}: {error}")]
    Invalid { place: String, error: ConfigError },
    #[error("cannot read the configuration {place}: {reason}")]
    Unreadable { place: String, reason: String },
}

/// The last configuration from a URL that was good, kept in the workspace.
#[derive(Serialize, Deserialize)]
pub(crate) struct LastGood {
    /// The digest of the URL, which may hold secrets.
    url: Digest,
    etag: Option<String>,
    text: String,
}

/// When a configuration is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    /// There is none yet: an old one is better than none.
    Start,
    /// There is one in force, which stays if another cannot be had.
    Running,
}

enum Fetched {
    New { text: String, etag: Option<String> },
    Unchanged,
}

impl Loader {
    /// Reads and checks the configuration. Beside it comes the copy to [`keep`](Self::keep), if it is a new one from a URL.
    pub(crate) async fn load(&self) -> Result<(Config, Option<LastGood>), LoadError> {
        self.load_at(Moment::Start).await
    }

    /// The same while running: what says nothing is more often a file that somebody is just writing, or has emptied by mistake,
    /// than the wish to end everything. A URL that is down is an error then: the copy in the workspace may be older than what is in
    /// force.
    pub(crate) async fn load_again(&self) -> Result<(Config, Option<LastGood>), LoadError> {
        self.load_at(Moment::Running).await
    }

    async fn load_at(&self, moment: Moment) -> Result<(Config, Option<LastGood>), LoadError> {
        match &self.source {
            Source::Embedded => {
                let config = Config::embedded(self.workspace.as_deref());
                Ok((config.map_err(|error| self.invalid(error))?, None))
            }
            Source::File(path) => {
                let path = path.clone();
                let text = tokio::task::spawn_blocking(move || read_text(&path))
                    .await
                    .map_err(|error| self.unreadable(&error))?
                    .map_err(|error| self.unreadable(&error))?;
                let text =
                    String::from_utf8(text).map_err(|_| self.unreadable(&"it is not UTF-8"))?;
                if moment == Moment::Running && is_blank(&text) {
                    let why = "it is empty; write `{}` if nothing is to be configured any more";
                    return Err(self.invalid(ConfigError::new(0, why)));
                }
                Ok((self.parse(&text)?, None))
            }
            Source::Url(url) => self.load_url(url, moment).await,
        }
    }

    async fn load_url(
        &self,
        url: &PrivateUrl,
        moment: Moment,
    ) -> Result<(Config, Option<LastGood>), LoadError> {
        let last = self.last_good(url);
        let etag = last.as_ref().and_then(|last| last.etag.clone());
        match (fetch(url, etag.as_deref(), self.allow_http).await, last) {
            (Ok(Fetched::New { text, etag }), _) => {
                let config = self.parse(&text)?;
                Ok((
                    config,
                    Some(LastGood {
                        url: Digest::of(url.expose().as_bytes()),
                        etag,
                        text,
                    }),
                ))
            }
            (Ok(Fetched::Unchanged), Some(last)) => Ok((self.parse(&last.text)?, None)),
            (Ok(Fetched::Unchanged), None) => {
                Err(self.unreadable(&"the server says `not modified` to a first request"))
            }
            (Err(reason), Some(last)) if moment == Moment::Start => {
                tracing::warn!(%url, reason, "the configuration cannot be fetched; using the last good copy");
                Ok((self.parse(&last.text)?, None))
            }
            (Err(reason), _) => Err(self.unreadable(&reason)),
        }
    }

    fn parse(&self, text: &str) -> Result<Config, LoadError> {
        let origin = match self.source {
            Source::Url(_) => Origin::Elsewhere(self.allowed.clone()),
            Source::Embedded | Source::File(_) => Origin::Here,
        };
        Config::parse(text, &self.environment, self.workspace.as_deref(), &origin)
            .map_err(|error| self.invalid(error))
    }

    /// Known before the configuration is, so it is `--workspace` that decides, not the key `workspace`.
    fn last_good_path(&self) -> PathBuf {
        self.workspace
            .as_deref()
            .unwrap_or(Path::new(DEFAULT_WORKSPACE))
            .join("config-last-good.json")
    }

    fn last_good(&self, url: &PrivateUrl) -> Option<LastGood> {
        // JSON may write each character as six.
        let text = read(&RealDisk, &self.last_good_path(), 8 * TEXT_BYTES_MAX as u64).ok()?;
        match serde_json::from_slice::<LastGood>(&text) {
            Ok(last) => (last.url == Digest::of(url.expose().as_bytes())).then_some(last),
            Err(error) => {
                tracing::warn!(%error, "the last good copy of the configuration is damaged; it will be replaced");
                None
            }
        }
    }

    /// Keeps a copy for when the URL is down. Only the process that holds the workspace calls this.
    pub(crate) fn keep(&self, last: &LastGood) {
        let path = self.last_good_path();
        let text = serde_json::to_vec(last).expect("a copy is plain data");
        let folder = path.parent().expect("the copy lies in the workspace");
        let kept =
            create_dir_all(&RealDisk, folder).and_then(|()| write_private(&RealDisk, &path, &text));
        if let Err(error) = kept {
            tracing::warn!(%error, "cannot keep a copy of the configuration for when its URL is down");
        }
    }

    fn place(&self) -> String {
        match &self.source {
            Source::Embedded => "(embedded defaults)".to_owned(),
            Source::File(path) => format!("`{}`", path.display()),
            Source::Url(url) => format!("`{url}`"),
        }
    }

    fn invalid(&self, error: ConfigError) -> LoadError {
        LoadError::Invalid {
            place: self.place(),
            error,
        }
    }

    fn unreadable(&self, reason: &dyn std::fmt::Display) -> LoadError {
        LoadError::Unreadable {
            place: self.place(),
            reason: reason.to_string(),
        }
    }
}

/// Reads whatever the operator names, be it a link or a pipe; one byte over the limit is enough to refuse it.
fn read_text(path: &Path) -> std::io::Result<Vec<u8>> {
    let mut text = Vec::new();
    let limit = TEXT_BYTES_MAX as u64 + 1;
    std::io::Read::read_to_end(
        &mut std::io::Read::take(std::fs::File::open(path)?, limit),
        &mut text,
    )?;
    Ok(text)
}

async fn fetch(url: &PrivateUrl, etag: Option<&str>, allow_http: bool) -> Result<Fetched, String> {
    check_scheme(url.expose(), allow_http)?;
    let policy = reqwest::redirect::Policy::custom(move |attempt| {
        if attempt.previous().len() > REDIRECTS_MAX {
            attempt.error("too many redirects")
        } else if attempt.url().scheme() == "http"
            && attempt.previous().iter().any(|url| url.scheme() == "https")
        {
            attempt.error("a redirect from https to http is not followed")
        } else if let Err(reason) = check_scheme(attempt.url().as_str(), allow_http) {
            attempt.error(reason)
        } else {
            attempt.follow()
        }
    });
    let client = reqwest::Client::builder()
        .timeout(FETCH_TIMEOUT)
        .redirect(policy)
        .build()
        .map_err(|error| cause(&error))?;
    let mut request = client.get(url.expose());
    if let Some(etag) = etag {
        request = request.header(IF_NONE_MATCH, etag);
    }
    let mut answer = request.send().await.map_err(|error| cause(&error))?;
    match answer.status() {
        StatusCode::OK => {}
        StatusCode::NOT_MODIFIED if etag.is_some() => return Ok(Fetched::Unchanged),
        status => return Err(format!("the server answered {status}")),
    }
    let etag = answer
        .headers()
        .get(ETAG)
        .and_then(|value| value.to_str().ok())
        .map(str::to_owned);
    let mut text = Vec::new();
    while let Some(chunk) = answer.chunk().await.map_err(|error| cause(&error))? {
        if text.len() + chunk.len() > TEXT_BYTES_MAX {
            return Err(format!("it has more than {TEXT_BYTES_MAX} bytes"));
        }
        text.extend_from_slice(&chunk);
    }
    let text = String::from_utf8(text).map_err(|_| "it is not UTF-8".to_owned())?;
    // A server in trouble answers with nothing more often than somebody wants all defaults from a URL.
    if is_blank(&text) {
        return Err("the answer is empty".to_owned());
    }
    Ok(Fetched::New { text, etag })
}

/// The innermost cause, which does not quote the URL.
fn cause(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(deeper) = cause.source() {
        cause = deeper;
    }
    cannery_runtime::secret::redact(&cause.to_string())
}

/// Whoever can change the configuration on its way decides where the data goes.
fn check_scheme(url: &str, allow_http: bool) -> Result<(), String> {
    let url = url::Url::parse(url).map_err(|error| format!("it is not a URL: {error}"))?;
    let local = match url.host() {
        Some(url::Host::Domain(name)) => name == "localhost",
        Some(url::Host::Ipv4(address)) => address.is_loopback(),
        Some(url::Host::Ipv6(address)) => address.is_loopback(),
        None => false,
    };
    match url.scheme() {
        "https" => Ok(()),
        "http" if allow_http || local => Ok(()),
        "http" => Err(
            "plain http can be changed on its way; use https, or `--config-insecure` if you must"
                .to_owned(),
        ),
        other => Err(format!(
            "`{other}:` is not fetched; use https, or `--config-file` for a file"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cannery_testkit::feed_server::{Behaviour, FeedServer};

    fn loader(url: &str, workspace: &Path) -> Loader {
        Loader {
            source: Source::Url(PrivateUrl::new(url)),
            environment: Environment::all([]),
            workspace: Some(workspace.to_owned()),
            allowed: Vec::new(),
            allow_http: false,
        }
    }

    /// As `up` does it.
    async fn load(loader: &Loader) -> Result<Config, LoadError> {
        let (config, copy) = loader.load().await?;
        if let Some(copy) = copy {
            loader.keep(&copy);
        }
        Ok(config)
    }

    #[tokio::test]
    async fn the_last_good_copy_stands_in_when_the_url_is_down_or_wrong() {
        let dir = tempfile::tempdir().unwrap();
        let server = FeedServer::start().await.unwrap();
        server.on("/c.yml", Behaviour::body("node: from-url\n"));
        let url = server.url("/c.yml");
        assert_eq!(
            load(&loader(&url, dir.path())).await.unwrap().node,
            "from-url"
        );
        assert_eq!(
            load(&loader(&url, dir.path())).await.unwrap().node,
            "from-url"
        );
        let requests = server.requests("/c.yml");
        assert_eq!(requests.len(), 2);
        drop(server);
        assert_eq!(
            load(&loader(&url, dir.path())).await.unwrap().node,
            "from-url"
        );
        let other = load(&loader("http://127.0.0.1:9/c.yml", dir.path()))
            .await
            .unwrap_err()
            .to_string();
        assert!(other.contains("cannot read the configuration"), "{other}");
    }

    #[tokio::test]
    async fn a_bad_new_version_is_an_error_and_does_not_replace_the_copy() {
        let dir = tempfile::tempdir().unwrap();
        let server = FeedServer::start().await.unwrap();
        server.on("/c.yml", Behaviour::body("node: good\n"));
        let loader = loader(&server.url("/c.yml"), dir.path());
        load(&loader).await.unwrap();
        server.on("/c.yml", Behaviour::body("nodd: bad\n"));
        assert!(
            load(&loader)
                .await
                .unwrap_err()
                .to_string()
                .contains("did you mean `node`?")
        );
        server.on("/c.yml", Behaviour::Status(503));
        assert_eq!(load(&loader).await.unwrap().node, "good");
    }

    #[tokio::test]
    async fn the_last_good_copy_is_for_the_start_alone() {
        let dir = tempfile::tempdir().unwrap();
        let server = FeedServer::start().await.unwrap();
        server.on("/c.yml", Behaviour::body("node: good\n"));
        let loader = loader(&server.url("/c.yml"), dir.path());
        load(&loader).await.unwrap();
        for behaviour in [Behaviour::Status(503), Behaviour::body("")] {
            server.on("/c.yml", behaviour);
            let error = loader.load_again().await.err().unwrap().to_string();
            assert!(error.contains("cannot read the configuration"), "{error}");
            assert_eq!(load(&loader).await.unwrap().node, "good");
        }
        server.on("/c.yml", Behaviour::body("node: good\n"));
        assert_eq!(loader.load_again().await.unwrap().0.node, "good");
    }

    #[tokio::test]
    async fn a_hostile_server_gets_nowhere() {
        let dir = tempfile::tempdir().unwrap();
        let server = FeedServer::start().await.unwrap();
        server.on("/loop", Behaviour::Redirect(server.url("/loop")));
        server.on(
            "/down",
            Behaviour::Redirect("http://example.com/c.yml".into()),
        );
        server.on("/file", Behaviour::Redirect("file:///etc/passwd".into()));
        server.on("/endless", Behaviour::Endless);
        for (path, reason) in [
            ("/loop", "too many redirects"),
            ("/down", "plain http can be changed on its way"),
            ("/file", ""),
            ("/endless", "more than 1048576 bytes"),
        ] {
            let error = load(&loader(&server.url(path), dir.path()))
                .await
                .unwrap_err()
                .to_string();
            assert!(error.contains(reason), "{path}: {error}");
        }
        assert!(check_scheme("http://example.com/", false).is_err());
        assert!(check_scheme("http://example.com/", true).is_ok());
        assert!(check_scheme("https://example.com/", false).is_ok());
    }
}
