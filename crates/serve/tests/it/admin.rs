//! What only the admin port does, and who may ask it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use cannery_runtime::{Clock, Secret};
use cannery_serve::{Audience, Notices};

use crate::client::{get, request, send};
use crate::demo::{Conduct, Demo, Part, start};

/// A shell that counts how often it was asked to stop.
struct Watched {
    demo: Demo,
    asked: Arc<AtomicUsize>,
}

impl Watched {
    async fn start() -> Self {
        let asked = Arc::<AtomicUsize>::default();
        let counter = Arc::clone(&asked);
        let demo = start(Clock::real(), "edge-1", vec![], |builder| {
            builder.on_shutdown(move || {
                counter.fetch_add(1, Ordering::Relaxed);
            })
        })
        .await;
        Self { demo, asked }
    }

    async fn listen(&self, address: &str, audience: Audience) -> SocketAddr {
        let address = address.parse().unwrap();
        self.demo.shell.listen(address, audience).await.unwrap()
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn only_a_post_to_the_admin_port_shuts_down() {
    let watched = Watched::start().await;
    let monitoring = watched.listen("127.0.0.1:0", Audience::Monitoring).await;
    for address in [watched.demo.address, monitoring] {
        assert_eq!(request(address, "GET", "/shutdown", "").await.status, 404);
        let refused = request(address, "POST", "/shutdown", "").await;
        assert_eq!(refused.status, 405);
        assert_eq!(refused.header("allow"), "GET, HEAD");
        assert!(!get(address, "/").await.body.contains("<form"));
    }
    let admin = watched.listen("127.0.0.1:0", Audience::Admin).await;
    for method in ["GET", "HEAD", "PUT", "DELETE", "OPTIONS", "BREW"] {
        let refused = request(admin, method, "/shutdown", "").await;
        assert_eq!(
            (refused.status, refused.header("allow")),
            (405, "POST"),
            "{method}"
        );
    }
    for path in [
        "/",
        "/healthz",
        "/nothing",
        "/shutdown/",
        "/%73hutdown",
        "//shutdown",
    ] {
        let refused = request(admin, "POST", path, "").await;
        assert_eq!(
            (refused.status, refused.header("allow")),
            (405, "GET, HEAD"),
            "{path}"
        );
    }
    assert_eq!(watched.asked(), 0);
    let answer = request(admin, "POST", "/shutdown", "").await;
    assert_eq!((answer.status, answer.body.as_str()), (202, "stopping\n"));
    assert_eq!(watched.asked(), 1);
}

#[tokio::test]
async fn the_admin_page_has_a_button_and_its_policy_lets_it_work() {
    let watched = Watched::start().await;
    let admin = watched.listen("127.0.0.1:0", Audience::Admin).await;
    let page = get(admin, "/").await;
    assert!(
        page.body.contains(r#"<form method="post" action="/shutdown"><button class="button danger" type="submit">Shut down edge-1</button></form>"#),
        "{}",
        page.body
    );
    assert!(
        page.header("content-security-policy")
            .contains("form-action 'self';")
    );
    assert_eq!(page.header("referrer-policy"), "same-origin");
    let main = get(watched.demo.address, "/").await;
    assert!(
        main.header("content-security-policy")
            .contains("form-action 'none';")
    );
    assert_eq!(main.header("referrer-policy"), "no-referrer");
    for path in ["/status.json", "/healthz", "/readyz", "/metrics"] {
        assert_eq!(get(admin, path).await.status, 200, "{path}");
    }
    let browser = format!(
        "origin: http://{admin}\r\nsec-fetch-site: same-origin\r\naccept: text/html,*/*\r\n"
    );
    let answer = request(admin, "POST", "/shutdown", &browser).await;
    assert_eq!(answer.status, 202);
    assert!(answer.body.contains("<h1>Stopping</h1>"), "{}", answer.body);
    assert_eq!(watched.asked(), 1);
}

#[tokio::test]
async fn another_page_cannot_shut_down() {
    let watched = Watched::start().await;
    let admin = watched.listen("127.0.0.1:0", Audience::Admin).await;
    let foreign = [
        "origin: http://evil.example\r\n".to_owned(),
        "origin: null\r\n".to_owned(),
        format!("origin: http://localhost:{}\r\n", admin.port()),
        "sec-fetch-site: cross-site\r\n".to_owned(),
        format!("origin: http://{admin}\r\nsec-fetch-site: same-site\r\n"),
    ];
    for headers in foreign {
        let refused = request(admin, "POST", "/shutdown", &headers).await;
        assert_eq!(refused.status, 403, "{headers}: {refused:?}");
        assert!(refused.body.contains("curl -X POST"), "{refused:?}");
    }
    let rebound = b"POST /shutdown HTTP/1.1\r\nhost: evil.example\r\nconnection: close\r\n\r\n";
    assert_eq!(send(admin, rebound).await.status, 421);

    // On an address for the network any name passes, but not that of a page.
    let mut open = watched.listen("0.0.0.0:0", Audience::Admin).await;
    open.set_ip([127, 0, 0, 1].into());
    let rebound = b"POST /shutdown HTTP/1.1\r\nhost: evil.example\r\norigin: http://evil.example\r\nconnection: close\r\n\r\n";
    assert_eq!(send(open, rebound).await.status, 403);
    assert_eq!(watched.asked(), 0);
    let program = b"POST /shutdown HTTP/1.1\r\nhost: node-1\r\nconnection: close\r\n\r\n";
    assert_eq!(send(open, program).await.status, 202);
    assert_eq!(watched.asked(), 1);
}

#[tokio::test]
async fn without_a_way_to_stop_nothing_writes() {
    let demo = start(Clock::real(), "edge-1", vec![], |builder| builder).await;
    let admin = demo
        .shell
        .listen("127.0.0.1:0".parse().unwrap(), Audience::Admin)
        .await
        .unwrap();
    assert_eq!(request(admin, "POST", "/shutdown", "").await.status, 405);
    assert_eq!(get(admin, "/shutdown").await.status, 404);
    assert!(!get(admin, "/").await.body.contains("<form"));
}

#[tokio::test]
async fn a_way_to_stop_that_panics_is_contained() {
    let demo = start(Clock::real(), "edge-1", vec![], |builder| {
        builder.on_shutdown(|| panic!("on purpose"))
    })
    .await;
    let admin = demo
        .shell
        .listen("127.0.0.1:0".parse().unwrap(), Audience::Admin)
        .await
        .unwrap();
    assert_eq!(request(admin, "POST", "/shutdown", "").await.status, 500);
    assert_eq!(get(admin, "/healthz").await.status, 200);
}

#[tokio::test]
async fn a_notice_is_on_every_page_until_it_is_cleared() {
    let notices = Notices::new();
    let part = Part {
        page: Some(Conduct::Shows(vec![])),
        ..Part::named("spool", vec![])
    };
    let demo = start(Clock::real(), "edge-1", vec![part], |builder| {
        builder.notices(&notices)
    })
    .await;
    let secret = Secret::new("canary-notice-7");
    let reason = format!(
        "the new configuration is not used: `<b>` {}",
        secret.expose()
    );
    let shown = "the new configuration is not used: <code>&lt;b&gt;</code> ***";
    let pages = ["/", "/spool", "/nothing"];
    for path in pages {
        assert!(
            !get(demo.address, path).await.body.contains("not used"),
            "{path}"
        );
    }
    notices.set("configuration", reason);
    for path in pages {
        let body = get(demo.address, path).await.body;
        assert_eq!(body.matches(shown).count(), 1, "{path}: {body}");
    }
    let status = get(demo.address, "/status.json").await.json();
    assert_eq!(status["state"], "bad");
    assert_eq!(status["notices"][0]["name"], "configuration");
    assert_eq!(
        status["notices"][0]["reason"],
        "the new configuration is not used: `<b>` ***"
    );
    assert_eq!(status["attention"][0]["name"], "configuration");
    assert_eq!(
        get(demo.address, "/readyz").await.status,
        200,
        "it works on with what it had"
    );
    notices.clear("configuration");
    for path in pages {
        assert!(
            !get(demo.address, path).await.body.contains("not used"),
            "{path}"
        );
    }
    let status = get(demo.address, "/status.json").await.json();
    assert_eq!(
        (&status["state"], &status["notices"]),
        (&"good".into(), &serde_json::json!([]))
    );
}
