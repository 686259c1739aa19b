//! `cannery gaps`: when nothing was collected of feeds, and why.

use std::fmt;

use cannery_formats::Key;
use cannery_formats::feed::{FeedId, Hour};
use cannery_pipeline::gaps::{CoverageReader, Gap, HourCoverage, HourState, Seen, joined};
use cannery_pipeline::{Scope, Store};
use jiff::{SignedDuration, Timestamp};
use serde_json::json;

use super::Context;
use super::site::{Site, checked, show_listed};
use crate::cli::feed::GapsArgs;
use crate::failure::{ExitCode, Failure};
use crate::output::counted;

const BACK: SignedDuration = SignedDuration::from_hours(24);

pub(crate) async fn run(args: &GapsArgs, context: &Context) -> Result<ExitCode, Failure> {
    let site = Site::open(context).await?;
    let stores = match args.object_storage_ids.is_empty() {
        true => site.first().await?,
        false => site.stores(&args.object_storage_ids).await?,
    };
    let reader = CoverageReader::new(site.scratch(context)?);
    let scope = checked(args.hours.scope())?;
    site.known(&stores, scope.feeds.as_ref(), context).await?;
    let now = context.clock.now();
    let range = Range::of(&scope, now)?;
    let mut found = false;
    for store in &stores {
        let feeds = match &scope.feeds {
            Some(feeds) => feeds.clone(),
            None => site.feeds(store, context).await?,
        };
        if feeds.is_empty() {
            let message = "there is no feed in the lake or in the configuration";
            let next = "list feeds in the configuration under `feeds`, then run `cannery collect`";
            return Err(Failure::new(ExitCode::Absent, "absent", message, next));
        }
        for feed in &feeds {
            let subject = Subject {
                feed,
                store: store.id(),
                is_one_of_several: stores.len() > 1,
            };
            let hours = read(&reader, store, feed, (&range, now), context).await?;
            found |= show(&subject, &hours, &range, context);
        }
    }
    Ok(match found {
        true => ExitCode::Findings,
        false => ExitCode::Ok,
    })
}

async fn read(
    reader: &CoverageReader,
    store: &Store,
    feed: &FeedId,
    (range, now): (&Range, Timestamp),
    context: &Context,
) -> Result<Vec<HourCoverage>, Failure> {
    let counter = context.output.counter();
    let mut read = 0;
    let mut seen = |seen: Seen<'_>| match seen {
        Seen::Listed { objects } => show_listed(&counter, objects),
        Seen::Hour(_) => {
            read += 1;
            counter.set_message(format!("{feed}: {} read", counted(read, "hour")));
        }
    };
    let ends = (range.from, range.to);
    let hours = reader.hours(&store.lake, feed, ends, now, &mut seen).await;
    counter.finish_and_clear();
    Ok(hours?)
}

/// A feed of one object storage.
struct Subject<'a> {
    feed: &'a FeedId,
    store: &'a str,
    is_one_of_several: bool,
}

impl fmt::Display for Subject<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.is_one_of_several {
            true => write!(f, "{} in `{}`", self.feed, self.store),
            false => write!(f, "{}", self.feed),
        }
    }
}

/// Which hours are looked at.
#[derive(Debug, PartialEq, Eq)]
struct Range {
    from: Hour,
    to: Hour,
    /// The hour that is not over, when nobody asked for it by name.
    left_out: Option<Hour>,
}

impl Range {
    /// What a person means by `scope`. Hours that have not begun are not looked at: there cannot be anything in them.
    fn of(scope: &Scope, now: Timestamp) -> Result<Self, Failure> {
        let current = Hour::of(now);
        let end = current.next().unwrap_or(current);
        let to = match (scope.to, scope.from) {
            (Some(to), _) => to.min(end),
            (None, Some(from)) if from >= current => end,
            (None, _) => current,
        };
        let back = to.begin().checked_sub(BACK).unwrap_or(to.begin());
        let from = scope.from.unwrap_or(Hour::of(back));
        if from >= to {
            let message = format!("the hours from `{from}` on have not begun: it is {now}");
            let next = "choose a `--start-time` in the past";
            return Err(Failure::new(ExitCode::Usage, "range", message, next));
        }
        let is_left_out = scope.to.is_none() && to == current;
        let left_out = is_left_out.then_some(current);
        Ok(Self { from, to, left_out })
    }
}

/// Shows one feed; says whether anything of it is missing, or may be: what an archive holds that cannot be read, nobody knows.
fn show(of: &Subject<'_>, hours: &[HourCoverage], range: &Range, context: &Context) -> bool {
    let (feed, store) = (of.feed, of.store);
    let (deleted, gaps): (Vec<Gap>, Vec<Gap>) =
        joined(hours).into_iter().partition(Gap::is_deleted);
    for (event, gaps) in [("gap", &gaps), ("deleted", &deleted)] {
        for gap in gaps {
            let value = json!({
                "store": store, "feed": feed, "from": gap.from, "to": gap.to, "reasons": gap.reasons,
            });
            context.output.event(event, format!("{of}: {gap}"), &value);
        }
    }
    let unreadable: Vec<&Key> = hours.iter().flat_map(|hour| &hour.unreadable).collect();
    for key in &unreadable {
        let text = format!("{of}: archive `{key}` cannot be read; `cannery audit` says why");
        let value = json!({ "store": store, "feed": feed, "key": key });
        context.output.event("unreadable", text, &value);
    }
    let (text, value) = summary(of, hours, gaps.len(), range);
    context.output.event("covered", text, &value);
    !gaps.is_empty() || !unreadable.is_empty()
}

fn summary(
    of: &Subject<'_>,
    hours: &[HourCoverage],
    gaps: usize,
    range: &Range,
) -> (String, serde_json::Value) {
    let total = |of: fn(&HourCoverage) -> u64| hours.iter().map(of).sum::<u64>();
    let in_state = |state| hours.iter().filter(|hour| hour.state == state).count() as u64;
    let (stored, unchanged) = (total(|hour| hour.stored), total(|hour| hour.unchanged));
    let (failed, not_made) = (total(|hour| hour.failed), total(|hour| hour.not_collected));
    let not_due = total(|hour| hour.not_due);
    let (unknown, absent) = (in_state(HourState::Unknown), in_state(HourState::Absent));
    let (deleted, not_over) = (in_state(HourState::Deleted), in_state(HourState::NotOver));
    let mut text = format!(
        "{of}: {} from {} to {}; polls: {stored} stored, {unchanged} unchanged, {failed} failed, {not_made} not made",
        counted(hours.len() as u64, "hour"),
        range.from.begin(),
        range.to.begin(),
    );
    for (count, what) in [
        (not_due, "not due yet"),
        (absent, "without an archive"),
        (unknown, "of which no archive says what was polled"),
        (deleted, "deleted on purpose"),
        (not_over, "not over and not packed yet"),
    ] {
        if count > 0 {
            let is_polls = what == "not due yet";
            let count = match is_polls {
                true => count.to_string(),
                false => counted(count, "hour"),
            };
            let joint = if is_polls { ", " } else { "; " };
            text += &format!("{joint}{count} {what}");
        }
    }
    let unreadable = total(|hour| hour.unreadable.len() as u64);
    if unreadable > 0 {
        let archives = counted(unreadable, "archive");
        text += &format!("; {archives} not readable");
    }
    text += &format!("; {}", counted(gaps as u64, "gap"));
    if let Some(hour) = range.left_out {
        text += &format!("; hour {hour} is not over and left out: `--end-time` takes it in");
    }
    let value = json!({
        "store": of.store, "feed": of.feed, "from": range.from.begin(), "to": range.to.begin(), "left_out": range.left_out, "hours": hours.len(),
        "stored": stored, "unchanged": unchanged, "failed": failed, "not_collected": not_made, "not_due": not_due,
        "absent_hours": absent, "unknown_hours": unknown, "deleted_hours": deleted, "not_over_hours": not_over, "unreadable": unreadable, "gaps": gaps,
    });
    (text, value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hour(text: &str) -> Hour {
        text.parse().unwrap()
    }

    fn range(from: Option<&str>, to: Option<&str>) -> Result<Range, String> {
        let scope = Scope {
            feeds: None,
            from: from.map(hour),
            to: to.map(hour),
        };
        let now = "2026-11-15T18:24:00Z".parse().unwrap();
        Range::of(&scope, now).map_err(|failure| failure.message)
    }

    #[test]
    fn hours_that_have_not_begun_are_not_looked_at_and_the_current_one_only_if_it_is_asked_for() {
        let said = |from: &str, to: &str, left_out: Option<&str>| {
            Ok(Range {
                from: hour(from),
                to: hour(to),
                left_out: left_out.map(hour),
            })
        };
        let now = Some("20261115T18Z");
        assert_eq!(range(None, None), said("20261114T18Z", "20261115T18Z", now));
        let earlier = Some("20261115T10Z");
        assert_eq!(
            range(earlier, None),
            said("20261115T10Z", "20261115T18Z", now)
        );
        assert_eq!(
            range(earlier, Some("20990101T00Z")),
            said("20261115T10Z", "20261115T19Z", None)
        );
        assert_eq!(range(now, None), said("20261115T18Z", "20261115T19Z", None));
        let error = range(Some("20261115T19Z"), None).unwrap_err();
        assert!(error.contains("have not begun"), "{error}");
    }
}
