//! Canary secrets, planted wherever a secret may be, appear nowhere.

use crate::program::{Place, Ran, http_get};

const CANARIES: [&str; 6] = [
    "canary-key-id-1",
    "canary-secret-2",
    "canary-url-user-3",
    "canary-url-pass-4",
    "canary-url-token-5",
    "canary-environment-6",
];

fn assert_clean(what: &str, text: &str) {
    for canary in CANARIES {
        assert!(!text.contains(canary), "{what} shows {canary}: {text}");
    }
}

fn place() -> Place {
    let mut place = Place::new();
    place.set("FROM_ENVIRONMENT", "canary-secret-2");
    place.set("AWS_SESSION_TOKEN", "canary-environment-6");
    place.write(
        "c.yml",
        "object_storage:\n- id: dead\n  bucket: b\n  endpoint_url: http://canary-url-user-3:canary-url-pass-4@127.0.0.1:1/?t=canary-url-token-5\n  \
         aws_access_key_id: canary-key-id-1\n  aws_secret_access_key: {{ env.FROM_ENVIRONMENT }}\n",
    );
    place
}

fn check(what: &str, ran: &Ran) {
    assert!(!ran.all().is_empty(), "{what} printed nothing");
    assert_clean(what, &ran.all());
}

#[test]
fn not_in_what_commands_print_or_log() {
    let place = place();
    let runs = [
        &["config", "show", "--config-file", "c.yml"][..],
        &["config", "show", "--json", "--config-file", "c.yml"],
        &["config", "check", "-vvv", "--config-file", "c.yml"],
        &["lake", "ls", "-vvv", "--config-file", "c.yml"],
        &[
            "lake",
            "cat",
            "x",
            "-vvv",
            "--json",
            "--config-file",
            "c.yml",
        ],
        &["doctor", "-vvv", "--config-file", "c.yml"],
        &["doctor", "--json", "--config-file", "c.yml"],
        &["up", "-vvv", "--help", "--config-file", "c.yml"],
    ];
    // At once: each waits for a store that does not answer.
    std::thread::scope(|scope| {
        for arguments in runs {
            let place = &place;
            scope.spawn(move || check(&arguments.join(" "), &place.run(arguments)));
        }
    });
}

#[test]
fn not_in_errors_about_the_configuration_or_its_url() {
    let mut place = place();
    let url = "http://canary-url-user-3:canary-url-pass-4@127.0.0.1:1/c.yml?t=canary-url-token-5";
    check(
        "config url",
        &place.run(&["config", "show", "-vvv", "--config-url", url]),
    );
    place.set("CANNERY_CONFIG_URL", url);
    check(
        "config url by variable",
        &place.run(&["config", "show", "-vvv"]),
    );
    check("help with the variable", &place.run(&["--help"]));
    place.write(
        "bad.yml",
        "object_storage:\n- aws_secret_access_key: {canary-secret-2: 1}\n",
    );
    place.write(
        "worse.yml",
        "object_storage:\n- url: 'x://canary-url-user-3:canary-url-pass-4@host'\n",
    );
    place.write(
        "worst.yml",
        "object_storage:\n- aws_secret_access_key: 'canary-secret-2\n  x: [\n",
    );
    for file in ["bad.yml", "worse.yml", "worst.yml", "env.yml", "bare.yml"] {
        let mut command = place.command(&["config", "check", "-vvv", "--config-file", file]);
        let ran = crate::program::ran(command.env_remove("CANNERY_CONFIG_URL"));
        assert_eq!(ran.code, 2, "{}", ran.all());
        check(file, &ran);
    }
}

/// A lake that works, so that the whole dashboard is there to look at.
#[test]
fn not_on_any_page_or_metric() {
    let mut place = Place::new();
    place.set("AWS_SECRET_ACCESS_KEY", "canary-environment-6");
    place.write("c.yml", "object_storage:\n- {url: 'file:lake'}\n");
    let up = place.up(&["-vvv", "--config-file", "c.yml"]);
    for page in [
        "",
        "lake",
        "metrics",
        "status.json",
        "healthz",
        "readyz",
        "canary-secret-2",
    ] {
        assert_clean(page, &http_get(&up.url(page)));
    }
    assert_clean("log", &up.log());
}

/// Keys of the configuration are one identity; a session token of the environment belongs to another.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_token_does_not_travel_with_other_keys() {
    use cannery_testkit::feed_server::{Behaviour, FeedServer};
    let server = FeedServer::start().await.unwrap();
    server.on("/b/cannery.json", Behaviour::Status(404));
    server.on("/b", Behaviour::Status(403));
    let mut place = Place::new();
    place.set("AWS_SESSION_TOKEN", "canary-environment-6");
    let endpoint = server.url("");
    place.write(
        "c.yml",
        format!("object_storage:\n- {{bucket: b, endpoint_url: '{endpoint}', aws_access_key_id: some-id, aws_secret_access_key: some-secret}}\n"),
    );
    let ran =
        tokio::task::spawn_blocking(move || place.run(&["lake", "ls", "--config-file", "c.yml"]))
            .await
            .unwrap();
    assert_eq!(ran.code, 12, "{}", ran.all());
    let requests = server.requests("/b/cannery.json");
    assert!(!requests.is_empty());
    assert_clean("a request", &format!("{requests:?}"));
}
