//! The ways in which somebody could get at what is not theirs, one test each.

use cannery_formats::{Key, UserName};
use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::{Clock, Rng};
use jiff::SignedDuration;

use crate::api_demo::{ApiDemo, Setup, code, token};
use crate::client::send;
use crate::demo::Part;
use crate::signer::{Signer, authorization, encode, http_date};

#[tokio::test]
#[should_panic(expected = "could be the address of a user")]
async fn a_section_named_like_a_user_is_a_mistake_in_the_program() {
    let sections = vec![Part::named("anybody", vec![])];
    Setup {
        sections,
        ..Setup::default()
    }
    .start()
    .await;
}

#[tokio::test]
async fn a_user_named_like_a_route_cannot_be() {
    for name in [
        "login",
        "lake",
        "openapi.json",
        "healthz",
        "feeds",
        "operator",
    ] {
        assert!(UserName::new(name).is_err(), "{name}");
    }
    let sections = vec![Part::named("feeds", vec![])];
    let setup = Setup {
        sections,
        ..Setup::default()
    };
    setup.start().await;
}

fn refused() -> (u16, String) {
    (403, "InvalidSignature".to_owned())
}

#[tokio::test]
async fn a_signature_of_another_key_is_refused() {
    let api = ApiDemo::start().await;
    let (now, ann) = (Clock::real().now(), Signer::of(&api.state, "ann", 1).await);
    assert_eq!(
        api.ask_as(&ann.headers(now), "GET", "/ann/stor")
            .await
            .status,
        200
    );
    let bob = Signer::of(&api.state, "bob", 2).await;
    let date = http_date(now);
    let signature = bob.sign(&format!("date: {date}"));
    // Bob's signature under the name of ann's key, and bob's key as if it were ann's.
    let fingerprint = bob.key_id.rsplit('/').next().unwrap();
    for key_id in [ann.key_id.clone(), format!("/ann/keys/{fingerprint}")] {
        let forged = authorization(&date, &key_id, "ed25519-sha512", &signature);
        let answer = api.ask_as(&forged, "GET", "/ann/stor").await;
        assert_eq!(code(&answer), refused(), "{key_id}");
    }
    let other = api.ask_as(&bob.headers(now), "GET", "/ann/stor").await;
    assert_eq!(code(&other), (403, "AuthorizationFailed".to_owned()));
}

#[tokio::test]
async fn a_signature_by_another_algorithm_is_refused() {
    let api = ApiDemo::start().await;
    let ann = Signer::of(&api.state, "ann", 1).await;
    let date = http_date(Clock::real().now());
    let signature = ann.sign(&format!("date: {date}"));
    for algorithm in ["rsa-sha256", "ecdsa-sha256", "hmac-sha256", "none", ""] {
        let claimed = authorization(&date, &ann.key_id, algorithm, &signature);
        let answer = api.ask_as(&claimed, "GET", "/ann/stor").await;
        assert_eq!(code(&answer), refused(), "{algorithm}");
    }
}

#[tokio::test]
async fn a_replayed_signature_is_refused_from_elsewhere_and_later() {
    let api = ApiDemo::start().await;
    let ann = Signer::of(&api.state, "ann", 1).await;
    let now = Clock::real().now();
    let overheard = ann.headers(now);
    let elsewhere = format!("{overheard}x-forwarded-for: 192.0.2.1\r\n");
    let answer = api.ask_as(&elsewhere, "GET", "/ann/stor").await;
    assert_eq!(code(&answer), (403, "AuthorizationFailed".to_owned()));
    for seconds in [-400, 400] {
        let old = ann.headers(now + SignedDuration::from_secs(seconds));
        assert_eq!(code(&api.ask_as(&old, "GET", "/ann/stor").await), refused());
    }
    let now: jiff::Timestamp = "2026-11-15T18:24:03Z".parse().unwrap();
    let frozen = Setup {
        clock: SimulatedClock::starting_at(now).clock(),
        ..Setup::default()
    };
    let frozen = frozen.start().await;
    let ann = Signer::of(&frozen.state, "ann", 1).await;
    for (seconds, status) in [(-301, 403), (-299, 200), (299, 200), (301, 403)] {
        let headers = ann.headers(now + SignedDuration::from_secs(seconds));
        let answer = frozen.ask_as(&headers, "GET", "/ann/stor").await;
        assert_eq!(answer.status, status, "{seconds}");
    }
    let dates = format!("{overheard}date: {}\r\n", http_date(now));
    assert_eq!(
        code(&api.ask_as(&dates, "GET", "/ann/stor").await),
        refused()
    );
}

#[tokio::test]
async fn no_part_of_a_signed_address_can_be_changed() {
    let api = ApiDemo::start().await;
    let host = api.demo.address;
    api.put("/ann/stor/a", "", "hello").await;
    api.put("/ann/stor/b", "", "other").await;
    let ann = Signer::of(&api.state, "ann", 1).await;
    let bob = Signer::of(&api.state, "bob", 2).await;
    let expires = Clock::real().now().as_second() + 600;
    let query = ann.query("GET", host, "/ann/stor/a", expires);
    let signed = format!("/ann/stor/a?{query}");
    assert_eq!(api.ask_as("", "GET", &signed).await.body, "hello");
    for changed in [
        signed.replace(&expires.to_string(), &(expires + 1).to_string()),
        signed.replace("ed25519-sha512", "rsa-sha256"),
        signed.replace(&encode(&ann.key_id), &encode(&bob.key_id)),
        signed.replace("method=GET", "method=PUT"),
        signed.replace("method=GET", "method=GET,PUT"),
        signed.replace("&method=GET", ""),
        signed.replace("signature=", "signature=A"),
        format!("{signed}&limit=1"),
        signed.replace("/stor/a?", "/stor/b?"),
        signed.replace("/stor/a?", "/stor//a?"),
        signed.replace("/stor/a?", "/stor/%61?"),
        signed.replace("/ann/", "/bob/"),
    ] {
        assert_ne!(changed, signed);
        assert_eq!(
            code(&api.ask_as("", "GET", &changed).await),
            refused(),
            "{changed}"
        );
    }
    for method in ["PUT", "DELETE"] {
        let answer = api.ask_as("content-length: 0\r\n", method, &signed).await;
        assert_eq!(code(&answer), refused(), "{method}");
    }
    // Asked of the same server by another name.
    let named = format!(
        "GET {signed} HTTP/1.1\r\nhost: localhost:{}\r\nconnection: close\r\n\r\n",
        host.port()
    );
    assert_eq!(code(&send(host, named.as_bytes()).await), refused());
    let month = Clock::real().now().as_second() + 30 * 24 * 3600;
    for expires in [expires - 10_000, month] {
        let query = ann.query("GET", host, "/ann/stor/a", expires);
        let answer = api.ask_as("", "GET", &format!("/ann/stor/a?{query}")).await;
        assert_eq!(code(&answer), refused());
    }
    // It dies with its key.
    let name = UserName::new("ann").unwrap();
    let fingerprint = ann.key_id.rsplit('/').next().unwrap();
    api.state.remove_key(&name, fingerprint).await.unwrap();
    assert_eq!(code(&api.ask_as("", "GET", &signed).await), refused());
}

#[tokio::test]
async fn a_token_that_has_expired_or_was_revoked_is_refused() {
    let api = ApiDemo::start().await;
    let (name, scopes) = (UserName::new("ann").unwrap(), "read".parse().unwrap());
    let at_once = Some(std::time::Duration::ZERO);
    let rng = Rng::seeded(1);
    let expired = api.state.create_token(&name, &scopes, at_once, &rng);
    let expired = expired.await.unwrap();
    let revoked = api.state.create_token(&name, &scopes, None, &rng);
    let revoked = revoked.await.unwrap();
    let header = |text: &str| format!("authorization: Bearer {text}\r\n");
    let revoked_header = header(revoked.text.expose());
    assert_eq!(
        api.ask_as(&revoked_header, "GET", "/ann/stor").await.status,
        200
    );
    api.state.revoke_token(&revoked.token.id).await.unwrap();
    for header in [header(expired.text.expose()), revoked_header] {
        let answer = api.ask_as(&header, "GET", "/ann/stor").await;
        assert_eq!(code(&answer), (401, "AuthorizationRequired".to_owned()));
    }
}

#[tokio::test]
async fn another_users_path_is_refused_whatever_is_asked_of_it() {
    let api = ApiDemo::start().await;
    api.put("/ann/stor/a", "", "secret").await;
    let almighty = token(&api.state, "bob", "read,write,admin,raw").await;
    for (path, status) in [
        ("/ann", 403),
        ("/ann/stor", 403),
        ("/ann/stor/a", 403),
        ("/ann/jobs/1", 404),
        ("//ann//stor//a", 403),
    ] {
        for method in ["GET", "HEAD"] {
            let answer = api.ask_as(&almighty, method, path).await;
            assert_eq!(answer.status, status, "{method} {path}");
        }
    }
    for method in ["PUT", "DELETE"] {
        let headers = format!("{almighty}content-length: 0\r\n");
        for path in ["/ann/stor/a", "/ann/public/a"] {
            let answer = api.ask_as(&headers, method, path).await;
            assert_eq!(answer.status, 403, "{method} {path}");
        }
    }
    assert_eq!(api.ask("GET", "/ann/stor/a", "").await.body, "secret");
}

#[tokio::test]
async fn what_the_lake_keeps_for_itself_is_not_there_for_any_scope() {
    let api = ApiDemo::start().await;
    for key in [
        ".cannery/lake-key",
        "users/.log/x",
        "cannery.json",
        "secret/x",
    ] {
        let key = Key::new(key).unwrap();
        let put = api.mirrors.put_new(&key, b"canary".to_vec());
        assert!(put.await.is_everywhere());
    }
    let almighty = token(&api.state, "ann", "read,write,admin,raw").await;
    for path in [
        "/lake/.cannery/lake-key",
        "/lake/%2ecannery/lake-key",
        "/lake/%2Ecannery%2Flake-key",
        "/lake/.cannery%2flake-key",
        "/lake//.cannery//lake-key",
        "//lake/.cannery/lake-key",
        "/lake/./.cannery/lake-key",
        "/lake/autoload/../.cannery/lake-key",
        "/lake/autoload/%2e%2e/.cannery/lake-key",
        "/lake/autoload%2f..%2f.cannery/lake-key",
        "/lake/.CANNERY/lake-key",
        "/lake/users/.log/x",
        "/lake/%75sers/.log/x",
        "/lake/Users/.log/x",
        "/lake//users/.log/x",
        "/lake/autoload/../users/.log/x",
        "/lake/cannery.json",
        "/lake/secret/x",
        "/ann/../lake/.cannery/lake-key",
        "/%6cake/.cannery/lake-key",
    ] {
        for headers in [almighty.as_str(), ""] {
            let answer = api.ask_as(headers, "GET", path).await;
            assert_eq!(answer.status, 404, "{path}");
            assert!(!answer.body.contains("canary"), "{path}");
        }
    }
}

/// Routes x identities x ways: a credential counts on this machine, and not through a proxy.
#[tokio::test]
async fn a_credential_through_a_proxy_is_refused() {
    let api = ApiDemo::start().await;
    let proxied = Setup {
        is_proxied: true,
        ..Setup::default()
    };
    let proxied = proxied.start().await;
    let headers = [
        "forwarded: for=192.0.2.1\r\n",
        "Forwarded: \r\n",
        "x-forwarded-for: 127.0.0.1\r\n",
        "X-Forwarded-Proto: https\r\n",
        "x-forwarded-host: localhost\r\n",
        "via: 1.1 proxy\r\n",
    ];
    for (path, nobody, somebody) in [
        ("/ann", 401, 403),
        ("/ann/stor", 401, 403),
        ("/ann/public", 200, 403),
        ("/lake/autoload/x", 401, 403),
        ("/healthz", 200, 200),
        ("/", 200, 200),
    ] {
        for forwarded in headers {
            let with = format!("{forwarded}{}", api.ann);
            let seen = [
                api.ask_as(forwarded, "GET", path).await.status,
                api.ask_as(&with, "GET", path).await.status,
            ];
            assert_eq!(seen, [nobody, somebody], "{path} {forwarded}");
        }
        let seen = [
            proxied.ask_as("", "GET", path).await.status,
            proxied.ask("GET", path, "").await.status,
        ];
        assert_eq!(seen, [nobody, somebody], "{path}");
    }
}
