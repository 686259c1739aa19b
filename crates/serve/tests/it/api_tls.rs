//! The same server behind TLS, asked by a real client.

use std::path::Path;

use cannery_serve::{Audience, TlsFiles};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::api_demo::{ApiDemo, Setup};

#[allow(clippy::disallowed_methods, reason = "nothing of a test is durable")]
fn put(file: &Path, text: &str) {
    std::fs::write(file, text).unwrap();
}

/// Files for `localhost`, and what a client must trust.
pub(crate) fn certificate(folder: &Path) -> (TlsFiles, String) {
    let names = vec!["localhost".to_owned(), "data.example".to_owned()];
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(names).unwrap();
    let files = TlsFiles {
        certificate: folder.join("server.crt"),
        key: folder.join("server.key"),
    };
    put(&files.certificate, &cert.pem());
    put(&files.key, &signing_key.serialize_pem());
    (files, cert.pem())
}

pub(crate) fn client(trusted: &str) -> reqwest::Client {
    let trusted = reqwest::Certificate::from_pem(trusted.as_bytes()).unwrap();
    let builder = reqwest::Client::builder().tls_certs_only([trusted]);
    builder.build().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_credential_is_good_behind_tls_also_through_a_proxy() {
    let api = Setup {
        is_proxied: true,
        ..Setup::default()
    };
    let api = api.start().await;
    let folder = tempfile::tempdir().unwrap();
    let (files, trusted) = certificate(folder.path());
    let listen = "127.0.0.1:0".parse().unwrap();
    let bound = api.demo.shell.listen_tls(listen, Audience::Main, &files);
    let port = bound.await.unwrap().port();
    let bearer = api.ann.trim().split_once(": ").unwrap().1;
    let asked = client(&trusted)
        .get(format!("https://localhost:{port}/ann/stor"))
        .header("authorization", bearer)
        .header("x-forwarded-for", "192.0.2.1");
    assert_eq!(asked.send().await.unwrap().status(), 200);
    // The same over plain HTTP is refused.
    assert_eq!(api.ask("GET", "/ann/stor", "").await.status, 403);
    let home = client(&trusted).get(format!("https://localhost:{port}/"));
    assert_eq!(home.send().await.unwrap().status(), 200);

    // Who does not speak TLS gets no HTTP.
    let mut plain = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n";
    plain.write_all(request).await.unwrap();
    let mut answer = Vec::new();
    // However the connection ends, it has said nothing of the dashboard.
    let _ended = plain.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/"));
}

#[tokio::test]
async fn files_that_cannot_be_used_keep_it_from_listening() {
    let api = ApiDemo::start().await;
    let files = TlsFiles {
        certificate: "/nowhere/server.crt".into(),
        key: "/nowhere/server.key".into(),
    };
    let listen = "127.0.0.1:0".parse().unwrap();
    let refused = api.demo.shell.listen_tls(listen, Audience::Main, &files);
    let text = refused.await.unwrap_err().to_string();
    assert!(
        text.starts_with("cannot read the certificate `/nowhere/server.crt`"),
        "{text}"
    );
}
