//! Entries, looked at without changing them.

use cannery_journal::{Journal, Key, Query, Status};

use super::view::{self, EntryView};
use super::{Context, absent};
use crate::cli::journal::FilterArgs;
use crate::failure::{ExitCode, Failure};
use crate::journals::Opened;

/// Pages through everything that is wanted.
pub(super) async fn list(
    opened: &Opened,
    statuses: &[Status],
    filter: &FilterArgs,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let mut left = filter.limit.unwrap_or(u64::MAX);
    let mut query = Query {
        statuses: statuses.to_vec(),
        prefix: filter.prefix.clone(),
        priority: filter.priority,
        ..Query::all()
    };
    let mut given = 0;
    while left > 0 {
        query.limit =
            u32::try_from(left).map_or(Query::LIMIT_MAX, |left| left.min(Query::LIMIT_MAX));
        let page = opened
            .journal
            .list(query.clone())
            .await
            .map_err(|error| Failure::from(error).after_partial_output(given))?;
        for entry in &page.entries {
            context
                .output
                .line(view::listed(entry), &EntryView::of(entry));
        }
        given += page.entries.len();
        left = left.saturating_sub(page.entries.len() as u64);
        match page.next {
            Some(next) => query.after = Some(next),
            None => break,
        }
    }
    Ok(ExitCode::Ok)
}

pub(super) async fn get(
    journal: &Journal,
    key: Key,
    context: &Context,
) -> Result<ExitCode, Failure> {
    let entries = journal.get(key.clone()).await?;
    if entries.is_empty() {
        return Err(absent(journal, &key, "entry", "ls"));
    }
    for entry in &entries {
        context
            .output
            .in_lines()
            .line(view::whole(entry), &EntryView::of(entry));
    }
    Ok(ExitCode::Ok)
}
