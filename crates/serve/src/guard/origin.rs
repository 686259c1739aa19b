//! Did a page of ours, or no page at all, send this request that writes?
//!
//! A browser lets every page of the web post to this machine. It says in `Origin` and `Sec-Fetch-Site` which page that was,
//! and no page can forge either. A program that is no browser sends neither.

use std::net::IpAddr;

use axum::extract::Request;
use http::HeaderMap;
use http::header::{HOST, ORIGIN};

const FETCH_SITE: &str = "sec-fetch-site";

/// Whether the request may write, as far as its sender goes. The `Host` of a loopback listener was looked at before.
pub(super) fn may_write(request: &Request) -> bool {
    let headers = request.headers();
    let is_browser = headers.contains_key(ORIGIN) || headers.contains_key(FETCH_SITE);
    if !is_browser {
        return true;
    }
    let Some(host) = only(headers, HOST.as_str()) else {
        return false;
    };
    is_same_site(headers) && is_same_origin(headers, host) && is_unbindable(host)
}

/// Whether the browser says that a page of ours sent the request, and nothing says otherwise. Over TLS the name of the host is
/// proven by the certificate; without it, it must be one that nobody can bind.
pub(crate) fn is_own_page(headers: &HeaderMap, is_encrypted: bool) -> bool {
    let is_said = headers.contains_key(ORIGIN) || headers.contains_key(FETCH_SITE);
    let Some(host) = only(headers, HOST.as_str()) else {
        return false;
    };
    let scheme = if is_encrypted { "https://" } else { "http://" };
    let is_same_origin = !headers.contains_key(ORIGIN)
        || only(headers, ORIGIN.as_str())
            .and_then(|origin| origin.strip_prefix(scheme))
            .is_some_and(|origin| origin.eq_ignore_ascii_case(host));
    is_said && is_same_site(headers) && is_same_origin && (is_encrypted || is_unbindable(host))
}

/// The value of a header that is there exactly once.
fn only<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (Some(value), None) => value.to_str().ok(),
        _ => None,
    }
}

fn is_same_site(headers: &HeaderMap) -> bool {
    !headers.contains_key(FETCH_SITE) || only(headers, FETCH_SITE) == Some("same-origin")
}

fn is_same_origin(headers: &HeaderMap, host: &str) -> bool {
    if !headers.contains_key(ORIGIN) {
        return true;
    }
    let origin = only(headers, ORIGIN.as_str()).and_then(|origin| {
        // A proxy in front may speak TLS, so either scheme will do.
        let bare = origin.strip_prefix("http://");
        bare.or_else(|| origin.strip_prefix("https://"))
    });
    origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host))
}

/// Whether the host is an address or `localhost`: any other name may have been bound to this machine by the page that
/// is asking, and then that page has the same origin.
fn is_unbindable(host: &str) -> bool {
    let name = match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    };
    let bare = name
        .strip_prefix('[')
        .and_then(|name| name.strip_suffix(']'))
        .unwrap_or(name);
    name.eq_ignore_ascii_case("localhost") || bare.parse::<IpAddr>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::body::Body;

    fn passes(headers: &[(&str, &str)]) -> bool {
        let mut request = Request::new(Body::empty());
        for (name, value) in headers {
            let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
            request.headers_mut().append(name, value.parse().unwrap());
        }
        may_write(&request)
    }

    #[test]
    fn programs_and_our_own_pages_may_write() {
        let good: [&[(&str, &str)]; 7] = [
            &[("host", "localhost:9")],
            &[("host", "node-1.example:9")],
            &[("host", "localhost:9"), ("origin", "http://localhost:9")],
            &[("host", "LOCALHOST"), ("origin", "https://localhost")],
            &[("host", "10.0.0.7:9"), ("origin", "http://10.0.0.7:9")],
            &[
                ("host", "[::1]:9"),
                ("origin", "http://[::1]:9"),
                ("sec-fetch-site", "same-origin"),
            ],
            &[("host", "127.0.0.1:9"), ("sec-fetch-site", "same-origin")],
        ];
        for headers in good {
            assert!(passes(headers), "{headers:?}");
        }
    }

    #[test]
    fn only_a_page_of_ours_writes_with_a_cookie() {
        let local = ("host", "localhost:9");
        let named = ("host", "data.example");
        let same = ("sec-fetch-site", "same-origin");
        type Lines<'a> = &'a [(&'a str, &'a str)];
        let table: [(Lines<'_>, bool, bool); 12] = [
            (&[local, same], true, true),
            (&[local, ("origin", "http://localhost:9")], true, false),
            (
                &[local, ("origin", "http://localhost:9"), same],
                true,
                false,
            ),
            (&[local, ("origin", "https://localhost:9")], false, true),
            (&[named, same], false, true),
            (&[named, ("origin", "https://data.example")], false, true),
            (&[local], false, false),
            (&[same], false, false),
            (&[local, ("sec-fetch-site", "none")], false, false),
            (&[local, ("sec-fetch-site", "same-site")], false, false),
            (&[local, same, ("origin", "null")], false, false),
            (
                &[local, same, ("origin", "http://evil.example")],
                false,
                false,
            ),
        ];
        for (lines, plain, encrypted) in table {
            let mut headers = HeaderMap::new();
            for (name, value) in lines {
                let name = http::HeaderName::from_bytes(name.as_bytes()).unwrap();
                headers.append(name, value.parse().unwrap());
            }
            let seen = [false, true].map(|is_encrypted| is_own_page(&headers, is_encrypted));
            assert_eq!(seen, [plain, encrypted], "{lines:?}");
        }
    }

    #[test]
    fn other_pages_may_not() {
        let local = ("host", "localhost:9");
        let ours = ("origin", "http://localhost:9");
        let bad: [&[(&str, &str)]; 15] = [
            &[local, ("origin", "http://evil.example")],
            &[local, ("origin", "null")],
            &[local, ("origin", "")],
            &[local, ("origin", "http://localhost:10")],
            &[local, ("origin", "http://localhost")],
            &[local, ("origin", "http://localhost:9.evil.example")],
            &[local, ("origin", "ftp://localhost:9")],
            &[local, ours, ("origin", "http://evil.example")],
            &[local, ours, ("sec-fetch-site", "cross-site")],
            &[local, ours, ("sec-fetch-site", "same-site")],
            &[local, ours, ("sec-fetch-site", "none")],
            &[
                local,
                ours,
                ("sec-fetch-site", "same-origin"),
                ("sec-fetch-site", "cross-site"),
            ],
            &[ours],
            &[local, local, ours],
            // A name that the asking page has bound to this machine.
            &[
                ("host", "evil.example:9"),
                ("origin", "http://evil.example:9"),
                ("sec-fetch-site", "same-origin"),
            ],
        ];
        for headers in bad {
            assert!(!passes(headers), "{headers:?}");
        }
    }
}
