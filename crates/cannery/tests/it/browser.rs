//! The dashboard in a real browser.

use std::path::PathBuf;

use cannery_testkit::browser::{Browser, ColorScheme, Page};

use serde_json::{Value, json};

use crate::journal_page::{add, give_up, journal};
use crate::program::Place;

/// Pictures stay beside the build, so that a person can look at them.
pub(crate) fn picture(name: &str) -> PathBuf {
    let target = PathBuf::from(env!("CARGO_TARGET_TMPDIR"))
        .parent()
        .unwrap()
        .join("screenshots");
    std::fs::create_dir_all(&target).unwrap();
    target.join(format!("{name}.png"))
}

async fn background(page: &Page) -> String {
    page.eval("getComputedStyle(document.body).backgroundColor")
        .await
        .unwrap()
        .to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_home_page_is_sound_in_light_and_dark_wide_and_narrow() {
    let place = Place::new();
    let up = place.up(&[]);
    let browser = Browser::start().await.unwrap();
    let page = browser.page().await.unwrap();
    let mut backgrounds = Vec::new();
    for (scheme, word) in [(ColorScheme::Light, "light"), (ColorScheme::Dark, "dark")] {
        for width in [1440, 390] {
            page.set_color_scheme(scheme).await.unwrap();
            page.set_viewport(width, 900).await.unwrap();
            page.open(&up.url("")).await.unwrap();
            assert_eq!(
                page.eval("document.querySelectorAll('main').length")
                    .await
                    .unwrap(),
                1
            );
            let text = page
                .eval("document.body.innerText")
                .await
                .unwrap()
                .to_string();
            assert!(
                text.contains("Everything is running") && text.contains("lake main"),
                "{text}"
            );
            let overflow = page
                .eval("document.documentElement.scrollWidth - innerWidth")
                .await
                .unwrap();
            assert!(
                overflow.as_i64().unwrap() <= 0,
                "{word} at {width} is {overflow} pixels too wide"
            );
            page.screenshot(&picture(&format!("home-{word}-{width}")))
                .await
                .unwrap();
        }
        backgrounds.push(background(&page).await);
    }
    assert_ne!(backgrounds[0], backgrounds[1]);
    let complaints: Vec<_> = page
        .console()
        .into_iter()
        .filter(|message| message.level == "error")
        .collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}

/// Journals as they look on a working day, and one on a bad one.
fn busy(place: &Place) {
    let names = ["now", "important", "new", "updates", "slow", "time_allows"];
    let thumbnails: Vec<Value> = (0..240)
        .map(|number| {
            let priority = names[number * number % 11 % names.len()];
            json!({ "key": format!("images/2026/{number:04}.png"), "priority": priority })
        })
        .collect();
    add(place, "default", &thumbnails);
    add(
        place,
        "default",
        &[json!({ "key": "images/later.png", "process_date": "2099-01-01T00:00:00Z" })],
    );
    for worker in ["edge-1/4711", "edge-2/815"] {
        journal(place, &["claim", "default", "-n", "3", "--worker", worker]);
    }
    for claimed in journal(place, &["claim", "default", "-n", "40"]) {
        journal(
            place,
            &["done", "default", claimed["token"].as_str().unwrap()],
        );
    }
    let dead = [
        json!({ "key": "feeds/vbb/2026-11-15T18", "priority": 0 }),
        json!({ "key": format!("\"><script>alert(1)</script>\u{1b}[31m\u{202e} {}", "x".repeat(400)), "priority": 1 }),
    ];
    add(place, "work", &dead);
    give_up(
        place,
        "work",
        "the server answered 503 Service Unavailable five times in a row",
    );
    give_up(place, "work", &"a reason without end ".repeat(60));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_the_journals_is_sound_and_follows_what_happens() {
    let place = Place::new();
    place.write(
        "c.yml",
        "journals:\n  files: {key: [path], fields: {path: string, size: u64, taken: time}, lease: 90s}\n  work: {merge: off}\n",
    );
    let up = place.up(&["--config-file", "c.yml"]);
    busy(&place);
    let browser = Browser::start().await.unwrap();
    let page = browser.page().await.unwrap();
    for (scheme, word) in [(ColorScheme::Light, "light"), (ColorScheme::Dark, "dark")] {
        for width in [1440, 390] {
            page.set_color_scheme(scheme).await.unwrap();
            page.set_viewport(width, 900).await.unwrap();
            page.open(&up.url("journals")).await.unwrap();
            let overflow = page
                .eval("document.documentElement.scrollWidth - innerWidth")
                .await
                .unwrap();
            assert!(
                overflow.as_i64().unwrap() <= 0,
                "{word} at {width} is {overflow} pixels too wide"
            );
            page.screenshot(&picture(&format!("journals-{word}-{width}")))
                .await
                .unwrap();
        }
    }
    let text = text(&page).await;
    for expected in [
        "images/2026/",
        "edge-1/4711",
        "20 new",
        "255 time_allows",
        "Nothing was ever added",
        "503 Service Unavailable",
        "cannery journal requeue",
        "2 entries were given up",
    ] {
        assert!(text.contains(expected), "no `{expected}` in {text}");
    }
    page.eval("window.stillTheSamePage = true").await.unwrap();
    add(
        &place,
        "default",
        &[json!({ "key": "just now", "priority": "now" })],
    );
    journal(&place, &["claim", "default"]);
    for _ in 0..200 {
        if self::text(&page).await.contains("just now") {
            break;
        }
        crate::program::pause();
    }
    assert!(
        self::text(&page).await.contains("just now"),
        "{}",
        self::text(&page).await
    );
    assert_eq!(page.eval("window.stillTheSamePage").await.unwrap(), true);
    let complaints: Vec<_> = page
        .console()
        .into_iter()
        .filter(|message| message.level == "error")
        .collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}

async fn text(page: &Page) -> String {
    let text = page.eval("document.body.innerText").await.unwrap();
    text.as_str().unwrap().to_owned()
}
