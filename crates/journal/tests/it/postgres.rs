//! The engine in a PostgreSQL database, on a real server.

use std::sync::{Arc, Weak};

use cannery_journal::postgres::{Database, EngineClock};
use cannery_journal::{Declaration, Journal};
use cannery_runtime::clock::SimulatedClock;
use cannery_runtime::{Clock, Rng};
use cannery_testkit::postgres::Postgres;
use tokio::sync::Mutex;
use tokio_postgres::{Client, NoTls};

use crate::subject::{Subject, simulated};

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

async fn connect(url: &str, clock: EngineClock, timer: Clock) -> Arc<Database> {
    Database::connect(url, clock, timer, Rng::from_os())
        .await
        .unwrap()
}

/// A name that no other test has.
fn fresh() -> String {
    format!("journal-{}", Rng::from_os().id())
}

/// Time is simulated, sleeping is real: whatever the engine does by itself comes at any moment.
pub(crate) async fn open(declaration: Declaration) -> Subject {
    open_with(declaration, simulated(), Clock::real()).await
}

/// Both are simulated: a listener is woken when the test moves the time.
async fn open_timed(declaration: Declaration) -> Subject {
    let simulated = simulated();
    let timer = simulated.clock();
    open_with(declaration, simulated, timer).await
}

async fn open_with(declaration: Declaration, simulated: SimulatedClock, timer: Clock) -> Subject {
    let server = server().await;
    let clock = EngineClock::Given(simulated.clock());
    let database = connect(&server.url(), clock, timer).await;
    let journal = database.open(&fresh(), Some(declaration)).await.unwrap();
    Subject::new(journal, simulated)
        .keeping((database, server))
        .sweeping_itself()
}

crate::suites!(open, crate::model::Cases::FEW);
crate::conformance::alarms!(open_timed);

mod encryption;
mod failing;
mod keeping;
mod sharing;

/// A journal on the server's own clock.
async fn open_real(url: &str, name: &str) -> (Arc<Database>, Journal) {
    let database = connect(url, EngineClock::Server, Clock::real()).await;
    let journal = open_in(&database, name).await;
    (database, journal)
}

async fn open_in(database: &Arc<Database>, name: &str) -> Journal {
    let declaration = Some(Declaration::default());
    let engine = database.open(name, declaration).await.unwrap();
    Journal::new(name, engine)
}

/// A connection of the test's own.
async fn raw(url: &str) -> Client {
    let (client, wire) = tokio_postgres::connect(url, NoTls).await.unwrap();
    tokio::spawn(wire);
    client
}

/// The first part of the names of a journal's tables.
async fn tables(client: &Client, name: &str) -> String {
    let row = client
        .query_one(
            "select id from cannery_journal.journals where name = $1",
            &[&name],
        )
        .await
        .unwrap();
    format!("cannery_journal.j{}", row.get::<_, i32>(0))
}
