//! What a program opens.

use cannery_database::{Address, Database, Error, Schema};
use cannery_runtime::Clock;

/// The migrations are in `migrations/`; the lock is the word `canstate`.
const SCHEMA: Schema = Schema {
    name: "state",
    namespace: "cannery_state",
    lock: 0x6361_6e73_7461_7465,
    sqlite: &[
        include_str!("../migrations/sqlite/0001_history.sql"),
        include_str!("../migrations/sqlite/0002_identity.sql"),
        include_str!("../migrations/sqlite/0003_objects.sql"),
        include_str!("../migrations/sqlite/0004_rebuild.sql"),
        include_str!("../migrations/sqlite/0005_database_id.sql"),
        include_str!("../migrations/sqlite/0006_objects_by_path.sql"),
    ],
    postgres: &[
        include_str!("../migrations/postgres/0001_history.sql"),
        include_str!("../migrations/postgres/0002_identity.sql"),
        include_str!("../migrations/postgres/0003_objects.sql"),
        include_str!("../migrations/postgres/0004_rebuild.sql"),
        include_str!("../migrations/postgres/0005_database_id.sql"),
    ],
};

/// The open state. Clones are the same.
#[derive(Clone, Debug)]
pub struct State {
    pub(crate) database: Database,
    pub(crate) clock: Clock,
}

impl State {
    /// Opens the state and brings its tables up to date; it is created when it is not there.
    ///
    /// `address` is `postgres://user@host/database` (with `sslmode`, `sslrootcert`), `sqlite:<path>`, or a path. The folder
    /// of the path must be there. Any number of processes may have the same state open.
    ///
    /// # Errors
    /// `Newer` for a state that a newer program has written; `Invalid`, `Denied`, `Unavailable`, `Corrupt`.
    pub async fn open(address: &str, clock: Clock) -> Result<Self, Error> {
        let address = Address::parse(address, "cannery state")?;
        let database = Database::open(&address, SCHEMA).await?;
        Ok(Self { database, clock })
    }

    /// Anything wrong with the file, the server or the version of the tables, in words. Empty is good.
    ///
    /// # Errors
    /// By kind.
    pub async fn check(&self) -> Result<Vec<String>, Error> {
        self.database.check().await
    }

    /// Ends threads and connections; what was committed is safe. May be called twice. Recorders are closed before.
    pub async fn close(&self) {
        self.database.close().await;
    }
}
