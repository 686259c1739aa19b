//! Servers that go away.

use std::time::Duration;

use cannery_journal::postgres::{Database, EngineClock};
use cannery_journal::{ErrorKind, Health, Journal};
use cannery_runtime::{Clock, Rng};
use cannery_testkit::postgres::{Postgres, PostgresCluster};

use super::{fresh, open_real, raw, server};
use crate::subject::{entry, keys, token};

/// Tries until the server answers again, as a caller would.
async fn add_until_it_works(work: &Journal, text: &str) {
    let clock = Clock::real();
    for _ in 0..200 {
        match work.add_one(entry(text)).await {
            Ok(_) => return,
            Err(error) => assert_eq!(error.kind, ErrorKind::Unavailable, "{error}"),
        }
        clock.sleep(Duration::from_millis(100)).await;
    }
    panic!("the server never came back");
}

#[tokio::test]
async fn a_server_that_restarts_is_found_again() {
    let mut server = Postgres::start().await.unwrap();
    let name = fresh();
    let (_one, here) = open_real(&server.url(), &name).await;
    let (_other, there) = open_real(&server.url(), &name).await;
    here.add_one(entry("before")).await.unwrap();
    let claimed = here.claim("w", 1).await.unwrap().entries;
    server.kill();
    let error = here.add_one(entry("k")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    assert!(matches!(here.health(), Health::Bad(_)));
    server.restart().await.unwrap();
    add_until_it_works(&here, "after").await;
    assert_eq!(here.health(), Health::Good);
    // What was acknowledged is there, and the lease holds.
    here.done(token(&claimed[0])).await.unwrap();
    // The other has not said a word yet; its listening connection comes back by itself.
    add_until_it_works(&there, "there").await;
    let mut found = Vec::new();
    let mut wakes = here.wakes();
    while found.len() < 2 {
        let claimed = here.claim("w", 9).await.unwrap().entries;
        found.extend(keys(&claimed));
        if found.len() < 2 {
            let limit = Duration::from_secs(20);
            Clock::real().timeout(limit, wakes.next()).await.unwrap();
        }
    }
    found.retain(|key| key != "k");
    found.sort();
    assert_eq!(found, ["after", "there"]);
}

#[tokio::test]
async fn a_missing_quorum_is_reported() {
    let mut cluster = PostgresCluster::start().await.unwrap();
    let (_database, work) = open_real(&cluster.url(), "work").await;
    work.add_one(entry("before")).await.unwrap();
    cluster.stop_standbys();
    let error = work.add_one(entry("during")).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    assert!(error.message.contains("synchronous standbys"), "{error}");
    let Health::Bad(why) = work.health() else {
        panic!("{:?}", work.health());
    };
    assert!(why.contains("synchronous standbys"), "{why}");
    // That it can be read does not make it well.
    work.stats().await.unwrap();
    assert!(matches!(work.health(), Health::Bad(_)));
    // Nobody is left waiting in the server for a caller that has gone; what waits is the look whether writes work again.
    let client = raw(&cluster.primary_url()).await;
    let stuck = "select count(*) from pg_stat_activity where wait_event = 'SyncRep' \
        and query not like '%pg_logical_emit_message%'";
    for tries in 0.. {
        let count: i64 = client.query_one(stuck, &[]).await.unwrap().get(0);
        if count == 0 {
            break;
        }
        assert!(tries < 100, "{count} are stuck");
        Clock::real().sleep(Duration::from_millis(100)).await;
    }
    cluster.start_standbys().await.unwrap();
    // It finds out by itself.
    while work.health() != Health::Good {
        Clock::real().sleep(Duration::from_millis(100)).await;
    }
    work.add_one(entry("after")).await.unwrap();
    let claimed = work.claim("w", 9).await.unwrap().entries;
    let found = keys(&claimed);
    assert!(found.contains(&"before".to_owned()) && found.contains(&"after".to_owned()));
}

#[tokio::test]
async fn a_fail_over_keeps_what_was_acknowledged() {
    let mut cluster = PostgresCluster::start().await.unwrap();
    let (_database, work) = open_real(&cluster.url(), "work").await;
    for n in 0..50 {
        work.add_one(entry(&format!("{n}"))).await.unwrap();
    }
    let held = work.claim("w", 10).await.unwrap().entries;
    for entry in &held[..5] {
        work.done(token(entry)).await.unwrap();
    }
    cluster.promote().await.unwrap();
    add_until_it_works(&work, "after").await;
    for entry in &held[5..] {
        work.done(token(entry)).await.unwrap();
    }
    let rest = work.claim("w", 100).await.unwrap().entries;
    assert_eq!(rest.len(), 41);
    for entry in &rest {
        assert!(!held.iter().any(|old| token(old) == token(entry)));
    }
    assert_eq!(work.stats().await.unwrap().counts.adds, 51);
}

#[tokio::test]
async fn who_is_not_let_in_hears_so() {
    let server = server().await;
    let ends = ["stranger:canary-secret-1", "postgres:canary-secret-1"];
    let databases = ["postgres", "nowhere"];
    for (user, database) in ends.iter().zip(databases) {
        let url = format!("postgres://{user}@127.0.0.1:{}/{database}", server.port());
        let refused = connect(&url).await;
        let error = refused.unwrap_err();
        assert_eq!(error.kind, ErrorKind::Denied, "{error}");
        assert!(!error.message.contains("canary-secret"), "{error}");
    }
    let nobody = "postgres://postgres:canary-secret-2@127.0.0.1:1/postgres";
    let error = connect(nobody).await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Unavailable, "{error}");
    assert!(!error.message.contains("canary-secret"), "{error}");
}

async fn connect(url: &str) -> Result<std::sync::Arc<Database>, cannery_journal::Error> {
    Database::connect(url, EngineClock::Server, Clock::real(), Rng::from_os()).await
}
