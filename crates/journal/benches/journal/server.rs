//! The PostgreSQL of a run, and a plain connection to it.

use std::path::Path;
use std::sync::Arc;

use cannery_journal::postgres::{Database, EngineClock};
use cannery_journal::{Declaration, Journal};
use cannery_runtime::{Clock, Rng};
use cannery_testkit::postgres::Postgres;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, NoTls, Row};

use crate::bench::Bench;

/// A durable server with a database of journals.
pub(crate) struct Server {
    postgres: Postgres,
    url: String,
    database: Arc<Database>,
}

impl Server {
    pub(crate) fn start(runtime: &Runtime, folder: &Path) -> Self {
        runtime.block_on(async {
            // The statements of the engine are longer than what the server shows of them by default.
            let settings = [("track_activity_query_size", "65536")];
            let postgres = Postgres::durable(folder, &settings).await.unwrap();
            let url = postgres.create_database("bench").await.unwrap();
            let database = connect(&url).await;
            Self {
                postgres,
                url,
                database,
            }
        })
    }

    /// The address of the database of journals.
    pub(crate) fn url(&self) -> &str {
        &self.url
    }

    /// A new journal.
    pub(crate) fn journal(&self, bench: &Bench) -> Journal {
        open(bench, &self.database)
    }

    /// A database of its own with one journal, the name of the database, and a connection that is not to it.
    pub(crate) fn apart<'a>(&self, bench: &'a Bench) -> (Arc<Database>, Journal, String, Sql<'a>) {
        let name = format!("apart_{}", bench.rng.id().to_lowercase());
        let database = bench.runtime.block_on(async {
            let url = self.postgres.create_database(&name).await.unwrap();
            connect(&url).await
        });
        let journal = open(bench, &database);
        let sql = Sql::connect(&bench.runtime, &self.postgres.url());
        (database, journal, name, sql)
    }
}

async fn connect(url: &str) -> Arc<Database> {
    let (clock, rng) = (Clock::real(), Rng::from_os());
    Database::connect(url, EngineClock::Server, clock, rng)
        .await
        .unwrap()
}

fn open(bench: &Bench, database: &Arc<Database>) -> Journal {
    let name = bench.rng.id();
    let opening = database.open(&name, Some(Declaration::default()));
    let engine = bench.runtime.block_on(opening).unwrap();
    Journal::new(&name, engine)
}

/// A connection beside the engine's, for looking and for standing in the way.
pub(crate) struct Sql<'a> {
    runtime: &'a Runtime,
    client: Client,
}

impl<'a> Sql<'a> {
    pub(crate) fn connect(runtime: &'a Runtime, url: &str) -> Self {
        let client = runtime.block_on(async {
            let (client, connection) = tokio_postgres::connect(url, NoTls).await.unwrap();
            // It ends when the client is dropped.
            tokio::spawn(connection);
            client
        });
        Self { runtime, client }
    }

    pub(crate) fn run(&self, script: &str) {
        self.runtime
            .block_on(self.client.batch_execute(script))
            .unwrap();
    }

    pub(crate) fn rows(&self, statement: &str) -> Vec<Row> {
        self.runtime
            .block_on(self.client.query(statement, &[]))
            .unwrap()
    }
}
