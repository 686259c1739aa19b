use super::*;
use crate::config::environment::Environment;
use crate::config::{Config, Origin};

fn parse(feeds: &str) -> Result<Vec<FeedConfig>, String> {
    let environment = Environment::all([("KEY".to_owned(), "s3cret-canary".to_owned())]);
    Config::parse(
        &format!("feeds:\n{feeds}"),
        &environment,
        None,
        &Origin::Here,
    )
    .map(|config| config.feeds)
    .map_err(|error| error.to_string())
}

#[test]
fn a_feed_needs_a_name_and_a_url_and_has_defaults_for_the_rest() {
    let feeds = parse("  - {id: subway, url: 'https://example.com/feed'}").unwrap();
    let [feed] = feeds.as_slice() else {
        panic!("{feeds:?}")
    };
    assert_eq!(feed.periodicity, DEFAULT_PERIODICITY);
    assert_eq!(feed.max_bytes, Bytes(16 << 20));
    assert_eq!(feed.accept_status, [200]);
    assert!(feed.conditional && !feed.allow_private);
    assert_eq!(
        feed.settings().compression.codec,
        cannery_formats::feed::Codec::Gzip
    );
}

#[test]
fn what_makes_no_sense_is_refused_with_its_place() {
    let feed = |rest: &str| format!("  - {{id: a, url: 'https://example.com/', {rest}}}");
    for (text, reason) in [
        (
            "  - {url: 'https://example.com/'}".to_owned(),
            "`id` is missing",
        ),
        ("  - {id: a}".to_owned(), "feed `a` has no `url`"),
        (
            "  - {id: users, url: 'https://example.com/'}".to_owned(),
            "uses this name itself",
        ),
        ("  - {id: a, url: 'file:///etc/passwd'}".to_owned(), "http"),
        (feed("periodicity: 10ms"), "between 100ms and 1h"),
        (feed("timeout: 1h"), "between 1ms and 5m"),
        (feed("postfix: ../x"), "`postfix`"),
        (
            feed("compression: {format: gzip, level: 99}"),
            "`compression`",
        ),
        (feed("compression: {format: rar}"), "rar"),
        (feed("accept_status: [301]"), "301"),
        (feed("accept_status: []"), "`accept_status` is empty"),
        (
            "  - {id: no, url: 'https://example.com/'}".to_owned(),
            "line 2: `feeds.id`: to YAML this is true or false, not a text; write it in quotes",
        ),
        (
            "  - url: 'https://example.com/'\n    id: on".to_owned(),
            "line 3: `feeds.id`: to YAML this is true or false",
        ),
        (
            "  - {id: y, url: 'https://example.com/'}".to_owned(),
            "to YAML this is true or false",
        ),
        (
            "  - {id: 1, url: 'https://example.com/'}".to_owned(),
            "to YAML this is a number, not a text; write it in quotes",
        ),
        (feed("peridicity: 5s"), "periodicity"),
        (feed("on_error_body: hide"), "hide"),
        (
            "  - {id: a, url: 'https://example.com/'}\n  - {id: A, url: 'https://example.com/'}"
                .to_owned(),
            "two feeds have the id `a`",
        ),
    ] {
        let error = parse(&text).unwrap_err();
        assert!(error.contains(reason), "{text}: {error}");
        assert!(error.contains("feeds"), "{text}: {error}");
    }
}

#[test]
fn headers_are_secret() {
    let feeds = parse("  - {id: a, url: 'https://u:p4ssword@example.com/?k=qu3ry-canary', headers: {x-key: '{{ env.KEY }}'}}").unwrap();
    let shown = serde_json::to_string(&feeds).unwrap() + &format!("{feeds:?}");
    for canary in ["s3cret-canary", "p4ssword", "qu3ry-canary"] {
        assert!(!shown.contains(canary), "{shown}");
    }
    let ask = feeds[0].settings().ask;
    assert_eq!(ask.headers[0].1.expose(), "s3cret-canary");
}
