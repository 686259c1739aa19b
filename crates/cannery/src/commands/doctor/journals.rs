//! Whether the journals can be used, and whether a person should look at one.

use std::collections::BTreeSet;
use std::time::Duration;

use cannery_journal::Health;

use super::{Finding, Verdict};
use crate::commands::Context;
use crate::config::Config;
use crate::config::journal::{DEFAULT_JOURNAL, EngineAddress};
use crate::failure::Failure;
use crate::journals::{Journals, Opened, folders};

/// A person waits for the answer.
const LIMIT: Duration = Duration::from_secs(15);

pub(super) async fn findings(config: &Config, context: &Context) -> Vec<Finding> {
    let journals = Journals::new(config, &context.clock, &context.rng);
    let mut findings = Vec::new();
    for name in names(config) {
        let check = format!("journal {name}");
        let looked = async {
            let Some(opened) = journals.look(&name).await? else {
                let text = "does not exist yet; the first add or `cannery up` makes it";
                return Ok(Finding::ok(&check, text));
            };
            let finding = look_at(&opened, &check).await;
            opened.close().await;
            finding
        };
        findings.push(match context.clock.timeout(LIMIT, looked).await {
            Ok(Ok(finding)) => finding,
            Ok(Err(failure)) => Finding::new(&check, Verdict::Fail, failure.message, failure.next),
            Err(late) => Finding::new(
                &check,
                Verdict::Fail,
                format!("no answer: {late}"),
                "check the `engine` of the journal",
            ),
        });
    }
    journals.close().await;
    findings
}

/// The journals of the configuration, and those that have a folder of their own.
fn names(config: &Config) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = config.journals.keys().cloned().collect();
    if config.journals[DEFAULT_JOURNAL].engine == EngineAddress::Embedded {
        names.extend(folders(config));
    }
    names
}

async fn look_at(opened: &Opened, check: &str) -> Result<Finding, Failure> {
    let name = opened.journal.name();
    let stats = opened.journal.stats().await?;
    let text = format!(
        "{}: {} waiting, {} processing, {} dead",
        opened.engine,
        stats.waiting(),
        stats.processing(),
        stats.dead
    );
    Ok(match opened.journal.health() {
        Health::Bad(reason) => Finding::new(
            check,
            Verdict::Fail,
            format!("{text}; {reason}"),
            "see the log of the process that owns it",
        ),
        Health::Warn(reason) => Finding::new(
            check,
            Verdict::Warn,
            format!("{text}; {reason}"),
            "look at the log and the folder `damaged` of the journal",
        ),
        Health::Good if stats.dead > 0 => Finding::new(
            check,
            Verdict::Warn,
            text,
            format!("see `cannery journal dead ls {name}`"),
        ),
        Health::Good => Finding::ok(check, text),
    })
}
