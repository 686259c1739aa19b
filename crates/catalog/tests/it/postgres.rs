//! The engine in a PostgreSQL database, on a real server.

use std::sync::{Arc, Weak};

use cannery_catalog::{Beside, Catalog, ErrorKind};
use cannery_runtime::{Clock, Rng};
use cannery_testkit::postgres::Postgres;
use tokio::sync::Mutex;
use tokio_postgres::NoTls;

use crate::doc::{doc, documented};
use crate::subject::Subject;

/// One server for all tests that run at the same time; the last one to end takes it along.
static SERVER: Mutex<Weak<Postgres>> = Mutex::const_new(Weak::new());

async fn server() -> Arc<Postgres> {
    let mut shared = SERVER.lock().await;
    if let Some(server) = shared.upgrade() {
        return server;
    }
    let server = Arc::new(Postgres::start().await.unwrap());
    *shared = Arc::downgrade(&server);
    server
}

/// A database that no other test has.
pub(crate) async fn fresh() -> (String, Arc<Postgres>) {
    let server = server().await;
    let name = format!("catalog_{}", Rng::from_os().id().replace('-', "_"));
    (server.create_database(&name).await.unwrap(), server)
}

pub(crate) async fn open() -> Subject {
    let (url, server) = fresh().await;
    let catalog = Catalog::open(&url, Clock::real()).await.unwrap();
    Subject::new(catalog, server).await
}

crate::suites!(open, 6);

#[tokio::test]
async fn a_newer_catalog_is_refused() {
    let (url, _server) = fresh().await;
    Catalog::open(&url, Clock::real())
        .await
        .unwrap()
        .close()
        .await;
    let (client, wire) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    let wire = tokio::spawn(wire);
    client
        .execute("insert into cannery_catalog.migration values (1000)", &[])
        .await
        .unwrap();
    drop(client);
    wire.await.unwrap().unwrap();
    let refused = Catalog::open(&url, Clock::real()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Newer);
}

#[tokio::test]
async fn many_processes_may_open_it_at_once() {
    let (url, _server) = fresh().await;
    let opened = (0..6).map(|_| Catalog::open(&url, Clock::real()));
    for catalog in futures::future::join_all(opened).await {
        catalog.unwrap().close().await;
    }
}

#[tokio::test]
async fn a_server_that_is_killed_loses_nothing_and_is_used_again() {
    let mut server = Postgres::start().await.unwrap();
    let catalog = Catalog::open(&server.url(), Clock::real()).await.unwrap();
    let subject = Subject::new(catalog, ()).await;
    subject.ingest(&doc("a", &[1, 2])).await;
    let file = doc("b", &[3]);
    let plan = crate::subject::ingest(&file);
    let mut load = subject.load(plan.clone()).await.unwrap();
    crate::subject::push(&mut load, &file, &plan).await.unwrap();
    server.kill();
    server.restart().await.unwrap();
    let cut = load.commit(crate::subject::open_gate()).await.unwrap_err();
    assert_eq!(cut.kind, ErrorKind::Unavailable, "{cut}");
    // Connections of before the crash are found out one by one.
    while subject.lookup("x").await.is_err() {}
    assert!(subject.find(1).await.is_some() && subject.find(3).await.is_none());
    subject.ingest(&file).await;
    subject.is_sound().await;
}

#[tokio::test]
async fn it_speaks_over_tls() {
    let (server, authority) = Postgres::encrypted().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("ca.pem");
    let disk = cannery_runtime::disk::RealDisk;
    cannery_runtime::disk::write_durably(&disk, &file, authority.as_bytes()).unwrap();
    let trusted = format!(
        "{}?sslmode=verify-full&sslrootcert={}",
        server.url(),
        file.display()
    );
    let catalog = Catalog::open(&trusted, Clock::real()).await.unwrap();
    assert!(catalog.check().await.unwrap().is_empty());
    let plain = format!("{}?sslmode=disable", server.url());
    assert!(Catalog::open(&plain, Clock::real()).await.is_err());
    let unknown = format!("{}?sslmode=require", server.url());
    let refused = Catalog::open(&unknown, Clock::real()).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Denied, "{refused}");
}

#[tokio::test]
async fn the_documented_questions_are_answered() {
    let (url, server) = fresh().await;
    let catalog = Catalog::open(&url, Clock::real()).await.unwrap();
    let subject = Subject::new(catalog, server).await;
    subject.ingest(&doc("a", &[1, 2, 5])).await;
    let (client, wire) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(wire);
    for statement in documented() {
        client.batch_execute(&statement).await.unwrap();
    }
}

#[tokio::test]
async fn a_new_one_takes_the_place_of_the_old_one() {
    let (url, _server) = fresh().await;
    crate::beside::takes_over(&url).await;
    crate::beside::discarded_changes_nothing(&url).await;
}

#[tokio::test]
async fn who_may_read_the_old_one_may_read_the_new_one() {
    let (url, _server) = fresh().await;
    let beside = Beside::open(&url, Clock::real()).await.unwrap();
    let (client, wire) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(wire);
    let role = format!("reader_{}", Rng::from_os().id().replace('-', "_"));
    let grants = format!(
        "create role {role}; grant usage on schema cannery_catalog to {role}; \
         grant select on cannery_catalog.file to {role}; grant select on cannery_catalog.report to public"
    );
    client.batch_execute(&grants).await.unwrap();
    beside.take_over().await.unwrap();
    let asked = "select has_table_privilege($1, 'cannery_catalog.' || $2, 'select')";
    for (table, may) in [("file", true), ("report", true), ("measurement", false)] {
        let row = client.query_one(asked, &[&role, &table]).await.unwrap();
        assert_eq!(row.get::<_, bool>(0), may, "{table}");
    }
    let drop_role = format!("drop owned by {role}; drop role {role}");
    client.batch_execute(&drop_role).await.unwrap();
}

/// What is not ours is never dropped, and a connection that ends half-way changes nothing.
#[tokio::test]
async fn a_taking_over_that_fails_changes_nothing() {
    let (url, server) = fresh().await;
    let catalog = Catalog::open(&url, Clock::real()).await.unwrap();
    let old = Subject::new(catalog, server).await;
    old.ingest(&doc("a", &[1, 2, 5])).await;
    let before = old.picture().await;
    let (client, wire) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(wire);
    let view = "create view public.mine as select uid from cannery_catalog.measurement";
    client.batch_execute(view).await.unwrap();
    let beside = Beside::open(&url, Clock::real()).await.unwrap();
    let refused = beside.take_over().await.unwrap_err();
    assert!(refused.message.contains("drop that first"), "{refused}");
    assert_eq!(old.picture().await, before);
    client.batch_execute("drop view public.mine").await.unwrap();

    let beside = Beside::open(&url, Clock::real()).await.unwrap();
    let kill = "select count(pg_terminate_backend(l.pid)) from pg_locks l join pg_database d on d.oid = l.database \
                where l.locktype = 'advisory' and d.datname = current_database()";
    let killed = client.query_one(kill, &[]).await.unwrap();
    assert_eq!(killed.get::<_, i64>(0), 1);
    let cut = beside.take_over().await.unwrap_err();
    assert_eq!(cut.kind, ErrorKind::Unavailable, "{cut}");
    assert_eq!(old.picture().await, before);
    let beside = Beside::open(&url, Clock::real()).await.unwrap();
    beside.take_over().await.unwrap();
    assert!(old.rows("file").await.is_empty());
    old.is_sound().await;
}
