//! Many feeds, few connections.

use cannery_runtime::clock::SimulatedClock;
use futures::future::join_all;
use jiff::Timestamp;

use super::*;

#[tokio::test]
async fn a_thousand_feeds_use_their_connections_again() {
    let server = FeedServer::start().await.unwrap();
    server.keep_alive(true);
    let feeds: Vec<Ask> = (0..1_000)
        .map(|feed| {
            let path = format!("/{feed}");
            server.on(&path, Behaviour::body(path.clone()));
            ask(server.url(&path))
        })
        .collect();
    let downloads_max = 16;
    let fetcher = Fetcher::new(Clock::real(), downloads_max).unwrap();
    for _ in 0..3 {
        let bodies = join_all(feeds.iter().map(|feed| body(&fetcher, feed))).await;
        let right = |(feed, body): (usize, &Bytes)| *body == format!("/{feed}");
        assert!(bodies.iter().enumerate().all(right));
    }
    // One that is given back at the very moment when another is opened makes a few more than there are places.
    let accepted = server.accepted();
    assert!(accepted <= 4 * downloads_max, "{accepted} connections");
}

#[tokio::test]
async fn not_modified_keeps_the_connection() {
    let server = FeedServer::start().await.unwrap();
    server.keep_alive(true);
    server.on("/", Behaviour::body("x"));
    let fetcher = fetcher();
    let feed = Ask {
        conditional: true,
        ..ask(server.url("/"))
    };
    let Fetched::Body { validators, .. } = fetcher.fetch(&feed, None).await.unwrap() else {
        panic!("nothing was asked for before");
    };
    for _ in 0..10 {
        let again = fetcher.fetch(&feed, Some(&validators)).await.unwrap();
        assert!(matches!(again, Fetched::NotModified));
    }
    assert_eq!(server.accepted(), 1);
}

#[tokio::test]
async fn an_old_connection_that_is_closed_at_its_next_use_costs_nothing() {
    let server = FeedServer::start().await.unwrap();
    server.keep_alive(true);
    server.on(
        "/",
        Behaviour::Turns(vec![
            Behaviour::body("one"),
            Behaviour::HangUp,
            Behaviour::body("two"),
        ]),
    );
    let fetcher = fetcher();
    assert_eq!(body(&fetcher, &ask(server.url("/"))).await, "one");
    assert_eq!(body(&fetcher, &ask(server.url("/"))).await, "two");
    assert_eq!(server.requests("/").len(), 3);

    server.on("/never", Behaviour::HangUp);
    let error = failure(&fetcher, &ask(server.url("/never"))).await;
    assert_eq!(error.kind, FetchErrorKind::Body, "{error}");
    assert_eq!(server.requests("/never").len(), 2, "once more, and no more");
}

#[tokio::test]
async fn no_more_downloads_run_than_may() {
    let simulated = SimulatedClock::starting_at(Timestamp::UNIX_EPOCH);
    let server = FeedServer::start().await.unwrap();
    server.on("/hung", Behaviour::Hung);
    server.on("/", Behaviour::body("x"));
    let fetcher = Arc::new(Fetcher::new(simulated.clock(), 2).unwrap());
    let spawn = |path: &str, timeout: u64| {
        let fetcher = Arc::clone(&fetcher);
        let feed = Ask {
            timeout: Duration::from_secs(timeout),
            ..ask(server.url(path))
        };
        tokio::spawn(async move { fetcher.fetch(&feed, None).await })
    };
    let hung = [spawn("/hung", 60), spawn("/hung", 60)];
    asked(&server, "/hung", 2).await;
    let (impatient, patient) = (spawn("/", 30), spawn("/", 90));
    simulated.advance(Duration::from_secs(30)).await;
    let error = impatient.await.unwrap().unwrap_err();
    assert_eq!(error.kind, FetchErrorKind::Busy, "{error}");
    assert_eq!(error.reason(), "busy");
    assert_eq!(server.requests("/").len(), 0);
    simulated.advance(Duration::from_secs(30)).await;
    patient.await.unwrap().unwrap();
    for hung in hung {
        let error = hung.await.unwrap().unwrap_err();
        assert_eq!(error.kind, FetchErrorKind::Timeout, "{error}");
    }
}

#[tokio::test]
async fn nobody_there_is_told_as_such() {
    let server = FeedServer::start().await.unwrap();
    let url = server.url("/");
    drop(server);
    let error = failure(&fetcher(), &ask(url)).await;
    assert_eq!(error.kind, FetchErrorKind::Connect, "{error}");
    assert_eq!(error.reason(), "connect");
}

#[tokio::test]
async fn cookies_are_forgotten() {
    let server = FeedServer::start().await.unwrap();
    server.on(
        "/",
        Behaviour::Answer {
            status: 200,
            headers: vec![("set-cookie".to_owned(), "id=1; Path=/".to_owned())],
            body: "x".into(),
        },
    );
    let fetcher = fetcher();
    for _ in 0..2 {
        body(&fetcher, &ask(server.url("/"))).await;
    }
    assert_eq!(server.requests("/")[1].header("cookie"), None);
}
