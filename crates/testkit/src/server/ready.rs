//! When a server counts as ready, and programs that run to their end.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use cannery_runtime::Clock;

use super::Server;
use crate::{Error, Result};

const PROBE_LIMIT: Duration = Duration::from_secs(5);

/// How to see that a server is ready.
#[derive(Clone, Debug)]
pub enum Ready {
    /// This address answers, with whatever status.
    Http(String),
    /// This program with these arguments succeeds.
    Command(PathBuf, Vec<String>),
}

impl Ready {
    pub(super) async fn holds(&self) -> bool {
        match self {
            Self::Http(url) => http_answers(url).await,
            Self::Command(program, arguments) => run(
                tokio::process::Command::new(program).args(arguments),
                PROBE_LIMIT,
            )
            .await
            .is_ok(),
        }
    }
}

pub(crate) async fn wait_for_http(server: &mut Server, url: &str) -> Result<()> {
    server
        .wait_until(&Ready::Http(url.to_owned()), super::READY_LIMIT)
        .await
}

async fn http_answers(url: &str) -> bool {
    let client = reqwest::Client::builder()
        .no_proxy()
        .timeout(PROBE_LIMIT)
        .build();
    match client {
        Ok(client) => client.get(url).send().await.is_ok(),
        Err(_) => false,
    }
}

/// Runs a program to its end and returns what it printed.
///
/// # Errors
/// When it fails, with what it printed, or takes longer than `limit`; then it is killed.
pub(crate) async fn run(command: &mut tokio::process::Command, limit: Duration) -> Result<String> {
    let program = Path::new(command.as_std().get_program()).display();
    let doing = format!("run `{program}`");
    let output = command.stdin(Stdio::null()).kill_on_drop(true).output();
    let output = Clock::real().timeout(limit, output).await;
    let output = output.map_err(|late| Error::failed(&doing, &late))?;
    let output = output.map_err(Error::io(&doing))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        let why = format!("{}: {said}", output.status);
        return Err(Error::failed(doing, &why));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
