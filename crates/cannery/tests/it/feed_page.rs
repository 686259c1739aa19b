//! The pages of feeds in a real browser, with three days in them.

use bytes::Bytes;
use cannery_testkit::browser::{Browser, ColorScheme, Page};
use cannery_testkit::feed_server::{Behaviour, FeedServer};
use jiff::{SignedDuration, Timestamp};

use crate::browser::picture;
use crate::program::{Place, Up, http_get, pause};

const STEP: SignedDuration = SignedDuration::from_mins(5);

struct Days {
    place: Place,
    now: Timestamp,
}

impl Days {
    fn start(&self) -> Up {
        self.place.up(&["--config-file", "c.yml"])
    }

    /// Lets hours pass, and the process follow, which may not run.
    fn pass(&mut self, hours: i32, server: &FeedServer) {
        for _ in 0..hours * 12 {
            let asked = server.requests("/subway").len();
            self.now += STEP;
            self.place.write("clock.new", self.now.to_string());
            #[allow(clippy::disallowed_methods, reason = "only whole, not durable")]
            std::fs::rename(self.place.path("clock.new"), self.place.path("clock")).unwrap();
            for _ in 0..10 {
                #[allow(clippy::disallowed_methods, reason = "another process needs real time")]
                std::thread::sleep(std::time::Duration::from_millis(20));
                if server.requests("/subway").len() > asked {
                    break;
                }
            }
            #[allow(clippy::disallowed_methods, reason = "another process needs real time")]
            std::thread::sleep(std::time::Duration::from_millis(15));
        }
    }
}

fn bodies() -> Behaviour {
    Behaviour::Bodies(
        (0..20_000)
            .map(|number| Bytes::from(format!("{number}")))
            .collect(),
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn the_pages_of_feeds_are_sound_and_show_latency_target_and_gaps() {
    let server = FeedServer::start().await.unwrap();
    server.on("/subway", bodies());
    server.on("/buses", Behaviour::body("always the same"));
    server.on("/broken", Behaviour::Status(503));
    let place = Place::with_clock();
    let feeds: String = ["subway", "buses", "broken"]
        .iter()
        .map(|id| {
            let url = server.url(&format!("/{id}"));
            format!("  - {{id: {id}, url: '{url}', periodicity: 5m, allow_private: true}}\n")
        })
        .collect();
    place.write("c.yml", format!("node: node1-lab\nfeeds:\n{feeds}"));
    let now = "2026-11-15T00:00:00Z".parse().unwrap();
    let mut days = Days { place, now };
    let up = days.start();
    days.pass(16, &server);
    server.on("/subway", Behaviour::Status(500));
    days.pass(3, &server);
    server.on("/subway", bodies());
    days.pass(6, &server);
    let before = stored_of_all_time(&up);
    assert!(before > 150, "{before}");
    up.kill();
    days.pass(4, &server);
    let up = days.start();
    // Before anything new was downloaded: what a process counted survives it, but for its last seconds.
    let after = stored_of_all_time(&up);
    assert!(after + 12 >= before, "{before} before, {after} after");
    assert!(http_get(&up.url("feeds/broken")).contains("status 503"));
    days.pass(5, &server);
    assert!(stored_of_all_time(&up) > after + 30);
    look_at(&up).await;
    gaps_are_shown(&up);
}

/// How many bodies of the subway were ever stored, by the page.
fn stored_of_all_time(up: &Up) -> u64 {
    let page = http_get(&up.url("feeds/subway"));
    let facts = page.split("All time").nth(1).unwrap();
    let stored = facts.split("stored").nth(1).unwrap();
    let digits = stored
        .chars()
        .skip_while(|c| !c.is_ascii_digit())
        .take_while(|c| c.is_ascii_digit() || *c == ',')
        .filter(char::is_ascii_digit);
    digits.collect::<String>().parse().unwrap()
}

/// Of the hours in which the server failed, and of those in which nobody collected.
fn gaps_are_shown(up: &Up) {
    let page = http_get(&up.url("feeds/subway"));
    let cell = |hour: &str| {
        let (_, rest) = page.split_once(&format!("<title>{hour}: ")).unwrap();
        rest.split_once("</title>").unwrap().0.to_owned()
    };
    for hour in ["2026-11-16, 02", "2026-11-16, 03", "2026-11-16, 04"] {
        assert_eq!(cell(hour), "12 not collected", "{hour}");
    }
    for hour in ["2026-11-15, 17", "2026-11-15, 18"] {
        let told = cell(hour);
        assert!(
            told.contains(" failed") && !told.contains("stored"),
            "{told}"
        );
    }
    for hour in ["2026-11-15, 10", "2026-11-16, 07"] {
        assert!(cell(hour).contains(" stored"), "{hour}: {}", cell(hour));
    }
}

async fn look_at(up: &Up) {
    for _ in 0..200 {
        if http_get(&up.url("feeds/subway")).contains("archives read") {
            break;
        }
        pause();
    }
    let browser = Browser::start().await.unwrap();
    let page = browser.page().await.unwrap();
    for (scheme, word) in [(ColorScheme::Light, "light"), (ColorScheme::Dark, "dark")] {
        for width in [1440, 390] {
            page.set_color_scheme(scheme).await.unwrap();
            page.set_viewport(width, 900).await.unwrap();
            for (path, name) in [
                ("", "home"),
                ("feeds", "all"),
                ("feeds/subway", "subway"),
                ("feeds/broken", "broken"),
            ] {
                page.open(&up.url(path)).await.unwrap();
                let overflow = page
                    .eval("document.documentElement.scrollWidth - innerWidth")
                    .await;
                let overflow = overflow.unwrap().as_i64().unwrap();
                assert!(
                    overflow <= 0,
                    "{name} {word} at {width} is {overflow} pixels too wide"
                );
                page.screenshot(&picture(&format!("feeds-{name}-{word}-{width}")))
                    .await
                    .unwrap();
            }
        }
    }
    page.open(&up.url("feeds/subway")).await.unwrap();
    let text = text(&page).await;
    for part in [
        "Downloads",
        "Coverage",
        "Archives",
        "Uploads",
        "Consolidation",
        "target 5m",
        "packed",
        "stored",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    page.open(&up.url("feeds/broken")).await.unwrap();
    assert!(self::text(&page).await.contains("status 503"));
    let complaints: Vec<_> = page
        .console()
        .into_iter()
        .filter(|message| message.level == "error")
        .collect();
    assert!(complaints.is_empty(), "{complaints:?}");
}

async fn text(page: &Page) -> String {
    let text = page.eval("document.documentElement.textContent").await;
    text.unwrap().to_string()
}
