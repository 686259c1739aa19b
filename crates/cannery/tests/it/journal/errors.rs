//! What a person sees when something is wrong with a journal.

use cannery_runtime::folder_lock::FolderLock;
use cannery_runtime::{Clock, RealDisk};

use super::{add, claim, journal, journal_fed};
use crate::program::{Place, assert_text};

#[test]
fn the_help_is_worth_reading() {
    let place = Place::new();
    for (name, arguments) in [
        ("help_journal", &["--help"][..]),
        ("help_journal_declare", &["declare", "--help"]),
        ("help_journal_add", &["add", "--help"]),
        ("help_journal_work", &["work", "--help"]),
    ] {
        assert_text(name, &journal(&place, arguments));
    }
}

#[test]
fn journals_that_are_not_there() {
    let place = Place::new();
    for (name, journal_name) in [
        ("journal_unknown", "thumbnails"),
        ("journal_mistyped", "defualt"),
        ("journal_no_name", "../etc"),
    ] {
        let ran = journal(&place, &["ls", journal_name]);
        assert_eq!(ran.code, 10);
        assert_text(name, &ran);
    }
    assert!(
        !place.path("cannery-data/journals/thumbnails").exists(),
        "looking must not make it"
    );
}

#[test]
fn entries_that_are_not_there() {
    let place = Place::new();
    for (name, arguments) in [
        ("journal_nothing_due", &["claim", "default"][..]),
        ("journal_key_absent", &["get", "default", "nowhere"]),
        ("journal_cancel_absent", &["cancel", "default", "nowhere"]),
        ("journal_requeue_absent", &["requeue", "default", "nowhere"]),
    ] {
        let ran = journal(&place, arguments);
        assert_eq!(ran.code, 10, "{}", ran.all());
        assert_text(name, &ran);
    }
    let error: serde_json::Value = serde_json::from_str(
        journal(&place, &["claim", "default", "--json"])
            .stderr
            .trim(),
    )
    .unwrap();
    assert_eq!(error["error"]["kind"], "nothing_due");
}

#[test]
fn leases_that_are_lost() {
    let place = Place::new();
    add(&place, "a");
    let token = claim(&place);
    assert_eq!(journal(&place, &["cancel", "default", "a"]).code, 0);
    for command in ["heartbeat", "done", "release"] {
        let ran = journal(&place, &[command, "default", &token, "--json"]);
        assert_eq!(ran.code, 1, "{}", ran.all());
        let error: serde_json::Value = serde_json::from_str(ran.stderr.trim()).unwrap();
        assert_eq!(error["error"]["kind"], "lease_lost", "{command}");
    }
    let ran = journal(
        &place,
        &["fail", "default", "1-2-0000000000000003", "--reason", "x"],
    );
    assert_eq!(ran.code, 1);
    assert_text("journal_lease_lost", &ran);
}

#[test]
fn wrong_use() {
    let place = Place::new();
    for (name, arguments) in [
        ("journal_bad_token", &["done", "default", "abc"][..]),
        (
            "journal_bad_date",
            &["add", "default", "--key", "a", "--process-date", "tomorrow"],
        ),
        (
            "journal_bad_priority",
            &["add", "default", "--key", "a", "--priority", "soon"],
        ),
        (
            "journal_bad_data",
            &["add", "default", "--key", "a", "--data", "{"],
        ),
        ("journal_no_key", &["add", "default", "--data", "1"]),
        (
            "journal_bad_field",
            &["declare", "x", "--field", "path:text"],
        ),
        (
            "journal_bad_declaration",
            &["declare", "x", "--key-field", "path"],
        ),
        ("journal_bad_name", &["declare", "X y"]),
        ("journal_declare_configured", &["declare", "default"]),
        (
            "journal_no_program",
            &["work", "default", "--exec", "./missing.sh"],
        ),
        (
            "journal_two_dates",
            &[
                "fail",
                "default",
                "1-2-3",
                "--reason",
                "x",
                "--dead",
                "--retry-in",
                "5s",
            ],
        ),
    ] {
        let ran = journal(&place, arguments);
        assert_eq!(ran.code, 2, "{}", ran.all());
        assert_text(name, &ran);
    }
}

#[test]
fn lines_that_are_wrong() {
    let place = Place::new();
    let ran = journal_fed(
        &place,
        &["add", "default"],
        b"{\"key\":\"a\"}\n{\"key\":\"b\"}\n{\"kee\":\"c\"}\n",
    );
    assert_eq!(ran.code, 3);
    assert_text("journal_wrong_line", &ran);
    let ran = journal_fed(&place, &["add", "default"], b"not json\n");
    assert_eq!(ran.code, 2);
    assert_text("journal_wrong_first_line", &ran);
}

/// A process that owns the files and lets nobody in.
#[test]
fn a_journal_that_another_process_has() {
    let place = Place::new();
    add(&place, "a");
    let folder = place.path("cannery-data/journals/default");
    let _lock = FolderLock::acquire(&RealDisk, &folder, "another program", &Clock::real()).unwrap();
    let ran = journal(&place, &["ls", "default"]);
    assert_eq!(ran.code, 11, "{}", ran.all());
    assert_text("journal_locked", &ran);
}

#[test]
fn a_configuration_with_a_wrong_journal() {
    let place = Place::new();
    place.write("c.yml", "journals:\n  work:\n    leese: 5m\n");
    let ran = journal(&place, &["ls", "work", "--config-file", "c.yml"]);
    assert_eq!(ran.code, 2);
    assert_text("journal_config_typo", &ran);
}

/// In a mount namespace of its own, so that the small disk is this run's alone.
#[test]
fn a_full_disk() {
    let place = Place::new();
    std::fs::create_dir(place.path("small")).unwrap();
    let script = "mount -t tmpfs -o size=1m tmpfs small && exec \"$0\" journal add default --key a --workspace small";
    let mut command = std::process::Command::new("unshare");
    command.args([
        "--mount",
        "--map-root-user",
        "sh",
        "-c",
        script,
        env!("CARGO_BIN_EXE_cannery"),
    ]);
    let ran = crate::program::ran(command.current_dir(place.path("")));
    assert_eq!(ran.code, 13, "{}", ran.snapshot());
}
