//! How the API says no: a status, and `{"code", "message"}`.
//!
//! A message names nothing but what the caller sent. What a database, a lake or a disk says is for the log.

use axum::body::Body;
use axum::response::Response;
use cannery_objects::{ObjectError, ObjectErrorKind};
use http::header::{ALLOW, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderValue, Method, StatusCode};
use serde::Serialize;

macro_rules! error_codes {
    ($($name:ident,)*) => {
        /// The codes of errors; programs decide by them.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
        pub(crate) enum ErrorCode {
            $($name,)*
        }

        impl ErrorCode {
            /// All of them.
            pub(super) const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

error_codes! {
    AuthorizationFailed,
    AuthorizationRequired,
    BadRequest,
    ContentLength,
    ContentMD5Mismatch,
    DirectoryDoesNotExist,
    DirectoryNotEmpty,
    InternalError,
    InvalidArgument,
    InvalidParameter,
    InvalidSignature,
    MaxContentLength,
    MethodNotAllowed,
    MisdirectedRequest,
    NotEnoughSpace,
    OperationNotAllowedOnDirectory,
    ParentNotDirectory,
    PreconditionFailed,
    QuotaExceeded,
    RequestedRangeNotSatisfiable,
    ResourceNotFound,
    ServiceUnavailable,
    Throttled,
}

/// An error as it is answered.
#[derive(Clone, Debug)]
pub(crate) struct ApiError {
    pub(super) status: StatusCode,
    pub(super) code: ErrorCode,
    pub(super) message: String,
    /// What the operator should know and the caller must not.
    pub(super) detail: Option<String>,
    /// More headers.
    headers: Vec<(http::HeaderName, HeaderValue)>,
}

/// Until when a client that is told to come back should wait, in seconds.
const RETRY_SECONDS: &str = "1";

const UNAVAILABLE: &str = "the server cannot reach its storage now; ask again in a moment";
const BROKEN: &str = "the request met a mistake in the program; the log of the server says more";
const NO_SPACE: &str = "the server has no room left for this; its operator must free some";
const REFUSED: &str = "the server cannot do this as it was asked for; its log says more";

impl ApiError {
    pub(super) fn new(status: StatusCode, code: ErrorCode, message: impl Into<String>) -> Self {
        let mut headers = Vec::new();
        if status == StatusCode::SERVICE_UNAVAILABLE {
            headers.push((RETRY_AFTER, HeaderValue::from_static(RETRY_SECONDS)));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.push((WWW_AUTHENTICATE, HeaderValue::from_static("Bearer")));
        }
        Self {
            status,
            code,
            message: message.into(),
            detail: None,
            headers,
        }
    }

    pub(super) fn with_header(mut self, name: http::HeaderName, value: String) -> Self {
        self.headers
            .extend(HeaderValue::try_from(value).map(|value| (name, value)));
        self
    }

    /// What the operator should know.
    pub(crate) fn detail(&self) -> Option<&str> {
        self.detail.as_deref()
    }

    /// What the caller may know.
    pub(crate) fn told(&self) -> (StatusCode, &str) {
        (self.status, &self.message)
    }

    /// For the log alone.
    pub(super) fn with_detail(mut self, detail: impl Into<String>) -> Self {
        self.detail = Some(detail.into());
        self
    }

    pub(super) fn invalid(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, ErrorCode::InvalidArgument, message)
    }

    /// A parameter of the query that is not what it must be.
    pub(super) fn parameter(name: &str, allowed: &str) -> Self {
        let message = format!("the parameter `{name}` must be {allowed}");
        let (status, code) = (StatusCode::BAD_REQUEST, ErrorCode::InvalidParameter);
        Self::new(status, code, message)
    }

    pub(super) fn absent(path: &str) -> Self {
        let message = format!("{path} does not exist");
        Self::new(StatusCode::NOT_FOUND, ErrorCode::ResourceNotFound, message)
    }

    /// Another method than those which the address knows.
    pub(super) fn method(known: &[Method]) -> Self {
        let known: Vec<&str> = known.iter().map(Method::as_str).collect();
        let known = known.join(", ");
        let (status, code) = (StatusCode::METHOD_NOT_ALLOWED, ErrorCode::MethodNotAllowed);
        Self::new(status, code, format!("this address knows {known}")).with_header(ALLOW, known)
    }

    pub(super) fn busy() -> Self {
        let message = "the server has as many requests as it can serve; ask again in a moment";
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ErrorCode::Throttled,
            message,
        )
    }

    pub(super) fn late() -> Self {
        let message = "the server did not find the answer in time; ask again in a moment";
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ErrorCode::ServiceUnavailable,
            message,
        )
    }

    pub(super) fn not_open() -> Self {
        let message =
            "users' objects cannot be used yet; the dashboard and the log of the server say why";
        Self::new(
            StatusCode::SERVICE_UNAVAILABLE,
            ErrorCode::ServiceUnavailable,
            message,
        )
    }

    pub(super) fn bug() -> Self {
        Self::new(
            StatusCode::INTERNAL_SERVER_ERROR,
            ErrorCode::InternalError,
            BROKEN,
        )
    }

    pub(super) fn misdirected() -> Self {
        let message = "this address answers to localhost only; ask http://localhost:<port>/, or let a proxy send `Host: localhost`";
        Self::new(
            StatusCode::MISDIRECTED_REQUEST,
            ErrorCode::MisdirectedRequest,
            message,
        )
    }

    /// The answer; where it is the server's fault, it names the request by which the log can be searched.
    pub(super) fn into_response(mut self, request_id: &str) -> Response {
        if self.status.is_server_error() && !request_id.is_empty() {
            self.message = format!("{} (request {request_id})", self.message);
        }
        #[derive(Serialize)]
        struct Shown<'a> {
            code: ErrorCode,
            message: &'a str,
        }
        let shown = Shown {
            code: self.code,
            message: &self.message,
        };
        let text = serde_json::to_string(&shown).expect("two texts are JSON");
        let mut response = Response::new(Body::from(text));
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.extend(self.headers);
        response
    }
}

impl From<ObjectError> for ApiError {
    fn from(error: ObjectError) -> Self {
        use ErrorCode as C;
        use ObjectErrorKind as K;
        use StatusCode as S;
        let (status, code, told) = match error.kind {
            K::Absent => (S::NOT_FOUND, C::ResourceNotFound, None),
            K::ParentAbsent => (S::NOT_FOUND, C::DirectoryDoesNotExist, None),
            K::ParentNotDirectory => (S::BAD_REQUEST, C::ParentNotDirectory, None),
            K::IsDirectory => (S::BAD_REQUEST, C::OperationNotAllowedOnDirectory, None),
            K::IsObject => (S::BAD_REQUEST, C::InvalidArgument, None),
            K::NotEmpty => (S::BAD_REQUEST, C::DirectoryNotEmpty, None),
            K::ConditionFailed => (S::PRECONDITION_FAILED, C::PreconditionFailed, None),
            K::QuotaExceeded => (S::FORBIDDEN, C::QuotaExceeded, None),
            K::TooLarge => (S::PAYLOAD_TOO_LARGE, C::InvalidArgument, None),
            K::Mismatch => (S::BAD_REQUEST, C::ContentMD5Mismatch, None),
            // Also what a database says of a statement.
            K::Invalid => (S::BAD_REQUEST, C::InvalidArgument, Some(REFUSED)),
            K::NoSpace => (S::INSUFFICIENT_STORAGE, C::NotEnoughSpace, Some(NO_SPACE)),
            K::BehindLake | K::Unavailable => (
                S::SERVICE_UNAVAILABLE,
                C::ServiceUnavailable,
                Some(UNAVAILABLE),
            ),
            K::Corrupt => (S::INTERNAL_SERVER_ERROR, C::InternalError, Some(BROKEN)),
        };
        match told {
            None => Self::new(status, code, error.message),
            Some(told) => Self::new(status, code, told).with_detail(error.message),
        }
    }
}

impl From<cannery_state::Error> for ApiError {
    fn from(error: cannery_state::Error) -> Self {
        ObjectError::from(error).into()
    }
}
