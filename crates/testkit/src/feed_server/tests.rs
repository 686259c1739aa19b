use std::io::Read as _;
use std::time::Duration;

use cannery_runtime::clock::SimulatedClock;
use jiff::Timestamp;
use reqwest::header::{CONTENT_LENGTH, ETAG, IF_NONE_MATCH, LOCATION};
use reqwest::redirect::Policy;

use super::*;

fn client() -> reqwest::Client {
    reqwest::Client::builder()
        .no_proxy()
        .redirect(Policy::limited(5))
        .build()
        .unwrap()
}

async fn get(url: String) -> reqwest::Response {
    client().get(url).send().await.unwrap()
}

#[tokio::test]
async fn a_body_is_served_once_and_then_known_by_its_tag() {
    let server = FeedServer::start().await.unwrap();
    server.on("/feed", Behaviour::body("hello"));
    let first = get(server.url("/feed?x=1")).await;
    let tag = first.headers()[ETAG].clone();
    assert_eq!(first.text().await.unwrap(), "hello");

    let again = client()
        .get(server.url("/feed"))
        .header(IF_NONE_MATCH, &tag)
        .header("X-Mine", "yes");
    let again = again.send().await.unwrap();
    assert_eq!(again.status(), 304);
    assert_eq!(again.text().await.unwrap(), "");

    server.on("/feed", Behaviour::body("changed"));
    let changed = client()
        .get(server.url("/feed"))
        .header(IF_NONE_MATCH, &tag)
        .send()
        .await
        .unwrap();
    assert_eq!(changed.text().await.unwrap(), "changed");

    let seen = server.requests("/feed");
    assert_eq!(seen.len(), 3);
    assert_eq!(seen[0].target, "/feed?x=1");
    assert_eq!(seen[1].header("x-mine"), Some("yes"));
    assert_eq!(seen[1].header("if-none-match"), tag.to_str().ok());
}

#[tokio::test]
async fn an_untagged_body_is_always_sent() {
    let server = FeedServer::start().await.unwrap();
    server.on("/feed", Behaviour::Untagged("same".into()));
    let answer = client()
        .get(server.url("/feed"))
        .header(IF_NONE_MATCH, "*")
        .send()
        .await
        .unwrap();
    assert!(!answer.headers().contains_key(ETAG));
    assert_eq!(answer.text().await.unwrap(), "same");
}

#[tokio::test]
async fn bodies_change_with_each_request_and_the_last_stays() {
    let server = FeedServer::start().await.unwrap();
    server.on("/feed", Behaviour::Bodies(vec!["one".into(), "two".into()]));
    for expected in ["one", "two", "two"] {
        assert_eq!(
            get(server.url("/feed")).await.text().await.unwrap(),
            expected
        );
    }
}

#[tokio::test]
async fn a_slow_body_comes_piece_by_piece() {
    let simulated = SimulatedClock::starting_at(Timestamp::UNIX_EPOCH);
    let server = FeedServer::start_with(simulated.clock()).await.unwrap();
    let pause = Duration::from_secs(3_600);
    server.on(
        "/feed",
        Behaviour::Slow {
            body: "abcdef".into(),
            chunk_bytes: 4,
            pause,
        },
    );
    let mut answer = get(server.url("/feed")).await;
    assert_eq!(answer.chunk().await.unwrap().unwrap(), "abcd");
    let mut rest = Box::pin(answer.chunk());
    assert!(futures::poll!(&mut rest).is_pending());
    simulated.advance(pause).await;
    assert_eq!(rest.await.unwrap().unwrap(), "ef");
}

#[tokio::test]
async fn a_hung_path_takes_the_request_and_never_answers() {
    let server = FeedServer::start().await.unwrap();
    server.on("/feed", Behaviour::Hung);
    let limit = Duration::from_millis(200);
    let error = client()
        .get(server.url("/feed"))
        .timeout(limit)
        .send()
        .await
        .unwrap_err();
    assert!(error.is_timeout(), "{error:?}");
    assert_eq!(server.requests("/feed").len(), 1);
}

#[tokio::test]
async fn an_endless_body_goes_on_past_any_cap() {
    let server = FeedServer::start().await.unwrap();
    server.on("/feed", Behaviour::Endless);
    let mut answer = get(server.url("/feed")).await;
    assert!(!answer.headers().contains_key(CONTENT_LENGTH));
    let mut received = 0;
    while received < 20 * 1024 * 1024 {
        received += answer
            .chunk()
            .await
            .unwrap()
            .expect("the body has no end")
            .len();
    }
}

#[tokio::test]
async fn a_bomb_unpacks_to_a_thousand_times_its_size() {
    let server = FeedServer::start().await.unwrap();
    server.on(
        "/feed",
        Behaviour::GzipBomb {
            unpacked_bytes: 8 * 1024 * 1024,
        },
    );
    let answer = get(server.url("/feed")).await;
    assert_eq!(answer.headers()["content-encoding"], "gzip");
    let packed = answer.bytes().await.unwrap();
    let mut content = Vec::new();
    flate2::bufread::GzDecoder::new(&packed[..])
        .read_to_end(&mut content)
        .unwrap();
    assert!(content.len() == 8 * 1024 * 1024 && packed.len() * 500 < content.len());
}

#[tokio::test]
async fn redirects_lead_on_or_round_in_circles() {
    let server = FeedServer::start().await.unwrap();
    server.on("/from", Behaviour::Redirect(server.url("/to")));
    server.on("/to", Behaviour::body("arrived"));
    server.on("/loop", Behaviour::Redirect("/loop".into()));
    assert_eq!(
        get(server.url("/from")).await.text().await.unwrap(),
        "arrived"
    );
    let error = client().get(server.url("/loop")).send().await.unwrap_err();
    assert!(error.is_redirect(), "{error:?}");
    assert_eq!(server.requests("/loop").len(), 6);

    let still = reqwest::Client::builder()
        .no_proxy()
        .redirect(Policy::none())
        .build()
        .unwrap();
    let answer = still.get(server.url("/from")).send().await.unwrap();
    assert_eq!(answer.headers()[LOCATION], server.url("/to").as_str());
}

#[tokio::test]
async fn a_wrong_length_is_claimed() {
    let server = FeedServer::start().await.unwrap();
    server.on(
        "/short",
        Behaviour::WrongLength {
            claimed: 100,
            body: "only this".into(),
        },
    );
    server.on(
        "/long",
        Behaviour::WrongLength {
            claimed: 4,
            body: "only this".into(),
        },
    );
    let answer = get(server.url("/short")).await;
    assert_eq!(answer.content_length(), Some(100));
    answer.bytes().await.expect_err("91 bytes are missing");
    assert_eq!(get(server.url("/long")).await.text().await.unwrap(), "only");
}

#[tokio::test]
async fn statuses_and_unknown_paths() {
    let server = FeedServer::start().await.unwrap();
    server.on("/down", Behaviour::Status(503));
    assert_eq!(get(server.url("/down")).await.status(), 503);
    assert_eq!(get(server.url("/nowhere")).await.status(), 404);
    assert_eq!(server.requests("/nowhere").len(), 1);
    let head = client().head(server.url("/down")).send().await.unwrap();
    assert_eq!(head.status(), 503);
    assert_eq!(server.requests("/down")[1].method, "HEAD");
}

#[tokio::test]
async fn a_connection_is_kept_when_it_is_told_to_and_counted() {
    let server = FeedServer::start().await.unwrap();
    server.on("/feed", Behaviour::body("x"));
    for (keep, accepted) in [(false, 3), (true, 4)] {
        server.keep_alive(keep);
        let client = client();
        for _ in 0..3 {
            let answer = client.get(server.url("/feed")).send().await.unwrap();
            assert_eq!(answer.text().await.unwrap(), "x");
        }
        assert_eq!(server.accepted(), accepted);
        assert!(server.open() > 0 || !keep);
    }
    // The client is gone, and its connection with it.
    while server.open() > 0 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn each_turn_has_its_behaviour() {
    let server = FeedServer::start().await.unwrap();
    server.on(
        "/feed",
        Behaviour::Turns(vec![
            Behaviour::Status(503),
            Behaviour::HangUp,
            Behaviour::Raw("HTTP/1.1 299 mine\r\n\r\n".into()),
        ]),
    );
    assert_eq!(get(server.url("/feed")).await.status(), 503);
    let hung_up = client().get(server.url("/feed")).send().await;
    hung_up.expect_err("there is no answer");
    for _ in 0..2 {
        assert_eq!(get(server.url("/feed")).await.status(), 299);
    }
}

#[tokio::test]
async fn a_dated_body_is_known_by_its_time() {
    let server = FeedServer::start().await.unwrap();
    let last_modified = "Mon, 01 Jan 2024 00:00:00 GMT";
    server.on(
        "/feed",
        Behaviour::Dated {
            body: "x".into(),
            last_modified: last_modified.to_owned(),
        },
    );
    let first = get(server.url("/feed")).await;
    assert_eq!(first.headers()["last-modified"], last_modified);
    let again = client()
        .get(server.url("/feed"))
        .header("if-modified-since", last_modified)
        .send()
        .await
        .unwrap();
    assert_eq!(again.status(), 304);
}

#[tokio::test]
async fn an_identity_is_trusted_by_who_knows_its_authority() {
    let trusting = |identity: &Identity| {
        let pem = identity.authority_pem().as_bytes();
        reqwest::Client::builder()
            .no_proxy()
            .tls_certs_only([reqwest::Certificate::from_pem(pem).unwrap()])
            .build()
            .unwrap()
    };
    for (identity, valid) in [
        (Identity::valid(&["127.0.0.1"]).unwrap(), true),
        (Identity::expired(&["127.0.0.1"]).unwrap(), false),
    ] {
        let server = FeedServer::start_tls(identity.clone()).await.unwrap();
        server.on("/feed", Behaviour::body("x"));
        let answer = trusting(&identity).get(server.url("/feed")).send().await;
        assert_eq!(answer.is_ok(), valid, "{answer:?}");
    }
}

#[tokio::test]
async fn a_dropped_server_is_gone() {
    let server = FeedServer::start().await.unwrap();
    server.on("/hung", Behaviour::Hung);
    let url = server.url("/hung");
    let waiting = tokio::spawn(client().get(url.clone()).send());
    while server.requests("/hung").is_empty() {
        tokio::task::yield_now().await;
    }
    drop(server);
    assert!(waiting.await.unwrap().is_err());
    assert!(client().get(url).send().await.unwrap_err().is_connect());
}
