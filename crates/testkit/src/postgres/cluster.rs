//! A primary with two standbys, of which one must have a commit before it is acknowledged.

use std::time::Duration;

use cannery_runtime::Clock;

use super::Postgres;
use super::place::Place;
use crate::{Error, Result};

const STANDBYS: [&str; 2] = ["n2", "n3"];

/// For all three: a promoted standby takes the rule about acknowledgements with it.
const SETTINGS: [(&str, &str); 4] = [
    ("fsync", "off"),
    ("synchronous_standby_names", "ANY 1 (n2, n3)"),
    // What the other standby still lacks when one is promoted; a slot is made for it only then.
    ("wal_keep_size", "256MB"),
    // How soon a standby tries again to reach a primary that was not there.
    ("wal_retrieve_retry_interval", "200ms"),
];

const WAIT_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);

/// Three servers with synchronous replication: `ANY 1 (n2, n3)`. Whatever happens to it, dropping it leaves nothing
/// behind.
///
/// While both standbys are away every commit waits. A `statement_timeout` does not end that wait, because PostgreSQL
/// stops its clock before it commits; a cancelled wait ends as a success with a warning although no standby has the
/// commit. So a client has to keep the time itself, and after it does not know the outcome.
#[derive(Debug)]
pub struct PostgresCluster {
    primary: Node,
    /// Two; after a promotion one.
    standbys: Vec<Node>,
    /// Of n1, n2 and n3.
    ports: Vec<u16>,
}

/// A server and the name by which a primary knows it.
#[derive(Debug)]
struct Node {
    name: &'static str,
    postgres: Postgres,
}

impl PostgresCluster {
    /// Starts the three; both standbys stream when this returns. `fsync` is off, as in [`Postgres::start`].
    ///
    /// # Errors
    /// [`Error::MissingTool`], or the end of the log.
    pub async fn start() -> Result<Self> {
        Self::start_with(&[]).await
    }

    /// As [`PostgresCluster::start`] with more settings for all three, which come on top.
    ///
    /// # Errors
    /// [`Error::MissingTool`], or the end of the log.
    pub async fn start_with(settings: &[(&str, &str)]) -> Result<Self> {
        let settings = [&SETTINGS, settings].concat();
        let primary = Node {
            name: "n1",
            postgres: Postgres::start_with(&settings).await?,
        };
        let [n2, n3] = STANDBYS.map(|name| primary.standby(name, &settings));
        let (n2, n3) = tokio::try_join!(n2, n3)?;
        let ports = [&primary, &n2, &n3].map(|node| node.postgres.port());
        let cluster = Self {
            primary,
            standbys: vec![n2, n3],
            ports: ports.to_vec(),
        };
        cluster.wait_for_standbys().await?;
        Ok(cluster)
    }

    /// The address of the database `postgres` on whichever server is the primary, for its superuser: all three hosts
    /// and `target_session_attrs=read-write`. A promotion does not change it.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_of("postgres")
    }

    /// The address of the database `postgres` on the primary of this moment.
    #[must_use]
    pub fn primary_url(&self) -> String {
        self.primary.postgres.url()
    }

    /// Creates a database and gives its address in the manner of [`PostgresCluster::url`].
    ///
    /// # Errors
    /// When there is one of that name already.
    pub async fn create_database(&self, name: &str) -> Result<String> {
        self.primary.postgres.create_database(name).await?;
        Ok(self.url_of(name))
    }

    /// Kills the primary as a crash would (SIGKILL to each of its processes). May be called twice.
    pub fn kill_primary(&mut self) {
        self.primary.postgres.kill();
    }

    /// Stops the standbys: from now on commits wait. May be called twice.
    pub fn stop_standbys(&mut self) {
        for standby in &mut self.standbys {
            standby.postgres.stop();
        }
    }

    /// Starts the standbys again; all stream when this returns, and what waited for them goes on. The primary must be
    /// up.
    ///
    /// # Errors
    /// [`Error::NotReady`] with the end of the log.
    pub async fn start_standbys(&mut self) -> Result<()> {
        for standby in &mut self.standbys {
            standby.postgres.restart().await?;
        }
        self.wait_for_standbys().await
    }

    /// Makes the standby that received more the primary and lets the other follow it; commits are acknowledged again
    /// when this returns. Every commit that was acknowledged is there, because one of the two had received it.
    ///
    /// The old primary is killed first, if it still lives, and never comes back, so this works once. Both standbys
    /// must be up.
    ///
    /// # Errors
    /// When it is called a second time, or a standby does not do its part.
    pub async fn promote(&mut self) -> Result<()> {
        let [n2, n3] = self.standbys.as_slice() else {
            let why = "the only one left would have none; start another cluster";
            return Err(Error::failed("promote a standby", &why));
        };
        self.primary.postgres.kill();
        let newest = usize::from(n3.received().await? > n2.received().await?);
        let [chosen, other] = [newest, 1 - newest].map(|at| &self.standbys[at]);
        chosen.promote().await?;
        other.follow(chosen).await?;
        self.primary = self.standbys.remove(newest);
        self.wait_for_standbys().await
    }

    /// Waits until the primary counts on each standby.
    async fn wait_for_standbys(&self) -> Result<()> {
        let counted = "select count(*) from pg_stat_replication \
                       where state = 'streaming' and sync_state = 'quorum'";
        let all = self.standbys.len().to_string();
        let counted = self.primary.answer(counted, |count| count == all).await;
        counted.map(drop).map_err(|error| {
            let logs = self
                .standbys
                .iter()
                .map(|node| node.postgres.server.log_tail());
            let why = format!("{error}; their logs:\n{}", logs.collect::<String>());
            Error::failed(
                format!("let the standbys follow `{}`", self.primary.name),
                &why,
            )
        })
    }

    fn url_of(&self, database: &str) -> String {
        let hosts: Vec<String> = self
            .ports
            .iter()
            .map(|port| format!("127.0.0.1:{port}"))
            .collect();
        let hosts = hosts.join(",");
        format!("postgres://postgres@{hosts}/{database}?target_session_attrs=read-write")
    }
}

impl Node {
    /// Makes and starts a standby of this one.
    async fn standby(&self, name: &'static str, settings: &[(&str, &str)]) -> Result<Self> {
        let place = Place::make(settings)?;
        place.follow(&self.conninfo(name), name).await?;
        let postgres = Postgres::launch(place).await?;
        Ok(Self { name, postgres })
    }

    /// How `standby` reaches this one.
    fn conninfo(&self, standby: &str) -> String {
        let port = self.postgres.port();
        format!("host=127.0.0.1 port={port} user=postgres application_name={standby}")
    }

    /// How far the log of this standby reaches, whose primary is dead.
    async fn received(&self) -> Result<u64> {
        // It is not settled before the receiver has taken what the dead primary still sent, nor, after a restart,
        // before its own log is read and it asks for more: only then is there a received position.
        let position = "select pg_wal_lsn_diff(greatest(\
                            pg_last_wal_receive_lsn(), pg_last_wal_replay_lsn()), '0/0') \
                        where pg_last_wal_receive_lsn() is not null \
                        and not exists (select from pg_stat_wal_receiver)";
        let position = self
            .answer(position, |position| !position.is_empty())
            .await?;
        let doing = || format!("read the position `{position}` of `{}`", self.name);
        position
            .parse()
            .map_err(|error| Error::failed(doing(), &error))
    }

    async fn promote(&self) -> Result<()> {
        let limit = WAIT_LIMIT.as_secs();
        let promote = format!("select pg_promote(true, {limit})");
        if self.postgres.ask(&promote).await? == "t" {
            return Ok(());
        }
        let doing = format!("promote `{}`", self.name);
        Err(Error::failed(doing, &self.postgres.server.log_tail()))
    }

    /// Turns this standby to another primary.
    async fn follow(&self, primary: &Self) -> Result<()> {
        let slot = format!(
            "select pg_create_physical_replication_slot('{}')",
            self.name
        );
        primary.postgres.ask(&slot).await?;
        let conninfo = primary.conninfo(self.name);
        let follow = format!("alter system set primary_conninfo = '{conninfo}'");
        self.postgres.ask(&follow).await?;
        self.postgres.ask("select pg_reload_conf()").await.map(drop)
    }

    /// Asks until the answer is as wanted.
    async fn answer(&self, question: &str, wanted: impl Fn(&str) -> bool) -> Result<String> {
        let clock = Clock::real();
        let start = clock.elapsed();
        loop {
            let answer = self.postgres.ask(question).await?;
            if wanted(&answer) {
                return Ok(answer);
            }
            if clock.since(start) > WAIT_LIMIT {
                let why = format!("`{}` still answers `{answer}`", self.name);
                return Err(Error::failed(format!("wait for `{question}`"), &why));
            }
            clock.sleep(POLL).await;
        }
    }
}
