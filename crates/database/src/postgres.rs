//! A database on a PostgreSQL server, in a schema of its own.
//!
//! What is large is copied into temporary tables of its own connection, outside of any transaction; one short transaction
//! then moves it. Those transactions run one after the other, whichever process they are of: an advisory lock sees to it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use deadpool_postgres::{Hook, HookError, Manager, ManagerConfig, Pool, RecyclingMethod, Runtime};

use crate::database::Schema;
use crate::error::Error;
use crate::session::{Dialect, Engine, Session};

mod fault;
mod server;
mod session;
mod tls;
mod value;

pub use fault::{Fault, FaultKind};
pub use server::{Server, Wire};
use session::PgSession;

const CONNECTIONS_MAX: usize = 16;
/// How long a request waits for a connection: some keep theirs for minutes.
const WAIT_LIMIT: Duration = Duration::from_secs(60);

/// What is loaded may be large, so the server may take its time; but no lock is waited for and no transaction left open for
/// ever.
const SETTINGS: &str = "\
    set default_transaction_isolation = 'read committed'; \
    set default_transaction_read_only = off; \
    set lock_timeout = '120s'; \
    set idle_in_transaction_session_timeout = '120s'; \
    set jit = off; \
    set timezone = 'UTC'; \
    select set_config('synchronous_commit', 'on', false) \
        where current_setting('synchronous_commit') = 'off'";

/// The engine.
#[derive(Debug)]
pub(crate) struct Postgres {
    server: Server,
    lock: i64,
    pool: Pool,
}

impl Postgres {
    /// Prepares the pool; the first connection is made by the first request.
    pub(crate) fn open(server: &Server, schema: &Schema) -> Result<Self, Error> {
        let (config, tls) = server.parts();
        let namespace = schema.namespace;
        let settings: Arc<str> =
            format!("set search_path = {namespace}, pg_catalog; {SETTINGS}").into();
        let recycling_method = RecyclingMethod::Fast;
        let manager = Manager::from_config(config, tls, ManagerConfig { recycling_method });
        let settle = Hook::async_fn(move |client, _| {
            let settings = Arc::clone(&settings);
            Box::pin(async move {
                let set = client.batch_execute(&settings).await;
                set.map_err(HookError::Backend)
            })
        });
        let pool = Pool::builder(manager)
            .max_size(CONNECTIONS_MAX)
            .wait_timeout(Some(WAIT_LIMIT))
            .runtime(Runtime::Tokio1)
            .post_create(settle)
            .build()
            .map_err(|error| Error::invalid(format!("{server}: {error}")))?;
        Ok(Self {
            server: server.clone(),
            lock: schema.lock,
            pool,
        })
    }

    async fn session(&self, reads: bool) -> Result<PgSession, Error> {
        let client = self.pool.get().await;
        let client = client.map_err(|error| fault::of_pool(error).while_doing(&self.server))?;
        Ok(PgSession::new(client, reads, self.lock))
    }
}

#[async_trait]
impl Engine for Postgres {
    fn dialect(&self) -> Dialect {
        Dialect::Postgres
    }

    async fn reader(&self) -> Result<Box<dyn Session>, Error> {
        Ok(Box::new(self.session(true).await?))
    }

    async fn writer(&self) -> Result<Box<dyn Session>, Error> {
        Ok(Box::new(self.session(false).await?))
    }

    async fn check(&self) -> Result<Vec<String>, Error> {
        let mut session = self.session(true).await?;
        let sql = "select current_setting('server_encoding')";
        let rows = session.query(sql, Vec::new()).await?;
        let encoding = rows
            .first()
            .ok_or_else(|| Error::corrupt("a setting was not answered"))?
            .text(0)?;
        if encoding == "UTF8" {
            return Ok(Vec::new());
        }
        Ok(vec![format!(
            "{}: its encoding is {encoding}; create it with UTF8",
            self.server
        )])
    }

    async fn close(&self) {
        self.pool.close();
    }
}
