//! Ceph with one monitor, one in-memory OSD and a radosgw: a second opinion on S3, for the long run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use cannery_runtime::Clock;
use tempfile::TempDir;

use crate::s3::S3Access;
use crate::server::{self, Server, free_port, run, wait_for_http};
use crate::{Error, Result, tools};

/// On a machine that is busy with other tests a step takes minutes.
const STEP_LIMIT: Duration = Duration::from_secs(300);
const TRY_LIMIT: Duration = Duration::from_secs(30);
const OSD: [&str; 3] = ["-i", "0", "-f"];
const FSID: &str = "6f2b8f0e-3b1d-4f7c-9d0a-0f5d5f0b7a11";

/// A running cluster with an S3 user and an empty bucket. Everything lies in memory and a temp folder.
#[derive(Debug)]
pub struct Ceph {
    access: S3Access,
    // Front to back, before the folder that they write to.
    _gateway: Server,
    _osd: Server,
    _monitor: Server,
    _dir: TempDir,
}

impl Ceph {
    /// Starts the cluster; takes some 15 seconds.
    ///
    /// # Errors
    /// [`Error::MissingTool`], or what a daemon said.
    pub async fn start() -> Result<Self> {
        let dir = server::temp_dir("ceph")?;
        let cluster = Cluster {
            dir: dir.path(),
            monitor_port: free_port()?,
        };
        cluster.write_config()?;
        let monitor = cluster.start_monitor().await?;
        let mut osd = cluster.start_osd().await?;
        cluster.wait_for_osd(&mut osd).await?;
        let access = S3Access::on(free_port()?);
        cluster.create_user(&access).await?;
        let gateway = cluster.start_gateway(&access).await?;
        access.create_bucket(&access.bucket).await?;
        Ok(Self {
            access,
            _gateway: gateway,
            _osd: osd,
            _monitor: monitor,
            _dir: dir,
        })
    }

    /// How to reach its gateway.
    #[must_use]
    pub fn access(&self) -> &S3Access {
        &self.access
    }
}

struct Cluster<'a> {
    dir: &'a Path,
    monitor_port: u16,
}

impl Cluster<'_> {
    #[allow(
        clippy::disallowed_methods,
        reason = "a config file in a temp folder need not survive a power cut"
    )]
    fn write_config(&self) -> Result<()> {
        for folder in ["mon", "osd", "rgw"] {
            std::fs::create_dir(self.dir.join(folder)).map_err(Error::io("make Ceph's folders"))?;
        }
        std::fs::write(self.config(), self.config_text()).map_err(Error::io("write Ceph's config"))
    }

    fn config_text(&self) -> String {
        let (dir, monitor) = (self.dir.display(), self.monitor_address());
        format!(
            "[global]\n\
             fsid = {FSID}\n\
             mon host = {monitor}\n\
             public addr = 127.0.0.1\n\
             cluster addr = 127.0.0.1\n\
             auth cluster required = none\n\
             auth service required = none\n\
             auth client required = none\n\
             mon allow pool size one = true\n\
             osd pool default size = 1\n\
             osd pool default min size = 1\n\
             osd pool default pg num = 4\n\
             osd pool default pgp num = 4\n\
             osd crush chooseleaf type = 0\n\
             osd class load list = *\n\
             osd class default list = *\n\
             osd objectstore = memstore\n\
             memstore device bytes = 4294967296\n\
             mon data avail crit = 1\n\
             mon data = {dir}/mon\n\
             osd data = {dir}/osd\n\
             rgw data = {dir}/rgw\n\
             run dir = {dir}\n\
             crash dir = {dir}\n\
             log file = {dir}/$name.log\n\
             mon cluster log file = {dir}/cluster.log\n\
             admin socket = {dir}/$name.asok\n\
             pid file =\n"
        )
    }

    async fn start_monitor(&self) -> Result<Server> {
        let (monitor, map) = (self.monitor_address(), self.dir.join("monmap"));
        let mut make_map = tokio::process::Command::new(tools::system("monmaptool")?);
        make_map
            .args(["--create", "--addv", "a", &monitor, "--fsid", FSID])
            .arg(&map);
        run(&mut make_map, STEP_LIMIT).await?;
        let mut make = self.tool("ceph-mon")?;
        run(
            make.args(["-i", "a", "--mkfs", "--monmap"]).arg(&map),
            STEP_LIMIT,
        )
        .await?;
        self.daemon("ceph-mon", &["-i", "a", "-f"])
    }

    async fn start_osd(&self) -> Result<Server> {
        // With a name of its own it may be asked for twice.
        self.ask_monitor(&["osd", "create", FSID]).await?;
        run(
            self.tool("ceph-osd")?
                .args(["-i", "0", "--mkfs", "--osd-uuid", FSID]),
            STEP_LIMIT,
        )
        .await?;
        self.daemon("ceph-osd", &OSD)
    }

    /// What asks for a pool before there is a place for it may wait for ever.
    async fn wait_for_osd(&self, osd: &mut Server) -> Result<()> {
        let clock = Clock::real();
        let start = clock.elapsed();
        loop {
            // A young monitor may refuse it as of another cluster; then it ends, and is started again.
            if osd.has_ended() {
                *osd = self.daemon("ceph-osd", &OSD)?;
            }
            let stat = self.ask_monitor(&["osd", "stat"]).await?;
            if stat.contains("1 up") && stat.contains("1 in") {
                return Ok(());
            }
            if clock.since(start) > STEP_LIMIT {
                return Err(Error::failed("start `ceph-osd`", &stat));
            }
            clock.sleep(Duration::from_millis(200)).await;
        }
    }

    /// Asks until there is an answer: on a busy machine a monitor that has just started refuses or forgets.
    async fn ask_monitor(&self, arguments: &[&str]) -> Result<String> {
        let clock = Clock::real();
        let start = clock.elapsed();
        loop {
            match run(self.tool("ceph")?.args(arguments), TRY_LIMIT).await {
                Ok(answer) => return Ok(answer),
                Err(error) if clock.since(start) > STEP_LIMIT => return Err(error),
                Err(_) => clock.sleep(Duration::from_millis(500)).await,
            }
        }
    }

    async fn create_user(&self, access: &S3Access) -> Result<()> {
        let mut create = self.tool("radosgw-admin")?;
        create.args([
            "user",
            "create",
            "--uid",
            "cannery",
            "--display-name",
            "cannery",
        ]);
        create.args([
            "--access-key",
            &access.key_id,
            "--secret-key",
            &access.secret,
        ]);
        match run(&mut create, TRY_LIMIT).await {
            Ok(_) => Ok(()),
            // Once more: the first one makes the pools, and on a busy machine it may wait for them in vain.
            Err(_) => run(&mut create, STEP_LIMIT).await.map(drop),
        }
    }

    async fn start_gateway(&self, access: &S3Access) -> Result<Server> {
        let address = access.endpoint.trim_start_matches("http://");
        let frontend = format!("beast endpoint={address}");
        let arguments = ["-n", "client.rgw", "-f", "--rgw_frontends", &frontend];
        let mut gateway = self.daemon("radosgw", &arguments)?;
        wait_for_http(&mut gateway, &access.endpoint).await?;
        Ok(gateway)
    }

    fn daemon(&self, program: &str, arguments: &[&str]) -> Result<Server> {
        let mut command: Command = server::command(&tools::system(program)?);
        command.arg("-c").arg(self.config()).args(arguments);
        Server::spawn(program, command, &self.dir.join(format!("{program}.out")))
    }

    fn tool(&self, program: &str) -> Result<tokio::process::Command> {
        let mut command = tokio::process::Command::new(tools::system(program)?);
        command.arg("-c").arg(self.config());
        Ok(command)
    }

    fn monitor_address(&self) -> String {
        format!("[v1:127.0.0.1:{}]", self.monitor_port)
    }

    fn config(&self) -> PathBuf {
        self.dir.join("ceph.conf")
    }
}
