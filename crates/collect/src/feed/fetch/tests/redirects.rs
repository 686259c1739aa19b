//! Where a redirect leads, and what it takes along.

use super::*;

const OWN: [&str; 4] = ["authorization", "x-api-key", "cookie", "user-agent"];

/// The feed's own headers that a request had.
fn own(server: &FeedServer, path: &str) -> Vec<String> {
    let requests = server.requests(path);
    let request = requests.last().expect("it was asked for");
    let values = OWN.iter().filter_map(|name| request.header(name));
    values.map(str::to_owned).collect()
}

fn with_headers(ask: Ask) -> Ask {
    let ask = with_header(ask, "X-Api-Key", "key");
    let ask = with_header(ask, "Cookie", "session=1");
    with_header(ask, "User-Agent", "mine/1")
}

#[tokio::test]
async fn headers_and_user_stay_with_the_origin() {
    let (home, away) = (
        FeedServer::start().await.unwrap(),
        FeedServer::start().await.unwrap(),
    );
    home.on("/there", Behaviour::Redirect(away.url("/feed")));
    home.on("/here", Behaviour::Redirect("/feed".to_owned()));
    home.on("/back", Behaviour::Redirect(away.url("/back")));
    home.on("/feed", Behaviour::body("home"));
    away.on("/feed", Behaviour::body("away"));
    away.on("/back", Behaviour::Redirect(home.url("/feed")));
    let fetcher = fetcher();
    let url = |path: &str| home.url_as("me:pass@127.0.0.1", path);
    let basic = "Basic bWU6cGFzcw==";
    let all = [basic, "key", "session=1", "mine/1"];
    let bare = [format!("cannery/{}", env!("CARGO_PKG_VERSION"))];

    assert_eq!(
        body(&fetcher, &with_headers(ask(url("/here")))).await,
        "home"
    );
    assert_eq!(own(&home, "/here"), all);
    assert_eq!(own(&home, "/feed"), all);

    assert_eq!(
        body(&fetcher, &with_headers(ask(url("/there")))).await,
        "away"
    );
    assert_eq!(own(&home, "/there"), all);
    assert_eq!(own(&away, "/feed"), bare);

    assert_eq!(
        body(&fetcher, &with_headers(ask(url("/back")))).await,
        "home"
    );
    assert_eq!(own(&away, "/back"), bare);
    assert_eq!(own(&home, "/feed"), bare, "it came back by way of another");

    let token = with_header(ask(home.url("/there")), "Authorization", "Bearer x");
    assert_eq!(body(&fetcher, &token).await, "away");
    assert_eq!(own(&home, "/there")[0], "Bearer x");
    assert_eq!(own(&away, "/feed"), bare);
}

#[tokio::test]
async fn another_name_port_or_scheme_is_another_origin() {
    let server = FeedServer::start().await.unwrap();
    server.on("/feed", Behaviour::body("x"));
    server.on(
        "/name",
        Behaviour::Redirect(server.url_as("localhost", "/feed")),
    );
    server.on(
        "/case",
        Behaviour::Redirect(server.url_as("LOCALHOST", "/feed")),
    );
    let fetcher = fetcher();
    for (host, path, count) in [
        ("127.0.0.1", "/name", 1),
        ("localhost", "/name", 3),
        ("localhost", "/case", 3),
    ] {
        body(&fetcher, &with_headers(ask(server.url_as(host, path)))).await;
        assert_eq!(own(&server, "/feed").len(), count, "{host}{path}");
    }
}

#[tokio::test]
async fn a_user_in_a_location_is_not_sent() {
    let (home, away) = (
        FeedServer::start().await.unwrap(),
        FeedServer::start().await.unwrap(),
    );
    for server in [&home, &away] {
        server.on("/feed", Behaviour::body("x"));
        let location = server.url_as("you:word@127.0.0.1", "/feed");
        home.on("/from", Behaviour::Redirect(location));
        body(&fetcher(), &ask(home.url("/from"))).await;
        assert_eq!(server.requests("/feed")[0].header("authorization"), None);
    }
}

#[tokio::test]
async fn five_redirects_are_followed_and_no_sixth() {
    let server = FeedServer::start().await.unwrap();
    for hop in 0..10 {
        let next = format!("/{}", hop + 1);
        server.on(&format!("/{hop}"), Behaviour::Redirect(next));
    }
    server.on("/10", Behaviour::body("arrived"));
    let fetcher = fetcher();
    assert_eq!(body(&fetcher, &ask(server.url("/5"))).await, "arrived");
    let error = failure(&fetcher, &ask(server.url("/4"))).await;
    assert_eq!(error.kind, FetchErrorKind::Redirect, "{error}");
    assert_eq!(error.reason(), "redirect");

    server.on("/loop", Behaviour::Redirect("/loop".to_owned()));
    let error = failure(&fetcher, &ask(server.url("/loop"))).await;
    assert_eq!(error.kind, FetchErrorKind::Redirect, "{error}");
    assert_eq!(server.requests("/loop").len(), 6);
}

#[tokio::test]
async fn a_redirect_without_place_is_a_status_and_an_odd_one_is_refused() {
    let server = FeedServer::start().await.unwrap();
    let fetcher = fetcher();
    for status in [300, 301, 304, 305] {
        server.on("/", Behaviour::Status(status));
        let error = failure(&fetcher, &ask(server.url("/"))).await;
        assert_eq!(error.kind, FetchErrorKind::Status(status), "{error}");
    }
    let raw = b"HTTP/1.1 302 x\r\nlocation: http://\xff\xfe/\r\n\r\n";
    server.on("/", Behaviour::Raw(Bytes::from_static(raw)));
    let error = failure(&fetcher, &ask(server.url("/"))).await;
    assert_eq!(error.kind, FetchErrorKind::Redirect, "{error}");
}

#[tokio::test]
async fn the_timeout_is_for_all_redirects_together() {
    let simulated =
        cannery_runtime::clock::SimulatedClock::starting_at(jiff::Timestamp::UNIX_EPOCH);
    let server = FeedServer::start().await.unwrap();
    server.on("/from", Behaviour::Redirect("/to".to_owned()));
    server.on("/to", Behaviour::Hung);
    let fetcher = Fetcher::new(simulated.clock(), 8).unwrap();
    let feed = ask(server.url("/from"));
    let fetching = tokio::spawn(async move { fetcher.fetch(&feed, None).await });
    asked(&server, "/to", 1).await;
    simulated.advance(PATIENCE).await;
    let error = fetching.await.unwrap().unwrap_err();
    assert_eq!(error.kind, FetchErrorKind::Timeout);
}
