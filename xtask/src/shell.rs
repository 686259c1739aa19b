//! Running other programs, and the few things a developer's tool does to files and time directly.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::failure::{Failure, Result, failed};
use crate::places::Places;

/// A program with its arguments, kept as text so that a failure can print what to type.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cmd {
    program: String,
    args: Vec<String>,
    env: Vec<(String, String)>,
}

impl Cmd {
    pub(crate) fn new(
        program: impl Into<String>,
        args: impl IntoIterator<Item = impl Into<String>>,
    ) -> Self {
        Self {
            program: program.into(),
            args: args.into_iter().map(Into::into).collect(),
            env: Vec::new(),
        }
    }

    pub(crate) fn env(mut self, name: &str, value: &str) -> Self {
        self.env.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Runs in `folder` with its output on the terminal; an error if it fails.
    pub(crate) fn run(&self, folder: &Path) -> Result<()> {
        let status = self.command(folder).status();
        self.judge(status.map(|status| status.success()))
    }

    /// Runs in `folder` and hands each line of its standard output to `line`, without the line end.
    pub(crate) fn run_lines(&self, folder: &Path, mut line: impl FnMut(&str)) -> Result<()> {
        let mut child = self
            .command(folder)
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| self.cannot_start(&error))?;
        let mut output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let mut bytes = Vec::new();
        while output
            .read_until(b'\n', &mut bytes)
            .is_ok_and(|count| count > 0)
        {
            line(String::from_utf8_lossy(&bytes).trim_end_matches(['\n', '\r']));
            bytes.clear();
        }
        self.judge(child.wait().map(|status| status.success()))
    }

    /// Runs in `folder` and returns its standard output; an error carries its standard error.
    pub(crate) fn capture(&self, folder: &Path) -> Result<String> {
        let output = self
            .command(folder)
            .output()
            .map_err(|error| self.cannot_start(&error))?;
        if output.status.success() {
            return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
        }
        let complaint = String::from_utf8_lossy(&output.stderr);
        failed(format!("`{self}` failed: {}", complaint.trim()))
    }

    /// Whether it runs and succeeds; prints nothing.
    pub(crate) fn succeeds(&self, folder: &Path) -> bool {
        self.command(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    }

    fn command(&self, folder: &Path) -> Command {
        let mut command = if self.program == "cargo" {
            cargo()
        } else {
            Command::new(&self.program)
        };
        command
            .args(&self.args)
            .envs(self.env.iter().map(|(name, value)| (name, value)))
            .current_dir(folder)
            .stdin(Stdio::null());
        command
    }

    fn judge(&self, succeeded: std::io::Result<bool>) -> Result<()> {
        match succeeded {
            Ok(true) => Ok(()),
            Ok(false) => failed(format!("`{self}` failed")),
            Err(error) => Err(self.cannot_start(&error)),
        }
    }

    fn cannot_start(&self, error: &std::io::Error) -> Failure {
        Failure::Failed(format!(
            "cannot run `{}`: {error}; is it installed?",
            self.program
        ))
    }
}

impl std::fmt::Display for Cmd {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for (name, value) in &self.env {
            write!(f, "{name}={} ", quoted(value))?;
        }
        f.write_str(&quoted(&self.program))?;
        for arg in &self.args {
            write!(f, " {}", quoted(arg))?;
        }
        Ok(())
    }
}

fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%~".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// The cargo that runs us, without what it says about the package `xtask`: build scripts watch those
/// variables, and would run again each time a user changes between `cargo` and `cargo xtask`.
fn cargo() -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let about_package = |name: &OsString| {
        let name = name.to_string_lossy();
        name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")
    };
    for (name, _) in env::vars_os().filter(|(name, _)| about_package(name)) {
        command.env_remove(name);
    }
    // Tests run in the folder of their package, where a relative path would mean another place.
    if let (Some(_), Ok(places)) = (env::var_os("CARGO_TARGET_DIR"), Places::find()) {
        command.env("CARGO_TARGET_DIR", places.target);
    }
    command
}

/// Tries up to three times with a pause between, because networks fail; the last error is returned.
pub(crate) fn retry(what: &str, attempt: impl FnMut() -> Result<()>) -> Result<()> {
    retry_with(what, attempt, || pause(Duration::from_secs(3)))
}

fn retry_with(what: &str, mut attempt: impl FnMut() -> Result<()>, pause: impl Fn()) -> Result<()> {
    for left in [2, 1] {
        match attempt() {
            Ok(()) => return Ok(()),
            Err(failure) => eprintln!("{what}: {failure}; {left} more"),
        }
        pause();
    }
    attempt()
}

#[allow(
    clippy::disallowed_methods,
    reason = "waits for a real network, outside any simulation"
)]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// Seconds of real time.
pub(crate) struct Stopwatch(Instant);

impl Stopwatch {
    #[allow(
        clippy::disallowed_methods,
        reason = "measures real builds, outside any simulation"
    )]
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.0.elapsed().as_secs_f64()
    }
}

/// Writes `text` to `path`, making its folder.
#[allow(
    clippy::disallowed_methods,
    reason = "output that can be made again; nothing is lost in a crash"
)]
pub(crate) fn write_text(path: &Path, text: &str) -> Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder)
        .and_then(|()| fs::write(path, text))
        .or_else(|error| failed(format!("cannot write `{}`: {error}", path.display())))
}

/// Whether `program` is in one of the folders of PATH, or in the one that PATH lacks for users of
/// Debian.
pub(crate) fn on_path(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(["/usr/sbin".into()])
        .any(|folder| folder.join(program).is_file())
}

/// A line that is seen before the next program prints; ours and theirs are buffered apart.
pub(crate) fn say(line: &str) {
    println!("{line}");
    std::io::stdout()
        .flush()
        .expect("standard output is open while xtask runs");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    fn sh(script: &str) -> Cmd {
        Cmd::new("sh", ["-c", script])
    }

    #[test]
    fn prints_as_one_would_type_it() {
        let cmd = Cmd::new("cargo", ["doc", "it's"]).env("RUSTDOCFLAGS", "-D warnings");
        assert_eq!(
            cmd.to_string(),
            r"RUSTDOCFLAGS='-D warnings' cargo doc 'it'\''s'"
        );
    }

    #[test]
    fn lines_arrive_without_their_end_and_a_failure_is_kept() {
        let mut lines = Vec::new();
        let outcome = sh("printf 'a\\r\\nb\\nlast'; exit 3")
            .run_lines(Path::new("."), |line| lines.push(line.to_owned()));
        assert_eq!(lines, ["a", "b", "last"]);
        assert!(outcome.is_err());
    }

    #[test]
    fn children_read_nothing() {
        assert!(sh("! read line").run(Path::new(".")).is_ok());
    }

    #[test]
    fn an_error_carries_what_the_program_said() {
        let error = sh("echo no such ref >&2; exit 1").capture(Path::new("."));
        assert!(error.unwrap_err().to_string().contains("no such ref"));
    }

    #[test]
    fn tries_three_times_and_no_more() {
        let tries = Cell::new(0);
        let outcome = retry_with(
            "install",
            || {
                tries.set(tries.get() + 1);
                failed(format!("try {}", tries.get()))
            },
            || (),
        );
        assert_eq!(outcome.unwrap_err().to_string(), "try 3");
        assert_eq!(tries.get(), 3);
    }

    #[test]
    fn stops_trying_after_a_success() {
        let tries = Cell::new(0);
        let attempt = || {
            tries.set(tries.get() + 1);
            if tries.get() < 2 {
                failed("network")
            } else {
                Ok(())
            }
        };
        assert!(retry_with("install", attempt, || ()).is_ok());
        assert_eq!(tries.get(), 2);
    }
}
