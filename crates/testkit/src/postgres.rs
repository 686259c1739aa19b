//! A temporary PostgreSQL cluster with one node.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cannery_runtime::Clock;
use rustix::process::{Signal, geteuid};
use tempfile::TempDir;

use crate::server::{self, Ready, Server};
use crate::{Error, Result, tools};

const INITDB_LIMIT: Duration = Duration::from_secs(120);
const RESTART_TRIES: u32 = 20;

/// A cluster of its own on a free port: trust authentication, nothing left behind when dropped.
#[derive(Debug)]
pub struct Postgres {
    // Dropped before the folder that it writes to.
    server: Server,
    port: u16,
    place: Place,
}

/// Where the cluster lies and who runs it.
#[derive(Debug)]
struct Place {
    dir: TempDir,
    settings: Vec<String>,
    /// Set when we are root, because PostgreSQL refuses to run as root.
    user: Option<(u32, u32)>,
}

impl Postgres {
    /// Starts a cluster; ready when this returns. `fsync` is off: a killed server loses nothing by that, and no test
    /// cuts the power.
    ///
    /// # Errors
    /// [`Error::MissingTool`], or the end of the log.
    pub async fn start() -> Result<Self> {
        Self::start_with(&["fsync=off"]).await
    }

    /// Starts a cluster with settings as in `postgresql.conf`.
    ///
    /// # Errors
    /// [`Error::MissingTool`], or the end of the log.
    pub async fn start_with(settings: &[&str]) -> Result<Self> {
        let place = Place::make(settings)?;
        place.init().await?;
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
        createdb.args([
            "-h",
            "127.0.0.1",
            "-U",
            "postgres",
            "-p",
            &self.port.to_string(),
            name,
        ]);
        server::run(&mut createdb, INITDB_LIMIT).await?;
        Ok(self.url_of(name))
    }

    /// The port on 127.0.0.1; a restart keeps it.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Kills the server as a crash would (SIGKILL); [`Postgres::restart`] brings it back.
    pub fn kill(&mut self) {
        self.server.kill();
    }

    /// Stops the server, dropping its connections, unless it is down already, and starts it on the same port.
    ///
    /// # Errors
    /// [`Error::NotReady`] with the end of the log.
    pub async fn restart(&mut self) -> Result<()> {
        self.server.stop(Signal::INT);
        let (program, probe) = (tools::postgres("postgres")?, tools::postgres("pg_isready")?);
        let mut last = None;
        // The processes of a killed server take a moment to see it; until then the new one refuses to start.
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

    fn url_of(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

impl Place {
    fn make(settings: &[&str]) -> Result<Self> {
        let dir = server::temp_dir("postgres")?;
        let user = if geteuid().is_root() {
            Some(account("postgres")?)
        } else {
            None
        };
        if let Some((uid, gid)) = user {
            chown(dir.path(), Some(uid), Some(gid)).map_err(Error::io(
                "give the cluster's folder to the user `postgres`",
            ))?;
        }
        let settings = settings.iter().map(|&setting| setting.to_owned()).collect();
        Ok(Self {
            dir,
            settings,
            user,
        })
    }

    async fn init(&self) -> Result<()> {
        let mut initdb = Command::new(tools::postgres("initdb")?);
        initdb.args([
            "-A",
            "trust",
            "-U",
            "postgres",
            "-E",
            "UTF8",
            "--locale=C",
            "--no-sync",
        ]);
        initdb.arg("-D").arg(self.data());
        self.as_user(&mut initdb);
        server::run(&mut initdb.into(), INITDB_LIMIT)
            .await
            .map(drop)
    }

    fn command(&self, program: &Path, port: u16) -> Command {
        let mut command = server::command(program);
        command
            .arg("-D")
            .arg(self.data())
            .arg("-k")
            .arg(self.dir.path());
        command.args(["-h", "127.0.0.1", "-p", &port.to_string()]);
        for setting in &self.settings {
            command.args(["-c", setting]);
        }
        self.as_user(&mut command);
        command
    }

    fn as_user(&self, command: &mut Command) {
        // The caller's folder may be one that the user must not enter.
        command.current_dir(self.dir.path());
        if let Some((uid, gid)) = self.user {
            command.uid(uid).gid(gid);
        }
    }

    fn data(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn log(&self) -> PathBuf {
        self.dir.path().join("log")
    }
}

fn is_ready(probe: &Path, port: u16) -> Ready {
    let arguments = ["-q", "-h", "127.0.0.1", "-p", &port.to_string()].map(str::to_owned);
    Ready::Command(probe.to_owned(), arguments.to_vec())
}

/// User and group id of a local account.
fn account(name: &str) -> Result<(u32, u32)> {
    let accounts = fs::read_to_string("/etc/passwd").map_err(Error::io("read the accounts"))?;
    let found = accounts.lines().find_map(|line| {
        let mut fields = line.split(':');
        let is_it = fields.next() == Some(name);
        let (uid, gid) = (fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?);
        is_it.then_some((uid, gid))
    });
    found.ok_or_else(|| {
        Error::failed(
            format!("find the user `{name}`"),
            &"no such account; run `cargo xtask setup`",
        )
    })
}
