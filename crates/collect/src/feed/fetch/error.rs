//! Why a download failed: for people, and as one short word for metrics and coverage.

use std::error::Error;
use std::time::Duration;
use std::{fmt, io};

use bytes::Bytes;
use cannery_runtime::secret::redact;

use super::resolve::Unresolved;

/// What a server says of itself, in its certificate for one, is not copied without end.
const MESSAGE_CHARACTERS_MAX: usize = 300;

/// A download that failed. Its text names no URL, no header and nothing that a server sent, but for a status and the
/// names in a certificate.
#[derive(Clone, thiserror::Error)]
#[error("{message}")]
pub struct FetchError {
    /// What sort of failure, by which a caller decides.
    pub kind: FetchErrorKind,
    message: String,
    /// What came with a status that is not accepted, if it was asked for.
    pub body: Option<Bytes>,
}

/// The sorts of failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FetchErrorKind {
    /// What is asked for cannot be asked for; [`Ask::check`](super::Ask::check) says so earlier.
    Invalid,
    /// All downloads that may run at once were running for the whole time.
    Busy,
    /// The last byte had not come in time.
    Timeout,
    /// More bytes than allowed, as sent or unpacked.
    TooLarge,
    /// A status that is not accepted.
    Status(u16),
    /// An address that is not public.
    Refused,
    /// Too many redirects, or one that is not followed.
    Redirect,
    /// The name has no address.
    Dns,
    /// No connection.
    Connect,
    /// No trust in the server, or no common language.
    Tls,
    /// The answer broke off, is not HTTP, or cannot be unpacked.
    Body,
}

impl fmt::Debug for FetchError {
    /// Without the body: a server may have put into it what it was sent.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchError")
            .field("kind", &self.kind)
            .field("message", &self.message)
            .field("body_bytes", &self.body.as_ref().map(Bytes::len))
            .finish()
    }
}

impl FetchError {
    pub(super) fn new(kind: FetchErrorKind, message: impl Into<String>) -> Self {
        let message = presentable(&message.into());
        Self {
            kind,
            message,
            body: None,
        }
    }

    pub(super) fn timeout(limit: Duration) -> Self {
        let message = format!("no whole answer within {limit:?}");
        Self::new(FetchErrorKind::Timeout, message)
    }

    pub(super) fn too_large(bytes_max: u64) -> Self {
        let message = format!("the answer has more than {bytes_max} bytes");
        Self::new(FetchErrorKind::TooLarge, message)
    }

    pub(super) fn status(status: u16, body: Option<Bytes>) -> Self {
        let message = format!("the server answered {status}");
        Self {
            body,
            ..Self::new(FetchErrorKind::Status(status), message)
        }
    }

    pub(super) fn private() -> Self {
        let message = "the server has a private address; set `allow_private` if that is meant";
        Self::new(FetchErrorKind::Refused, message)
    }

    pub(super) fn broken(why: &str) -> Self {
        Self::new(FetchErrorKind::Body, format!("the answer is broken: {why}"))
    }

    pub(super) fn no_client(error: &reqwest::Error) -> Self {
        let innermost = causes(error).last().map(ToString::to_string);
        let message = format!(
            "cannot get ready to download: {}; see that the machine has certificates of authorities",
            innermost.unwrap_or_default()
        );
        Self::new(FetchErrorKind::Tls, message)
    }

    /// A failure of the client, told without the URL that its own text has.
    pub(super) fn of(error: &reqwest::Error) -> Self {
        let chain: Vec<&(dyn Error + 'static)> = causes(error).collect();
        let innermost = chain.last().map(ToString::to_string).unwrap_or_default();
        if let Some(unresolved) = find::<Unresolved>(&chain) {
            return match unresolved {
                Unresolved::Private => Self::private(),
                Unresolved::Failed(_) | Unresolved::Nothing => Self::new(
                    FetchErrorKind::Dns,
                    format!("cannot find the server: {unresolved}"),
                ),
            };
        }
        if let Some(distrust) = find::<rustls::Error>(&chain) {
            let message = format!("cannot trust the server: {distrust}");
            return Self::new(FetchErrorKind::Tls, message);
        }
        if error.is_connect() {
            let message = format!("cannot connect to the server: {innermost}");
            return Self::new(FetchErrorKind::Connect, message);
        }
        Self::broken(&innermost)
    }

    /// One short, stable word or two, for metrics and coverage.
    #[must_use]
    pub fn reason(&self) -> String {
        let reason = match self.kind {
            FetchErrorKind::Invalid => "invalid",
            FetchErrorKind::Busy => "busy",
            FetchErrorKind::Timeout => "timeout",
            FetchErrorKind::TooLarge => "too large",
            FetchErrorKind::Status(status) => return format!("status {status}"),
            FetchErrorKind::Refused => "private address",
            FetchErrorKind::Redirect => "redirect",
            FetchErrorKind::Dns => "dns",
            FetchErrorKind::Connect => "connect",
            FetchErrorKind::Tls => "tls",
            FetchErrorKind::Body => "broken answer",
        };
        reason.to_owned()
    }
}

/// Whether the server closed the connection in the place of an answer, as one does that is tired of an idle connection
/// at the moment of its next use.
pub(super) fn hung_up(error: &reqwest::Error) -> bool {
    let chain: Vec<&(dyn Error + 'static)> = causes(error).collect();
    let reset = find::<io::Error>(&chain).is_some_and(|error| {
        matches!(
            error.kind(),
            io::ErrorKind::ConnectionReset | io::ErrorKind::BrokenPipe
        )
    });
    let closed = find::<hyper::Error>(&chain).is_some_and(hyper::Error::is_incomplete_message);
    !error.is_connect() && (reset || closed)
}

/// From the outermost to the innermost. An [`io::Error`] does not name the error in it as its cause.
fn causes<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |error| {
        let error: &'a (dyn Error + 'static) = *error;
        let within = error
            .downcast_ref::<io::Error>()
            .and_then(io::Error::get_ref);
        within
            .map(|within| within as &(dyn Error + 'static))
            .or_else(|| error.source())
    })
}

fn find<'a, E: Error + 'static>(chain: &[&'a (dyn Error + 'static)]) -> Option<&'a E> {
    chain.iter().find_map(|error| error.downcast_ref())
}

fn presentable(message: &str) -> String {
    let printable = |c: char| if c.is_control() { ' ' } else { c };
    redact(message)
        .chars()
        .take(MESSAGE_CHARACTERS_MAX)
        .map(printable)
        .collect()
}
