//! `cannery doctor`: everything that should be in order before this machine runs unattended for years.

mod frames;
mod journals;
mod spools;

use std::path::Path;

use cannery_lake::{Address, Lake, probe};
use cannery_runtime::disk::{space, write_durably};

use cannery_runtime::{Disk as _, RealDisk};
use serde::Serialize;

use super::{Context, Patience};
use crate::cli::DoctorArgs;
use crate::config::Config;
use crate::config::units::Bytes;
use crate::failure::{ExitCode, Failure};
use crate::lakes;
use crate::output::on_one_line;

/// A node that watches a spool holds one watch a date folder, and a server one file a connection.
const WATCHES_MIN: u64 = 8_192;
const QUEUED_EVENTS_MIN: u64 = 16_384;
const OPEN_FILES_MIN: u64 = 1_024;

/// Signatures of requests are refused from a few minutes on; records are stamped with this clock.
const SKEW_MS_WARN: i64 = 2_000;
const SKEW_MS_FAIL: i64 = 5 * 60_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Verdict {
    Ok,
    Warn,
    Fail,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    check: String,
    verdict: Verdict,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl Finding {
    fn ok(check: &str, text: impl Into<String>) -> Self {
        Self {
            check: check.to_owned(),
            verdict: Verdict::Ok,
            text: text.into(),
            next: None,
        }
    }

    fn new(
        check: &str,
        verdict: Verdict,
        text: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        Self {
            check: check.to_owned(),
            verdict,
            text: text.into(),
            next: Some(next.into()),
        }
    }
}

pub(crate) async fn run(args: &DoctorArgs, context: &Context) -> Result<ExitCode, Failure> {
    if args.frames {
        return frames::run(context).await;
    }
    let mut findings = Vec::new();
    match context.config().await {
        Ok(config) => {
            findings.push(Finding::ok(
                "config",
                format!("valid; node `{}`", config.node),
            ));
            findings.push(workspace(&config.workspace, args.min_free));
            lake_findings(&config, args, context, &mut findings).await;
            findings.extend(journals::findings(&config, context).await);
            findings.extend(spools::findings(&config, context));
        }
        Err(failure) => findings.push(Finding::new(
            "config",
            Verdict::Fail,
            failure.message,
            failure.next,
        )),
    }
    findings.extend(limits());
    findings.push(clock(context));
    let failed = findings
        .iter()
        .any(|finding| finding.verdict == Verdict::Fail);
    for finding in &findings {
        show(finding, context);
    }
    Ok(if failed {
        ExitCode::Findings
    } else {
        ExitCode::Ok
    })
}

fn show(finding: &Finding, context: &Context) {
    let word = match finding.verdict {
        Verdict::Ok => "ok  ",
        Verdict::Warn => "warn",
        Verdict::Fail => "FAIL",
    };
    let said = on_one_line(&finding.text);
    let mut text = format!("{word}  {:<12} {said}", finding.check);
    if let Some(next) = &finding.next {
        text += &format!("\n{:19}next: {}", "", on_one_line(next));
    }
    context.output.in_lines().line(text, finding);
}

/// Whether the workspace can be written durably, and has room.
fn workspace(path: &Path, min_free: Bytes) -> Finding {
    const CHECK: &str = "workspace";
    if !path.exists() {
        return to_be_made(CHECK, path);
    }
    let trial = path.join("doctor.tmp");
    let written =
        write_durably(&RealDisk, &trial, b"doctor").and_then(|()| RealDisk.remove_file(&trial));
    if let Err(error) = written {
        let text = format!("`{}` cannot be written: {error}", path.display());
        return Finding::new(
            CHECK,
            Verdict::Fail,
            text,
            "make it writable, or choose another with `--workspace`",
        );
    }
    room(CHECK, path, min_free)
}

/// Whether a folder that is not there yet could be made.
fn to_be_made(check: &str, path: &Path) -> Finding {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let above = absolute
        .ancestors()
        .find(|folder| folder.exists())
        .unwrap_or(Path::new("/"));
    match rustix::fs::access(above, rustix::fs::Access::WRITE_OK) {
        Ok(()) => Finding::ok(
            check,
            format!(
                "`{}` does not exist yet; `cannery up` makes it",
                path.display()
            ),
        ),
        Err(error) => {
            let text = format!(
                "`{}` cannot be made in `{}`: {error}",
                path.display(),
                above.display()
            );
            Finding::new(
                check,
                Verdict::Fail,
                text,
                "make it yourself for this user, or choose another with `--workspace`",
            )
        }
    }
}

/// Whether there is room on the disk under `path`.
fn room(check: &str, path: &Path, min_free: Bytes) -> Finding {
    match space(path) {
        Ok(found) if found.free_bytes < min_free.0 => {
            let free = indicatif::HumanBytes(found.free_bytes);
            let text = format!("only {free} free under `{}`", path.display());
            Finding::new(
                check,
                Verdict::Warn,
                text,
                "free some space before data waits here for a store that is down",
            )
        }
        Ok(found) => Finding::ok(
            check,
            format!(
                "`{}` is writable, {} free",
                path.display(),
                indicatif::HumanBytes(found.free_bytes)
            ),
        ),
        Err(error) => Finding::new(
            check,
            Verdict::Warn,
            format!("cannot tell the free space: {error}"),
            "check with `df`",
        ),
    }
}

async fn lake_findings(
    config: &Config,
    args: &DoctorArgs,
    context: &Context,
    findings: &mut Vec<Finding>,
) {
    let mirrors = match lakes::open(config, &context.tools(Patience::Person)) {
        Ok(mirrors) => mirrors,
        Err(failure) => {
            findings.push(Finding::new(
                "lake",
                Verdict::Fail,
                failure.message,
                failure.next,
            ));
            return;
        }
    };
    let mut reachable = true;
    for lake in mirrors.iter() {
        let check = format!("lake {}", lake.id());
        match address(config, lake.id()) {
            // Looking must not make it.
            Some(Address::File(folder)) if !folder.exists() => {
                findings.push(to_be_made(&check, folder));
                continue;
            }
            Some(Address::File(folder)) => findings.push(room(&check, folder, args.min_free)),
            Some(_) | None => {}
        }
        match look_at(lake, &check).await {
            Ok(found) => findings.extend(found),
            Err(error) => {
                findings.push(Finding::new(
                    &check,
                    Verdict::Fail,
                    error.to_string(),
                    error.next_step(),
                ));
                reachable = false;
            }
        }
    }
    if reachable && let Err(failure) = lakes::verify(&mirrors, &config.workspace).await {
        findings.push(Finding::new(
            "lake",
            Verdict::Fail,
            failure.message,
            failure.next,
        ));
    }
}

async fn look_at(lake: &Lake, check: &str) -> cannery_lake::Result<Vec<Finding>> {
    let text = match lake.manifest().await? {
        Some(manifest) => format!("{} is lake {}", lake.url(), manifest.lake),
        None => format!("{} is reachable; `cannery up` makes the lake", lake.url()),
    };
    let mut findings = vec![Finding::ok(check, text)];
    findings.extend(judge(check, lake, &probe::probe(lake).await?));
    Ok(findings)
}

fn address<'a>(config: &'a Config, id: &str) -> Option<&'a Address> {
    config
        .object_storage
        .iter()
        .find(|storage| storage.id == id)
        .map(|storage| &storage.url)
}

fn judge(check: &str, lake: &Lake, report: &probe::Report) -> Vec<Finding> {
    let mut findings = Vec::new();
    if report.is_sound() {
        findings.push(Finding::ok(
            check,
            "honours create-if-absent and versions, reads and lists its writes",
        ));
    }
    for weakness in report.weaknesses() {
        findings.push(Finding::new(
            check,
            Verdict::Warn,
            weakness,
            "use a store that honours conditional writes if you can",
        ));
    }
    if report.versioning == Some(false) {
        let text = "bucket versioning is off: an object deleted by mistake is gone";
        findings.push(Finding::new(
            check,
            Verdict::Warn,
            text,
            format!("turn versioning on for {}", lake.url()),
        ));
    }
    let skew = report.clock_skew_ms;
    if skew.abs() >= SKEW_MS_WARN {
        let verdict = if skew.abs() >= SKEW_MS_FAIL {
            Verdict::Fail
        } else {
            Verdict::Warn
        };
        let text = format!(
            "this machine's clock differs from the store's by {:.1} s",
            skew as f64 / 1_000.0
        );
        findings.push(Finding::new(
            "clock",
            verdict,
            text,
            "let NTP set the clock",
        ));
    }
    findings
}

fn limits() -> Vec<Finding> {
    let mut findings = Vec::new();
    for (name, least) in [
        ("max_user_watches", WATCHES_MIN),
        ("max_queued_events", QUEUED_EVENTS_MIN),
    ] {
        let path = format!("/proc/sys/fs/inotify/{name}");
        let value = std::fs::read_to_string(path)
            .ok()
            .and_then(|text| text.trim().parse::<u64>().ok());
        findings.push(match value {
            Some(value) if value >= least => Finding::ok("inotify", format!("{name} is {value}")),
            Some(value) => Finding::new(
                "inotify",
                Verdict::Warn,
                format!("{name} is {value}: files may be noticed only by the next scan"),
                format!("sysctl fs.inotify.{name}={least}"),
            ),
            None => Finding::new(
                "inotify",
                Verdict::Warn,
                format!("cannot read {name}"),
                "files are found by scanning alone",
            ),
        });
    }
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile)
        .current
        .unwrap_or(u64::MAX);
    findings.push(if files >= OPEN_FILES_MIN {
        Finding::ok("open files", format!("the limit is {files}"))
    } else {
        let text = format!("the limit is {files}");
        Finding::new(
            "open files",
            Verdict::Warn,
            text,
            format!("raise it to {OPEN_FILES_MIN} with `ulimit -n` or LimitNOFILE"),
        )
    });
    findings
}

/// A clock far from the truth stamps records that sort wrong for ever.
fn clock(context: &Context) -> Finding {
    let now = context.clock.now();
    let built: jiff::Timestamp = "2026-01-01T00:00:00Z".parse().expect("a valid date");
    if now < built {
        let text = format!("it says {now:.0}, which is before this program was written");
        return Finding::new(
            "clock",
            Verdict::Fail,
            text,
            "set the clock, and let NTP keep it",
        );
    }
    Finding::ok("clock", format!("it says {now:.0}"))
}
