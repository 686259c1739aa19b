//! Running the real binary.

use std::io::{BufRead as _, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

/// A folder to run in, with nothing from this process's environment but the path.
#[derive(Debug)]
pub(crate) struct Place {
    dir: TempDir,
    variables: Vec<(String, String)>,
}

/// What a run printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    pub(crate) fn all(&self) -> String {
        format!("{}{}", self.stdout, self.stderr)
    }

    /// The run as one text for a snapshot, without what differs from run to run.
    pub(crate) fn snapshot(&self) -> String {
        format!(
            "code: {}\n--- stdout\n{}--- stderr\n{}",
            self.code, self.stdout, self.stderr
        )
    }

    /// The JSON lines of standard output.
    pub(crate) fn json(&self) -> Vec<serde_json::Value> {
        self.stdout
            .lines()
            .map(|line| serde_json::from_str(line).unwrap())
            .collect()
    }
}

impl Place {
    pub(crate) fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            variables: Vec::new(),
        }
    }

    /// The same with a clock that [`advance`] moves; needs the feature `sim`.
    #[cfg(feature = "sim")]
    pub(crate) fn with_clock() -> Self {
        let mut place = Self::new();
        let clock = place.write("clock", "2026-11-15T00:00:00Z");
        place.set("CANNERY_SIM_CLOCK", clock.to_str().unwrap());
        place
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn set(&mut self, name: &str, value: &str) {
        self.variables.push((name.to_owned(), value.to_owned()));
    }

    pub(crate) fn write(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        #[allow(
            clippy::disallowed_methods,
            reason = "the input of a test need not be durable"
        )]
        std::fs::write(&path, content).unwrap();
        path
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cannery"));
        command
            .args(arguments)
            .current_dir(self.dir.path())
            .env_clear()
            .stdin(Stdio::null());
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ran {
        ran(&mut self.command(arguments))
    }

    /// Starts `cannery up` on a free port and waits until it says where it is.
    pub(crate) fn up(&self, arguments: &[&str]) -> Up {
        let mut all = vec!["up", "--json", "-v", "--listen", "127.0.0.1:0"];
        all.extend(arguments);
        let mut command = self.command(&all);
        let log = self.path("log");
        #[allow(
            clippy::disallowed_methods,
            reason = "a log of a test need not be durable"
        )]
        let file = std::fs::File::create(&log).unwrap();
        let mut child = command.stdout(Stdio::piped()).stderr(file).spawn().unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let Some(Ok(first)) = lines.next() else {
            child.wait().unwrap();
            panic!(
                "it did not start: {}",
                std::fs::read_to_string(&log).unwrap()
            );
        };
        let started: serde_json::Value = serde_json::from_str(&first).unwrap();
        Up {
            child,
            started,
            log,
            lines: Box::new(lines),
        }
    }
}

pub(crate) fn ran(command: &mut Command) -> Ran {
    let output = command.output().unwrap();
    Ran {
        code: output.status.code().unwrap_or(-1),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

/// A running `cannery up`; killed when dropped.
pub(crate) struct Up {
    child: Child,
    pub(crate) started: serde_json::Value,
    log: PathBuf,
    lines: Box<dyn Iterator<Item = std::io::Result<String>> + Send>,
}

impl Up {
    pub(crate) fn url(&self, path: &str) -> String {
        format!("{}{path}", self.started["dashboard"].as_str().unwrap())
    }

    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap()
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Asks it to stop; the exit code and what it still printed.
    pub(crate) fn stop(mut self) -> (i32, String) {
        self.signal(rustix::process::Signal::TERM);
        let rest: Vec<String> = self.lines.by_ref().map(Result::unwrap).collect();
        (
            self.child.wait().unwrap().code().unwrap_or(-1),
            rest.join("\n"),
        )
    }

    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Waits until the log contains `text`.
    pub(crate) fn wait_for_log(&self, text: &str) {
        for _ in 0..600 {
            if self.log().contains(text) {
                return;
            }
            pause();
        }
        panic!("`{text}` never came: {}", self.log());
    }
}

impl Drop for Up {
    fn drop(&mut self) {
        // Ended already when it was stopped.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

pub(crate) fn pause() {
    #[allow(clippy::disallowed_methods, reason = "another process needs real time")]
    std::thread::sleep(std::time::Duration::from_millis(50));
}

/// A GET over plain HTTP; the whole answer as text.
pub(crate) fn http_get(url: &str) -> String {
    use std::io::{Read as _, Write as _};
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = std::net::TcpStream::connect(host).unwrap();
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).unwrap();
    String::from_utf8_lossy(&answer).into_owned()
}

/// A request over plain HTTP with the token of the workspace; status and body, or nothing when the connection broke.
pub(crate) fn http_send(
    place: &Place,
    (method, url): (&str, &str),
    headers: &str,
    body: &[u8],
) -> Option<(u16, Vec<u8>)> {
    use std::io::{Read as _, Write as _};
    let token = std::fs::read_to_string(place.path("cannery-data/token")).unwrap();
    let rest = url.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let head = format!(
        "{method} /{path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Length: {}\r\nAuthorization: Bearer {}\r\n{headers}\r\n",
        body.len(),
        token.trim()
    );
    let mut stream = std::net::TcpStream::connect(host).ok()?;
    stream.write_all(head.as_bytes()).ok()?;
    // A server that refuses need not read the body.
    stream.write_all(body).ok();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).ok()?;
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n")?;
    let status = String::from_utf8_lossy(&answer[..end]);
    let status = status.split(' ').nth(1)?.parse().ok()?;
    Some((status, answer.split_off(end + 4)))
}

/// Names that differ from run to run are replaced before the comparison.
pub(crate) fn assert_text(name: &str, ran: &Ran) {
    insta::with_settings!({
        filters => vec![
            (r"127\.0\.0\.1:\d+", "127.0.0.1:PORT"),
            (r"process \d+", "process PID"),
            (r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z", "TIME"),
            (r"lake `[a-z2-7]{26}`", "lake `ID`"),
        ],
        omit_expression => true,
        prepend_module_to_snapshot => false,
    }, {
        insta::assert_snapshot!(name, ran.snapshot());
    });
}

/// Moves the simulated time on until `/readyz` answers with `status`.
#[cfg(feature = "sim")]
pub(crate) fn advance(place: &Place, up: &Up, status: &str) {
    for _ in 0..200 {
        let now: jiff::Timestamp = std::fs::read_to_string(place.path("clock"))
            .unwrap()
            .parse()
            .unwrap();
        place.write(
            "clock.new",
            (now + jiff::SignedDuration::from_secs(10)).to_string(),
        );
        #[allow(clippy::disallowed_methods, reason = "only whole, not durable")]
        std::fs::rename(place.path("clock.new"), place.path("clock")).unwrap();
        pause();
        if http_get(&up.url("readyz")).contains(status) {
            return;
        }
    }
    panic!("never {status}: {}", http_get(&up.url("readyz")));
}
