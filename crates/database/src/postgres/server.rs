//! Where the server is, and how to speak to it.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use cannery_runtime::secret::{redact, without_password};
use tokio_postgres::config::{SslMode, TargetSessionAttrs};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{Client, Config, Connection, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::fault::Fault;
use super::tls::{self, Trust};
use crate::error::{Error, ErrorKind};

const CONNECT_LIMIT: Duration = Duration::from_secs(5);

/// What carries the messages of a client; somebody has to drive it.
pub type Wire = Connection<Socket, <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream>;

/// The address of a database on a server, which may name several hosts; whichever takes writes is used.
///
/// `sslmode` is one of `disable`, `prefer` (the default: encrypted if the server can, which does not keep out somebody
/// who sits in between), `require` and `verify-full`. The last two are the same here and check the server's certificate,
/// by the machine's own list or the file named by `sslrootcert`.
#[derive(Clone)]
pub struct Server {
    shown: String,
    config: Config,
    tls: MakeRustlsConnect,
}

impl Server {
    /// Reads `postgres://user:password@host/database`. `who` is what the server shows of its clients, unless the address
    /// says otherwise.
    ///
    /// # Errors
    /// `Invalid` for what is no address, `Denied` when there is nothing to check the server's certificate by.
    pub fn parse(url: &str, who: &str) -> Result<Self, Error> {
        let shown = without_password(url);
        let (rest, extra) = split(url);
        let mut config: Config = rest.parse().map_err(|error: tokio_postgres::Error| {
            Error::invalid(format!(
                "`{shown}` is not the address of a PostgreSQL database: {}",
                redact(&cause(&error))
            ))
        })?;
        if extra.verify {
            config.ssl_mode(SslMode::Require);
        }
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_LIMIT);
        }
        if config.get_application_name().is_none() {
            config.application_name(who);
        }
        let trust = match config.get_ssl_mode() {
            SslMode::Require => Trust::Verified(extra.root),
            _ => Trust::Anybody,
        };
        Ok(Self {
            tls: tls::connector(&trust)?,
            shown,
            config,
        })
    }

    /// Connects.
    ///
    /// # Errors
    /// By kind.
    pub async fn connect(&self) -> Result<(Client, Wire), Fault> {
        let made = self.config.connect(self.tls.clone()).await;
        made.map_err(|error| Fault::of(&error))
    }

    /// Asks the server to stop what it does for a client. Nobody waits for it: a server that is away stops by itself.
    pub async fn cancel(&self, client: &Client) {
        let asked = client.cancel_token().cancel_query(self.tls.clone()).await;
        if let Err(error) = asked {
            tracing::debug!(error = redact(&error.to_string()), "cannot cancel a query");
        }
    }

    /// What makes connections to it.
    pub(super) fn parts(&self) -> (Config, MakeRustlsConnect) {
        (self.config.clone(), self.tls.clone())
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "database `{}`", self.shown)
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What PostgreSQL's own library understands and ours does not.
#[derive(Debug, Default, PartialEq, Eq)]
struct Extra {
    verify: bool,
    root: Option<PathBuf>,
}

/// Takes `sslmode=verify-full` and `sslrootcert` out of the query of a URL.
fn split(url: &str) -> (String, Extra) {
    let mut extra = Extra::default();
    let Some((before, query)) = url.split_once('?') else {
        return (url.to_owned(), extra);
    };
    let kept: Vec<&str> = query
        .split('&')
        .filter(|pair| match pair.split_once('=') {
            Some(("sslmode", "verify-full")) => {
                extra.verify = true;
                false
            }
            Some(("sslrootcert", file)) => {
                extra.root = Some(PathBuf::from(file));
                false
            }
            _ => true,
        })
        .collect();
    let rest = if kept.is_empty() {
        before.to_owned()
    } else {
        format!("{before}?{}", kept.join("&"))
    };
    (rest, extra)
}

/// The library says only that something is wrong; the reason is the source.
fn cause(error: &tokio_postgres::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

pub(super) fn no_roots(why: &str) -> Error {
    Error::new(
        ErrorKind::Denied,
        format!(
            "cannot check the certificate of the server: {why}; name a file with `sslrootcert`"
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_does_not_know_is_taken_out() {
        let (rest, extra) = split("postgres://u@h/d?sslmode=verify-full&a=b&sslrootcert=/x/ca.pem");
        assert_eq!(rest, "postgres://u@h/d?a=b");
        assert!(extra.verify);
        assert_eq!(extra.root, Some(PathBuf::from("/x/ca.pem")));
        assert_eq!(
            split("postgres://h"),
            ("postgres://h".to_owned(), Extra::default())
        );
    }

    #[test]
    fn a_wrong_address_keeps_its_secrets() {
        let error =
            Server::parse("postgres://me:canary-pg-pass@h/d?nonsense=1", "test").unwrap_err();
        assert!(!error.message.contains("canary-pg-pass"), "{error}");
        assert!(error.message.contains("nonsense"), "{error}");
        let address = Server::parse("postgres://me:canary-pg-pass@h:1,i:2/d", "test").unwrap();
        assert!(!format!("{address} {address:?}").contains("canary"));
    }
}
