//! `cannery spool`: looking at what waits on this machine's disk.

use std::collections::BTreeSet;
use std::path::PathBuf;

use cannery_collect::quarantine::{Quarantine, Quarantined};
use cannery_collect::spool::SpoolStatus;
use indicatif::HumanBytes;
use jiff::Timestamp;
use serde_json::json;

use super::Context;
use crate::cli::spool::{HomeArg, QuarantineCommand, SpoolCommand};
use crate::config::Config;
use crate::config::spool::SpoolConfig;
use crate::failure::{ExitCode, Failure};
use crate::output::counted;
use crate::spools::{self, InQuarantine};

mod check;

pub(crate) async fn run(command: &SpoolCommand, context: &Context) -> Result<ExitCode, Failure> {
    let config = context.config().await?;
    match command {
        SpoolCommand::Status { experiment } => {
            for spool in named(&config, experiment.as_deref())? {
                show_status(spool, &config, context)?;
            }
            Ok(ExitCode::Ok)
        }
        SpoolCommand::Quarantine(QuarantineCommand::Ls { home }) => {
            quarantine_ls(&homes(&config, home), context)
        }
        SpoolCommand::Quarantine(QuarantineCommand::Release { ids, all, home }) => {
            let ids = (!all).then_some(ids.as_slice());
            quarantine_release(&homes(&config, home), ids, context)
        }
        SpoolCommand::Check {
            experiment,
            contents,
            storage,
        } => {
            let spools = named(&config, experiment.as_deref())?;
            check::run(&spools, *contents, storage, &config, context).await
        }
    }
}

/// The spools of the configuration, or the one of this name.
fn named<'a>(config: &'a Config, name: Option<&str>) -> Result<Vec<&'a SpoolConfig>, Failure> {
    let is_meant = |spool: &&SpoolConfig| name.is_none_or(|name| name == spool.experiment.as_str());
    let spools: Vec<_> = config.spools.iter().filter(is_meant).collect();
    if !spools.is_empty() {
        return Ok(spools);
    }
    let message = match name {
        Some(name) => format!(
            "there is no spool `{}` in the configuration",
            name.escape_debug()
        ),
        None => "there is no spool in the configuration".to_owned(),
    };
    let next = "name the configuration with `--config-file`; its spools stand under `spools`";
    Err(Failure::new(ExitCode::Absent, "absent", message, next))
}

fn show_status(spool: &SpoolConfig, config: &Config, context: &Context) -> Result<(), Failure> {
    let looked = spools::look(spool, config, context);
    let (found, quarantine) = looked.map_err(|error| unreadable("look at", &spool.home, &error))?;
    let value = json!({
        "experiment": spool.experiment.as_str(),
        "home": spool.home,
        "datatypes": found.datatypes,
        "bundles": found.bundles,
        "quarantine": { "files": quarantine.files, "bytes": quarantine.bytes },
    });
    let text = status_text(spool, &found, quarantine, context);
    context.output.in_lines().line(text, &value);
    Ok(())
}

fn status_text(
    spool: &SpoolConfig,
    found: &SpoolStatus,
    quarantine: InQuarantine,
    context: &Context,
) -> String {
    let now = context.clock.now();
    let mut lines = vec![format!("{} in {}", spool.experiment, spool.home.display())];
    for datatype in &found.datatypes {
        let oldest = datatype.oldest.map_or_else(String::new, |oldest| {
            format!(
                ", the oldest {} old",
                cannery_serve::span(seconds(oldest, now))
            )
        });
        lines.push(format!(
            "  {:<20} {} waiting ({}){oldest}",
            datatype.datatype,
            counted(datatype.files, "file"),
            HumanBytes(datatype.bytes),
        ));
    }
    for bundle in &found.bundles {
        let state = if bundle.shipped {
            "shipped, files being removed"
        } else {
            "sealed, not shipped"
        };
        lines.push(format!(
            "  bundle {}: {} ({}), {state}",
            bundle.id,
            counted(bundle.files, "file"),
            HumanBytes(bundle.bytes),
        ));
    }
    if found.bundles.is_empty() {
        lines.push("  no sealed bundle waits to be shipped".to_owned());
    }
    lines.push(format!(
        "  quarantine: {} ({})",
        counted(quarantine.files, "file"),
        HumanBytes(quarantine.bytes)
    ));
    lines.join("\n")
}

fn seconds(from: Timestamp, to: Timestamp) -> u64 {
    u64::try_from(to.duration_since(from).as_secs()).unwrap_or(0)
}

/// The folders whose quarantine is meant.
fn homes(config: &Config, arg: &HomeArg) -> Vec<PathBuf> {
    if let Some(home) = &arg.home {
        return vec![home.clone()];
    }
    let configured: BTreeSet<PathBuf> = config
        .spools
        .iter()
        .map(|spool| spool.home.clone())
        .collect();
    if configured.is_empty() {
        return vec![config.workspace.join("spool")];
    }
    configured.into_iter().collect()
}

fn quarantine(home: &std::path::Path, context: &Context) -> std::io::Result<Quarantine> {
    // Whoever looks evicts nothing.
    Quarantine::open(context.disk(), context.clock.clone(), home, u64::MAX)
}

fn quarantine_ls(homes: &[PathBuf], context: &Context) -> Result<ExitCode, Failure> {
    for home in homes {
        let failed = |error| unreadable("list", home, &error);
        let listed = quarantine(home, context)
            .map_err(failed)?
            .list()
            .map_err(failed)?;
        for file in &listed {
            context
                .output
                .line(entry_text(file), &entry_value(file, home));
        }
    }
    Ok(ExitCode::Ok)
}

fn entry_text(file: &Quarantined) -> String {
    match &file.reason {
        Some(reason) => format!(
            "{}  {:>9}  {:<12} {}: {}",
            file.id,
            HumanBytes(file.bytes).to_string(),
            reason.reason,
            reason.file.escape_debug(),
            reason.text.escape_debug()
        ),
        None => format!(
            "{}  {:>9}  its reason was lost",
            file.id,
            HumanBytes(file.bytes).to_string()
        ),
    }
}

fn entry_value(file: &Quarantined, home: &std::path::Path) -> serde_json::Value {
    json!({
        "id": file.id,
        "home": home,
        "bytes": file.bytes,
        "reason": file.reason.as_ref().map(|reason| &reason.reason),
        "text": file.reason.as_ref().map(|reason| &reason.text),
        "file": file.reason.as_ref().map(|reason| &reason.file),
        "quarantined": file.reason.as_ref().map(|reason| reason.quarantined),
    })
}

fn quarantine_release(
    homes: &[PathBuf],
    ids: Option<&[String]>,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let mut failures = Vec::new();
    let mut absent: Vec<&String> = ids.unwrap_or_default().iter().collect();
    for home in homes {
        let failed = |error| unreadable("open", home, &error);
        let mut quarantine = quarantine(home, context).map_err(failed)?;
        let listed = quarantine.list().map_err(failed)?;
        for file in listed {
            if ids.is_some_and(|ids| !ids.contains(&file.id)) {
                continue;
            }
            absent.retain(|id| **id != file.id);
            match quarantine.release(&file.id) {
                Ok(place) => context.output.line(
                    format!("{} is back at {}", file.id, home.join(&place).display()),
                    &json!({ "id": file.id, "outcome": "released", "file": home.join(&place) }),
                ),
                Err(error) => failures.push(format!("`{}`: {error}", file.id)),
            }
        }
    }
    if !failures.is_empty() {
        let message = format!("not put back: {}", failures.join("; "));
        let next = "move away what lies in its place, or take the file from the quarantine by hand";
        return Err(Failure::new(
            ExitCode::Partial,
            "not_released",
            message,
            next,
        ));
    }
    match absent.first() {
        None => Ok(ExitCode::Ok),
        Some(id) => {
            let message = format!("the quarantine has no `{}`", id.escape_debug());
            let next = "see what there is with `cannery spool quarantine ls`";
            Err(Failure::new(ExitCode::Absent, "absent", message, next))
        }
    }
}

fn unreadable(what: &str, home: &std::path::Path, error: &std::io::Error) -> Failure {
    let message = format!("cannot {what} the spool in `{}`: {error}", home.display());
    Failure::new(
        ExitCode::Error,
        "spool_unusable",
        message,
        "make the folder readable for this user",
    )
}
