//! Numbers of a journal.

use cannery_journal::{Date, Health, Stats};
use serde_json::{Value, json};

use super::Context;
use crate::failure::{ExitCode, Failure};
use crate::journals::Opened;

pub(super) async fn stats(opened: &Opened, context: &Context) -> Result<ExitCode, Failure> {
    let stats = opened.journal.stats().await?;
    let health = match opened.journal.health() {
        Health::Good => None,
        Health::Warn(text) | Health::Bad(text) => Some(text),
    };
    let text = text(opened, &stats, health.as_deref());
    context
        .output
        .in_lines()
        .line(text, &value(opened, &stats, health.as_deref()));
    Ok(ExitCode::Ok)
}

fn value(opened: &Opened, stats: &Stats, health: Option<&str>) -> Value {
    json!({
        "journal": opened.journal.name(),
        "engine": opened.engine,
        "waiting": stats.waiting(),
        "due": stats.due(),
        "processing": stats.processing(),
        "dead": stats.dead,
        "oldest_due": stats.oldest_due,
        "next_due": stats.next_due,
        "oldest_lease": stats.oldest_lease,
        "version": stats.version,
        "depths": stats.depths,
        "counts": stats.counts,
        "health": health,
    })
}

fn text(opened: &Opened, stats: &Stats, health: Option<&str>) -> String {
    let mut lines = vec![
        format!("journal {} ({})", opened.journal.name(), opened.engine),
        format!(
            "  waiting {}, due {}, processing {}, dead {}",
            stats.waiting(),
            stats.due(),
            stats.processing(),
            stats.dead
        ),
    ];
    let date = |date: Option<Date>| date.map_or_else(|| "-".to_owned(), |date| date.to_string());
    lines.push(format!("  due for longest  {}", date(stats.oldest_due)));
    lines.push(format!("  next due         {}", date(stats.next_due)));
    if !stats.depths.is_empty() {
        lines.push("  priority  waiting      due  blocked  processing".to_owned());
    }
    for depth in &stats.depths {
        lines.push(format!(
            "  {:>8} {:>8} {:>8} {:>8} {:>11}",
            depth.priority.0, depth.waiting, depth.due, depth.blocked, depth.processing
        ));
    }
    let mut counts = stats.counts;
    let happened: Vec<String> = counts
        .fields_mut()
        .into_iter()
        .filter(|(_, count)| **count > 0)
        .map(|(name, count)| format!("{name} {count}"))
        .collect();
    if !happened.is_empty() {
        lines.push(format!("  so far: {}", happened.join(", ")));
    }
    if let Some(health) = health {
        lines.push(format!("  look: {health}"));
    }
    lines.join("\n")
}
