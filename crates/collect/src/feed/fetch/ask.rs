//! What is asked for, and how far it may go.

use std::time::Duration;

use cannery_formats::Digest;
use cannery_runtime::{PrivateUrl, Secret};
use reqwest::header::{
    AUTHORIZATION, CONNECTION, CONTENT_LENGTH, HeaderMap, HeaderName, HeaderValue,
    IF_MODIFIED_SINCE, IF_NONE_MATCH, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use url::Url;

const URL_BYTES_MAX: usize = 8 * 1024;
const HEADERS_MAX: usize = 64;
const HEADER_BYTES_MAX: usize = 8 * 1024;
const TIMEOUT_MAX: Duration = Duration::from_secs(3_600);
/// A body is held in memory.
const BODY_BYTES_MAX: u64 = 1 << 30;

/// One download: from where, with what, and its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// `http` or `https`. User and password in it are sent as basic authorization.
    pub url: PrivateUrl,
    /// Sent to the origin of the URL, and to no other that it redirects to.
    pub headers: Vec<(String, Secret)>,
    /// From the connection to the last byte, all redirects included.
    pub timeout: Duration,
    /// Of the body, as sent and as unpacked.
    pub max_bytes: u64,
    /// Whether it may come from an address that is not public.
    pub allow_private: bool,
    /// Whether to send what the last answer was known by, and to be content with "not modified".
    pub conditional: bool,
    /// Which statuses make a body; none means 200 alone.
    pub accept_status: Vec<u16>,
    /// Whether the body of an error status is wanted: it is then in [`FetchError::body`](super::FetchError::body).
    pub keep_error_body: bool,
}

/// An [`Ask`] that was found to be in order, in the words of HTTP.
pub(super) struct Plan {
    pub(super) url: Url,
    pub(super) headers: HeaderMap,
    /// Of URL and headers: whether a later ask is the same.
    pub(super) digest: Digest,
}

impl Ask {
    /// Whether it can be asked for; asking does the same again, so nothing passes by.
    ///
    /// # Errors
    /// What is wrong, without the URL and without any value of a header.
    pub fn check(self) -> Result<Self, String> {
        self.plan()?;
        Ok(self)
    }

    pub(super) fn plan(&self) -> Result<Plan, String> {
        self.check_limits()?;
        let url = self.parse_url()?;
        let headers = self.parse_headers()?;
        let named = !url.username().is_empty() || url.password().is_some();
        if named && headers.contains_key(AUTHORIZATION) {
            return Err(
                "the URL has a user and the headers have `authorization`; keep one of them"
                    .to_owned(),
            );
        }
        let digest = self.digest();
        Ok(Plan {
            url,
            headers,
            digest,
        })
    }

    pub(super) fn accepts(&self, status: u16) -> bool {
        match self.accept_status.as_slice() {
            [] => status == 200,
            accepted => accepted.contains(&status),
        }
    }

    fn check_limits(&self) -> Result<(), String> {
        if self.timeout.is_zero() || self.timeout > TIMEOUT_MAX {
            return Err(format!(
                "the timeout {:?} is not between 0 and {TIMEOUT_MAX:?}",
                self.timeout
            ));
        }
        if !(1..=BODY_BYTES_MAX).contains(&self.max_bytes) {
            return Err(format!(
                "the limit of {} bytes is not between 1 and {BODY_BYTES_MAX}",
                self.max_bytes
            ));
        }
        let odd = |status: &&u16| !matches!(status, 200..=299 | 400..=599);
        match self.accept_status.iter().find(odd) {
            Some(status) => Err(format!(
                "the status {status} cannot be accepted; name statuses from 200 to 299 or from 400 to 599"
            )),
            None => Ok(()),
        }
    }

    fn parse_url(&self) -> Result<Url, String> {
        if self.url.expose().len() > URL_BYTES_MAX {
            return Err(format!("the URL has more than {URL_BYTES_MAX} bytes"));
        }
        let mut url =
            Url::parse(self.url.expose()).map_err(|error| format!("it is not a URL: {error}"))?;
        if !is_http(&url) {
            return Err("the URL is not one of `http:` or `https:`".to_owned());
        }
        url.set_fragment(None);
        Ok(url)
    }

    fn parse_headers(&self) -> Result<HeaderMap, String> {
        if self.headers.len() > HEADERS_MAX {
            return Err(format!("there are more than {HEADERS_MAX} headers"));
        }
        let mut headers = HeaderMap::new();
        for (name, value) in &self.headers {
            let (name, value) = parse_header(name, value)?;
            headers.append(name, value);
        }
        Ok(headers)
    }

    fn digest(&self) -> Digest {
        let mut text = self.url.expose().to_owned();
        for (name, value) in &self.headers {
            text.extend(["\n", name, ":", value.expose()]);
        }
        Digest::of(text.as_bytes())
    }
}

/// Whether it can be downloaded at all.
pub(super) fn is_http(url: &Url) -> bool {
    matches!(url.scheme(), "http" | "https") && url.host().is_some()
}

fn parse_header(name: &str, value: &Secret) -> Result<(HeaderName, HeaderValue), String> {
    let Ok(parsed) = HeaderName::from_bytes(name.as_bytes()) else {
        return Err(format!("`{}` cannot name a header", name.escape_debug()));
    };
    if value.expose().len() > HEADER_BYTES_MAX {
        return Err(format!(
            "the header `{parsed}` has more than {HEADER_BYTES_MAX} bytes"
        ));
    }
    let Ok(mut value) = HeaderValue::from_str(value.expose()) else {
        return Err(format!(
            "the header `{parsed}` has a character that no header may have"
        ));
    };
    if [IF_NONE_MATCH, IF_MODIFIED_SINCE].contains(&parsed) {
        return Err(format!("the header `{parsed}` is made by `conditional`"));
    }
    let framing = [
        CONNECTION,
        CONTENT_LENGTH,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ];
    if framing.contains(&parsed) || parsed.as_str().starts_with("proxy-") {
        return Err(format!(
            "the header `{parsed}` belongs to the connection and cannot be set"
        ));
    }
    value.set_sensitive(true);
    Ok((parsed, value))
}
