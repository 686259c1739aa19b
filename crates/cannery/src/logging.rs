//! The log: standard error, one line an event, without secrets.

use std::io::{self, Write};

use cannery_runtime::secret::redact;
use tracing_subscriber::EnvFilter;

use crate::output::on_one_line;
use tracing_subscriber::fmt::MakeWriter;

/// Starts logging: warnings, or more for each `-v`; as JSON lines with `--json`.
pub(crate) fn start(verbosity: u8, json: bool) {
    let ours = match verbosity {
        0 => "warn",
        1 => "info",
        _ => "debug",
    };
    // The libraries below speak up only from `-vvv` on: their debug lines quote requests.
    let filter = if verbosity >= 3 {
        EnvFilter::new("debug")
    } else {
        let crates = [
            "cannery",
            "cannery_journal",
            "cannery_lake",
            "cannery_runtime",
            "cannery_serve",
        ];
        EnvFilter::new(crates.map(|name| format!("{name}={ours}")).join(",") + ",warn")
    };
    let subscriber = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(Redacting)
        .with_target(false);
    if json {
        subscriber.json().init();
    } else {
        subscriber.with_ansi(false).init();
    }
}

#[derive(Clone, Copy, Debug)]
struct Redacting;

impl<'a> MakeWriter<'a> for Redacting {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(Vec::new())
    }
}

/// Collects one event, so that a secret cannot slip through between two writes.
#[derive(Debug)]
struct Line(Vec<u8>);

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let text = String::from_utf8_lossy(&self.0);
        let mut text = on_one_line(&redact(text.trim_end_matches('\n')));
        text.push('\n');
        // A log that cannot be written must not stop the work.
        io::stderr().write_all(text.as_bytes()).ok();
    }
}
