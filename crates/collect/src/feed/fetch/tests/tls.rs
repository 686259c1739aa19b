//! Servers that are not who they say.

use tokio::io::AsyncWriteExt as _;
use tokio::net::TcpListener;

use super::*;

async fn start(identity: &Identity) -> FeedServer {
    let server = FeedServer::start_tls(identity.clone()).await.unwrap();
    server.on("/", Behaviour::body("secure"));
    server
}

#[tokio::test]
async fn a_server_with_a_valid_certificate_is_trusted() {
    let identity = Identity::valid(&["127.0.0.1", "localhost"]).unwrap();
    let server = start(&identity).await;
    let fetcher = fetcher_trusting(&[&identity]);
    for host in ["127.0.0.1", "localhost"] {
        let content = body(&fetcher, &ask(server.url_as(host, "/"))).await;
        assert_eq!(content, "secure");
    }
}

#[tokio::test]
async fn expired_foreign_and_unknown_certificates_are_not_trusted() {
    let expired = Identity::expired(&["127.0.0.1"]).unwrap();
    let foreign = Identity::valid(&["example.com"]).unwrap();
    let unknown = Identity::valid(&["127.0.0.1"]).unwrap();
    for (identity, trusted, why) in [
        (&expired, &[&expired][..], "expired"),
        (&foreign, &[&foreign], "not valid for name"),
        (&unknown, &[], "UnknownIssuer"),
    ] {
        let fetcher = fetcher_trusting(trusted);
        let server = start(identity).await;
        let error = failure(&fetcher, &ask(server.url("/"))).await;
        assert_eq!(error.kind, FetchErrorKind::Tls, "{error}");
        assert_eq!(error.reason(), "tls");
        assert!(error.to_string().contains(why), "{error}");
        assert_eq!(server.requests("/").len(), 0);
    }
}

#[tokio::test]
async fn a_server_without_tls_is_no_secure_one() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}/", listener.local_addr().unwrap());
    let server = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let answer = b"HTTP/1.1 400 Bad Request\r\n\r\n";
        stream.write_all(answer).await.unwrap();
        stream
    });
    let error = failure(&fetcher(), &ask(url)).await;
    assert_eq!(error.kind, FetchErrorKind::Tls, "{error}");
    server.abort();
}

#[tokio::test]
async fn https_does_not_lead_back_to_http() {
    let identity = Identity::valid(&["127.0.0.1"]).unwrap();
    let (secure, plain) = (start(&identity).await, FeedServer::start().await.unwrap());
    plain.on("/", Behaviour::body("plain"));
    plain.on("/up", Behaviour::Redirect(secure.url("/")));
    secure.on("/down", Behaviour::Redirect(plain.url("/")));
    plain.on("/up-and-down", Behaviour::Redirect(secure.url("/down")));
    let fetcher = fetcher_trusting(&[&identity]);
    assert_eq!(body(&fetcher, &ask(plain.url("/up"))).await, "secure");
    for url in [secure.url("/down"), plain.url("/up-and-down")] {
        let error = failure(&fetcher, &ask(url)).await;
        assert_eq!(error.kind, FetchErrorKind::Redirect, "{error}");
    }
    assert_eq!(plain.requests("/").len(), 0);
}
