//! Where the configuration of feeds comes from.

use cannery_testkit::feed_server::Behaviour;

use crate::feed_commands::{config, place, with};

#[tokio::test(flavor = "multi_thread")]
async fn a_url_wins_over_a_file() {
    let (place, server) = place().await;
    place.write("c.yml", config(&server, &["a"]));
    server.on("/c.yml", Behaviour::body(config(&server, &["b"])));
    let url = server.url("/c.yml");
    let tested = |id: &str| {
        place
            .run(&with(
                &["feed", "test", id],
                &["--config-url", &url, "--config-allow", "private"],
            ))
            .code
    };
    assert_eq!((tested("a"), tested("b")), (10, 0));
    let by_file = |id: &str| place.run(&with(&["feed", "test", id], &[])).code;
    assert_eq!((by_file("a"), by_file("b")), (0, 10));
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_answers_at_a_url_does_nothing_here_that_was_not_allowed() {
    let (place, server) = place().await;
    let tested = |text: &str, allowed: &[&str]| {
        server.on("/c.yml", Behaviour::body(text.to_owned()));
        let url = server.url("/c.yml");
        let mut arguments = vec!["config", "check", "--config-url", &url];
        arguments.extend(allowed);
        place.run(&arguments)
    };
    for (text, permission) in [
        (config(&server, &["a"]), "private"),
        ("workspace: theirs\n".to_owned(), "files"),
        ("catalog: sqlite:theirs.db\n".to_owned(), "files"),
    ] {
        let refused = tested(&text, &[]);
        let next = format!("`--config-allow {permission}`");
        assert_eq!(refused.code, 2, "{}", refused.all());
        assert!(refused.all().contains(&next), "{}", refused.all());
        let allowed = tested(&text, &["--config-allow", "private,files"]);
        assert_eq!(allowed.code, 0, "{}", allowed.all());
    }
}

#[cfg(feature = "sim")]
mod minutes {
    use cannery_testkit::feed_server::{Behaviour, FeedServer};
    use jiff::{SignedDuration, Timestamp};

    use crate::feed_commands::bodies;
    use crate::program::{Place, Up, http_get, pause};

    const STEP: SignedDuration = SignedDuration::from_secs(5);

    /// Lets time pass, five seconds after five seconds, until something is so.
    fn pass_until(place: &Place, up: &Up, what: &str, is: &dyn Fn() -> bool) {
        for _ in 0..400 {
            if is() {
                return;
            }
            let now: Timestamp = std::fs::read_to_string(place.path("clock"))
                .unwrap()
                .parse()
                .unwrap();
            place.write("clock.new", (now + STEP).to_string());
            #[allow(clippy::disallowed_methods, reason = "only whole, not durable")]
            std::fs::rename(place.path("clock.new"), place.path("clock")).unwrap();
            pause();
        }
        panic!("waited in vain: {what}: {}", up.log());
    }

    fn config(server: &FeedServer, feeds: &[&str]) -> Behaviour {
        let feeds = feeds.iter().map(|id| {
            let url = server.url(&format!("/{id}"));
            format!("  - {{id: {id}, url: '{url}', periodicity: 10s, allow_private: true}}\n")
        });
        let feeds: String = feeds.collect();
        Behaviour::body(format!("node: node1-lab\nfeeds:\n{feeds}"))
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_url_is_asked_every_minute_whether_it_changed() {
        let server = FeedServer::start().await.unwrap();
        for path in ["/a", "/b"] {
            server.on(path, Behaviour::Bodies(bodies(1_000)));
        }
        server.on("/c.yml", config(&server, &["a"]));
        let (place, url) = (Place::with_clock(), server.url("/c.yml"));
        let up = place.up(&["--config-url", &url, "--config-allow", "private"]);
        let asked = || server.requests("/c.yml");
        let first = asked().len();
        let reloads = || http_get(&up.url("metrics")).contains("reloads_total{outcome=\"ok\"} 2");
        pass_until(&place, &up, "two minutes", &reloads);
        let again = &asked()[first..];
        assert_eq!(again.len(), 2, "no more than once a minute");
        let tag = again[0].header("if-none-match").unwrap().to_owned();
        assert_eq!(again[1].header("if-none-match"), Some(&*tag));
        // Nothing changed: the feed is asked as before, and nobody else is.
        let before = server.requests("/a").len();
        assert!(before > 10, "{before}");
        assert_eq!(server.requests("/b").len(), 0);
        let log = up.log();
        assert_eq!(log.matches("the configuration was read again").count(), 2);
        assert_eq!(log.matches("\"changed\":false").count(), 2, "{log}");

        server.on("/c.yml", config(&server, &["a", "b"]));
        let is_asked = || server.requests("/b").len() > 2;
        pass_until(&place, &up, "the new feed is asked", &is_asked);
        assert!(server.requests("/a").len() > before);
        // What is new has a tag of its own, which is sent from then on.
        let count = asked().len();
        pass_until(&place, &up, "another minute", &|| asked().len() > count);
        let last = asked().pop().unwrap();
        assert_ne!(last.header("if-none-match"), Some(&*tag));
        assert!(last.header("if-none-match").is_some());
        up.kill();
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_url_that_is_down_changes_nothing_and_is_a_failed_reload() {
        let server = FeedServer::start().await.unwrap();
        for path in ["/a", "/b"] {
            server.on(path, Behaviour::Bodies(bodies(1_000)));
        }
        server.on("/c.yml", config(&server, &["a"]));
        let (place, url) = (Place::with_clock(), server.url("/c.yml"));
        let up = place.up(&["--config-url", &url, "--config-allow", "private"]);
        let copy = "cannery-data/config-last-good.json";
        let older = std::fs::read(place.path(copy)).unwrap();
        server.on("/c.yml", config(&server, &["a", "b"]));
        let is_asked = || server.requests("/b").len() > 2;
        pass_until(&place, &up, "the new feed is asked", &is_asked);
        server.on("/c.yml", Behaviour::body("nodd: bad\n"));
        let says = |text: &str| http_get(&up.url("status.json")).contains(text);
        let is_wrong = || says("the new configuration is not used");
        pass_until(&place, &up, "the mistake is said", &is_wrong);
        // As if the copy of the newer one could not be written.
        place.write(copy, older);
        let metric = |name: &str| {
            let metrics = http_get(&up.url("metrics"));
            let line = metrics.lines().find(|line| line.starts_with(name));
            line.unwrap().to_owned()
        };
        let names = [
            "cannery_config_reloads_total{outcome=\"ok\"}",
            "cannery_config_last_good_timestamp_seconds",
        ];
        let good = names.map(metric);
        let failed = "cannery_config_reloads_total{outcome=\"failed\"}";
        let before = metric(failed);
        server.on("/c.yml", Behaviour::Status(503));
        let is_down = || says("the configuration in force may be an old one") && says("503");
        pass_until(&place, &up, "the failure is said", &is_down);
        assert_ne!(metric(failed), before);
        assert_eq!(names.map(metric), good);
        let asked = server.requests("/b").len();
        let goes_on = || server.requests("/b").len() > asked + 2;
        pass_until(&place, &up, "the newer feed is still asked", &goes_on);

        server.on("/c.yml", config(&server, &["a", "b"]));
        let is_mended = || !says("the configuration in force") && !says("is not used");
        pass_until(&place, &up, "the URL is back", &is_mended);
        assert_ne!(names.map(metric), good);
        up.kill();
    }
}
