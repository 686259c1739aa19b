//! A browser logs in by a link, works, and logs out.

use std::time::Duration;

use cannery_formats::UserName;
use cannery_runtime::Clock;
use cannery_serve::Audience;
use cannery_testkit::browser::{Browser, Page};

use crate::api_demo::{ApiDemo, Setup, code};
use crate::api_tls::certificate;
use crate::client::{Answer, get, request, send};

fn link(api: &ApiDemo) -> String {
    link_for(api, "read,write")
}

pub(crate) fn link_for(api: &ApiDemo, scopes: &str) -> String {
    let ann = UserName::new("ann").unwrap();
    let scopes = scopes.parse().unwrap();
    let base = format!("http://{}/", api.demo.address);
    let link = api.slot.login_link(&base, &ann, &scopes).unwrap();
    link.expose().to_owned()
}

/// What stands behind the host.
pub(crate) fn path(link: &str) -> &str {
    let at = link.find("/login").unwrap();
    &link[at..]
}

pub(crate) const OWN: &str = "sec-fetch-site: same-origin\r\ncontent-length: 0\r\n";

pub(crate) async fn log_in(api: &ApiDemo) -> Answer {
    let link = link(api);
    request(api.demo.address, "POST", path(&link), OWN).await
}

/// The header by which a browser sends the cookie back.
pub(crate) fn cookie(answer: &Answer) -> String {
    let pair = answer.header("set-cookie").split(';').next().unwrap();
    format!("cookie: {pair}\r\n")
}

#[tokio::test]
async fn a_link_is_exchanged_once_and_only_by_its_button() {
    let api = ApiDemo::start().await;
    let link = link(&api);
    let path = path(&link);
    for _ in 0..2 {
        let page = get(api.demo.address, path).await;
        assert_eq!((page.status, page.header("set-cookie")), (200, ""));
        assert!(
            page.body.contains("<form method=\"post\"><button"),
            "{}",
            page.body
        );
        assert!(
            !page.body.contains(path.split_once('=').unwrap().1),
            "{}",
            page.body
        );
        assert!(
            page.header("content-security-policy")
                .contains("form-action 'self'")
        );
    }
    // Neither a program nor a page of others presses it.
    for foreign in [
        "content-length: 0\r\n",
        "origin: http://evil.example\r\ncontent-length: 0\r\n",
        "sec-fetch-site: cross-site\r\ncontent-length: 0\r\n",
    ] {
        let refused = request(api.demo.address, "POST", path, foreign).await;
        assert_eq!(
            (refused.status, refused.header("set-cookie")),
            (403, ""),
            "{foreign}"
        );
    }
    let forwarded = format!("x-forwarded-for: 192.0.2.1\r\n{OWN}");
    assert_eq!(
        request(api.demo.address, "POST", path, &forwarded)
            .await
            .status,
        403
    );
    let done = request(api.demo.address, "POST", path, OWN).await;
    assert_eq!((done.status, done.header("location")), (303, "/objects"));
    let set = done.header("set-cookie");
    assert!(set.starts_with("cannery_session=cannery_"), "{set}");
    assert!(
        set.ends_with("; Path=/; Max-Age=43200; HttpOnly; SameSite=Strict"),
        "{set}"
    );
    let again = request(api.demo.address, "POST", path, OWN).await;
    assert_eq!((again.status, again.header("set-cookie")), (403, ""));
    let wrong = request(api.demo.address, "POST", "/login?code=guess", OWN).await;
    assert_eq!(wrong.status, 403);
}

#[tokio::test]
async fn a_cookie_reads_and_writes_only_for_pages_of_ours() {
    let api = ApiDemo::start().await;
    api.put("/ann/stor/a", "", "hello").await;
    let cookie = cookie(&log_in(&api).await);
    let ask = async |method: &str, path: &str, more: &str| {
        api.ask_as(&format!("{cookie}{more}"), method, path).await
    };
    assert_eq!(ask("GET", "/ann/stor/a", "").await.body, "hello");
    assert_eq!(ask("GET", "/bob/stor", "").await.status, 403);
    let own = format!("origin: http://{}\r\n", api.demo.address);
    for (more, status) in [
        ("", 403),
        ("origin: http://evil.example\r\n", 403),
        ("origin: null\r\n", 403),
        ("sec-fetch-site: same-site\r\n", 403),
        ("sec-fetch-site: cross-site\r\n", 403),
        (own.as_str(), 204),
        ("sec-fetch-site: same-origin\r\n", 204),
    ] {
        api.put("/ann/stor/b", "", "x").await;
        let answer = ask("DELETE", "/ann/stor/b", more).await;
        assert_eq!(answer.status, status, "{more}");
    }
    // Nor do pages of other addresses get to read, also those of another port.
    for (site, status) in [
        ("same-site", 401),
        ("cross-site", 401),
        ("same-origin", 200),
        ("none", 200),
    ] {
        let answer = ask("GET", "/ann/stor/a", &format!("sec-fetch-site: {site}\r\n")).await;
        assert_eq!(answer.status, status, "{site}");
    }
    // What is in the cookie is no token.
    let bearer = cookie
        .trim()
        .replace("cookie: cannery_session=", "authorization: Bearer ");
    let answer = api
        .ask_as(&format!("{bearer}\r\n"), "GET", "/ann/stor/a")
        .await;
    assert_eq!(code(&answer), (401, "AuthorizationRequired".to_owned()));
    let token = api
        .ann
        .trim()
        .replace("authorization: Bearer ", "cookie: cannery_session=");
    let answer = api
        .ask_as(&format!("{token}\r\n"), "GET", "/ann/stor/a")
        .await;
    assert_eq!(answer.status, 401);
    // A way that others can read: nobody is logged in there.
    let forwarded = ask("GET", "/ann/stor/a", "x-forwarded-for: 192.0.2.1\r\n").await;
    assert_eq!(code(&forwarded), (401, "AuthorizationRequired".to_owned()));
    // An old cookie keeps nobody from what is public.
    let old = "cookie: cannery_session=cannery_a_b\r\n";
    assert_eq!(api.ask_as(old, "GET", "/ann/public").await.status, 200);
    assert_eq!(api.ask_as(old, "GET", "/ann/stor").await.status, 401);
    // A token that is sent on purpose counts, and not the cookie.
    let both = format!("{cookie}{}", api.bob);
    assert_eq!(api.ask_as(&both, "GET", "/ann/stor/a").await.status, 403);

    let refused = ask("POST", "/logout", "content-length: 0\r\n").await;
    assert_eq!(refused.status, 403);
    let out = ask("POST", "/logout", OWN).await;
    assert_eq!((out.status, out.header("location")), (303, "/login"));
    assert!(
        out.header("set-cookie")
            .starts_with("cannery_session=; Path=/; Max-Age=0")
    );
    assert_eq!(
        ask("GET", "/ann/stor/a", "").await.status,
        401,
        "the token is revoked"
    );
}

#[tokio::test]
async fn nobody_logs_in_behind_a_proxy_or_where_nobody_is_served() {
    let proxied = Setup {
        is_proxied: true,
        ..Setup::default()
    };
    let proxied = proxied.start().await;
    assert_eq!(log_in(&proxied).await.status, 403);
    let api = ApiDemo::start().await;
    let listen = "127.0.0.1:0".parse().unwrap();
    for audience in [Audience::Monitoring, Audience::Admin] {
        let other = api.demo.shell.listen(listen, audience).await.unwrap();
        let link = link(&api);
        assert_eq!(request(other, "POST", path(&link), OWN).await.status, 405);
        assert_eq!(get(other, "/login").await.status, 404);
    }
    let alone = crate::demo::demo(vec![]).await;
    assert_eq!(get(alone.address, "/login").await.status, 404);
    assert_eq!(
        request(alone.address, "POST", "/logout", OWN).await.status,
        405
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn over_tls_the_cookie_is_sent_over_tls_alone() {
    let api = ApiDemo::start().await;
    let folder = tempfile::tempdir().unwrap();
    let (files, trusted) = certificate(folder.path());
    let listen = "0.0.0.0:0".parse().unwrap();
    let bound = api
        .demo
        .shell
        .listen_tls(listen, Audience::Main, &files)
        .await
        .unwrap();
    let trusted = reqwest::Certificate::from_pem(trusted.as_bytes()).unwrap();
    let client = reqwest::Client::builder()
        .tls_certs_only([trusted])
        .redirect(reqwest::redirect::Policy::none())
        .resolve("data.example", ([127, 0, 0, 1], bound.port()).into());
    let client = client.build().unwrap();
    let origin = format!("https://data.example:{}", bound.port());
    let link = link(&api);
    let post = |origin: &str| {
        let request = client.post(format!(
            "https://data.example:{}{}",
            bound.port(),
            path(&link)
        ));
        request.header("origin", origin).send()
    };
    let other = origin.replace("https", "http");
    assert_eq!(post(&other).await.unwrap().status(), 403);
    let done = post(&origin).await.unwrap();
    assert_eq!(done.status(), 303);
    let set = done.headers()["set-cookie"].to_str().unwrap();
    assert!(set.ends_with("; SameSite=Strict; Secure"), "{set}");
}

pub(crate) async fn until(page: &Page, script: &str) {
    let clock = Clock::real();
    for _ in 0..300 {
        if page.eval(script).await.is_ok_and(|seen| seen == true) {
            return;
        }
        clock.sleep(Duration::from_millis(100)).await;
    }
    let text = page.eval("document.body.innerText").await.unwrap();
    panic!("`{script}` never came true: {text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_browser_logs_in_and_out() {
    let api = ApiDemo::start().await;
    let browser = Browser::start().await.unwrap();
    let page = browser.page().await.unwrap();
    page.open(&link(&api)).await.unwrap();
    let click = "document.querySelector('form button').click()";
    page.eval(click).await.unwrap();
    until(&page, "document.body.innerText.includes('Objects of ann')").await;
    let login = format!("http://{}/login", api.demo.address);
    page.open(&login).await.unwrap();
    until(
        &page,
        "document.body.innerText.includes('logged in as ann')",
    )
    .await;
    assert_eq!(page.eval("document.cookie").await.unwrap(), "");
    let work = "fetch('/ann/stor/b', { method: 'PUT', body: 'x' }).then((put) => fetch('/ann/stor/b')) \
        .then((got) => got.text()).then((text) => { window.seen = text; }); true";
    page.eval(work).await.unwrap();
    until(&page, "window.seen === 'x'").await;
    page.open(&login).await.unwrap();
    page.eval(click).await.unwrap();
    until(&page, "document.body.innerText.includes('Not logged in')").await;
    let tokens = api
        .state
        .tokens(Some(&UserName::new("ann").unwrap()))
        .await
        .unwrap();
    assert_eq!(
        tokens
            .iter()
            .filter(|token| token.revoked.is_some())
            .count(),
        1
    );
    let rebound = "POST /login?code=x HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    assert_eq!(send(api.demo.address, rebound.as_bytes()).await.status, 421);
}
