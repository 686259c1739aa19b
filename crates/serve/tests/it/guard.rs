//! What is refused, and what every answer carries.

use std::net::SocketAddr;

use cannery_serve::Audience;

use crate::client::{Answer, get, request, send};
use crate::demo::{Conduct, Demo, Part, demo, good};

async fn with_pages() -> Demo {
    let clumsy = Part {
        page: Some(Conduct::Panics),
        ..Part::named("clumsy", vec![])
    };
    let spool = Part {
        page: Some(Conduct::Shows(vec![])),
        ..Part::named("spool", vec![good("Shipped")])
    };
    demo(vec![spool, clumsy]).await
}

/// The addresses of the embedded files, as the page names them.
fn assets(home: &str) -> Vec<String> {
    let mut found: Vec<String> = home
        .split('"')
        .filter(|piece| piece.starts_with("/assets/") && piece.matches("/assets/").count() == 1)
        .map(Into::into)
        .collect();
    found.sort();
    found.dedup();
    found
}

fn assert_hardened(answer: &Answer, what: &str) {
    let policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; font-src 'self'; \
                  connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none', \
                  style-src *:*/assets/; script-src *:*/assets/; img-src *:*/assets/ data:; font-src *:*/assets/";
    for (name, value) in [
        ("content-security-policy", policy),
        ("x-content-type-options", "nosniff"),
        ("referrer-policy", "no-referrer"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
    ] {
        assert_eq!(answer.header(name), value, "{what}: {answer:?}");
    }
}

#[tokio::test]
async fn every_answer_is_hardened_and_not_kept() {
    let demo = with_pages().await;
    let routes = [
        ("/", 200),
        ("/spool", 200),
        ("/status.json", 200),
        ("/healthz", 200),
        ("/readyz", 200),
        ("/metrics", 200),
        ("/clumsy", 500),
        ("/nothing", 404),
        ("/assets/app.css", 404),
        ("/assets/../Cargo.toml", 404),
    ];
    for (path, status) in routes {
        for method in ["GET", "HEAD"] {
            let answer = request(demo.address, method, path, "").await;
            assert_eq!(answer.status, status, "{method} {path}");
            assert_hardened(&answer, path);
            assert_eq!(answer.header("cache-control"), "no-store", "{path}");
            assert_eq!(answer.body.is_empty(), method == "HEAD", "{method} {path}");
        }
    }
}

#[tokio::test]
async fn pages_hold_no_inline_script_or_style() {
    let demo = with_pages().await;
    for path in ["/", "/spool", "/nothing"] {
        let body = get(demo.address, path).await.body;
        assert_eq!(body.matches("<script").count(), 1, "{body}");
        assert!(body.contains(r#"<script src="/assets/live."#), "{body}");
        for inline in ["<style", " style=", " onload=", " onclick=", "javascript:"] {
            assert!(!body.contains(inline), "{path}: {inline}");
        }
    }
}

#[tokio::test]
async fn assets_are_named_by_content_and_kept_for_ever() {
    let demo = demo(vec![]).await;
    let assets = assets(&get(demo.address, "/").await.body);
    let kinds = [
        "text/css",
        "image/svg+xml",
        "text/javascript",
        "image/svg+xml",
    ];
    assert_eq!(assets.len(), kinds.len(), "{assets:?}");
    for (path, kind) in assets.iter().zip(kinds) {
        let answer = get(demo.address, path).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_hardened(&answer, path);
        assert!(
            answer.header("content-type").starts_with(kind),
            "{path}: {answer:?}"
        );
        assert_eq!(
            answer.header("cache-control"),
            "public, max-age=31536000, immutable",
            "{path}"
        );
    }
}

#[tokio::test]
async fn only_reading_methods_pass() {
    let demo = with_pages().await;
    let monitoring = demo
        .shell
        .listen("127.0.0.1:0".parse().unwrap(), Audience::Monitoring)
        .await
        .unwrap();
    for address in [demo.address, monitoring] {
        for method in ["POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"] {
            for path in ["/", "/spool", "/healthz", "/nothing"] {
                let answer = request(address, method, path, "").await;
                assert_eq!(answer.status, 405, "{method} {path}");
                assert_eq!(answer.header("allow"), "GET, HEAD");
                assert_hardened(&answer, path);
            }
        }
    }
}

async fn with_host(address: SocketAddr, host_lines: &str) -> Answer {
    send(
        address,
        format!("GET / HTTP/1.1\r\n{host_lines}connection: close\r\n\r\n").as_bytes(),
    )
    .await
}

#[tokio::test]
async fn a_foreign_host_on_loopback_is_misdirected() {
    let demo = demo(vec![]).await;
    for host in [
        "localhost",
        "localhost:1234",
        "127.0.0.1",
        "127.3.2.1:99",
        "[::1]:8420",
    ] {
        assert_eq!(
            with_host(demo.address, &format!("host: {host}\r\n"))
                .await
                .status,
            200,
            "{host}"
        );
    }
    let refused = [
        "host: evil.example\r\n",
        "host: localhost.evil.example:8420\r\n",
        "host: 10.0.0.1\r\n",
        "host: \r\n",
        "",
        "host: localhost\r\nhost: evil.example\r\n",
    ];
    for lines in refused {
        let answer = with_host(demo.address, lines).await;
        assert_eq!(answer.status, 421, "{lines:?}: {answer:?}");
        assert!(
            answer.body.contains("http://localhost:<port>/"),
            "{answer:?}"
        );
        assert_eq!(answer.header("content-type"), "text/plain; charset=utf-8");
        assert_hardened(&answer, lines);
    }
    let absolute =
        b"GET http://evil.example/ HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
    assert_eq!(send(demo.address, absolute).await.status, 421);
}

#[tokio::test]
async fn a_listener_for_the_network_takes_any_name() {
    let demo = demo(vec![]).await;
    let mut open = demo
        .shell
        .listen("0.0.0.0:0".parse().unwrap(), Audience::Monitoring)
        .await
        .unwrap();
    open.set_ip([127, 0, 0, 1].into());
    assert_eq!(
        with_host(open, "host: cannery.example\r\n").await.status,
        200
    );
}
