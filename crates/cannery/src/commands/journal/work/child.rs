//! One run of the program for one entry.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cannery_journal::{Data, Entry, Op};
use cannery_runtime::Clock;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::json;
use tokio::io::{AsyncRead, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

use super::super::view::{EntryView, attempt};
use super::lines;
use crate::output::Output;

/// "Temporary failure" of `sysexits.h`.
const LATER: i32 = 75;
const DEAD: i32 = 100;

/// How long the program may take to end after it was asked to.
const TERM_LIMIT: Duration = Duration::from_secs(10);
/// How long its output is waited for after its end: a program that it left behind may hold the pipe.
const OUTPUT_LIMIT: Duration = Duration::from_secs(1);

/// What to run.
#[derive(Debug)]
pub(super) struct Program {
    pub(super) path: PathBuf,
    pub(super) arguments: Vec<OsString>,
    pub(super) journal: String,
    pub(super) output: Output,
    pub(super) clock: Clock,
    pub(super) groups: Groups,
}

/// The groups of processes that run now; clones are the same.
#[derive(Clone, Debug, Default)]
pub(super) struct Groups(Arc<Mutex<BTreeSet<i32>>>);

impl Groups {
    fn lock(&self) -> MutexGuard<'_, BTreeSet<i32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends them all at once.
    pub(super) fn kill(&self) {
        for pid in self.lock().iter().copied().filter_map(Pid::from_raw) {
            kill_process_group(pid, Signal::KILL).ok();
        }
    }

    fn enter(&self, pid: Option<Pid>) -> Group {
        if let Some(pid) = pid {
            self.lock().insert(pid.as_raw_nonzero().get());
        }
        Group(pid, self.clone())
    }
}

/// How a run ended.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Done,
    /// Not now, without blame.
    Later,
    /// It was ended from outside.
    Stopped,
    NotStarted(String),
    Dead(String),
    Failed(String),
}

/// Kills what is left of the group when the run is given up.
struct Group(Option<Pid>, Groups);

impl Group {
    /// It ended: its number may soon be another's.
    fn over(&mut self) {
        if let Some(pid) = self.0.take() {
            self.1.lock().remove(&pid.as_raw_nonzero().get());
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = self.0 {
            // It may have ended by itself.
            kill_process_group(pid, signal).ok();
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.signal(Signal::KILL);
        self.over();
    }
}

impl Program {
    /// Runs it, until it ends or one of `reasons` to stop is there.
    pub(super) async fn run(
        &self,
        entry: &Entry<Data>,
        reasons: &[&CancellationToken; 2],
    ) -> Ending {
        let mut child = match self.command(entry).spawn() {
            Ok(child) => child,
            Err(error) => {
                let reason = format!("cannot run `{}`: {error}", self.path.display());
                return Ending::NotStarted(reason);
            }
        };
        let pid = child
            .id()
            .and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let mut group = self.groups.enter(pid);
        let _input = feed(&mut child, entry);
        let last_error = Arc::new(Mutex::new(String::new()));
        let out = child
            .stdout
            .take()
            .map(|out| self.pass_on(out, entry, None));
        let errors = child
            .stderr
            .take()
            .map(|errors| self.pass_on(errors, entry, Some(Arc::clone(&last_error))));
        let status = tokio::select! {
            status = child.wait() => status,
            () = reasons[0].cancelled() => return self.stop(child, &mut group).await,
            () = reasons[1].cancelled() => return self.stop(child, &mut group).await,
        };
        group.over();
        let outputs = async {
            for task in [out, errors].into_iter().flatten() {
                task.await.ok();
            }
        };
        self.clock.timeout(OUTPUT_LIMIT, outputs).await.ok();
        let last_error = last_error
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        match status {
            Ok(status) => judge(status, &last_error),
            Err(error) => Ending::Failed(format!("its end cannot be told: {error}")),
        }
    }

    fn command(&self, entry: &Entry<Data>) -> Command {
        let mut command = Command::new(&self.path);
        command
            .args(&self.arguments)
            .env("CANNERY_JOURNAL", &self.journal)
            .env("CANNERY_ATTEMPT", attempt(entry).to_string())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        // No variable can hold a NUL; such a key is found in the entry itself, and no other must pass for it.
        command.env_remove("CANNERY_KEY");
        if !entry.key.as_str().contains('\0') {
            command.env("CANNERY_KEY", entry.key.as_str());
        }
        if let Some(lease) = &entry.lease {
            command.env("CANNERY_TOKEN", lease.token.to_string());
        }
        command
    }

    /// Prints what the program writes, and remembers the last line that says something.
    fn pass_on(
        &self,
        input: impl AsyncRead + Send + Unpin + 'static,
        entry: &Entry<Data>,
        last: Option<Arc<Mutex<String>>>,
    ) -> AbortOnDropHandle<()> {
        let (output, key) = (self.output, entry.key.clone());
        AbortOnDropHandle::new(tokio::spawn(async move {
            let mut input = BufReader::new(input);
            while let Ok(Some(line)) = lines::next(&mut input).await {
                match &last {
                    None => output.line(
                        &line,
                        &json!({ "event": "output", "key": key, "line": line }),
                    ),
                    Some(last) => {
                        output.aside(
                            &line,
                            &json!({ "event": "error_output", "key": key, "line": line }),
                        );
                        if !line.trim().is_empty() {
                            *last.lock().unwrap_or_else(PoisonError::into_inner) = line;
                        }
                    }
                }
            }
        }))
    }

    /// Asks the whole group to end, and sees to it. What it says at its end is not believed: many programs end with 0
    /// when they are asked to.
    async fn stop(&self, mut child: Child, group: &mut Group) -> Ending {
        group.signal(Signal::TERM);
        if self.clock.timeout(TERM_LIMIT, child.wait()).await.is_err() {
            group.signal(Signal::KILL);
            child.wait().await.ok();
        }
        // Also what it started and did not wait for.
        group.signal(Signal::KILL);
        group.over();
        Ending::Stopped
    }
}

/// Gives the entry to the program, which need not read it.
fn feed(child: &mut Child, entry: &Entry<Data>) -> Option<AbortOnDropHandle<()>> {
    let mut input = child.stdin.take()?;
    let mut line = serde_json::to_vec(&EntryView::of(entry)).expect("an entry is plain data");
    line.push(b'\n');
    Some(AbortOnDropHandle::new(tokio::spawn(async move {
        input.write_all(&line).await.ok();
    })))
}

fn judge(status: ExitStatus, last_error: &str) -> Ending {
    use std::os::unix::process::ExitStatusExt as _;
    let told = cut(last_error.trim());
    let reason = |how: String| match told {
        "" => how,
        told => told.to_owned(),
    };
    match (status.code(), status.signal()) {
        (Some(0), _) => Ending::Done,
        (Some(LATER), _) => Ending::Later,
        (Some(DEAD), _) => Ending::Dead(reason(format!("it ended with {DEAD}"))),
        (Some(code), _) => Ending::Failed(reason(format!("it ended with {code}"))),
        (None, Some(signal)) => Ending::Failed(format!("it was killed by signal {signal}")),
        (None, None) => Ending::Failed("its end cannot be told".to_owned()),
    }
}

/// As much as a journal keeps of a reason.
fn cut(text: &str) -> &str {
    let mut end = text.len().min(Op::TEXT_BYTES_MAX);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::ExitStatusExt as _;

    #[test]
    fn the_exit_code_decides() {
        let exited = |code: i32| ExitStatus::from_raw(code << 8);
        assert_eq!(judge(exited(0), "noise"), Ending::Done);
        assert_eq!(judge(exited(75), "busy"), Ending::Later);
        assert_eq!(judge(exited(100), " bad \n"), Ending::Dead("bad".into()));
        assert_eq!(
            judge(exited(100), ""),
            Ending::Dead("it ended with 100".into())
        );
        assert_eq!(judge(exited(1), "why"), Ending::Failed("why".into()));
        let killed = ExitStatus::from_raw(9);
        assert_eq!(
            judge(killed, "x"),
            Ending::Failed("it was killed by signal 9".into())
        );
    }

    #[test]
    fn a_reason_is_cut_between_characters() {
        let long = "ü".repeat(Op::TEXT_BYTES_MAX);
        assert!(cut(&long).len() <= Op::TEXT_BYTES_MAX);
        assert_eq!(cut("short"), "short");
    }
}
