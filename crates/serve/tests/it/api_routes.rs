//! The addresses beside objects: a user, the lake, and what browsers ask first.

use cannery_formats::Key;

use crate::api_demo::{ApiDemo, code, token};
use crate::client::Answer;

async fn store(api: &ApiDemo, key: &str, content: &str) {
    let key = Key::new(key).unwrap();
    let put = api
        .mirrors
        .put_new(&key, content.to_owned().into_bytes())
        .await;
    assert!(put.is_everywhere());
}

#[tokio::test]
async fn a_user_sees_its_areas_and_nobody_elses() {
    let api = ApiDemo::start().await;
    for path in ["/ann", "/ann/"] {
        let answer = api.ask("GET", path, "").await;
        let lines = answer.body.lines().map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            assert_eq!(line["type"], "directory");
            line["name"].as_str().unwrap().to_owned()
        });
        let names: Vec<String> = lines.collect();
        assert_eq!(
            (answer.status, names),
            (200, ["jobs", "public", "stor"].map(Into::into).to_vec())
        );
        assert_eq!(answer.header("result-set-size"), "3");
    }
    let head = api.ask("HEAD", "/ann", "").await;
    assert_eq!(
        head.header("content-type"),
        "application/x-json-stream; type=directory"
    );
    let nobody = api.ask_as("", "GET", "/ann").await;
    assert_eq!(
        (nobody.status, nobody.header("www-authenticate")),
        (401, "Bearer")
    );
    assert_eq!(api.ask_as(&api.bob, "GET", "/ann").await.status, 403);
    assert_eq!(api.ask("GET", "/nobody", "").await.status, 403);
    let put = api.ask("PUT", "/ann", "content-length: 0\r\n").await;
    assert_eq!(code(&put), (405, "MethodNotAllowed".to_owned()));
    assert_eq!(put.header("allow"), "GET, HEAD");
}

#[tokio::test]
async fn the_lake_is_read_as_far_as_the_scope_goes() {
    let api = ApiDemo::start().await;
    store(&api, "autoload/v1/a b", "hello").await;
    store(&api, "reports-raw/x", "raw").await;
    store(&api, "vbb/2026/11/15/18/vbb.tar", "feed").await;
    let got = api.ask("GET", "/lake/autoload/v1/a%20b", "").await;
    assert_eq!((got.status, got.body.as_str()), (200, "hello"));
    assert_eq!(got.header("cache-control"), "private, no-store");
    let part = api
        .ask("GET", "/lake/autoload/v1/a%20b", "range: bytes=1-2\r\n")
        .await;
    assert_eq!((part.status, part.body.as_str()), (206, "el"));
    let same = format!("if-none-match: {}\r\n", got.header("etag"));
    assert_eq!(
        api.ask("GET", "/lake/autoload/v1/a%20b", &same)
            .await
            .status,
        304
    );
    let head = api.ask("HEAD", "/lake/autoload/v1/a%20b", "").await;
    assert_eq!((head.status, head.header("content-length")), (200, "5"));
    assert_eq!(
        api.ask("GET", "/lake/vbb/2026/11/15/18/vbb.tar", "")
            .await
            .body,
        "feed"
    );
    assert_eq!(
        api.ask("GET", "/lake/autoload/v1/none", "").await.status,
        404
    );
    assert_eq!(api.ask("GET", "/lake/autoload/v1", "").await.status, 404);
    assert_eq!(
        api.ask_as("", "GET", "/lake/autoload/v1/a%20b")
            .await
            .status,
        401
    );
    let raw = token(&api.state, "ann", "read,raw").await;
    let without = api.ask("GET", "/lake/reports-raw/x", "").await;
    assert_eq!(code(&without), (403, "AuthorizationFailed".to_owned()));
    assert_eq!(
        api.ask_as(&raw, "GET", "/lake/reports-raw/x").await.body,
        "raw"
    );
    let put = api
        .ask("PUT", "/lake/autoload/x", "content-length: 0\r\n")
        .await;
    assert_eq!((put.status, put.header("allow")), (405, "GET, HEAD"));
}

#[tokio::test]
async fn pages_of_others_may_read_what_is_public() {
    let api = ApiDemo::start().await;
    let asked = "origin: https://other.example\r\naccess-control-request-method: GET\r\n";
    let shown = |answer: &Answer| {
        let methods = answer.header("access-control-allow-methods").to_owned();
        (answer.status, methods)
    };
    let answer = api.ask_as(asked, "OPTIONS", "/ann/public/x").await;
    assert_eq!(shown(&answer), (204, "GET, HEAD".to_owned()));
    assert_eq!(answer.header("access-control-allow-origin"), "*");
    assert_eq!(answer.header("access-control-allow-credentials"), "");
    for path in ["/ann/stor/x", "/ann/jobs/x", "/ann", "/lake/autoload/x"] {
        let answer = api.ask_as(asked, "OPTIONS", path).await;
        assert_eq!(shown(&answer), (405, String::new()), "{path}");
        assert_eq!(answer.header("access-control-allow-origin"), "", "{path}");
    }
    let patch = api.ask("PATCH", "/ann/public/x", "").await;
    assert_eq!(patch.header("allow"), "GET, HEAD, PUT, DELETE, OPTIONS");
}

#[tokio::test]
async fn the_document_of_the_api_is_served_where_the_api_is() {
    let api = ApiDemo::start().await;
    let answer = api.ask_as("", "GET", "/openapi.json").await;
    assert_eq!(answer.header("content-type"), "application/json");
    let kept: serde_json::Value =
        serde_json::from_str(include_str!("../../../../docs/openapi.json")).unwrap();
    assert_eq!(answer.json(), kept);
    let put = api
        .ask("PUT", "/openapi.json", "content-length: 0\r\n")
        .await;
    assert_eq!((put.status, put.header("allow")), (405, "GET, HEAD"));
    let alone = crate::demo::demo(vec![]).await;
    let absent = crate::client::get(alone.address, "/openapi.json").await;
    assert_eq!(absent.status, 404);
}
