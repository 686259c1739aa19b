//! What an answer says, and what it does not.

use cannery_lake::fault::{Fault, Request};

use crate::api_demo::{ApiDemo, code};
use crate::client::{Answer, send};

const MANY: u32 = 1_000;

#[tokio::test]
async fn a_store_that_fails_is_503_and_nobody_is_told_what_it_said() {
    let api = ApiDemo::start().await;
    api.put("/ann/stor/a", "", "hello").await;
    api.faults.next(Request::Get, Fault::ErrorBefore, MANY);
    let answer = api.ask("GET", "/ann/stor/a", "").await;
    assert_eq!(code(&answer), (503, "ServiceUnavailable".to_owned()));
    assert_eq!(answer.header("content-type"), "application/json");
    assert_eq!(answer.header("retry-after"), "1");
    let id = answer.header("x-request-id");
    assert_eq!(
        answer.json()["message"],
        format!("the server cannot reach its storage now; ask again in a moment (request {id})")
    );
    api.faults.stop();
    assert_eq!(api.ask("GET", "/ann/stor/a", "").await.body, "hello");
    api.faults.next(Request::Put, Fault::ErrorBefore, MANY);
    let answer = api.put("/ann/stor/b", "", "hello").await;
    assert_eq!(code(&answer), (503, "ServiceUnavailable".to_owned()));
    assert!(!answer.body.contains("users/"), "{}", answer.body);
}

/// The headers of an answer that are about its bytes.
fn about_bytes(answer: &Answer) -> Vec<&str> {
    let names = answer.headers.iter().map(|(name, _)| name.as_str());
    names
        .filter(|name| name.starts_with("content-") && *name != "content-security-policy")
        .collect()
}

#[tokio::test]
async fn not_modified_says_nothing_of_the_bytes() {
    let api = ApiDemo::start().await;
    let kept = "content-type: text/plain\r\ncache-control: public, max-age=60\r\n";
    let etag = api.put("/ann/stor/a", kept, "hello").await;
    let etag = etag.header("etag");
    let got = api.ask("GET", "/ann/stor/a", "").await;
    let conditions = [
        format!("if-none-match: {etag}\r\n"),
        format!("if-modified-since: {}\r\n", got.header("last-modified")),
        format!("if-none-match: {etag}\r\nrange: bytes=0-1\r\n"),
    ];
    for condition in conditions {
        for method in ["GET", "HEAD"] {
            let same = api.ask(method, "/ann/stor/a", &condition).await;
            assert_eq!((same.status, same.body.as_str()), (304, ""), "{condition}");
            assert_eq!(about_bytes(&same), [""; 0], "{condition}");
            assert_eq!(same.header("transfer-encoding"), "", "{condition}");
            for name in ["etag", "last-modified", "cache-control", "vary"] {
                assert_eq!(same.header(name), got.header(name), "{name}");
                assert_ne!(same.header(name), "", "{name}");
            }
        }
    }
}

#[tokio::test]
async fn a_part_is_only_sent_of_the_object_that_was_begun() {
    let api = ApiDemo::start().await;
    let etag = api.put("/ann/stor/a", "", "hello").await;
    let etag = etag.header("etag");
    let got = api.ask("GET", "/ann/stor/a", "").await;
    for (if_range, expected) in [
        (etag, (206, "ell")),
        (got.header("last-modified"), (206, "ell")),
        ("\"another\"", (200, "hello")),
        ("Thu, 01 Jan 1970 00:00:00 GMT", (200, "hello")),
    ] {
        let asked = format!("range: bytes=1-3\r\nif-range: {if_range}\r\n");
        let answer = api.ask("GET", "/ann/stor/a", &asked).await;
        assert_eq!(
            (answer.status, answer.body.as_str()),
            expected,
            "{if_range}"
        );
    }
}

#[tokio::test]
async fn what_is_private_is_not_kept_by_caches() {
    let api = ApiDemo::start().await;
    let shared = "cache-control: public, s-maxage=60, max-age=5\r\n";
    for area in ["stor", "public"] {
        api.put(&format!("/ann/{area}/plain"), "", "x").await;
        api.put(&format!("/ann/{area}/shared"), shared, "x").await;
    }
    for (path, cache, vary) in [
        (
            "/ann/stor/plain",
            "private, no-store",
            "authorization, cookie",
        ),
        (
            "/ann/stor/shared",
            "private, max-age=5",
            "authorization, cookie",
        ),
        ("/ann/public/plain", "no-cache", ""),
        ("/ann/public/shared", "public, s-maxage=60, max-age=5", ""),
        ("/ann/stor", "no-store", ""),
        ("/ann/stor/none", "no-store", ""),
    ] {
        let answer = api.ask("GET", path, "").await;
        let seen = (answer.header("cache-control"), answer.header("vary"));
        assert_eq!(seen, (cache, vary), "{path}");
    }
}

#[tokio::test]
async fn a_foreign_host_is_refused_in_json() {
    let api = ApiDemo::start().await;
    let rebound = "GET /ann/public HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    let answer = send(api.demo.address, rebound.as_bytes()).await;
    assert_eq!(code(&answer), (421, "MisdirectedRequest".to_owned()));
    assert_eq!(answer.header("content-security-policy"), "sandbox");
}

#[tokio::test]
async fn other_headers_leave_the_bytes_what_they_are() {
    let api = ApiDemo::start().await;
    let first = "content-type: text/plain\r\ncontent-encoding: x-none\r\nm-a: 1\r\nm-b: 1\r\n";
    let put = api.put("/ann/stor/a", first, "hello").await;
    let changed = api.put("/ann/stor/a?metadata=true", "m-a: 2\r\n", "").await;
    assert_eq!(
        (changed.status, changed.header("etag")),
        (204, put.header("etag"))
    );
    let got = api.ask("GET", "/ann/stor/a", "").await;
    let seen =
        ["content-type", "content-encoding", "m-a", "m-b", "etag"].map(|name| got.header(name));
    assert_eq!(seen, ["text/plain", "x-none", "2", "", put.header("etag")]);
    assert_eq!(got.body, "hello");
    let typed = "content-type: text/css\r\n";
    assert_eq!(
        api.put("/ann/stor/a?metadata=true", typed, "").await.status,
        204
    );
    assert_eq!(
        api.ask("HEAD", "/ann/stor/a", "")
            .await
            .header("content-type"),
        "text/css"
    );
    let other = "if-match: \"other\"\r\n";
    assert_eq!(
        api.put("/ann/stor/a?metadata=true", other, "").await.status,
        412
    );
    assert_eq!(
        api.put("/ann/stor/none?metadata=true", "", "").await.status,
        404
    );
}

#[tokio::test]
async fn what_is_private_is_for_pages_of_ours_alone_and_what_is_public_for_all() {
    let api = ApiDemo::start().await;
    api.put("/ann/stor/a", "", "hello").await;
    api.put("/ann/public/a", "", "hello").await;
    for (path, status, policy, origin) in [
        ("/ann/stor/a", 200, "same-origin", ""),
        ("/ann/stor/none", 404, "same-origin", ""),
        ("/ann/public/a", 200, "cross-origin", "*"),
        // A page of others can tell that it is not there from a server that is down.
        ("/ann/public/none", 404, "cross-origin", "*"),
    ] {
        let answer = api.ask("GET", path, "").await;
        assert_eq!(answer.status, status, "{path}");
        assert_eq!(
            answer.header("cross-origin-resource-policy"),
            policy,
            "{path}"
        );
        assert_eq!(
            answer.header("access-control-allow-origin"),
            origin,
            "{path}"
        );
    }
}
