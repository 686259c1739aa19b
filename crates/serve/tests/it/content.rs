//! What the pages say.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::{Clock, Secret};
use cannery_serve::{Audience, Card, Check, State};

use crate::client::{get, request};
use crate::demo::{Conduct, Part, demo, good, start};

#[tokio::test]
async fn sections_appear_with_their_cards_and_pages() {
    let card = good("Shipped")
        .detail("Oldest", "4 s")
        .series("per minute", vec![1.0, 3.0]);
    let part = Part {
        page: Some(Conduct::Shows(vec![])),
        ..Part::named("spool", vec![card])
    };
    let demo = demo(vec![part, Part::named("lakes", vec![])]).await;

    let home = get(demo.address, "/").await;
    assert_eq!(home.status, 200);
    for expected in [
        "Everything is running",
        r#"<a href="/spool">Part spool</a>"#,
        "<h2>Part lakes</h2>",
        r#"12 <span class="label">records</span>"#,
        "<dt>Oldest</dt><dd>4 s</dd>",
        "<title>per minute: now 3, highest 3</title>",
        "<code>cannery doctor</code>",
        "See <code>it</code>.",
        "Cannery 1.2.3",
        "abc1234",
        "2026-11-15 18:24 UTC",
        &format!("<li>http main on {}</li>", demo.address),
    ] {
        assert!(
            home.body.contains(expected),
            "no {expected} in {}",
            home.body
        );
    }
    assert!(
        !home.body.contains(r#"href="/lakes""#),
        "a section without a page is not linked"
    );

    let page = get(demo.address, "/spool").await;
    assert_eq!(page.status, 200);
    assert!(
        page.body.contains("<p>The page of Part spool</p>"),
        "{}",
        page.body
    );
    assert!(
        page.body
            .contains(r#"<a href="/spool" aria-current="page">"#),
        "{}",
        page.body
    );
    assert_eq!(get(demo.address, "/lakes").await.status, 404);
}

#[tokio::test]
async fn the_status_document_says_what_the_home_page_says() {
    let demo = demo(vec![Part::named(
        "spool",
        vec![good("Shipped").series("x", vec![1.0, f64::NAN])],
    )])
    .await;
    demo.readiness
        .set("lake main", Check::NotReady("no such bucket".into()));
    let answer = get(demo.address, "/status.json").await;
    assert_eq!(answer.header("content-type"), "application/json");
    let status = answer.json();
    assert_eq!(status["state"], "bad");
    assert_eq!(status["summary"], "1 thing needs attention");
    assert_eq!(status["attention"][0]["reason"], "no such bucket");
    assert_eq!(status["process"]["node"], "edge-1");
    assert_eq!(status["process"]["started"], "2026-11-15T18:24:03Z");
    assert_eq!(status["sections"][0]["cards"][0]["value"], "12");
    assert_eq!(
        status["sections"][0]["cards"][0]["series"]["values"],
        serde_json::json!([1.0, null])
    );
    assert_eq!(status["next_steps"][0]["command"], "cannery doctor");
}

#[tokio::test]
async fn the_banner_counts_failing_checks_and_cards_once() {
    let cards = vec![
        Card::new("Lake main", State::Bad).note("the same again"),
        Card::new("Quarantine", State::Warn).value("3", "files"),
        Card::new("Feeds", State::Idle),
    ];
    let demo = demo(vec![Part::named("all", cards)]).await;
    demo.readiness.set(
        "lake main",
        Check::NotReady("no such bucket; run `cannery doctor`".into()),
    );
    let status = get(demo.address, "/status.json").await.json();
    assert_eq!(
        status["attention"],
        serde_json::json!([
            { "name": "lake main", "state": "bad", "reason": "no such bucket; run `cannery doctor`" },
            { "name": "Quarantine", "state": "warn", "reason": "3 files" },
        ])
    );
    let home = get(demo.address, "/").await.body;
    assert!(home.contains("2 things need attention"), "{home}");
    assert!(
        home.contains("no such bucket; run <code>cannery doctor</code>"),
        "{home}"
    );
}

#[tokio::test]
async fn readiness_names_what_fails_and_why() {
    let demo = demo(vec![]).await;
    assert_eq!(get(demo.address, "/readyz").await.body, "ready\n");
    demo.readiness.set(
        "lake main",
        Check::NotReady("no such bucket\nforged: line".into()),
    );
    demo.readiness.set("lake mirror", Check::Ready);

    let text = get(demo.address, "/readyz").await;
    assert_eq!(
        (text.status, text.body.as_str()),
        (503, "lake main: no such bucket forged: line\n")
    );
    let json = request(
        demo.address,
        "GET",
        "/readyz",
        "accept: application/json\r\n",
    )
    .await;
    assert_eq!(json.status, 503);
    let failing =
        serde_json::json!([{ "name": "lake main", "reason": "no such bucket\nforged: line" }]);
    assert_eq!(
        json.json(),
        serde_json::json!({ "ready": false, "failing": failing })
    );

    let alive = get(demo.address, "/healthz").await;
    assert_eq!((alive.status, alive.body.as_str()), (200, "ok\n"));
    demo.readiness.set("lake main", Check::Ready);
    assert_eq!(get(demo.address, "/readyz").await.status, 200);
}

#[tokio::test]
async fn metrics_are_open_metrics() {
    let demo = demo(vec![]).await;
    let metrics = get(demo.address, "/metrics").await;
    assert!(
        metrics
            .header("content-type")
            .starts_with("application/openmetrics-text; version=1.0.0")
    );
    assert!(
        metrics.body.contains("shipped_records_total 7\n"),
        "{}",
        metrics.body
    );
    assert!(metrics.body.ends_with("# EOF\n"), "{}", metrics.body);
}

#[tokio::test]
async fn sections_refresh_their_metrics_and_hold_up_no_scrape() {
    let well = Part::named("well", vec![]);
    let refreshed = Arc::clone(&well.refreshed);
    let parts = vec![
        Part {
            refresh: Conduct::Panics,
            ..Part::named("clumsy", vec![])
        },
        Part {
            refresh: Conduct::Hangs,
            ..Part::named("stuck", vec![])
        },
        well,
    ];
    let simulated = SimulatedClock::starting_at("2026-11-15T18:24:03Z".parse().unwrap());
    let demo = start(simulated.clock(), "edge-1", parts, |builder| builder).await;
    let mut asking = tokio::spawn(async move { get(demo.address, "/metrics").await });
    let metrics = loop {
        tokio::select! {
            answer = &mut asking => break answer.unwrap(),
            () = simulated.advance(Duration::from_secs(1)) => {}
        }
    };
    assert_eq!(metrics.status, 200);
    assert!(metrics.body.contains("shipped_records_total 7\n"));
    assert_eq!(refreshed.load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn script_in_names_and_reasons_stays_text() {
    const EVIL: &str = r#""><script>alert(1)</script><img src=x onerror=alert(1)>"#;
    let card = Card::new(EVIL, State::Bad)
        .value(EVIL, EVIL)
        .note(EVIL)
        .detail(EVIL, EVIL)
        .series(EVIL, vec![1.0, 2.0]);
    let evil = Part {
        title: EVIL.into(),
        page: Some(Conduct::Shows(vec![])),
        ..Part::named("evil", vec![card])
    };
    let demo = start(Clock::real(), EVIL, vec![evil], |builder| builder).await;
    demo.readiness
        .set(EVIL, Check::NotReady(format!("`{EVIL}` {EVIL}")));
    for path in [
        "/",
        "/evil",
        "/%3Cscript%3Ealert(1)",
        "/nothing?x=%3Cscript%3E",
    ] {
        let body = get(demo.address, path).await.body;
        assert!(!body.contains("<script>"), "{path}: {body}");
        assert!(!body.contains("<img src=x"), "{path}: {body}");
        assert!(
            body.contains("&lt;script&gt;alert(1)"),
            "{path}: the name should be there as text: {body}"
        );
    }
    for path in ["/status.json", "/readyz"] {
        let answer = get(demo.address, path).await;
        assert!(!answer.header("content-type").contains("html"), "{path}");
    }
}

#[tokio::test]
async fn a_planted_secret_is_in_no_answer() {
    let secret = Secret::new(r#"canary-"open<sesame>&7"#);
    let shown = format!("refused with {}", secret.expose());
    let card = Card::new(&shown, State::Bad)
        .value(&shown, &shown)
        .note(&shown)
        .detail(&shown, &shown);
    let leaky = Part {
        title: shown.clone(),
        page: Some(Conduct::Shows(vec![])),
        ..Part::named("leaky", vec![card])
    };
    let demo = start(Clock::real(), &shown, vec![leaky], |builder| builder).await;
    demo.readiness.set("lake", Check::NotReady(shown.clone()));
    for path in ["/", "/leaky", "/status.json", "/readyz", "/nothing"] {
        let answer = get(demo.address, path).await;
        assert!(!answer.body.contains("canary-"), "{path}: {}", answer.body);
        assert!(
            answer.body.contains("refused with ***"),
            "{path}: {}",
            answer.body
        );
        assert_eq!(
            answer.header("content-length"),
            answer.body.len().to_string(),
            "{path}"
        );
    }
    let json = request(
        demo.address,
        "GET",
        "/readyz",
        "accept: application/json\r\n",
    )
    .await;
    assert_eq!(json.json()["failing"][0]["reason"], "refused with ***");
}

#[tokio::test]
async fn a_section_that_panics_or_hangs_is_a_red_card_and_holds_up_nobody() {
    let parts = vec![
        Part {
            cards: Conduct::Panics,
            ..Part::named("clumsy", vec![])
        },
        Part {
            cards: Conduct::Hangs,
            ..Part::named("stuck", vec![])
        },
        Part::named("well", vec![good("Shipped")]),
    ];
    let simulated = SimulatedClock::starting_at("2026-11-15T18:24:03Z".parse().unwrap());
    let demo = start(simulated.clock(), "edge-1", parts, |builder| builder).await;
    let mut asking = tokio::spawn(async move { get(demo.address, "/status.json").await });
    let status = loop {
        tokio::select! {
            answer = &mut asking => break answer.unwrap().json(),
            () = simulated.advance(Duration::from_secs(1)) => {}
        }
    };
    let card = |at: usize| status["sections"][at]["cards"][0].clone();
    assert_eq!(
        (card(0)["state"].as_str(), card(1)["state"].as_str()),
        (Some("bad"), Some("bad"))
    );
    assert!(card(0)["note"].as_str().unwrap().contains("panic"));
    assert_eq!(card(1)["note"], "gave no answer in time");
    assert_eq!(card(2)["value"], "12");
}

#[tokio::test]
async fn a_page_that_panics_or_hangs_gets_a_page_that_says_so() {
    let parts = vec![
        Part {
            page: Some(Conduct::Panics),
            ..Part::named("clumsy", vec![])
        },
        Part {
            page: Some(Conduct::Hangs),
            ..Part::named("stuck", vec![])
        },
    ];
    let simulated = SimulatedClock::starting_at("2026-11-15T18:24:03Z".parse().unwrap());
    let demo = start(simulated.clock(), "edge-1", parts, |builder| builder).await;
    let panicked = get(demo.address, "/clumsy").await;
    assert_eq!(panicked.status, 500);
    assert!(
        panicked.body.contains("Something broke") && panicked.body.contains(r#"<a class="brand""#)
    );
    assert!(
        !panicked.body.contains("on purpose"),
        "what a panic says is for the log"
    );

    let mut asking = tokio::spawn(async move { get(demo.address, "/stuck").await });
    let late = loop {
        tokio::select! {
            answer = &mut asking => break answer.unwrap(),
            () = simulated.advance(Duration::from_secs(10)) => {}
        }
    };
    assert_eq!(late.status, 503);
    assert!(late.body.contains("This took too long"), "{}", late.body);
    assert_eq!(get(demo.address, "/healthz").await.status, 200);
}

#[tokio::test]
async fn an_unknown_address_is_a_404_in_the_same_frame() {
    let demo = demo(vec![]).await;
    let answer = get(demo.address, "/no/such/page").await;
    assert_eq!(answer.status, 404);
    assert!(
        answer.body.contains("Nothing on this shelf")
            && answer.body.contains(r#"<a class="brand""#)
    );
}

#[tokio::test]
async fn two_listeners_serve_one_shell() {
    let demo = demo(vec![Part::named("spool", vec![good("Shipped")])]).await;
    let monitoring = demo
        .shell
        .listen("127.0.0.1:0".parse().unwrap(), Audience::Monitoring)
        .await
        .unwrap();
    assert_ne!(demo.address, monitoring);
    for address in [demo.address, monitoring] {
        assert!(get(address, "/").await.body.contains("Part spool"));
    }
    assert_eq!(
        demo.tasks.stop(Duration::from_secs(30)).await,
        cannery_runtime::tasks::Stopped::default()
    );
    for address in [demo.address, monitoring] {
        tokio::net::TcpStream::connect(address).await.unwrap_err();
    }
}

#[tokio::test]
#[should_panic(expected = "the slug `metrics` is taken")]
async fn a_section_cannot_take_an_address_of_the_shell() {
    demo(vec![Part::named("metrics", vec![])]).await;
}

#[tokio::test]
#[should_panic(expected = "the slug `spool` is taken")]
async fn two_sections_cannot_share_an_address() {
    demo(vec![
        Part::named("spool", vec![]),
        Part::named("spool", vec![]),
    ])
    .await;
}

#[tokio::test]
#[should_panic(expected = "`../x` cannot be part of an address")]
async fn a_slug_is_a_plain_word() {
    demo(vec![Part::named("../x", vec![])]).await;
}
