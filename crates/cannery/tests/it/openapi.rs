//! The API against its own description: no answer that is not described, and none that is the server's fault, whatever is asked.

use std::process::Command;

use cannery_testkit::tools;

use crate::program::{Place, http_get, ran};

/// The names of users in the description; a random one would only ever meet 403 and 404.
const ANY_USER: &str = r#""pattern":"^[a-z][a-z0-9_.-]{0,62}$""#;

#[test]
fn nothing_undescribed_is_answered_with_and_without_a_credential() {
    let place = Place::new();
    let up = place.up(&[]);
    let answer = http_get(&up.url("openapi.json"));
    let (_, document) = answer.split_once("\r\n\r\n").unwrap();
    assert!(document.contains(ANY_USER), "{document}");
    place.write(
        "openapi.json",
        document.replace(ANY_USER, r#""enum":["local"]"#),
    );
    let token = std::fs::read_to_string(place.path("cannery-data/token")).unwrap();
    let credential = format!("Authorization: Bearer {}", token.trim());
    let examples = if cannery_testkit::long_run() {
        "200"
    } else {
        "10"
    };
    for with in [&["-H", credential.as_str()][..], &[]] {
        let mut command = Command::new(tools::python("schemathesis").unwrap());
        command
            .args(["run", "openapi.json", "--url", &up.url("")])
            .args(["--seed", "1", "--generation-database", "none"])
            .args(["--max-examples", examples, "--request-timeout", "60"])
            // How long anything takes says nothing on a busy machine.
            .args(["--suppress-health-check", "all"])
            .args(["--checks", "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"])
            .args(with)
            .current_dir(place.path(""))
            .env("NO_COLOR", "1");
        let judged = ran(&mut command);
        assert_eq!(judged.code, 0, "{}", judged.all());
        assert!(judged.stdout.contains("Tested: 30"), "{}", judged.stdout);
    }
    assert_eq!(up.stop().0, 0);
}
