//! One request on the way to the body, and where the next one may go.

use std::net::IpAddr;

use reqwest::header::{ACCEPT_ENCODING, HeaderMap, HeaderValue, LOCATION};
use reqwest::{Client, Response};
use url::{Host, Url};

use super::ask::{Plan, is_http};
use super::error::{FetchError, FetchErrorKind, hung_up};
use super::{Validators, unpack};

const REDIRECTS_MAX: u32 = 5;

/// A URL on the way.
pub(super) struct Hop<'a> {
    plan: &'a Plan,
    url: Url,
    /// Whether this is still the server that the feed names: only that one gets the feed's headers and its user.
    at_home: bool,
    redirects: u32,
}

impl<'a> Hop<'a> {
    pub(super) fn first(plan: &'a Plan) -> Self {
        Self {
            plan,
            url: plan.url.clone(),
            at_home: true,
            redirects: 0,
        }
    }

    /// An address in the URL, in whatever form, never passes the resolver; this is its check.
    pub(super) fn check_address(&self, allowed: fn(IpAddr) -> bool) -> Result<(), FetchError> {
        let address = match self.url.host() {
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address),
            Some(Host::Domain(_)) | None => return Ok(()),
        };
        if allowed(address) {
            Ok(())
        } else {
            Err(FetchError::private())
        }
    }

    /// Sends the request; `true` when it had conditions. Once more after a connection that was closed in the place of an
    /// answer: it may have been an old one.
    pub(super) async fn send(
        &self,
        client: &Client,
        last: Option<&Validators>,
    ) -> Result<(Response, bool), FetchError> {
        let mut headers = self.headers();
        let conditional =
            last.is_some_and(|last| last.condition(&self.plan.digest, &self.url, &mut headers));
        let send = || {
            let request = client.get(self.url.clone()).headers(headers.clone());
            request.send()
        };
        let mut answer = send().await;
        if answer.as_ref().is_err_and(hung_up) {
            answer = send().await;
        }
        match answer {
            Ok(answer) => Ok((answer, conditional)),
            Err(error) => Err(FetchError::of(&error)),
        }
    }

    fn headers(&self) -> HeaderMap {
        let mut headers = if self.at_home {
            self.plan.headers.clone()
        } else {
            HeaderMap::new()
        };
        headers
            .entry(ACCEPT_ENCODING)
            .or_insert(HeaderValue::from_static(unpack::ACCEPT_ENCODING));
        headers
    }

    pub(super) fn validators(&self, answer: &Response) -> Validators {
        Validators::of(answer, &self.plan.digest, &self.url)
    }

    /// Where the answer leads; `None` when it is no redirect.
    pub(super) fn after(&self, answer: &Response) -> Result<Option<Self>, FetchError> {
        if !matches!(answer.status().as_u16(), 301 | 302 | 303 | 307 | 308) {
            return Ok(None);
        }
        let Some(location) = answer.headers().get(LOCATION) else {
            return Ok(None);
        };
        if self.redirects == REDIRECTS_MAX {
            let message = format!("more than {REDIRECTS_MAX} redirects");
            return Err(FetchError::new(FetchErrorKind::Redirect, message));
        }
        let url = location.to_str().ok().and_then(|to| self.url.join(to).ok());
        self.leading_to(url).map(Some)
    }

    fn leading_to(&self, url: Option<Url>) -> Result<Self, FetchError> {
        let refused = |why: &str| Err(FetchError::new(FetchErrorKind::Redirect, why));
        let Some(mut url) = url else {
            return refused("a redirect leads to what is no URL");
        };
        if !is_http(&url) {
            return refused("a redirect leads to what is not `http:` or `https:`");
        }
        if self.url.scheme() == "https" && url.scheme() == "http" {
            return refused("a redirect from https to http is not followed");
        }
        // Once away, always away: what comes back may have been changed on the way.
        let at_home = self.at_home && url.origin() == self.plan.url.origin();
        let (user, password) = if at_home {
            (self.plan.url.username(), self.plan.url.password())
        } else {
            ("", None)
        };
        let named = url.set_username(user).and(url.set_password(password));
        if named.is_err() {
            return refused("a redirect leads to what is no URL");
        }
        url.set_fragment(None);
        Ok(Self {
            plan: self.plan,
            url,
            at_home,
            redirects: self.redirects + 1,
        })
    }
}
