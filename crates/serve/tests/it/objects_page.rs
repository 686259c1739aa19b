//! The page of objects: what somebody sees and deletes who is logged in.

use cannery_serve::Audience;
use cannery_testkit::browser::Browser;

use crate::api_demo::ApiDemo;
use crate::api_login::{OWN, cookie, link_for, path};
use crate::client::{get, request};

async fn logged_in(api: &ApiDemo, scopes: &str) -> String {
    let link = link_for(api, scopes);
    cookie(&request(api.demo.address, "POST", path(&link), OWN).await)
}

#[tokio::test]
async fn directories_are_browsed_by_pages_and_text_is_shown_as_text() {
    let api = ApiDemo::start().await;
    let cookie = logged_in(&api, "read,write").await;
    let see = async |path: &str| api.ask_as(&cookie, "GET", path).await;
    api.make("/ann/stor/d%20%3Cb%3E").await;
    let hostile = "<script>alert(1)</script>\u{202e}";
    api.put(
        "/ann/stor/d%20%3Cb%3E/%26%22a",
        "content-type: text/html\r\n",
        hostile,
    )
    .await;
    api.put("/ann/stor/d%20%3Cb%3E/bytes", "", "a\0b").await;
    let areas = see("/objects").await;
    assert_eq!(areas.status, 200);
    assert!(
        areas.body.contains(r#"<a href="/objects/stor">stor</a>"#),
        "{}",
        areas.body
    );
    let stor = see("/objects/stor").await;
    let row = r#"<a href="/objects/stor/d%20%3Cb%3E"><code>d &lt;b&gt;/</code></a>"#;
    assert!(stor.body.contains(row), "{}", stor.body);
    let directory = see("/objects/stor/d%20%3Cb%3E/").await;
    let row = r#"<a href="/objects/stor/d%20%3Cb%3E/%26%22a"><code>&amp;&quot;a</code></a>"#;
    assert!(directory.body.contains(row), "{}", directory.body);
    assert!(!directory.body.contains("Delete it"), "it is not empty");
    let object = see("/objects/stor/d%20%3Cb%3E/%26%22a").await;
    assert!(
        object
            .body
            .contains("<code>&lt;script&gt;alert(1)&lt;/script&gt;"),
        "{}",
        object.body
    );
    assert!(
        object
            .body
            .contains(r#"href="/ann/stor/d%20%3Cb%3E/%26%22a" download"#),
        "{}",
        object.body
    );
    assert_eq!(object.body.matches("<script").count(), 1);
    assert!(!object.body.contains('\u{202e}'), "{}", object.body);
    let bytes = see("/objects/stor/d%20%3Cb%3E/bytes").await;
    assert!(bytes.body.contains("no plain text"), "{}", bytes.body);
    assert_eq!(see("/objects/stor/none").await.status, 404);
    assert_eq!(see("/objects/other/none").await.status, 404);
    assert_eq!(see("/objects/stor/%2e%2e/x").await.status, 400);
    for number in 0..101 {
        api.put(&format!("/ann/public/{number:03}"), "", "").await;
    }
    let first = see("/objects/public").await;
    assert!(
        first.body.contains(r#"href="/objects/public?after=099""#),
        "{}",
        first.body
    );
    let last = see("/objects/public?after=099").await;
    assert_eq!(last.body.matches("<tr>").count(), 2, "{}", last.body);
    assert!(last.body.contains("<code>100</code>"), "{}", last.body);
}

#[tokio::test]
async fn only_who_is_logged_in_and_may_write_deletes() {
    let api = ApiDemo::start().await;
    api.put("/ann/stor/a", "", "hello").await;
    let reader = logged_in(&api, "read").await;
    let writer = logged_in(&api, "read,write").await;
    let own = "sec-fetch-site: same-origin\r\ncontent-length: 0\r\n";
    for (headers, status) in [
        (own.to_owned(), 401),
        (format!("{reader}{own}"), 403),
        (format!("{writer}content-length: 0\r\n"), 403),
        (format!("{writer}sec-fetch-site: cross-site\r\n"), 403),
        (format!("{writer}x-forwarded-for: 192.0.2.1\r\n{own}"), 401),
    ] {
        let answer = api.ask_as(&headers, "POST", "/objects/stor/a").await;
        assert_eq!(answer.status, status, "{headers}");
    }
    assert_eq!(api.ask("GET", "/ann/stor/a", "").await.body, "hello");
    let root = api
        .ask_as(&format!("{writer}{own}"), "POST", "/objects/stor")
        .await;
    assert_eq!(root.status, 400);
    let done = api
        .ask_as(&format!("{writer}{own}"), "POST", "/objects/stor/a")
        .await;
    assert_eq!(
        (done.status, done.header("location")),
        (303, "/objects/stor")
    );
    assert_eq!(api.ask("GET", "/ann/stor/a", "").await.status, 404);
    for (headers, status) in [("", 401), ("cookie: cannery_session=cannery_a_b\r\n", 401)] {
        assert_eq!(
            api.ask_as(headers, "GET", "/objects/stor").await.status,
            status
        );
    }
    let listen = "127.0.0.1:0".parse().unwrap();
    let other = api
        .demo
        .shell
        .listen(listen, Audience::Monitoring)
        .await
        .unwrap();
    assert_eq!(get(other, "/objects").await.status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_browser_finds_and_deletes_an_object() {
    let api = ApiDemo::start().await;
    api.put(
        "/ann/stor/note.txt",
        "content-type: text/plain\r\n",
        "a note",
    )
    .await;
    let browser = Browser::start().await.unwrap();
    let page = browser.page().await.unwrap();
    page.open(&link_for(&api, "read,write")).await.unwrap();
    let click = |what: &str| format!("document.querySelector('{what}').click()");
    page.eval(&click("form button")).await.unwrap();
    for (words, next) in [
        ("Objects of ann", "a[href=\"/objects/stor\"]"),
        ("note.txt", "td a"),
        ("a note", "details form button"),
    ] {
        let seen = format!("document.body.innerText.includes('{words}')");
        crate::api_login::until(&page, &seen).await;
        page.eval(&click(next)).await.unwrap();
    }
    crate::api_login::until(&page, "document.body.innerText.includes('0 entries')").await;
    assert_eq!(api.ask("GET", "/ann/stor/note.txt", "").await.status, 404);
    // As if a person had chosen two files.
    let choose = "const chosen = new DataTransfer(); \
        chosen.items.add(new File(['one'], 'ä 1%.txt', { type: 'text/plain' })); \
        chosen.items.add(new File(['two'], 'two')); \
        const input = document.querySelector('input[data-upload]'); input.files = chosen.files; \
        input.dispatchEvent(new Event('change')); true";
    page.eval(choose).await.unwrap();
    crate::api_login::until(&page, "document.body.innerText.includes('2 entries')").await;
    let first = api.ask("GET", "/ann/stor/%C3%A4%201%25.txt", "").await;
    assert_eq!((first.status, first.body.as_str()), (200, "one"));
    let second = api.ask("GET", "/ann/stor/two", "").await;
    assert_eq!((second.status, second.body.as_str()), (200, "two"));
}
