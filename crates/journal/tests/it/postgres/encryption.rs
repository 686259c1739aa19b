//! The way to the server, encrypted.

use std::path::Path;

use cannery_journal::postgres::{Database, EngineClock};
use cannery_journal::{Error, ErrorKind};
use cannery_runtime::disk::write_durably;
use cannery_runtime::{Clock, RealDisk, Rng};
use cannery_testkit::postgres::Postgres;

use super::{fresh, open_in};
use crate::subject::entry;

async fn try_connect(url: &str) -> Result<std::sync::Arc<Database>, Error> {
    Database::connect(url, EngineClock::Server, Clock::real(), Rng::from_os()).await
}

fn with(server: &Postgres, options: &str) -> String {
    format!("{}?{options}", server.url())
}

#[tokio::test]
async fn a_server_is_spoken_to_over_tls_and_must_be_who_it_says() {
    let (server, authority) = Postgres::encrypted().await.unwrap();
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        write_durably(&RealDisk, &path, text.as_bytes()).unwrap();
        path
    };
    let known = write("authority.pem", &authority);
    let (_other, stranger) = Postgres::encrypted().await.unwrap();
    let stranger = write("stranger.pem", &stranger);

    let verified = |root: &Path| {
        with(
            &server,
            &format!("sslmode=verify-full&sslrootcert={}", root.display()),
        )
    };
    let database = try_connect(&verified(&known)).await.unwrap();
    let journal = open_in(&database, &fresh()).await;
    journal.add_one(entry("a")).await.unwrap();
    assert_eq!(journal.stats().await.unwrap().waiting(), 1);
    database.close().await;

    // Encrypted if the server can, which keeps out who only listens.
    for options in ["sslmode=prefer", ""] {
        let database = try_connect(&with(&server, options)).await.unwrap();
        database.close().await;
    }

    for (url, text) in [
        (verified(&stranger), "certificate"),
        (
            verified(&known).replace("127.0.0.1", "localhost"),
            "certificate",
        ),
        (with(&server, "sslmode=disable"), "no encryption"),
    ] {
        let error = try_connect(&url).await.unwrap_err();
        assert!(error.message.contains(text), "{url}: {error}");
        assert_ne!(error.kind, ErrorKind::Invalid, "{url}: {error}");
    }
}
