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
    up.kill();
    days.pass(4, &server);
    let up = days.start();
    days.pass(5, &server);
    look_at(&up).await;
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
