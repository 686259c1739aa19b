//! A headless Chromium, driven over its debugging pipe.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use command_fds::{CommandFdExt as _, FdMapping};
use serde_json::json;
use tempfile::TempDir;

use crate::server::{self, Server};
use crate::{Error, Result, tools};

mod cdp;
mod console;
mod page;

use cdp::Cdp;
pub use console::ConsoleMessage;
pub use page::{ColorScheme, Page};

const FLAGS: [&str; 10] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
];

/// A browser with a fresh profile. Dropping it kills it.
#[derive(Debug)]
pub struct Browser {
    cdp: Arc<Cdp>,
    // Dropped before the profile that it writes to.
    server: Server,
    _profile: TempDir,
}

impl Browser {
    /// Starts Chromium; ready when this returns.
    ///
    /// # Errors
    /// [`Error::MissingTool`], or the end of its log.
    pub async fn start() -> Result<Self> {
        let profile = server::temp_dir("chromium")?;
        let opening = || Error::io("open a pipe to the browser");
        let (its_commands, our_commands) = std::io::pipe().map_err(opening())?;
        let (our_answers, its_answers) = std::io::pipe().map_err(opening())?;
        let mut command = command(&tools::system("chromium")?, profile.path());
        let mappings = vec![
            FdMapping {
                parent_fd: its_commands.into(),
                child_fd: 3,
            },
            FdMapping {
                parent_fd: its_answers.into(),
                child_fd: 4,
            },
        ];
        command
            .fd_mappings(mappings)
            .map_err(|error| Error::failed("pass pipes to the browser", &error))?;
        let server = Server::spawn("chromium", command, &profile.path().join("log"))?;
        let cdp = Cdp::new(our_commands.into(), our_answers.into()).map_err(opening())?;
        let browser = Self {
            cdp,
            server,
            _profile: profile,
        };
        browser
            .cdp
            .call(None, "Browser.getVersion", json!({}))
            .await
            .map_err(|error| browser.explain(&error))?;
        Ok(browser)
    }

    /// Opens a blank page of its own.
    ///
    /// # Errors
    /// When the browser does not answer.
    pub async fn page(&self) -> Result<Page> {
        Page::create(Arc::clone(&self.cdp)).await
    }

    fn explain(&self, error: &Error) -> Error {
        Error::NotReady {
            server: "chromium".into(),
            why: error.to_string(),
            log: self.server.log_tail(),
        }
    }
}

fn command(program: &Path, profile: &Path) -> Command {
    let mut command = server::command(program);
    command
        .args(FLAGS)
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg("about:blank");
    // Whatever it keeps outside its profile goes into the profile too.
    for variable in ["HOME", "TMPDIR", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"] {
        command.env(variable, profile);
    }
    command
}
