//! Whoever names a URL, runs a server or answers for a name wants us to ask a machine of our own network.

use std::process::Command;

use super::*;

/// All of them mean 127.0.0.1.
const LOOPBACK: [&str; 12] = [
    "127.0.0.1",
    "127.0.0.1.",
    "127.1",
    "127.0.1",
    "2130706433",
    "017700000001",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.01",
    "%31%32%37.0.0.1",
    "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
    "[::ffff:127.0.0.1]",
];

#[tokio::test]
async fn loopback_is_refused_in_every_spelling_and_reached_when_allowed() {
    let server = FeedServer::start().await.unwrap();
    server.on("/", Behaviour::body("inside"));
    let fetcher = fetcher();
    for host in LOOPBACK {
        let error = failure(&fetcher, &public(server.url_as(host, "/"))).await;
        assert_eq!(error.kind, FetchErrorKind::Refused, "{host}: {error}");
        assert_eq!(error.reason(), "private address");
    }
    assert_eq!(server.accepted(), 0);
    // The same spellings do lead there, so it is the refusal that kept us away.
    for host in LOOPBACK {
        let content = body(&fetcher, &ask(server.url_as(host, "/"))).await;
        assert_eq!(content, "inside", "{host}");
    }
}

#[tokio::test]
async fn addresses_that_are_not_public_are_refused_in_a_url() {
    let fetcher = fetcher();
    for host in [
        "0.0.0.0",
        "0",
        "10.0.0.1",
        "100.64.0.1",
        "169.254.169.254",
        "2852039166",
        "172.16.0.1",
        "192.168.1.1",
        "192.0.2.1",
        "224.0.0.1",
        "255.255.255.255",
        "[::]",
        "[::1]",
        "[::127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::ffff:a9fe:a9fe]",
        "[64:ff9b::10.0.0.1]",
        "[2002:7f00:1::]",
        "[2001:db8::1]",
        "[fc00::1]",
        "[fe80::1]",
        "[ff02::1]",
    ] {
        for scheme in ["http", "https"] {
            let error = failure(&fetcher, &public(format!("{scheme}://{host}/"))).await;
            assert_eq!(error.kind, FetchErrorKind::Refused, "{host}: {error}");
        }
    }
}

#[tokio::test]
async fn names_of_addresses_that_are_not_public_are_refused() {
    let server = FeedServer::start().await.unwrap();
    server.on("/", Behaviour::body("inside"));
    let error = failure(&fetcher(), &public(server.url_as("localhost", "/"))).await;
    assert_eq!(error.kind, FetchErrorKind::Refused, "{error}");

    for address in [
        "127.0.0.1",
        "10.1.2.3",
        "169.254.169.254",
        "::1",
        "::ffff:127.0.0.1",
        "64:ff9b::127.0.0.1",
        "2002:7f00:1::",
        "fd00::1",
        "fe80::1",
    ] {
        let names = Names::of(&[("inner.example", &[&[address]])]);
        let fetcher = fetcher_with(names, address::is_public);
        let url = server.url_as("inner.example", "/");
        let error = failure(&fetcher, &public(url)).await;
        assert_eq!(error.kind, FetchErrorKind::Refused, "{address}: {error}");
    }
    assert_eq!(server.accepted(), 0);
}

/// Stands in for the internet, which a test cannot have: 127.0.0.2 is public, the rest of this machine is not.
fn only_two_is_public(address: IpAddr) -> bool {
    address == IpAddr::from([127, 0, 0, 2])
}

/// A server within and one outside, on one port.
async fn inside_and_outside() -> (FeedServer, FeedServer) {
    let inside = FeedServer::start().await.unwrap();
    let address = ([127, 0, 0, 2], inside.port()).into();
    let outside = FeedServer::start_on(address, Clock::real(), None).await;
    let outside = outside.unwrap();
    inside.on("/", Behaviour::body("inside"));
    outside.on("/", Behaviour::body("outside"));
    (inside, outside)
}

#[tokio::test]
async fn a_name_that_changes_its_address_after_the_check_gains_nothing() {
    let (inside, outside) = inside_and_outside().await;
    let names = Names::of(&[("rebind.example", &[&["127.0.0.2"], &["127.0.0.1"]])]);
    let fetcher = fetcher_with(names, only_two_is_public);
    let feed = public(inside.url_as("rebind.example", "/"));
    // A second lookup between the check and the connection would lead inside.
    assert_eq!(body(&fetcher, &feed).await, "outside");
    let error = failure(&fetcher, &feed).await;
    assert_eq!(error.kind, FetchErrorKind::Refused, "{error}");
    assert_eq!((inside.accepted(), outside.accepted()), (0, 1));
}

#[tokio::test]
async fn of_several_addresses_only_the_public_ones_are_tried() {
    let (inside, outside) = inside_and_outside().await;
    let names = Names::of(&[("both.example", &[&["127.0.0.1", "127.0.0.2"]])]);
    let fetcher = fetcher_with(names, only_two_is_public);
    let feed = public(inside.url_as("both.example", "/"));
    assert_eq!(body(&fetcher, &feed).await, "outside");
    drop(outside);
    let error = failure(&fetcher, &feed).await;
    assert_eq!(error.kind, FetchErrorKind::Connect, "{error}");
    assert_eq!(inside.accepted(), 0);
}

#[tokio::test]
async fn every_redirect_is_checked() {
    let (inside, outside) = inside_and_outside().await;
    let names = Names::of(&[
        ("outside.example", &[&["127.0.0.2"]]),
        ("inside.example", &[&["127.0.0.1"]]),
    ]);
    let fetcher = fetcher_with(names, only_two_is_public);
    for (location, kind) in [
        (inside.url("/"), FetchErrorKind::Refused),
        (inside.url_as("2130706433", "/"), FetchErrorKind::Refused),
        (
            inside.url_as("[::ffff:127.0.0.1]", "/"),
            FetchErrorKind::Refused,
        ),
        (
            inside.url_as("inside.example", "/"),
            FetchErrorKind::Refused,
        ),
        (
            format!("//127.1:{}/", inside.port()),
            FetchErrorKind::Refused,
        ),
        (
            "http://169.254.169.254/latest/meta-data/".to_owned(),
            FetchErrorKind::Refused,
        ),
        ("file:///etc/passwd".to_owned(), FetchErrorKind::Redirect),
        ("ftp://example.com/".to_owned(), FetchErrorKind::Redirect),
        (
            "gopher://127.0.0.1:6379/_x".to_owned(),
            FetchErrorKind::Redirect,
        ),
        ("data:text/plain,x".to_owned(), FetchErrorKind::Redirect),
        ("http://".to_owned(), FetchErrorKind::Redirect),
    ] {
        outside.on("/far", Behaviour::Redirect(location.clone()));
        outside.on("/start", Behaviour::Redirect("/far".to_owned()));
        let start = public(outside.url_as("outside.example", "/start"));
        let error = failure(&fetcher, &start).await;
        assert_eq!(error.kind, kind, "{location}: {error}");
    }
    assert_eq!(inside.accepted(), 0);
    outside.on("/far", Behaviour::Redirect("/".to_owned()));
    let start = public(outside.url_as("outside.example", "/start"));
    assert_eq!(body(&fetcher, &start).await, "outside");
}

#[tokio::test]
async fn a_connection_of_a_feed_that_may_is_not_used_by_one_that_may_not() {
    let server = FeedServer::start().await.unwrap();
    server.keep_alive(true);
    server.on("/", Behaviour::body("inside"));
    let names = Names::of(&[("inner.example", &[&["127.0.0.1"]])]);
    let fetcher = fetcher_with(names, address::is_public);
    let url = server.url_as("inner.example", "/");
    assert_eq!(body(&fetcher, &ask(url.clone())).await, "inside");
    assert_eq!(body(&fetcher, &ask(url.clone())).await, "inside");
    assert_eq!(server.accepted(), 1, "the connection is there to be used");
    let error = failure(&fetcher, &public(url)).await;
    assert_eq!(error.kind, FetchErrorKind::Refused, "{error}");
    assert_eq!(server.requests("/").len(), 2);
}

#[tokio::test]
async fn a_name_without_address_is_told_apart() {
    let names = Names::of(&[("empty.example", &[])]);
    let fetcher = fetcher_with(names, address::is_public);
    for name in ["empty.example", "unknown.example"] {
        let error = failure(&fetcher, &public(format!("http://{name}/"))).await;
        assert_eq!(error.kind, FetchErrorKind::Dns, "{name}: {error}");
    }
}

/// Set for the child process of the test below: the URL that it asks for.
const CHILD: &str = "CANNERY_TEST_FETCH_CHILD";

#[tokio::test]
async fn proxies_of_the_environment_are_not_asked() {
    if let Some(url) = std::env::var_os(CHILD) {
        let url = url.into_string().unwrap();
        assert_eq!(body(&fetcher(), &ask(url)).await, "directly");
        return;
    }
    let server = FeedServer::start().await.unwrap();
    server.on("/feed", Behaviour::body("directly"));
    let proxy = FeedServer::start().await.unwrap();
    // The environment belongs to all tests of this process, so another one has it.
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([
        "--exact",
        "feed::fetch::tests::ssrf::proxies_of_the_environment_are_not_asked",
    ]);
    child.env(CHILD, server.url("/feed"));
    child.env_remove("NO_PROXY").env_remove("no_proxy");
    for name in [
        "HTTP_PROXY",
        "http_proxy",
        "HTTPS_PROXY",
        "ALL_PROXY",
        "all_proxy",
    ] {
        child.env(name, proxy.url(""));
    }
    let output = tokio::task::spawn_blocking(move || child.output());
    let output = output.await.unwrap().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}"
    );
    assert_eq!((server.requests("/feed").len(), proxy.accepted()), (1, 0));
}
