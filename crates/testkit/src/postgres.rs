//! Temporary PostgreSQL: one server, or a primary with two standbys.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cannery_runtime::Clock;
use rustix::process::{Pid, Signal, kill_process};

use crate::server::{self, Ready, Server};
use crate::{Error, Result, tools};

mod cluster;
mod place;

pub use cluster::PostgresCluster;
use place::Place;

const ASK_LIMIT: Duration = Duration::from_secs(120);
const RESTART_TRIES: u32 = 20;

/// A server of its own on a free port: trust authentication, nothing left behind when dropped.
#[derive(Debug)]
pub struct Postgres {
    // Dropped before the folder that it writes to.
    server: Server,
    port: u16,
    place: Place,
}

impl Postgres {
    /// Starts a server; ready when this returns. `fsync` is off: a killed server loses nothing by that, and no test
    /// cuts the power.
    ///
    /// # Errors
    /// [`Error::MissingTool`], or the end of the log.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[("fsync", "off")]).await
    }

    /// Starts a server with settings as in `postgresql.conf`; what is not named is as PostgreSQL has it, so `fsync` is
    /// on. They stand above `ALTER SYSTEM`, which cannot change them later.
    ///
    /// # Errors
    /// [`Error::MissingTool`], or the end of the log.
    pub async fn start_with(settings: &[(&str, &str)]) -> Result<Self> {
        Self::init(Place::make(settings)?).await
    }

    /// Starts a server that keeps what it acknowledged even when the power fails, for benchmarks: `fsync` and
    /// `synchronous_commit` are on, and its files lie in a folder of their own below `parent`, on the disk that the
    /// benchmark measures rather than in memory. `settings` come on top.
    ///
    /// # Errors
    /// As [`Postgres::start_with`]; for root also a `parent` that the user `postgres` may not enter.
    pub async fn durable(parent: &Path, settings: &[(&str, &str)]) -> Result<Self> {
        let durable = [("fsync", "on"), ("synchronous_commit", "on")];
        Self::init(Place::make_in(parent, &[&durable, settings].concat())?).await
    }

    /// Starts a server that speaks only over TLS, with a certificate for 127.0.0.1 by an authority of its own; gives
    /// that authority's certificate, as PEM.
    ///
    /// # Errors
    /// As [`Postgres::start_with`].
    pub async fn encrypted() -> Result<(Self, String)> {
        let place = Place::make(&[("fsync", "off"), ("ssl", "on")])?;
        place.init().await?;
        let authority = place.certify()?;
        Ok((Self::launch(place).await?, authority))
    }

    async fn init(place: Place) -> Result<Self> {
        place.init().await?;
        Self::launch(place).await
    }

    /// Starts the server whose files are there.
    async fn launch(place: Place) -> Result<Self> {
        let program = tools::postgres("postgres")?;
        let probe = tools::postgres("pg_isready")?;
        let command = |port| place.command(&program, port);
        let ready = |port| is_ready(&probe, port);
        let (server, port) = Server::launch("postgres", &place.log(), command, ready).await?;
        let server = server.ending_with(Signal::QUIT);
        Ok(Self {
            server,
            port,
            place,
        })
    }

    /// A program of the installation that the servers here are of, such as `pgbench` or `psql`.
    ///
    /// # Errors
    /// [`Error::MissingTool`] when it has none of that name.
    pub fn program(name: &str) -> Result<PathBuf> {
        let program = tools::postgres("postgres")?.with_file_name(name);
        if program.is_file() {
            Ok(program)
        } else {
            Err(Error::MissingTool(name.to_owned()))
        }
    }

    /// The address of the database `postgres`, for its superuser.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// Creates a database and gives its address.
    ///
    /// # Errors
    /// When there is one of that name already.
    pub async fn create_database(&self, name: &str) -> Result<String> {
        let mut createdb = tokio::process::Command::new(tools::postgres("createdb")?);
        createdb.args(["-h", "127.0.0.1", "-U", "postgres"]);
        createdb.args(["-p", &self.port.to_string(), name]);
        server::run(&mut createdb, ASK_LIMIT).await?;
        Ok(self.url_of(name))
    }

    /// The port on 127.0.0.1; a restart keeps it.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server as a crash would (SIGKILL to each of its processes); [`Postgres::restart`] brings it back.
    pub fn kill(&mut self) {
        if !self.server.has_ended() {
            kill_children(self.server.pid());
        }
        self.server.kill();
    }

    /// Stops the server, dropping its connections, unless it is down already.
    fn stop(&mut self) {
        self.server.stop(Signal::INT);
    }

    /// Stops the server, dropping its connections, unless it is down already, and starts it on the same port.
    ///
    /// # Errors
    /// [`Error::NotReady`] with the end of the log.
    pub async fn restart(&mut self) -> Result<()> {
        self.stop();
        let (program, probe) = (tools::postgres("postgres")?, tools::postgres("pg_isready")?);
        let mut last = None;
        // The processes of a killed server take a moment to go; until then the new one refuses to start.
        for _ in 0..RESTART_TRIES {
            let command = self.place.command(&program, self.port);
            let server = Server::spawn("postgres", command, &self.place.log())?;
            self.server = server.ending_with(Signal::QUIT);
            match self
                .server
                .wait_until(&is_ready(&probe, self.port), server::READY_LIMIT)
                .await
            {
                Ok(()) => return Ok(()),
                Err(error) => last = Some(error),
            }
            Clock::real().sleep(Duration::from_millis(250)).await;
        }
        Err(last.expect("at least one try"))
    }

    /// Runs one statement in the database `postgres` and gives the bare value that it answers with.
    async fn ask(&self, statement: &str) -> Result<String> {
        let mut psql = tokio::process::Command::new(tools::postgres("psql")?);
        psql.args(["-X", "-A", "-t", "-c", statement, &self.url()]);
        let answer = server::run(&mut psql, ASK_LIMIT).await?;
        Ok(answer.trim().to_owned())
    }

    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

/// PostgreSQL gives each of its processes a group of its own, so the signal to the server's group leaves them behind.
fn kill_children(server: u32) {
    let Some(parent) = i32::try_from(server).ok().and_then(Pid::from_raw) else {
        return;
    };
    // A stopped parent starts no others, and does not let the ids of dead ones be used again.
    kill_process(parent, Signal::STOP).unwrap_or_default();
    let children = fs::read_to_string(format!("/proc/{server}/task/{server}/children"));
    // A kernel that keeps no such list leaves the processes to notice by themselves that the server is gone.
    for child in children.unwrap_or_default().split_whitespace() {
        if let Some(child) = child.parse().ok().and_then(Pid::from_raw) {
            kill_process(child, Signal::KILL).unwrap_or_default();
        }
    }
}

fn is_ready(probe: &Path, port: u16) -> Ready {
    let arguments = ["-q", "-h", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned);
    Ready::Command(probe.to_owned(), arguments.to_vec())
}
