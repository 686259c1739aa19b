//! One error for everything that can go wrong with a lake, sorted by what the caller does next.

use std::error::Error as StdError;
use std::fmt;
use std::io;

use cannery_runtime::secret::redact;

use crate::disk_store::{DiskFailed, FolderMissing, IsFolder, Stranger};

/// What a lake operation returns.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What was asked for; nothing when it is not there.
///
/// # Errors
/// Any failure that does not say that it is absent.
pub fn present<T>(asked: Result<T>) -> Result<Option<T>> {
    match asked {
        Ok(there) => Ok(Some(there)),
        Err(error) if error.kind == ErrorKind::Absent => Ok(None),
        Err(error) => Err(error),
    }
}

const DETAIL_CHARS_MAX: usize = 300;

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[allow(missing_docs, reason = "each is named as the method it stands for")]
pub enum Operation {
    PutNew,
    PutIfVersion,
    Open,
    Get,
    GetRange,
    Head,
    List,
    Delete,
}

impl Operation {
    /// Its name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::PutNew => "put_new",
            Self::PutIfVersion => "put_if_version",
            Self::Open => "open",
            Self::Get => "get",
            Self::GetRange => "get_range",
            Self::Head => "head",
            Self::List => "list",
            Self::Delete => "delete",
        }
    }

    fn verb(self) -> &'static str {
        match self {
            Self::PutNew => "put",
            Self::Open => "open",
            Self::PutIfVersion => "replace",
            Self::Get | Self::GetRange | Self::Head => "get",
            Self::List => "list",
            Self::Delete => "delete",
        }
    }
}

/// What kind of failure it is: the caller decides by this alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// The object is not there.
    Absent,
    /// The bucket, container or folder is not there.
    StoreMissing,
    /// The store refused the credentials or the permission.
    Denied,
    /// The store did not answer, or not sensibly, within the deadline. The effect of a write is unknown.
    Unavailable,
    /// Somebody else's write stands in the way.
    Conflict,
    /// The request cannot be met, now or later: too large, out of range, not supported.
    Invalid,
    /// What was read is not what was written.
    Corrupt,
    /// The disk is full.
    Full,
    /// The lake belongs to somebody else, or to a newer version.
    NotOurs,
    /// A disk that failed to make a write durable; nothing more is believed of it.
    Failed,
}

impl ErrorKind {
    /// Whether it is about the store as a whole: another object would have met the same.
    #[must_use]
    pub fn is_of_the_store(self) -> bool {
        match self {
            Self::StoreMissing | Self::Denied | Self::Unavailable => true,
            Self::Full | Self::NotOurs | Self::Failed => true,
            Self::Absent | Self::Conflict | Self::Invalid | Self::Corrupt => false,
        }
    }

    /// Its name in metrics and JSON.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Absent => "absent",
            Self::StoreMissing => "store_missing",
            Self::Denied => "denied",
            Self::Unavailable => "unavailable",
            Self::Conflict => "conflict",
            Self::Invalid => "invalid",
            Self::Corrupt => "corrupt",
            Self::Full => "full",
            Self::NotOurs => "not_ours",
            Self::Failed => "failed",
        }
    }
}

/// A lake operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// What kind of failure it is.
    pub kind: ErrorKind,
    /// What was being done.
    pub operation: Operation,
    /// The id of the lake.
    pub lake: String,
    /// The key or folder it was done to; empty for the whole lake.
    pub subject: String,
    /// Why it failed, for a person.
    pub detail: String,
}

impl Error {
    /// What a person can do about it.
    #[must_use]
    pub fn next_step(&self) -> String {
        let lake = &self.lake;
        match self.kind {
            ErrorKind::Absent => "see what is there with `cannery lake ls`".to_owned(),
            ErrorKind::StoreMissing => {
                format!("create it (a local folder is made by `cannery up`), or correct object storage `{lake}` in the configuration")
            }
            ErrorKind::Denied => format!(
                "check the credentials of object storage `{lake}` and what they may do, or who owns a local folder"
            ),
            ErrorKind::Unavailable => "check the network and the store, then try again: every operation may be repeated".to_owned(),
            ErrorKind::Conflict => "look at what is there with `cannery lake cat`, and choose another key if it should stay".to_owned(),
            ErrorKind::Invalid => "nothing was changed; correct what the message names, then try again".to_owned(),
            ErrorKind::Corrupt => "nothing was changed; compare with a mirror or a backup before trusting this object".to_owned(),
            ErrorKind::Full => "free some space, then try again: nothing half-written is left behind".to_owned(),
            ErrorKind::NotOurs => format!(
                "point object storage `{lake}` at the right bucket and prefix, or use the version of cannery that made this lake"
            ),
            ErrorKind::Failed => "look at the system log, replace or repair the disk, then start again".to_owned(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} ", self.operation.verb())?;
        if !self.subject.is_empty() {
            write!(f, "`{}` in ", self.subject.escape_debug())?;
        }
        write!(f, "lake `{}`: {}", self.lake, self.detail)
    }
}

impl StdError for Error {}

/// Why one attempt failed: the part of an [`Error`] that the store knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Failure {
    pub(crate) kind: ErrorKind,
    pub(crate) detail: String,
}

impl Failure {
    pub(crate) fn new(kind: ErrorKind, detail: impl Into<String>) -> Self {
        Self {
            kind,
            detail: detail.into(),
        }
    }

    /// Whether the same request may succeed a little later.
    pub(crate) fn is_transient(&self) -> bool {
        self.kind == ErrorKind::Unavailable
    }
}

impl From<object_store::Error> for Failure {
    fn from(error: object_store::Error) -> Self {
        use object_store::Error as Store;
        let kind = match &error {
            Store::NotFound { .. } if is_store_missing(&error) => ErrorKind::StoreMissing,
            Store::NotFound { .. } => ErrorKind::Absent,
            Store::PermissionDenied { .. } | Store::Unauthenticated { .. } => ErrorKind::Denied,
            Store::AlreadyExists { .. }
            | Store::Precondition { .. }
            | Store::NotModified { .. } => ErrorKind::Conflict,
            Store::InvalidPath { .. }
            | Store::NotSupported { .. }
            | Store::NotImplemented { .. }
            | Store::UnknownConfigurationKey { .. } => ErrorKind::Invalid,
            _ => kind_of_generic(&error),
        };
        Self {
            kind,
            detail: explain(kind, &error),
        }
    }
}

/// Whether a store says that the condition of a put does not hold.
pub(crate) fn is_refusal(error: &object_store::Error) -> bool {
    use object_store::Error as Store;
    matches!(
        error,
        Store::AlreadyExists { .. } | Store::Precondition { .. } | Store::NotModified { .. }
    )
}

fn chain(error: &object_store::Error) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    std::iter::successors(Some(error as &(dyn StdError + 'static)), |error| {
        StdError::source(*error)
    })
}

fn is_store_missing(error: &object_store::Error) -> bool {
    chain(error).any(|cause| cause.is::<FolderMissing>()) || {
        let text = error.to_string();
        ["NoSuchBucket", "ContainerNotFound", "bucket does not exist"]
            .iter()
            .any(|sign| text.contains(sign))
    }
}

fn kind_of_generic(error: &object_store::Error) -> ErrorKind {
    for cause in chain(error) {
        if cause.is::<DiskFailed>() {
            return ErrorKind::Failed;
        }
        if cause.is::<IsFolder>() || cause.is::<Stranger>() {
            return ErrorKind::Invalid;
        }
        if let Some(io) = cause.downcast_ref::<io::Error>() {
            match io.kind() {
                io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
                    return ErrorKind::Full;
                }
                io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
                    return ErrorKind::Denied;
                }
                io::ErrorKind::NotADirectory
                | io::ErrorKind::IsADirectory
                | io::ErrorKind::InvalidFilename => {
                    return ErrorKind::Invalid;
                }
                _ => {}
            }
        }
    }
    let text = error.to_string();
    match element(&text, "Code") {
        Some("RequestTimeout" | "SlowDown") => return ErrorKind::Unavailable,
        Some(
            "AccessDenied"
            | "ExpiredToken"
            | "InvalidToken"
            | "InvalidAccessKeyId"
            | "SignatureDoesNotMatch",
        ) => {
            return ErrorKind::Denied;
        }
        Some(_) | None => {}
    }
    // A redirect without an address is how S3 says that the region is wrong.
    if text.contains("redirect without LOCATION") {
        return ErrorKind::Invalid;
    }
    match status_in(&text) {
        Some(401 | 403) => ErrorKind::Denied,
        // The object client reports a missing object as such: what else answers 404 is the listing of a missing bucket.
        Some(404) => ErrorKind::StoreMissing,
        // Asking again does not help when the request itself is wrong, except when told to slow down.
        Some(status) if (300..500).contains(&status) && !matches!(status, 408 | 425 | 429) => {
            ErrorKind::Invalid
        }
        Some(_) | None => ErrorKind::Unavailable,
    }
}

/// The HTTP status in an error of the client, which offers it only as text.
fn status_in(text: &str) -> Option<u16> {
    let (_, after) = text.split_once("status code: ")?;
    after.get(..3)?.parse().ok()
}

/// The cause in a few words: what the server said, or the innermost error.
fn explain(kind: ErrorKind, error: &object_store::Error) -> String {
    let text = error.to_string();
    let said = element(&text, "Message").map(|message| match element(&text, "Code") {
        Some(code) => format!("{message} ({code})"),
        None => message.to_owned(),
    });
    let cause = said.unwrap_or_else(|| {
        chain(error)
            .last()
            .map_or_else(String::new, ToString::to_string)
    });
    let cause = cause.split_whitespace().collect::<Vec<_>>().join(" ");
    let detail = match kind {
        ErrorKind::Absent => "no such object".to_owned(),
        ErrorKind::Denied => format!("the store refused: {cause}"),
        ErrorKind::Full => "no space left on the disk".to_owned(),
        _ => cause,
    };
    redact(&detail)
        .chars()
        .filter(|c| !c.is_control())
        .take(DETAIL_CHARS_MAX)
        .collect()
}

/// The text of an XML element in an answer; the store's words are shown, never acted on.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, after) = text.split_once(&format!("<{name}>"))?;
    let (content, _) = after.split_once(&format!("</{name}>"))?;
    (!content.is_empty()).then_some(content)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn generic(text: &str) -> object_store::Error {
        object_store::Error::Generic {
            store: "S3",
            source: text.to_owned().into(),
        }
    }

    #[test]
    fn only_what_may_pass_is_transient() {
        for (text, kind) in [
            (
                "Server returned non-2xx status code: 503 Service Unavailable: ",
                ErrorKind::Unavailable,
            ),
            (
                "Server returned non-2xx status code: 429 Too Many Requests: ",
                ErrorKind::Unavailable,
            ),
            (
                "Server returned non-2xx status code: 400 Bad Request: ",
                ErrorKind::Invalid,
            ),
            (
                "Server returned non-2xx status code: 301 Moved Permanently: ",
                ErrorKind::Invalid,
            ),
            ("error sending request", ErrorKind::Unavailable),
        ] {
            let failure = Failure::from(generic(text));
            assert_eq!(failure.kind, kind, "{text}");
            assert_eq!(failure.is_transient(), kind == ErrorKind::Unavailable);
        }
    }

    #[test]
    fn what_the_store_calls_it_decides_before_the_status() {
        let answer = |status: &str, code: &str| {
            generic(&format!(
                "status code: {status}: <Error><Code>{code}</Code><Message>m</Message></Error>"
            ))
        };
        for (error, kind) in [
            (answer("403 Forbidden", "AccessDenied"), ErrorKind::Denied),
            (
                answer("400 Bad Request", "RequestTimeout"),
                ErrorKind::Unavailable,
            ),
            (answer("400 Bad Request", "ExpiredToken"), ErrorKind::Denied),
            (answer("403 Forbidden", "Whatever"), ErrorKind::Denied),
            (
                generic("Received redirect without LOCATION, this normally indicates …"),
                ErrorKind::Invalid,
            ),
        ] {
            assert_eq!(Failure::from(error).kind, kind);
        }
    }

    #[test]
    fn the_answer_of_the_store_is_quoted_without_its_markup() {
        let body = "status code: 403 Forbidden: <?xml?><Error><Code>SignatureDoesNotMatch</Code>\
                    <Message>The signature is\nwrong</Message></Error>";
        let denied = object_store::Error::PermissionDenied {
            path: "x".into(),
            source: body.into(),
        };
        assert_eq!(
            Failure::from(denied).detail,
            "the store refused: The signature is wrong (SignatureDoesNotMatch)"
        );
    }

    #[test]
    fn a_full_disk_is_told_apart() {
        let full = object_store::Error::Generic {
            store: "file",
            source: Box::new(io::Error::from(io::ErrorKind::StorageFull)),
        };
        assert_eq!(Failure::from(full).kind, ErrorKind::Full);
    }
}
