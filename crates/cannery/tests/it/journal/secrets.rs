//! The password of a database appears nowhere.

use super::journal;
use crate::program::{Place, Ran};

const CANARIES: [&str; 3] = ["canary-db-pass-1", "canary-db-env-2", "canary-db-query-3"];

fn check(what: &str, ran: &Ran) {
    let all = ran.all();
    assert!(!all.is_empty(), "{what} printed nothing");
    for canary in CANARIES {
        assert!(!all.contains(canary), "{what} shows {canary}: {all}");
    }
}

fn place() -> Place {
    let mut place = Place::new();
    place.set("DB_PASSWORD", "canary-db-env-2");
    place.write(
        "c.yml",
        "journals:\n  default: {engine: 'postgres://keeper:canary-db-pass-1@127.0.0.1:1/db'}\n  \
         b: {engine: 'postgres://keeper:{{ env.DB_PASSWORD }}@127.0.0.1:1/db'}\n  \
         c: {engine: 'postgresql://127.0.0.1:1/db?user=keeper&password=canary-db-query-3'}\n",
    );
    place
}

#[test]
fn not_in_what_is_said_of_the_configuration() {
    let place = place();
    for arguments in [
        &["config", "show", "--config-file", "c.yml"][..],
        &["config", "show", "--json", "-vvv", "--config-file", "c.yml"],
        &["config", "check", "-vvv", "--config-file", "c.yml"],
    ] {
        let ran = place.run(arguments);
        assert_eq!(ran.code, 0, "{}", ran.all());
        check(&arguments.join(" "), &ran);
    }
    let shown = place
        .run(&["config", "show", "--config-file", "c.yml"])
        .stdout;
    assert!(
        shown.contains("postgres://keeper:***@127.0.0.1:1/db"),
        "{shown}"
    );
    for (file, text) in [
        (
            "scheme.yml",
            "journals: {a: {engine: 'mysql://keeper:canary-db-pass-1@h/db'}}\n",
        ),
        (
            "typo.yml",
            "journals: {a: {engin: 'postgres://keeper:canary-db-pass-1@h/db'}}\n",
        ),
    ] {
        place.write(file, text);
        let ran = place.run(&["config", "check", "-vvv", "--config-file", file]);
        assert_eq!(ran.code, 2, "{}", ran.all());
        check(file, &ran);
    }
}

#[test]
fn not_in_errors_of_a_database_that_is_down() {
    let place = place();
    std::thread::scope(|scope| {
        for arguments in [
            &["ls", "default", "-vvv"][..],
            &["add", "b", "--key", "a", "--json"],
            &["stats", "c", "-vvv", "--json"],
            &["work", "b", "--exec", "/bin/true", "-vvv"],
            &["declare", "d"],
            &["ls", "unknown"],
        ] {
            let place = &place;
            scope.spawn(move || {
                let ran = journal(place, &[arguments, &["--config-file", "c.yml"]].concat());
                assert_eq!(ran.code, 1, "{arguments:?}: {}", ran.all());
                check(&arguments.join(" "), &ran);
            });
        }
    });
}
