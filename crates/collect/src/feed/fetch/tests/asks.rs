//! What cannot be asked for.

use super::*;

fn fault(ask: Ask) -> String {
    ask.check().unwrap_err()
}

#[test]
fn an_ordinary_ask_is_in_order() {
    let ask = with_header(ask("https://me:pass@example.com/a?b=c"), "X-Key", "value");
    let ask = with_header(ask, "accept", "text/csv");
    ask.check().unwrap();
}

#[test]
fn only_http_is_spoken() {
    for url in [
        "file:///etc/passwd",
        "ftp://example.com/",
        "data:text/plain,x",
        "gopher://example.com/",
        "unix:/run/docker.sock",
        "HTTPX://example.com/",
    ] {
        let fault = fault(ask(url));
        assert!(fault.contains("`http:`"), "{url}: {fault}");
    }
    for url in [
        "",
        "example.com",
        "/etc/passwd",
        "http://",
        "http://[::1",
        "http://a b/",
    ] {
        let fault = fault(ask(url));
        assert!(fault.contains("not a URL"), "{url}: {fault}");
    }
    let long = format!("http://example.com/{}", "x".repeat(9_000));
    assert!(fault(ask(long)).contains("more than 8192 bytes"));
}

#[tokio::test]
async fn what_is_not_checked_before_is_checked_when_asked() {
    let error = failure(&fetcher(), &ask("file:///etc/passwd")).await;
    assert_eq!(error.kind, FetchErrorKind::Invalid);
    assert_eq!(error.reason(), "invalid");
}

#[test]
fn headers_are_names_and_values_and_none_of_the_connection() {
    for (name, value, why) in [
        ("", "x", "cannot name a header"),
        ("two words", "x", "cannot name a header"),
        ("x\r\nhost", "x", "cannot name a header"),
        ("x:", "x", "cannot name a header"),
        ("x-key", "a\r\nhost: b", "no header may have"),
        ("x-key", "a\nb", "no header may have"),
        ("x-key", "a\0b", "no header may have"),
        ("Connection", "close", "belongs to the connection"),
        ("Content-Length", "5", "belongs to the connection"),
        ("Transfer-Encoding", "chunked", "belongs to the connection"),
        ("TE", "trailers", "belongs to the connection"),
        ("Upgrade", "h2c", "belongs to the connection"),
        ("Proxy-Authorization", "x", "belongs to the connection"),
        ("If-None-Match", "*", "made by `conditional`"),
        ("if-modified-since", "x", "made by `conditional`"),
    ] {
        let fault = fault(with_header(ask("http://example.com/"), name, value));
        assert!(fault.contains(why), "{name}: {fault}");
    }
    let long = "x".repeat(9_000);
    let fault_of_long = fault(with_header(ask("http://example.com/"), "x", &long));
    assert!(fault_of_long.contains("more than 8192 bytes"));
    let many = (0..65).fold(ask("http://example.com/"), |ask, _| {
        with_header(ask, "x", "y")
    });
    assert!(fault(many).contains("more than 64 headers"));
    let two = with_header(ask("http://me@example.com/"), "Authorization", "x");
    assert!(fault(two).contains("keep one of them"));
}

#[test]
fn limits_are_sane() {
    let ask = || ask("http://example.com/");
    for timeout in [Duration::ZERO, Duration::from_secs(3_601), Duration::MAX] {
        assert!(fault(Ask { timeout, ..ask() }).contains("timeout"));
    }
    for max_bytes in [0, (1 << 30) + 1, u64::MAX] {
        assert!(fault(Ask { max_bytes, ..ask() }).contains("bytes"));
    }
    for status in [0, 100, 199, 301, 304, 600] {
        let accept_status = vec![200, status];
        let fault = fault(Ask {
            accept_status,
            ..ask()
        });
        assert!(fault.contains(&status.to_string()), "{fault}");
    }
}
