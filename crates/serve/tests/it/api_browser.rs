//! What users store, opened in a real browser beside the dashboard.

use std::time::Duration;

use cannery_runtime::Clock;
use cannery_serve::Audience;
use cannery_testkit::browser::{Browser, Page};

use crate::api_demo::ApiDemo;

/// Everything that a page of ours could be made to do, if it ran as one.
const HOSTILE: &str = "<!doctype html><title>not run</title><body><p id=seen>here</p>\
    <script>document.title = 'run'; fetch('/status.json').then((answer) => { document.title = 'read ' + answer.status; });</script>\
    <img src=x onerror=\"document.title = 'run'\">\
    <script src=/ann/public/script.js></script></body>";

/// Our own style is in use.
const STYLED: &str = "[...document.styleSheets].some((sheet) => sheet.cssRules.length > 10)";

async fn until(page: &Page, script: &str) {
    let clock = Clock::real();
    for _ in 0..300 {
        if page.eval(script).await.is_ok_and(|seen| seen == true) {
            return;
        }
        clock.sleep(Duration::from_millis(100)).await;
    }
    panic!("`{script}` never came true");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_in_public_runs_neither_in_its_page_nor_in_ours() {
    let api = ApiDemo::start().await;
    let put = async |path: &str, kind: &str, body: &str| {
        let kind = format!("content-type: {kind}\r\n");
        assert_eq!(api.put(path, &kind, body).await.status, 204);
    };
    put("/ann/public/page.html", "text/html", HOSTILE).await;
    put(
        "/ann/public/picture.svg",
        "image/svg+xml",
        "<svg xmlns='http://www.w3.org/2000/svg'><title>not run</title>\
        <script>document.querySelector('title').textContent = 'run'</script></svg>",
    )
    .await;
    put(
        "/ann/public/script.js",
        "text/javascript",
        "document.title = 'run by script.js'",
    )
    .await;
    put(
        "/ann/public/style.css",
        "text/css",
        "body { display: none }",
    )
    .await;
    let browser = Browser::start().await.unwrap();
    let page = browser.page().await.unwrap();
    let root = format!("http://{}", api.demo.address);

    page.open(&format!("{root}/ann/public/page.html"))
        .await
        .unwrap();
    until(
        &page,
        "document.getElementById('seen') !== null && document.readyState === 'complete'",
    )
    .await;
    assert_eq!(page.eval("document.title").await.unwrap(), "not run");
    // It has no origin, so it can have nothing of ours.
    assert_eq!(page.eval("window.origin").await.unwrap(), "null");
    page.open(&format!("{root}/ann/public/picture.svg"))
        .await
        .unwrap();
    let title = "document.querySelector('title').textContent";
    assert_eq!(page.eval(title).await.unwrap(), "not run");

    // A page of ours into which somebody got a tag loads nothing but assets.
    page.open(&format!("{root}/")).await.unwrap();
    until(&page, STYLED).await;
    let inject = "window.outcomes = []; \
        for (const [tag, key, value] of [['script', 'src', '/ann/public/script.js'], ['link', 'href', '/ann/public/style.css'], \
            ['script', 'src', document.querySelector('script').src]]) { \
            const element = document.createElement(tag); element.rel = 'stylesheet'; element[key] = value; \
            element.onload = () => outcomes.push('loaded ' + tag + ' ' + new URL(element[key]).pathname.split('/')[1]); \
            element.onerror = () => outcomes.push('refused ' + tag + ' ' + new URL(element[key]).pathname.split('/')[1]); \
            document.head.append(element); }; true";
    page.eval(inject).await.unwrap();
    until(&page, "outcomes.length === 3").await;
    let outcomes = page.eval("outcomes.sort().join(', ')").await.unwrap();
    assert_eq!(
        outcomes,
        "loaded script assets, refused link ann, refused script ann"
    );
    let title = page.eval("document.title").await.unwrap();
    assert!(title.as_str().unwrap().ends_with("Cannery"), "{title}");

    // The policy does not depend on how the host is written, where the machine has such an address.
    let bound = api
        .demo
        .shell
        .listen("[::1]:0".parse().unwrap(), Audience::Main);
    if let Ok(bound) = bound.await {
        page.open(&format!("http://{bound}/")).await.unwrap();
        until(&page, STYLED).await;
    }
}
