//! "Not modified", and when it is believed.

use super::*;

fn conditional(url: String) -> Ask {
    Ask {
        conditional: true,
        ..ask(url)
    }
}

async fn first(fetcher: &Fetcher, ask: &Ask) -> Validators {
    match fetcher.fetch(ask, None).await.unwrap() {
        Fetched::Body { validators, .. } => validators,
        Fetched::NotModified => panic!("nothing was asked for before"),
    }
}

fn is_new(fetched: &Fetched) -> bool {
    match fetched {
        Fetched::Body { .. } => true,
        Fetched::NotModified => false,
    }
}

#[tokio::test]
async fn a_body_that_is_known_by_tag_or_time_is_not_sent_again() {
    let server = FeedServer::start().await.unwrap();
    let fetcher = fetcher();
    let dated = |body: &'static str, day: u8| Behaviour::Dated {
        body: body.into(),
        last_modified: format!("Mon, {day:02} Jan 2024 00:00:00 GMT"),
    };
    for (before, after) in [
        (Behaviour::body("one"), Behaviour::body("two")),
        (dated("one", 1), dated("two", 8)),
    ] {
        server.on("/", before);
        let feed = conditional(server.url("/"));
        let validators = first(&fetcher, &feed).await;
        for _ in 0..2 {
            let again = fetcher.fetch(&feed, Some(&validators)).await.unwrap();
            assert!(!is_new(&again), "{again:?}");
        }
        let unconditional = ask(server.url("/"));
        let again = fetcher.fetch(&unconditional, Some(&validators)).await;
        assert!(is_new(&again.unwrap()));
        server.on("/", after);
        let again = fetcher.fetch(&feed, Some(&validators)).await.unwrap();
        assert!(is_new(&again), "{again:?}");
    }
}

#[tokio::test]
async fn what_is_known_of_another_ask_is_not_used() {
    let server = FeedServer::start().await.unwrap();
    server.on("/", Behaviour::body("one"));
    let fetcher = fetcher();
    let feed = conditional(server.url("/?day=1"));
    let validators = first(&fetcher, &feed).await;
    let known = fetcher.fetch(&feed, Some(&validators)).await.unwrap();
    assert!(!is_new(&known));
    for other in [
        conditional(server.url("/?day=2")),
        with_header(feed.clone(), "accept", "text/csv"),
    ] {
        let fetched = fetcher.fetch(&other, Some(&validators)).await.unwrap();
        assert!(is_new(&fetched), "{other:?}");
    }
}

#[tokio::test]
async fn what_is_known_is_said_only_to_the_server_it_came_from() {
    let (home, away) = (
        FeedServer::start().await.unwrap(),
        FeedServer::start().await.unwrap(),
    );
    home.on("/", Behaviour::Redirect(away.url("/")));
    away.on("/", Behaviour::body("one"));
    let fetcher = fetcher();
    let feed = conditional(home.url("/"));
    let validators = first(&fetcher, &feed).await;
    let again = fetcher.fetch(&feed, Some(&validators)).await.unwrap();
    assert!(!is_new(&again));
    assert_eq!(home.requests("/")[1].header("if-none-match"), None);
    assert!(away.requests("/")[1].header("if-none-match").is_some());
    // The redirect leads elsewhere now, and that server knows nothing of the tag.
    home.on("/", Behaviour::body("one"));
    let moved = fetcher.fetch(&feed, Some(&validators)).await.unwrap();
    assert!(is_new(&moved));
    assert_eq!(home.requests("/")[2].header("if-none-match"), None);
}

#[tokio::test]
async fn not_modified_is_an_error_where_nobody_asked() {
    let server = FeedServer::start().await.unwrap();
    server.on("/", Behaviour::Status(304));
    let feed = conditional(server.url("/"));
    let error = failure(&fetcher(), &feed).await;
    assert_eq!(error.kind, FetchErrorKind::Status(304));
    // A server without tag and time gives nothing to ask by.
    server.on(
        "/",
        Behaviour::Turns(vec![
            Behaviour::Untagged("x".into()),
            Behaviour::Status(304),
        ]),
    );
    let fetcher = fetcher();
    let validators = first(&fetcher, &feed).await;
    let error = fetcher.fetch(&feed, Some(&validators)).await.unwrap_err();
    assert_eq!(error.kind, FetchErrorKind::Status(304));
}

#[tokio::test]
async fn a_tag_of_any_length_and_kind_is_survived() {
    let server = FeedServer::start().await.unwrap();
    let fetcher = fetcher();
    for tag in [
        "x".repeat(20_000),
        "W/\"weak\"".to_owned(),
        "\u{e4}".to_owned(),
    ] {
        server.on(
            "/",
            Behaviour::Answer {
                status: 200,
                headers: vec![("etag".to_owned(), tag.clone())],
                body: "x".into(),
            },
        );
        let feed = conditional(server.url("/"));
        let validators = first(&fetcher, &feed).await;
        let again = fetcher.fetch(&feed, Some(&validators)).await.unwrap();
        assert!(is_new(&again));
    }
}
