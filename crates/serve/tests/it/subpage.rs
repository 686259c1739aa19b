//! The pages below a section.

use std::sync::Arc;
use std::time::Duration;

use cannery_runtime::Clock;
use cannery_runtime::clock::SimulatedClock;
use cannery_serve::{Asked, Card, Section};
use futures::future::BoxFuture;
use maud::{Markup, html};

use crate::client::{get, request};
use crate::demo::{Conduct, Part, demo, start};
use crate::feeds_page::Feeds;

#[tokio::test]
async fn a_known_name_has_a_page_with_the_way_back() {
    let demo = start(Clock::real(), "edge-1", vec![], |builder| {
        builder.section(Arc::new(Feeds))
    })
    .await;
    let page = get(demo.address, "/feeds/vbb-gtfs-rt").await;
    assert_eq!(page.status, 200);
    for expected in [
        r#"<li><a href="/feeds">Feeds</a></li><li><span aria-current="page">vbb-gtfs-rt</span></li>"#,
        r#"<a href="/feeds" aria-current="true">Feeds</a>"#,
        "<title>vbb-gtfs-rt · Feeds · edge-1 · Cannery</title>",
    ] {
        assert!(
            page.body.contains(expected),
            "no {expected} in {}",
            page.body
        );
    }
    assert!(!page.body.contains("<script>"), "{}", page.body);
    assert_eq!(
        request(demo.address, "HEAD", "/feeds/nyct.subway_l", "")
            .await
            .status,
        200
    );
    assert_eq!(
        request(demo.address, "POST", "/feeds/vbb-gtfs-rt", "")
            .await
            .status,
        405
    );
    let home = get(demo.address, "/").await.body;
    assert!(
        home.contains(r#"<a href="/feeds/vbb-gtfs-rt">vbb-gtfs-rt</a>"#),
        "{home}"
    );
    assert_eq!(
        home.matches(r#"href="/feeds/"#).count(),
        3,
        "a name that cannot be an address is no link"
    );
}

/// Knows every name it is asked for, and shows it.
struct Credulous;

impl Section for Credulous {
    fn slug(&self) -> &str {
        "any"
    }

    fn title(&self) -> &str {
        "Any"
    }

    fn cards(&self) -> BoxFuture<'_, Vec<Card>> {
        Box::pin(async { vec![] })
    }

    fn page(&self) -> Option<BoxFuture<'_, Markup>> {
        Some(Box::pin(async {
            html! {}
        }))
    }

    fn subpage<'a>(&'a self, name: &'a str) -> Option<BoxFuture<'a, Markup>> {
        match name {
            "clumsy" => panic!("on purpose"),
            "stuck" => Some(Box::pin(std::future::pending())),
            _ => Some(Box::pin(async move {
                html! { p { "asked for " (name) } }
            })),
        }
    }
}

#[tokio::test]
async fn a_section_is_asked_for_proper_names_only() {
    let demo = start(Clock::real(), "edge-1", vec![], |builder| {
        builder.section(Arc::new(Credulous))
    })
    .await;
    assert!(
        get(demo.address, "/any/x.y")
            .await
            .body
            .contains("asked for x.y")
    );
    let long = format!("/any/{}", "a".repeat(101));
    let bad = [
        "/any/",
        "/any/..",
        "/any/.x",
        "/any/-x",
        "/any/%2e%2e",
        "/any/a%2Fb",
        "/any/a/b",
        "/any/%00",
        "/any/%0a",
        "/any/%3Cscript%3E",
        "/any/%ff",
        "/any/%E2%80%AEa",
        "/any/a%20b",
        "/any/%",
        long.as_str(),
    ];
    for path in bad {
        let answer = get(demo.address, path).await;
        assert_eq!(answer.status, 404, "{path}");
        assert!(
            answer.body.contains("Nothing on this shelf"),
            "{path}: {}",
            answer.body
        );
        assert!(
            !answer.body.contains("asked for"),
            "{path}: {}",
            answer.body
        );
    }
}

#[tokio::test]
async fn a_name_nobody_knows_and_a_section_without_pages_are_404() {
    let plain = Part {
        page: Some(Conduct::Shows(vec![])),
        ..Part::named("spool", vec![])
    };
    let demo = demo(vec![plain, Part::named("lakes", vec![])]).await;
    for path in ["/spool/x", "/lakes/x", "/nothing/x"] {
        assert_eq!(get(demo.address, path).await.status, 404, "{path}");
    }
}

#[tokio::test]
async fn a_page_below_that_panics_or_hangs_gets_a_page_that_says_so() {
    let simulated = SimulatedClock::starting_at("2026-11-15T18:24:03Z".parse().unwrap());
    let demo = start(simulated.clock(), "edge-1", vec![], |builder| {
        builder.section(Arc::new(Credulous))
    })
    .await;
    let panicked = get(demo.address, "/any/clumsy").await;
    assert_eq!(panicked.status, 500);
    assert!(!panicked.body.contains("on purpose"), "{}", panicked.body);
    let mut asking = tokio::spawn(async move { get(demo.address, "/any/stuck").await });
    let late = loop {
        tokio::select! {
            answer = &mut asking => break answer.unwrap(),
            () = simulated.advance(Duration::from_secs(10)) => {}
        }
    };
    assert_eq!(late.status, 503);
}

/// Has pages of several names.
struct Deep;

impl Section for Deep {
    fn slug(&self) -> &str {
        "deep"
    }

    fn title(&self) -> &str {
        "Deep"
    }

    fn cards(&self) -> BoxFuture<'_, Vec<Card>> {
        Box::pin(async { vec![] })
    }

    fn page(&self) -> Option<BoxFuture<'_, Markup>> {
        Some(Box::pin(async {
            html! {}
        }))
    }

    fn visit(&self, asked: Asked) -> Option<BoxFuture<'_, cannery_serve::Answer>> {
        use cannery_serve::{Address, Answer, Visited};
        let answer = match asked.names()[..] {
            ["file"] => Answer::File {
                name: "../x\"".to_owned(),
                bytes: b"<script>alert(1)</script>".to_vec(),
            },
            ["none"] => Answer::Absent("There is no <b>.".to_owned()),
            ["still", name] => {
                let said = asked.get("x").unwrap_or("nothing").to_owned();
                let page = Visited::new(name, html! { p { "x is " (said) } });
                Answer::Page(
                    page.below("up", Address::new("deep", &["none"], &[]))
                        .still(),
                )
            }
            _ => return None,
        };
        Some(Box::pin(async { answer }))
    }
}

#[tokio::test]
async fn a_section_may_have_pages_of_several_names() {
    let demo = start(Clock::real(), "edge-1", vec![], |builder| {
        builder.section(Arc::new(Deep))
    })
    .await;
    let page = get(demo.address, "/deep/still/a.b?x=1-2").await;
    assert_eq!(page.status, 200);
    for expected in [
        "x is 1-2",
        r#"<li><a href="/deep/none">up</a></li><li><span aria-current="page">a.b</span></li>"#,
        "data-still",
        r#"<a href="/deep" aria-current="true">Deep</a>"#,
    ] {
        assert!(page.body.contains(expected), "no {expected}: {}", page.body);
    }
    let file = get(demo.address, "/deep/file").await;
    assert_eq!(
        file.header("content-disposition"),
        "attachment; filename=\"data\""
    );
    assert_eq!(file.header("content-type"), "application/octet-stream");
    assert_eq!(file.header("x-content-type-options"), "nosniff");
    assert_eq!(file.body, "<script>alert(1)</script>");
    let none = get(demo.address, "/deep/none").await;
    assert_eq!(none.status, 404);
    assert!(
        none.body.contains("There is no &lt;b&gt;."),
        "{}",
        none.body
    );
    for path in [
        "/deep/other",
        "/deep/still/a/b",
        "/deep/still/a?x=%3Cb%3E",
        "/deep/still/a?x",
        "/deep/still/%2e%2e",
        "/deep/still/",
    ] {
        assert_eq!(get(demo.address, path).await.status, 404, "{path}");
    }
}
