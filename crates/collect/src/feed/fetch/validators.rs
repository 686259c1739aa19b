//! By what an answer is known to its server, so that it need not be sent again.

use cannery_formats::Digest;
use reqwest::Response;
use reqwest::header::{
    ETAG, HeaderMap, HeaderName, HeaderValue, IF_MODIFIED_SINCE, IF_NONE_MATCH, LAST_MODIFIED,
};
use url::Url;

const BYTES_MAX: usize = 1024;

/// What a server said of the version that it sent; to be handed to the next [`Fetcher::fetch`](super::Fetcher::fetch)
/// of the same feed. It is sent only with the same ask, and only to the server that it came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Validators {
    etag: Option<HeaderValue>,
    last_modified: Option<HeaderValue>,
    /// Of the ask and of the server that answered.
    known_to: Digest,
}

impl Validators {
    pub(super) fn of(answer: &Response, asked: &Digest, from: &Url) -> Self {
        let header = |name: HeaderName| {
            let value = answer.headers().get(name);
            value.filter(|value| value.len() <= BYTES_MAX).cloned()
        };
        Self {
            etag: header(ETAG),
            last_modified: header(LAST_MODIFIED),
            known_to: known_to(asked, from),
        }
    }

    /// Adds the conditions to the request; `false` when there are none for it.
    pub(super) fn condition(&self, asked: &Digest, url: &Url, headers: &mut HeaderMap) -> bool {
        if self.known_to != known_to(asked, url) {
            return false;
        }
        // A server that has the tag must not look at the time.
        if let Some(etag) = &self.etag {
            headers.insert(IF_NONE_MATCH, etag.clone());
        }
        if let Some(time) = &self.last_modified {
            headers.insert(IF_MODIFIED_SINCE, time.clone());
        }
        self.etag.is_some() || self.last_modified.is_some()
    }
}

fn known_to(asked: &Digest, server: &Url) -> Digest {
    let origin = server.origin().ascii_serialization();
    Digest::of(format!("{asked} {origin}").as_bytes())
}
