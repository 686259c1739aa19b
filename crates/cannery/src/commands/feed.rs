//! `cannery feed`: one download to look at, and what this machine has of feeds.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use cannery_collect::feed::monitor::{Done, Totals};
use cannery_collect::feed::{FetchError, Fetched, Fetcher};
use cannery_formats::Digest;
use cannery_formats::feed::{DownloadName, FeedId};
use indicatif::HumanBytes;
use jiff::Timestamp;
use serde_json::json;

use super::site::unknown_feed;
use super::{Context, Patience};
use crate::cli::feed::FeedCommand;
use crate::config::Config;
use crate::config::feed::FeedConfig;
use crate::failure::{ExitCode, Failure};
use crate::feeds::FeedTools;
use crate::lakes;
use crate::output::counted;

/// So much of a text is shown.
const SHOWN_BYTES: usize = 400;

pub(crate) async fn run(command: &FeedCommand, context: &Context) -> Result<ExitCode, Failure> {
    let config = context.config().await?;
    match command {
        FeedCommand::Test { id, body } => {
            let feed = named(&config, id)?;
            test(feed, *body, context).await
        }
        FeedCommand::Status { ids } => status(&config, ids, context),
    }
}

fn named<'a>(config: &'a Config, id: &str) -> Result<&'a FeedConfig, Failure> {
    let feeds = &config.feeds;
    let named = feeds.iter().find(|feed| feed.id.as_str() == id);
    named.ok_or_else(|| unknown_feed(id, feeds.iter().map(|feed| feed.id.as_str())))
}

async fn test(feed: &FeedConfig, with_body: bool, context: &Context) -> Result<ExitCode, Failure> {
    let failed = |error: FetchError| {
        let message = format!("cannot download feed `{}`: {error}", feed.id);
        let next = "check its `url`, `headers`, `timeout`, `max_bytes` and `allow_private`";
        Failure::new(ExitCode::Error, "download", message, next)
    };
    let fetcher = Fetcher::new(context.clock.clone(), 1).map_err(failed)?;
    let (begun, time) = (context.clock.elapsed(), context.clock.now());
    let settings = feed.settings();
    let fetched = fetcher.fetch(&settings.ask, None).await.map_err(failed)?;
    let took = context.clock.since(begun);
    let Fetched::Body {
        content, status, ..
    } = fetched
    else {
        let message = format!(
            "feed `{}` answers `not modified` to a first request",
            feed.id
        );
        let next = "set `conditional: false`";
        return Err(Failure::new(ExitCode::Error, "download", message, next));
    };
    let digest = Digest::of(&content);
    let name = DownloadName::new(feed.id.clone(), time, &digest, &feed.postfix);
    let text = format!(
        "status {status}, {} in {} ms\nwould be stored as {name}\n{}",
        HumanBytes(content.len() as u64),
        took.as_millis(),
        beginning(&content)
    );
    let value = json!({
        "feed": feed.id, "status": status, "bytes": content.len(), "ms": took.as_millis(),
        "name": name.to_string(), "sha256": digest,
    });
    if with_body {
        context.output.in_lines().aside(text, &value);
        context.output.raw(&content);
    } else {
        let output = context.output.in_lines();
        output.event("downloaded", text, &value);
    }
    Ok(ExitCode::Ok)
}

/// What a body begins with, if that is text.
fn beginning(content: &[u8]) -> String {
    let head = &content[..content.len().min(SHOWN_BYTES)];
    let is_readable = |text: &str| !text.chars().any(|c| c.is_control() && !c.is_whitespace());
    let text = match std::str::from_utf8(head) {
        Ok(text) => text,
        // Cut in the middle of a character.
        Err(error) if error.error_len().is_none() => {
            std::str::from_utf8(&head[..error.valid_up_to()]).unwrap_or_default()
        }
        Err(_) => return "(not text)".to_owned(),
    };
    match is_readable(text) {
        true => text.to_owned(),
        false => "(not text)".to_owned(),
    }
}

fn status(config: &Config, named: &[String], context: &Context) -> Result<ExitCode, Failure> {
    let mirrors = lakes::open(config, &context.tools(Patience::Person))?;
    let tools = FeedTools::new(config, &mirrors, context, "cannery feed status");
    let unreadable = |error: io::Error| {
        let message = format!("cannot look at the folders of feeds: {error}");
        Failure::new(ExitCode::Error, "feeds", message, "check `--workspace`")
    };
    let depot = tools.depot();
    let unpacked = depot.unpacked().map_err(unreadable)?;
    let hours = unpacked.hours;
    let waiting = depot.waiting().map_err(unreadable)?;
    let totals = match tools.has_logs() {
        true => tools.monitor()?.totals(),
        false => BTreeMap::new(),
    };
    let mut ids: BTreeSet<FeedId> = totals.keys().cloned().collect();
    ids.extend(config.feeds.iter().map(|feed| feed.id.clone()));
    ids.extend(hours.iter().map(|(feed, _)| feed.clone()));
    ids.extend(waiting.iter().map(|name| name.feed.clone()));
    for name in named {
        if !ids.iter().any(|id| id.as_str() == name) {
            return Err(unknown_feed(name, ids.iter().map(FeedId::as_str)));
        }
    }
    let is_meant = |id: &&FeedId| named.is_empty() || named.iter().any(|name| id.as_str() == name);
    for id in ids.iter().filter(is_meant) {
        let known = totals.get(id).cloned().unwrap_or_default();
        let unpacked = hours.iter().filter(|(feed, _)| feed == id).count() as u64;
        let unshipped = waiting.iter().filter(|name| name.feed == *id).count() as u64;
        let text = describe(id, &known, (unpacked, unshipped), context.clock.now());
        let value = json!({
            "feed": id, "totals": known, "hours_unpacked": unpacked, "archives_unshipped": unshipped,
            "configured": config.feeds.iter().any(|feed| feed.id == *id),
        });
        context.output.event("feed", text, &value);
    }
    for path in &unpacked.odd {
        let text = format!("not a body of a feed, left where it is: {}", path.display());
        context.output.event("odd", text, &json!({ "path": path }));
    }
    for path in depot.damaged().map_err(unreadable)? {
        let text = format!(
            "damaged on this disk, not shipped and set aside: {}",
            path.display()
        );
        let value = json!({ "path": path });
        context.output.event("damaged", text, &value);
    }
    if ids.is_empty() {
        let message = "there are no feeds";
        let next = "list feeds in the configuration under `feeds`, then run `cannery collect`";
        return Err(Failure::new(ExitCode::Absent, "absent", message, next));
    }
    Ok(ExitCode::Ok)
}

fn describe(
    id: &FeedId,
    totals: &Totals,
    (unpacked, unshipped): (u64, u64),
    now: Timestamp,
) -> String {
    let ago = |time: Option<Timestamp>| match time {
        None => "never".to_owned(),
        Some(time) => {
            let seconds = now.duration_since(time).as_secs();
            format!(
                "{} ago",
                cannery_serve::span(u64::try_from(seconds).unwrap_or_default())
            )
        }
    };
    let done = |what: &str, done: &Done| format!("{} {what}, last {}", done.ok, ago(done.last));
    format!(
        "{id}: {} stored, {} unchanged, {} failed, {} missed, last success {}; {}; {}; {}; here {} to pack and {} to ship",
        totals.stored,
        totals.unchanged,
        totals.failed,
        totals.missed,
        ago(totals.last_success),
        done("packed", &totals.archives),
        done("uploaded", &totals.uploads),
        done("consolidated", &totals.consolidations),
        counted(unpacked, "hour"),
        counted(unshipped, "archive"),
    )
}
