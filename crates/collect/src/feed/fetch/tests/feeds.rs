//! Servers of feeds that are slow, endless, broken, or lie.

use cannery_runtime::clock::SimulatedClock;
use cannery_testkit::feed_server::Coding;
use jiff::Timestamp;

use super::*;

const MIB: u64 = 1024 * 1024;

/// Asks for `/` while a simulated minute passes; the connection must be gone after it.
async fn a_minute_with(behaviour: Behaviour, max_bytes: u64) -> FetchError {
    let simulated = SimulatedClock::starting_at(Timestamp::UNIX_EPOCH);
    let server = FeedServer::start_with(simulated.clock()).await.unwrap();
    server.keep_alive(true);
    server.on("/", behaviour);
    let feed = Ask {
        max_bytes,
        ..ask(server.url("/"))
    };
    let fetcher = Arc::new(Fetcher::new(simulated.clock(), 1).unwrap());
    let fetching = tokio::spawn({
        let fetcher = Arc::clone(&fetcher);
        async move { fetcher.fetch(&feed, None).await }
    });
    asked(&server, "/", 1).await;
    for _ in 0..59 {
        simulated.advance(Duration::from_secs(1)).await;
    }
    assert!(!fetching.is_finished(), "the minute is not over");
    simulated.advance(Duration::from_secs(1)).await;
    let error = fetching.await.unwrap().unwrap_err();
    // A server that writes on notices only then.
    simulated.advance(Duration::from_secs(10)).await;
    all_closed(&server).await;
    // Nothing is held by the one that was given up.
    server.on("/next", Behaviour::body("next"));
    assert_eq!(body(&fetcher, &ask(server.url("/next"))).await, "next");
    error
}

#[tokio::test]
async fn a_server_that_hangs_or_dribbles_is_given_up_with_its_connection() {
    let pause = Duration::from_secs(1);
    for behaviour in [
        Behaviour::Hung,
        Behaviour::HungHead,
        Behaviour::HungBody("half of it".into()),
        Behaviour::Slow {
            body: vec![b'x'; 1_000].into(),
            chunk_bytes: 1,
            pause,
        },
        Behaviour::EndlessHead { pause },
    ] {
        let error = a_minute_with(behaviour.clone(), MIB).await;
        assert_eq!(
            error.kind,
            FetchErrorKind::Timeout,
            "{behaviour:?}: {error}"
        );
        assert_eq!(error.reason(), "timeout");
        assert_eq!(error.to_string(), "no whole answer within 60s");
    }
}

#[tokio::test]
async fn the_alarm_is_heard_beside_a_server_that_is_always_faster() {
    let simulated = SimulatedClock::starting_at(Timestamp::UNIX_EPOCH);
    let server = FeedServer::start().await.unwrap();
    server.on("/", Behaviour::Endless);
    let feed = Ask {
        max_bytes: 1 << 30,
        ..ask(server.url("/"))
    };
    let fetcher = Fetcher::new(simulated.clock(), 1).unwrap();
    let fetching = tokio::spawn(async move { fetcher.fetch(&feed, None).await });
    asked(&server, "/", 1).await;
    simulated.advance(PATIENCE).await;
    let error = fetching.await.unwrap().unwrap_err();
    assert_eq!(error.kind, FetchErrorKind::Timeout, "{error}");
    all_closed(&server).await;
}

#[tokio::test]
async fn a_download_that_is_dropped_closes_its_connection() {
    let server = FeedServer::start().await.unwrap();
    server.on("/", Behaviour::HungBody("half".into()));
    let (fetcher, feed) = (fetcher(), ask(server.url("/")));
    let fetching = tokio::spawn(async move { fetcher.fetch(&feed, None).await });
    asked(&server, "/", 1).await;
    fetching.abort();
    all_closed(&server).await;
}

#[tokio::test]
async fn a_body_without_end_stops_at_the_limit() {
    let server = FeedServer::start().await.unwrap();
    server.on("/", Behaviour::Endless);
    let error = failure(&fetcher(), &ask(server.url("/"))).await;
    assert_eq!(error.kind, FetchErrorKind::TooLarge, "{error}");
    assert_eq!(error.reason(), "too large");
    all_closed(&server).await;
}

#[tokio::test]
async fn a_length_above_the_limit_is_refused_without_waiting_for_the_body() {
    let server = FeedServer::start().await.unwrap();
    let head = format!("HTTP/1.1 200 x\r\ncontent-length: {}\r\n\r\n", 1_u64 << 40);
    server.on("/", Behaviour::Raw(head.into()));
    let fetcher = fetcher();
    let error = failure(&fetcher, &ask(server.url("/"))).await;
    assert_eq!(error.kind, FetchErrorKind::TooLarge, "{error}");
    // No such body is ever sent; whoever waits for it waits for ever.
    server.on("/", Behaviour::HungBody(vec![0; 10].into()));
    let feed = Ask {
        max_bytes: 10,
        ..ask(server.url("/"))
    };
    let error = failure(&fetcher, &feed).await;
    assert_eq!(error.kind, FetchErrorKind::TooLarge, "{error}");
}

#[tokio::test]
async fn a_limit_holds_to_the_byte() {
    let server = FeedServer::start().await.unwrap();
    server.on("/", Behaviour::body("12345"));
    let limited = |max_bytes| Ask {
        max_bytes,
        ..ask(server.url("/"))
    };
    assert_eq!(body(&fetcher(), &limited(5)).await, "12345");
    let error = failure(&fetcher(), &limited(4)).await;
    assert_eq!(error.kind, FetchErrorKind::TooLarge, "{error}");
}

#[tokio::test]
async fn packed_bodies_are_unpacked_and_bombs_do_not_go_off() {
    let server = FeedServer::start().await.unwrap();
    let fetcher = fetcher();
    for coding in Coding::ALL {
        server.on("/", Behaviour::packed(coding, b"the content"));
        let content = body(&fetcher, &ask(server.url("/"))).await;
        assert_eq!(content, "the content", "{coding:?}");

        let unpacked_bytes = 8 * MIB;
        server.on(
            "/",
            Behaviour::Bomb {
                coding,
                unpacked_bytes,
            },
        );
        let error = failure(&fetcher, &ask(server.url("/"))).await;
        assert_eq!(error.kind, FetchErrorKind::TooLarge, "{coding:?}: {error}");
    }
    let accepted = &server.requests("/")[0];
    let accepted = accepted.header("accept-encoding");
    assert_eq!(accepted, Some("zstd, br, gzip, deflate"));
}

#[tokio::test]
async fn a_coding_that_is_not_known_or_not_true_is_an_error() {
    let server = FeedServer::start().await.unwrap();
    let fetcher = fetcher();
    let packed_as = |codings: &[&str]| Behaviour::Answer {
        status: 200,
        headers: codings
            .iter()
            .map(|coding| ("content-encoding".to_owned(), (*coding).to_owned()))
            .collect(),
        body: "plain".into(),
    };
    for codings in [
        &["gzip"][..],
        &["br"],
        &["zstd"],
        &["deflate"],
        &["gzip, gzip"],
        &["identity", "gzip"],
        &["compress"],
        &["\u{e4}"],
    ] {
        server.on("/", packed_as(codings));
        let error = failure(&fetcher, &ask(server.url("/"))).await;
        assert_eq!(error.kind, FetchErrorKind::Body, "{codings:?}: {error}");
        assert_eq!(error.reason(), "broken answer");
    }
    server.on("/", packed_as(&["identity"]));
    assert_eq!(body(&fetcher, &ask(server.url("/"))).await, "plain");
}

#[tokio::test]
async fn a_body_that_is_shorter_than_said_is_an_error() {
    let server = FeedServer::start().await.unwrap();
    let fetcher = fetcher();
    let chunked = |rest: &str| {
        let head = "HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n";
        Behaviour::Raw(format!("{head}{rest}").into())
    };
    for behaviour in [
        Behaviour::WrongLength {
            claimed: 100,
            body: "only this".into(),
        },
        Behaviour::WrongLength {
            claimed: 1,
            body: Bytes::new(),
        },
        chunked("5\r\nhello\r\n"),
        chunked("5\r\nhel"),
        chunked("zz\r\nhello\r\n0\r\n\r\n"),
        Behaviour::Raw(
            "HTTP/1.1 200 x\r\ncontent-length: 5\r\ncontent-length: 6\r\n\r\nhello!".into(),
        ),
        Behaviour::Raw("HTTP/1.1 200 x\r\ncontent-length: -1\r\n\r\nhello".into()),
        Behaviour::Raw("this is not HTTP\r\n\r\n".into()),
        Behaviour::Raw(Bytes::new()),
        Behaviour::Raw([b'x'; 1_000_000].to_vec().into()),
        Behaviour::Raw(
            format!(
                "HTTP/1.1 200 x\r\n{}",
                "x-more: and more\r\n".repeat(30_000)
            )
            .into(),
        ),
        Behaviour::Raw(format!("HTTP/1.1 200 x\r\nx-long: {}", "x".repeat(1_000_000)).into()),
    ] {
        server.on("/", behaviour.clone());
        let error = failure(&fetcher, &ask(server.url("/"))).await;
        let shown = format!("{behaviour:?}");
        assert_eq!(error.kind, FetchErrorKind::Body, "{shown:.80}: {error}");
    }
    server.on("/", chunked("5\r\nhello\r\n0\r\n\r\n"));
    assert_eq!(body(&fetcher, &ask(server.url("/"))).await, "hello");
}

#[tokio::test]
async fn what_follows_a_body_is_not_taken_for_the_next_answer() {
    let server = FeedServer::start().await.unwrap();
    server.keep_alive(true);
    let more = "HTTP/1.1 200 x\r\ncontent-length: 4\r\n\r\nevil";
    server.on(
        "/long",
        Behaviour::WrongLength {
            claimed: 4,
            body: format!("good{more}").into(),
        },
    );
    server.on("/next", Behaviour::body("next"));
    let fetcher = fetcher();
    for _ in 0..20 {
        assert_eq!(body(&fetcher, &ask(server.url("/long"))).await, "good");
        assert_eq!(body(&fetcher, &ask(server.url("/next"))).await, "next");
    }
}

#[tokio::test]
async fn an_error_page_with_status_200_is_kept_as_it_is() {
    // Only the archive's reader can tell what belongs into a feed; what was served is what is kept.
    let server = FeedServer::start().await.unwrap();
    let page = "<?xml version=\"1.0\"?><Error><Code>SlowDown</Code></Error>";
    server.on(
        "/",
        Behaviour::Answer {
            status: 200,
            headers: vec![("content-type".to_owned(), "application/xml".to_owned())],
            body: page.into(),
        },
    );
    assert_eq!(body(&fetcher(), &ask(server.url("/"))).await, page);
}

#[tokio::test]
async fn statuses_are_errors_unless_they_are_accepted() {
    let server = FeedServer::start().await.unwrap();
    let fetcher = fetcher();
    for status in [201, 204, 206, 401, 404, 429, 500, 503] {
        let length_free = status == 204;
        let content = if length_free { "" } else { "sorry" };
        server.on(
            "/",
            Behaviour::Answer {
                status,
                headers: Vec::new(),
                body: content.into(),
            },
        );
        let plain = ask(server.url("/"));
        let error = failure(&fetcher, &plain).await;
        assert_eq!(error.kind, FetchErrorKind::Status(status));
        assert_eq!(error.reason(), format!("status {status}"));
        assert_eq!(error.body, None);

        let keeping = Ask {
            keep_error_body: true,
            ..plain.clone()
        };
        let error = failure(&fetcher, &keeping).await;
        assert_eq!(error.kind, FetchErrorKind::Status(status));
        assert_eq!(error.body.unwrap(), content);

        let accepting = Ask {
            accept_status: vec![200, status],
            ..plain
        };
        match fetcher.fetch(&accepting, None).await.unwrap() {
            Fetched::Body {
                content: got,
                status: with,
                ..
            } => assert_eq!((got, with), (content.into(), status)),
            Fetched::NotModified => panic!("nothing was asked for before"),
        }
    }
}

#[tokio::test]
async fn the_body_of_an_error_has_the_same_limits() {
    let server = FeedServer::start().await.unwrap();
    let head = "HTTP/1.1 503 x\r\ncontent-length: 100\r\n\r\n";
    let feed = Ask {
        keep_error_body: true,
        max_bytes: 50,
        ..ask(server.url("/"))
    };
    for body in ["short".to_owned(), "x".repeat(100)] {
        server.on("/", Behaviour::Raw(format!("{head}{body}").into()));
        let error = failure(&fetcher(), &feed).await;
        assert_eq!(error.kind, FetchErrorKind::Status(503));
        assert_eq!(error.body, None);
    }
}
