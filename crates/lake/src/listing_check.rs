//! A listing must be a listing.
//!
//! The client reads any XML as a page of a listing: an error page sent with status 200 becomes an empty last page, and a
//! partial list passes for a whole one. So every page is looked at before the client gets it.

use std::time::Duration;

use async_trait::async_trait;
use bytes::{Bytes, BytesMut};
use futures::TryStreamExt as _;
use object_store::client::{
    HttpClient, HttpConnector, HttpError, HttpErrorKind, HttpRequest, HttpResponse, HttpService,
};
use object_store::{ClientConfigKey, ClientOptions};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A page has at most 5,000 names of 1 KiB (Azure), each with a few hundred bytes around it.
const PAGE_BYTES_MAX: usize = 32 * 1024 * 1024;

/// The roots of a page: S3 and Google, and Azure.
const ROOTS: [&str; 2] = ["ListBucketResult", "EnumerationResults"];

/// Makes clients that check listings and follow no redirect: a redirect would carry session tokens to another host.
#[derive(Debug, Default)]
pub(crate) struct CheckedConnector;

#[derive(Debug)]
struct CheckedClient(reqwest::Client);

impl HttpConnector for CheckedConnector {
    fn connect(&self, options: &ClientOptions) -> object_store::Result<HttpClient> {
        let plain = options
            .get_config_value(&ClientConfigKey::AllowHttp)
            .is_some_and(|value| value == "true");
        let client = reqwest::Client::builder()
            .connect_timeout(CONNECT_TIMEOUT)
            .redirect(reqwest::redirect::Policy::none())
            .https_only(!plain)
            .build()
            .map_err(|error| object_store::Error::Generic {
                store: "http",
                source: Box::new(error),
            })?;
        Ok(HttpClient::new(CheckedClient(client)))
    }
}

#[async_trait]
impl HttpService for CheckedClient {
    async fn call(&self, request: HttpRequest) -> Result<HttpResponse, HttpError> {
        let listing = is_listing(&request);
        let response = self.0.call(request).await?;
        if !listing || !response.status().is_success() {
            return Ok(response);
        }
        let (head, body) = response.into_parts();
        let mut page = BytesMut::new();
        let mut chunks = body.bytes_stream();
        while let Some(chunk) = chunks.try_next().await? {
            if page.len() + chunk.len() > PAGE_BYTES_MAX {
                return Err(refuse(
                    "the store sent a page of a listing that does not end",
                ));
            }
            page.extend_from_slice(&chunk);
        }
        if !is_page(&page) {
            return Err(refuse("the store answered a listing with something else"));
        }
        if breaks_off(&page) {
            return Err(refuse(
                "the store says that a listing goes on, but not where",
            ));
        }
        Ok(HttpResponse::from_parts(head, Bytes::from(page).into()))
    }
}

fn is_listing(request: &HttpRequest) -> bool {
    let query = request.uri().query().unwrap_or_default();
    request.method() == "GET"
        && query
            .split('&')
            .any(|pair| pair == "list-type=2" || pair == "comp=list")
}

fn refuse(reason: &'static str) -> HttpError {
    HttpError::new(HttpErrorKind::Interrupted, std::io::Error::other(reason))
}

/// Whether the document has the right root, from its start to its end.
fn is_page(page: &[u8]) -> bool {
    let text = String::from_utf8_lossy(page);
    let mut rest = text.trim_start_matches('\u{feff}').trim();
    while let Some(after) = rest
        .strip_prefix("<?")
        .and_then(|rest| rest.split_once("?>"))
        .map(|(_, after)| after)
    {
        rest = after.trim_start();
    }
    ROOTS.iter().any(|root| {
        let begins = rest
            .strip_prefix('<')
            .and_then(|rest| rest.strip_prefix(root));
        begins.is_some_and(|after| after.starts_with([' ', '>', '\n']))
            && rest.ends_with(&format!("</{root}>"))
    })
}

/// Whether a page says that there are more and does not say how to get them; the client would take it for the last one.
fn breaks_off(page: &[u8]) -> bool {
    let text = String::from_utf8_lossy(page);
    let token = text
        .split_once("<NextContinuationToken>")
        .is_some_and(|(_, after)| !after.starts_with('<'));
    text.contains("<IsTruncated>true</IsTruncated>") && !token
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_that_goes_on_says_where() {
        let page = |rest: &str| {
            format!("<ListBucketResult><IsTruncated>true</IsTruncated>{rest}</ListBucketResult>")
        };
        assert!(breaks_off(page("").as_bytes()));
        assert!(breaks_off(
            page("<NextContinuationToken></NextContinuationToken>").as_bytes()
        ));
        assert!(!breaks_off(
            page("<NextContinuationToken>t</NextContinuationToken>").as_bytes()
        ));
        assert!(!breaks_off(
            b"<ListBucketResult><IsTruncated>false</IsTruncated></ListBucketResult>"
        ));
    }

    #[test]
    fn only_a_whole_page_is_a_page() {
        for page in [
            "<ListBucketResult></ListBucketResult>",
            "<?xml version=\"1.0\"?>\n<ListBucketResult xmlns=\"x\"><Key>a</Key></ListBucketResult>\n",
            "\u{feff}<?xml version=\"1.0\" encoding=\"utf-8\"?><EnumerationResults a=\"b\"></EnumerationResults>",
        ] {
            assert!(is_page(page.as_bytes()), "{page}");
        }
        for page in [
            "",
            "<html>busy</html>",
            "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code></Error>",
            "<ListBucketResult><Contents>",
            "<ListBucketResultX></ListBucketResultX>",
        ] {
            assert!(!is_page(page.as_bytes()), "{page}");
        }
    }
}
