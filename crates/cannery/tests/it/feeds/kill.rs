//! The real binary, killed at every operation of the disk while it packs, ships and merges an hour of a few feeds.

use cannery_formats::Digest;
use cannery_formats::feed::{DownloadName, FeedId};
use cannery_testkit::{long_run, scenario_rng};
use jiff::{SignedDuration, Timestamp};

use super::ground::Ground;
use super::replica::Replica;
use super::truth::Truth;
use crate::program::ran;

const KILLED: i32 = -1;
const FEEDS: [&str; 3] = ["f00", "f01", "f02"];

fn config(ground: &Ground) -> String {
    let feeds =
        FEEDS.map(|feed| format!("- {{id: {feed}, url: \"https://example.org/{feed}\"}}\n"));
    format!("{}feeds:\n{}", ground.config(), feeds.concat())
}

/// Two bodies of each feed, of which the second is the same for all lives.
fn store_some(replica: &Replica, life: i64) {
    let hour: Timestamp = "2026-11-15T18:00:00Z".parse().unwrap();
    for feed in FEEDS {
        for (text, second) in [
            (format!("{feed} {life}"), life % 3_000),
            (feed.to_owned(), 3_500),
        ] {
            let time = hour + SignedDuration::from_secs(second);
            let id = FeedId::new(feed).unwrap();
            let name = DownloadName::new(id, time, &Digest::of(text.as_bytes()), ".txt");
            let folder = format!("{feed}/2026/11/15/18");
            replica.store(&folder, &name.to_string(), text.as_bytes());
        }
    }
}

/// Runs a command that is killed at an operation; whether it lived.
fn survives(replica: &Replica, command: &str, number: u64) -> bool {
    let mut command = replica.command(&[command]);
    let ran = ran(command.env("CANNERY_SIM_KILL_AT", number.to_string()));
    assert!(matches!(ran.code, 0 | KILLED), "{}", ran.snapshot());
    ran.code == 0
}

#[test]
fn killed_at_every_operation_of_the_disk_every_body_is_in_the_one_archive_of_its_hour() {
    let rng = scenario_rng("feeds killed at every operation");
    let step = if long_run() { 1 } else { 10 };
    let (ground, mut truth) = (Ground::folders(), Truth::default());
    let replica = Replica::new("r1", &config(&ground), &[]);
    let mut number = 1 + rng.below(step);
    for life in 0.. {
        store_some(&replica, life);
        truth.look_at(&replica);
        let shipped = survives(&replica, "clean", number);
        let merged = survives(&replica, "consolidate", number);
        if shipped && merged {
            break;
        }
        number += step;
    }
    for command in ["clean", "consolidate"] {
        let ran = ran(&mut replica.command(&[command]));
        assert_eq!(ran.code, 0, "{}", ran.snapshot());
    }
    assert!(number > 100, "only {number} operations");
    assert_eq!(replica.unshipped().len(), 0);
    let audited = ground.audit(&truth.ledger([&replica]), &["--only-known"]);
    assert_eq!(audited.code, 0, "{}", audited.snapshot());
    println!(
        "result: feeds, killed at each of {number} operations of the disk, every {step}th: every body in one archive an hour"
    );
}
