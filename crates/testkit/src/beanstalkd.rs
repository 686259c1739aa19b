//! A beanstalkd, the work queue that benchmarks compare with.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};

use crate::server::{self, Ready, Server};
use crate::{Error, Result, tools};

/// Succeeds when the server on the port `$1` answers a command.
const PROBE: &str = r#"exec 3<>"/dev/tcp/127.0.0.1/$1" &&
printf 'list-tubes\r\n' >&3 && read -r answer <&3 && [[ $answer == OK* ]]"#;

/// A running server that syncs its log before it answers (`-f 0`).
#[derive(Debug)]
pub struct Beanstalkd {
    address: SocketAddr,
    _server: Server,
}

impl Beanstalkd {
    /// Starts it on a free port, with its log in the folder `dir`, which is made if need be and stays: the caller
    /// chooses the disk. What an earlier one left there is taken up.
    ///
    /// # Errors
    /// When it is not installed, or the end of what it wrote.
    pub async fn start(dir: &Path) -> Result<Self> {
        let program = installed(tools::system("beanstalkd"))?;
        std::fs::create_dir_all(dir).map_err(Error::io(format!("make `{}`", dir.display())))?;
        let command = |port: u16| {
            let mut command = server::command(&program);
            command.args(["-l", "127.0.0.1", "-p", &port.to_string(), "-f", "0"]);
            command.arg("-b").arg(dir);
            command
        };
        let output = dir.join("output");
        let shell = tools::system("bash")?;
        let ready = |port| answers(&shell, port);
        let (server, port) = Server::launch("beanstalkd", &output, command, ready).await?;
        Ok(Self {
            address: (Ipv4Addr::LOCALHOST, port).into(),
            _server: server,
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

fn answers(shell: &Path, port: u16) -> Ready {
    let arguments = ["-c", PROBE, "probe", &port.to_string()].map(str::to_owned);
    Ready::Command(shell.to_owned(), arguments.to_vec())
}

/// Only benchmarks need it, so the setup that everybody runs leaves it out.
fn installed(program: Result<PathBuf>) -> Result<PathBuf> {
    let why = "it is not installed; run `cargo xtask setup --long`";
    program.map_err(|_| Error::failed("start `beanstalkd`", &why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_program_names_the_setup_that_brings_it() {
        let error = installed(tools::system("no-such-beanstalkd")).unwrap_err();
        assert_eq!(
            error.to_string(),
            "cannot start `beanstalkd`: it is not installed; run `cargo xtask setup --long`"
        );
    }
}
