//! A child process that serves on loopback and never outlives the test.
//!
//! A small shell stands before the program and becomes it; beside it waits a watcher that holds the other end of a pipe.
//! When the test process ends, by whatever means, the pipe closes and the watcher kills the whole group.

use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use cannery_runtime::Clock;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use crate::{Error, Result};

mod ready;
#[cfg(test)]
mod tests;

pub use ready::Ready;
pub(crate) use ready::{run, wait_for_http};

/// Servers that are started together on slow machines need it; a ready one is seen within one [`POLL`].
pub(crate) const READY_LIMIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(50);
const POLITE_LIMIT: Duration = Duration::from_secs(6);
const LOG_TAIL_BYTES: usize = 4 * 1024;

/// `$$` is the leader of the group. Descriptors 3 and 4 belong to the program alone (see the browser).
const GUARD: &str = r#"exec 9<&0 </dev/null
(read -r line <&9; kill -s KILL -- -$$) 3<&- 4<&- &
exec "$@" 9<&-"#;

/// A running program. Dropping it kills its process group.
#[derive(Debug)]
pub struct Server {
    name: String,
    child: Child,
    log: PathBuf,
    ended: Option<ExitStatus>,
    polite: Option<Signal>,
}

/// A command for [`Server::spawn`]: add arguments and environment to it, not descriptors 0 to 2.
#[must_use]
pub fn command(program: &Path) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", GUARD, "guard"]).arg(program);
    command
}

impl Server {
    /// Starts what [`command`] made; its output is added to the file `log`.
    ///
    /// # Errors
    /// When the log or the process cannot be made.
    pub fn spawn(name: &str, mut command: Command, log: &Path) -> Result<Self> {
        let file = std::fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(log);
        let file = file.map_err(Error::io(format!("open the log of `{name}`")))?;
        let copy = file
            .try_clone()
            .map_err(Error::io(format!("open the log of `{name}`")))?;
        command
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(file)
            .stderr(copy);
        let child = command
            .spawn()
            .map_err(Error::io(format!("start `{name}`")))?;
        let (name, log) = (name.to_owned(), log.to_owned());
        Ok(Self {
            name,
            child,
            log,
            ended: None,
            polite: None,
        })
    }

    /// Starts a server on a free port and waits until it answers; starts it again when somebody took the port first.
    ///
    /// # Errors
    /// [`Error::NotReady`] with the end of the log.
    pub async fn launch(
        name: &str,
        log: &Path,
        command: impl Fn(u16) -> Command,
        ready: impl Fn(u16) -> Ready,
    ) -> Result<(Self, u16)> {
        let mut last = None;
        for _ in 0..3 {
            let port = free_port()?;
            let mut server = Self::spawn(name, command(port), log)?;
            match server.wait_until(&ready(port), READY_LIMIT).await {
                Ok(()) => return Ok((server, port)),
                Err(error) if server.has_ended() => last = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(last.expect("three tries leave an error"))
    }

    /// On drop, sends `signal` first and gives the server a few seconds to clean up after itself.
    #[must_use]
    pub fn ending_with(mut self, signal: Signal) -> Self {
        self.polite = Some(signal);
        self
    }

    /// Waits until `ready` holds.
    ///
    /// # Errors
    /// [`Error::NotReady`] when the program ended or `limit` has passed.
    pub async fn wait_until(&mut self, ready: &Ready, limit: Duration) -> Result<()> {
        let clock = Clock::real();
        let start = clock.elapsed();
        loop {
            let holds = ready.holds().await;
            // Looked at after the probe: an answer may be that of a stranger on a port that ours did not get.
            if self.has_ended() {
                return Err(self.not_ready(format!("it ended with {:?}", self.ended)));
            }
            if holds {
                return Ok(());
            }
            if clock.since(start) > limit {
                return Err(self.not_ready(format!("no answer within {limit:?}")));
            }
            clock.sleep(POLL).await;
        }
    }

    /// The process id, which is also its group's.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Whether the program has ended.
    pub fn has_ended(&mut self) -> bool {
        if self.ended.is_none() {
            self.ended = self.child.try_wait().unwrap_or(None);
        }
        self.ended.is_some()
    }

    /// Kills the group at once (SIGKILL) and waits for the program. May be called twice.
    pub fn kill(&mut self) {
        // The watcher holds the group's id even after the program has ended; no group left is what we want.
        kill_process_group(self.process(), Signal::KILL).unwrap_or_default();
        if self.ended.is_none() {
            self.ended = self.child.wait().ok();
        }
    }

    /// Sends `signal` to the program and waits for its end; kills it when it takes too long.
    pub fn stop(&mut self, signal: Signal) {
        if !self.has_ended() {
            kill_process(self.process(), signal).unwrap_or_default();
            self.wait_politely();
        }
        self.kill();
    }

    #[allow(
        clippy::disallowed_methods,
        reason = "called from drop, where nothing can be awaited"
    )]
    fn wait_politely(&mut self) {
        let mut waited = Duration::ZERO;
        while !self.has_ended() && waited < POLITE_LIMIT {
            std::thread::sleep(POLL);
            waited += POLL;
        }
    }

    fn process(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    fn not_ready(&self, why: String) -> Error {
        let server = self.name.clone();
        Error::NotReady {
            server,
            why,
            log: self.log_tail(),
        }
    }

    /// The end of what it wrote.
    #[must_use]
    pub fn log_tail(&self) -> String {
        let log = std::fs::read(&self.log).unwrap_or_default();
        let start = log.len().saturating_sub(LOG_TAIL_BYTES);
        String::from_utf8_lossy(&log[start..]).into_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        match self.polite {
            Some(signal) => self.stop(signal),
            None => self.kill(),
        }
    }
}

/// A port of 127.0.0.1 that nobody had a moment ago.
///
/// # Errors
/// When there is none.
pub fn free_port() -> Result<u16> {
    let listener = std::net::TcpListener::bind(("127.0.0.1", 0));
    let address = listener.and_then(|listener| listener.local_addr());
    Ok(address.map_err(Error::io("find a free port"))?.port())
}

/// A folder for a server's files, gone when dropped.
pub(crate) fn temp_dir(name: &str) -> Result<tempfile::TempDir> {
    tempfile::Builder::new()
        .prefix(&format!("cannery-{name}-"))
        .tempdir()
        .map_err(Error::io(format!("make a folder for `{name}`")))
}
