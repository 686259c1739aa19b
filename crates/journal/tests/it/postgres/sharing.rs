//! Several processes on one database; here each is a `Database` of its own.

use std::sync::Arc;
use std::time::Duration;

use cannery_journal::postgres::{Database, EngineClock};
use cannery_journal::{Data, Declaration, Entry, ErrorKind, Journal, Priority, Wakes};
use cannery_runtime::{Clock, Rng};
use cannery_testkit::postgres::Postgres;

use super::{connect, fresh, open_in, open_real, raw, server};
use crate::subject::{Build as _, entry, keys, token};

/// Sooner than the look at everything would find it.
async fn heard(wakes: &mut Wakes) -> bool {
    let limit = Duration::from_secs(8);
    Clock::real()
        .timeout(limit, wakes.next())
        .await
        .expect("a listener hears")
}

/// What there is to do after a wake-up, or the next one: a wake-up says only that there may be something.
async fn hear_of_work(work: &Journal, wakes: &mut Wakes) -> Vec<Entry<Data>> {
    loop {
        assert!(heard(wakes).await);
        let claimed = work.claim("w", 9).await.unwrap().entries;
        if !claimed.is_empty() {
            return claimed;
        }
    }
}

#[tokio::test]
async fn one_process_hears_what_another_adds() {
    let server = server().await;
    let name = fresh();
    let (_one, here) = open_real(&server.url(), &name).await;
    let (_other, there) = open_real(&server.url(), &name).await;
    // Both have looked: their marks are past the date of what comes now.
    for priority in [20, 230, 20] {
        let mut wakes = here.wakes();
        there.add_one(entry("k").priority(priority)).await.unwrap();
        let claimed = hear_of_work(&here, &mut wakes).await;
        assert_eq!(keys(&claimed), ["k"]);
        assert_eq!(claimed[0].meta.priority, Priority(priority));
        assert_eq!(there.claim("w", 9).await.unwrap().entries, []);
        // A successor that is freed elsewhere is heard of, too.
        here.add_one(entry("k")).await.unwrap();
        let mut wakes = here.wakes();
        there.done(token(&claimed[0])).await.unwrap();
        let claimed = hear_of_work(&here, &mut wakes).await;
        here.done(token(&claimed[0])).await.unwrap();
    }
}

#[tokio::test]
async fn a_lease_of_a_process_that_died_runs_out() {
    let server = server().await;
    let name = fresh();
    let declaration = Declaration {
        lease: Duration::from_millis(200),
        ..Declaration::default()
    };
    let dying = connect(&server.url(), EngineClock::Server, Clock::real()).await;
    let journal = dying.open(&name, Some(declaration)).await.unwrap();
    let there = Journal::new(&name, journal);
    there.add_one(entry("k")).await.unwrap();
    let held = there.claim("w", 1).await.unwrap().entries;
    drop((there, dying));
    let (_database, here) = open_real_as_stored(&server.url(), &name).await;
    let mut wakes = here.wakes();
    let mut claimed = here.claim("w", 9).await.unwrap().entries;
    if claimed.is_empty() {
        claimed = hear_of_work(&here, &mut wakes).await;
    }
    assert_eq!(keys(&claimed), ["k"]);
    assert_eq!(claimed[0].meta.timeouts, 1);
    let late = here.done(token(&held[0])).await.unwrap_err();
    assert_eq!(late.kind, ErrorKind::LeaseLost);
}

async fn open_real_as_stored(url: &str, name: &str) -> (Arc<Database>, Journal) {
    let database = connect(url, EngineClock::Server, Clock::real()).await;
    let engine = database.open(name, None).await.unwrap();
    let journal = Journal::new(name, engine);
    (database, journal)
}

#[tokio::test]
async fn one_process_hears_what_another_declares() {
    let server = server().await;
    let name = fresh();
    let (_one, here) = open_real(&server.url(), &name).await;
    let (_other, there) = open_real(&server.url(), &name).await;
    let single = Declaration {
        merge: false,
        ..Declaration::default()
    };
    assert_eq!(there.declare(single.clone()).await.unwrap(), 2);
    // Whether it has heard of it yet or not, it does as declared.
    here.add(vec![entry("k"), entry("k")]).await.unwrap();
    there.add_one(entry("k")).await.unwrap();
    let there_now = there.stats().await.unwrap();
    assert!(there_now.waiting() >= 2, "{there_now:?}");
    while here.declaration() != single {
        Clock::real().sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(
        there
            .declare(Declaration::default())
            .await
            .unwrap_err()
            .kind,
        ErrorKind::Invalid
    );
}

#[tokio::test]
async fn many_processes_may_come_first() {
    let server = server().await;
    let url = server
        .create_database(&format!("d{}", Rng::from_os().id()))
        .await
        .unwrap();
    let connects = (0..4).map(|_| connect(&url, EngineClock::Server, Clock::real()));
    let databases = futures::future::join_all(connects).await;
    let opens = databases.iter().map(|database| open_in(database, "work"));
    let journals = futures::future::join_all(opens).await;
    for (n, journal) in journals.iter().enumerate() {
        journal.add_one(entry(&format!("{n}"))).await.unwrap();
    }
    assert_eq!(journals[0].claim("w", 9).await.unwrap().entries.len(), 4);
    assert_eq!(databases[0].names().await.unwrap(), ["work"]);
    let unknown = databases[0].open("other", None).await.unwrap_err();
    assert_eq!(unknown.kind, ErrorKind::Unknown);
    databases[0].close().await;
    databases[0].close().await;
    let closed = journals[0].stats().await.unwrap_err();
    assert_eq!(closed.kind, ErrorKind::Closed, "{closed}");
}

#[tokio::test]
async fn a_schema_of_a_newer_program_is_refused() {
    let server = server().await;
    let url = server
        .create_database(&format!("d{}", Rng::from_os().id()))
        .await
        .unwrap();
    connect(&url, EngineClock::Server, Clock::real())
        .await
        .close()
        .await;
    let client = raw(&url).await;
    client
        .batch_execute("insert into cannery_journal.migrations (number) values (99)")
        .await
        .unwrap();
    let refused = Database::connect(&url, EngineClock::Server, Clock::real(), Rng::from_os()).await;
    let error = refused.unwrap_err();
    assert_eq!(error.kind, ErrorKind::Invalid);
    assert!(error.message.contains("99"), "{error}");
}

#[tokio::test]
async fn an_idle_process_asks_once_a_second() {
    let settings = [
        ("fsync", "off"),
        ("shared_preload_libraries", "pg_stat_statements"),
    ];
    let server = Postgres::start_with(&settings).await.unwrap();
    let (database, work) = open_real(&server.url(), "one").await;
    let other = open_in(&database, "two").await;
    // Something waits, something is held, and something was done.
    let later = entry("later").process(i64::from(i32::MAX));
    work.add(vec![later, entry("held")]).await.unwrap();
    work.claim("w", 1).await.unwrap();
    other.add_one(entry("k")).await.unwrap();
    let client = raw(&server.url()).await;
    client
        .batch_execute("create extension pg_stat_statements")
        .await
        .unwrap();
    let clock = Clock::real();
    clock.sleep(Duration::from_secs(2)).await;
    client
        .query_one("select pg_stat_statements_reset()", &[])
        .await
        .unwrap();
    let began = clock.elapsed();
    clock.sleep(Duration::from_secs(5)).await;
    let sql = "select coalesce(sum(calls), 0)::float8 from pg_stat_statements \
        where query not like '%pg_stat_statements%'";
    let calls: f64 = client.query_one(sql, &[]).await.unwrap().get(0);
    let seconds = clock.since(began).as_secs_f64();
    // One more for the second that has begun, and one for a look at everything in its place.
    assert!(calls <= seconds + 2.0, "{calls} statements in {seconds} s");
    assert!(calls >= 1.0, "nobody polls");
}
