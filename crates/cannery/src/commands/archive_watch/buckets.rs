//! The page of all buckets, and the card of the archive.

use std::collections::BTreeMap;

use cannery_catalog::Count;
use cannery_formats::BucketDate;
use cannery_pipeline::look::{Look, Seal};
use cannery_pipeline::stage::Stage;
use cannery_serve::{Card, Cell, Content, Figures, Hint, Links, Markup, Panel, State, Table, span};
use cannery_state::{Execution, Outcome};
use indicatif::{HumanBytes, HumanCount};
use jiff::Timestamp;

use super::snapshot::{BUCKETS_MAX, DEAD_MAX, Snapshot, Work, is_of_bucket};
use super::{ArchiveWatch, address, moment_of};
use crate::config::journal::PIPELINE_JOURNAL;
use crate::output::counted;

const LEAD: &str = "Reports by the date they arrived. They become cans, cans become sanitised archives, archives become rows of the \
                    catalog; at the end of its day a bucket is sealed.";

/// What is known of a bucket.
#[derive(Debug, Default)]
pub(super) struct Line<'a> {
    pub(super) look: Option<Look>,
    pub(super) files: u64,
    pub(super) file_bytes: u64,
    pub(super) text_bytes: u64,
    pub(super) reports: u64,
    pub(super) measurements: u64,
    pub(super) duplicates: u64,
    pub(super) bad_blobs: u64,
    pub(super) bad_rows: u64,
    pub(super) outdated: u64,
    pub(super) kinds: Vec<&'a Count>,
    last: BTreeMap<&'a str, &'a Execution>,
    waiting: u64,
    processing: u64,
    dead: u64,
}

impl<'a> Line<'a> {
    pub(super) fn of(snapshot: &'a Snapshot, bucket: BucketDate) -> Self {
        let date = bucket.to_string();
        let mut line = Self {
            look: snapshot.looks.value.get(&bucket).copied(),
            dead: work_of(&snapshot.work.value.dead_of, &date),
            ..Self::default()
        };
        let counts = snapshot.counts.value.iter();
        for count in counts.filter(|count| count.bucket == date) {
            line.files += count.files;
            line.file_bytes += count.file_bytes;
            line.text_bytes += count.text_bytes;
            line.reports += count.reports;
            line.measurements += count.measurements;
            line.duplicates += count.duplicates;
            line.bad_blobs += count.bad_blobs;
            line.bad_rows += count.bad_rows;
            line.outdated += count.files_outdated;
            line.kinds.push(count);
        }
        let last = snapshot.last.value.iter();
        let last = last.filter(|run| is_of_bucket(&run.stage));
        let last = last.filter(|run| run.bucket.as_deref() == Some(date.as_str()));
        line.last = last.map(|run| (run.stage.as_str(), run)).collect();
        for ((of, stage), (waiting, processing)) in &snapshot.work.value.open {
            if *of == date && is_of_bucket(stage) {
                line.waiting += waiting;
                line.processing += processing;
            }
        }
        line
    }

    pub(super) fn state(&self) -> State {
        let runs = self.last.values().map(|run| judged(run.result));
        let runs = runs.max().unwrap_or(State::Idle);
        match self.dead {
            0 => runs,
            _ => State::Bad,
        }
    }

    pub(super) fn seal(&self) -> &'static str {
        match self.look.map(|look| look.seal) {
            None => "not known",
            Some(Seal::Open) => "open",
            Some(Seal::Closing) => "closing",
            Some(Seal::Sealed) => "sealed",
        }
    }

    /// The last run of each stage, in the order in which a report passes them.
    pub(super) fn runs(&self, now: Timestamp) -> String {
        let runs = Stage::ALL.iter().filter_map(|stage| {
            let run = self.last.get(stage.name())?;
            let ago = ago(now, run.ended.unwrap_or(run.started));
            Some(match run.result {
                Outcome::Done => format!("`{}` {ago}", run.stage),
                result => format!("`{}` {} {ago}", run.stage, said(result)),
            })
        });
        let runs: Vec<String> = runs.collect();
        match runs.is_empty() {
            true => "none in two weeks".to_owned(),
            false => runs.join(", "),
        }
    }

    pub(super) fn work(&self) -> String {
        let parts = [
            (self.waiting, "waiting"),
            (self.processing, "running"),
            (self.dead, "given up"),
        ];
        let parts = parts.iter().filter(|(count, _)| *count > 0);
        let parts: Vec<String> = parts
            .map(|(count, what)| format!("{} {what}", HumanCount(*count)))
            .collect();
        match parts.is_empty() {
            true => "none".to_owned(),
            false => parts.join(", "),
        }
    }
}

fn work_of(of: &BTreeMap<String, u64>, bucket: &str) -> u64 {
    of.get(bucket).copied().unwrap_or(0)
}

/// How a result is to be taken.
pub(super) fn judged(result: Outcome) -> State {
    match result {
        Outcome::Running | Outcome::Done => State::Good,
        Outcome::PutOff | Outcome::Retried | Outcome::Lost | Outcome::CutOff => State::Warn,
        Outcome::Failed => State::Bad,
    }
}

/// A result for people.
pub(super) fn said(result: Outcome) -> &'static str {
    match result {
        Outcome::Running => "running",
        Outcome::Done => "done",
        Outcome::PutOff => "put off",
        Outcome::Retried => "retried",
        Outcome::Failed => "failed",
        Outcome::Lost => "lost",
        Outcome::CutOff => "cut off",
    }
}

/// How long ago, for people.
pub(super) fn ago(now: Timestamp, at: Timestamp) -> String {
    let seconds = now.duration_since(at).as_secs();
    match u64::try_from(seconds) {
        Ok(0..2) | Err(_) => "just now".to_owned(),
        Ok(seconds) => format!("{} ago", span(seconds)),
    }
}

pub(super) fn count(count: u64) -> String {
    HumanCount(count).to_string()
}

pub(super) fn bytes(bytes: u64) -> String {
    HumanBytes(bytes).to_string()
}

/// The pages beside that of buckets.
pub(super) fn places(current: &str) -> Links {
    Links::new("Pages")
        .link("Buckets", address(&[], &[]), current == "buckets")
        .link("History", address(&["history"], &[]), current == "history")
        .link("Bad data", address(&["bad"], &[]), current == "bad")
}

impl ArchiveWatch {
    pub(super) fn all_cards(&self) -> Vec<Card> {
        let snapshot = self.look();
        let work = &snapshot.work.value;
        let dead: u64 = work.dead_of.values().sum();
        let card = |state| Card::new("archive", state);
        let mut card = match (snapshot.troubles().first(), dead) {
            (Some(trouble), _) if snapshot.is_whole() => card(State::Warn).note(*trouble),
            (_, 0) => card(match work.open.is_empty() {
                true => State::Idle,
                false => State::Good,
            }),
            (_, dead) => card(State::Warn).note(format!(
                "{} given up; see `cannery journal dead ls {PIPELINE_JOURNAL}{}`",
                counted(dead, "execution"),
                self.same_place
            )),
        };
        let measurements: u64 = snapshot
            .counts
            .value
            .iter()
            .map(|count| count.measurements)
            .sum();
        card = match snapshot.counts.read {
            Some(_) => card.value(count(measurements), "measurements"),
            None => card.value("?", "measurements"),
        };
        let waiting: u64 = work.open.values().map(|(waiting, _)| waiting).sum();
        let processing: u64 = work.open.values().map(|(_, processing)| processing).sum();
        vec![
            card.detail("buckets", format!("{} newest", snapshot.buckets().len()))
                .detail("waiting", count(waiting))
                .detail("running", count(processing))
                .detail("given up", count(dead)),
        ]
    }

    pub(super) async fn buckets_page(&self) -> Markup {
        let snapshot = self.first_look().await;
        let now = self.clock.now();
        Content::new("Archive", LEAD)
            .panel(self.buckets_panel(&snapshot, now))
            .panel(self.work_panel(&snapshot.work.value))
            .finish()
    }

    fn buckets_panel(&self, snapshot: &Snapshot, now: Timestamp) -> Panel {
        let buckets = snapshot.buckets();
        let lines: Vec<(BucketDate, Line<'_>)> = buckets
            .iter()
            .map(|bucket| (*bucket, Line::of(snapshot, *bucket)))
            .collect();
        let troubles = snapshot.troubles();
        let worst = lines.iter().map(|(_, line)| line.state()).max();
        let state = match troubles.is_empty() {
            true => worst.unwrap_or(State::Idle),
            false => State::Warn,
        };
        let mut panel = Panel::new("buckets", "Buckets", state).part(&places("buckets"));
        panel = match snapshot.read() {
            Some(read) => panel.aside(format!("read {}", ago(now, read))),
            None => panel.aside("being read"),
        };
        if !troubles.is_empty() {
            panel = panel.note(troubles.join("; "));
        }
        if lines.is_empty() {
            let text = "Nothing has arrived yet. Report files go into a folder of their date; bundles and hours are found in the lake.";
            let command = format!("cannery work --once{}", self.same_place);
            return panel.part(&Hint::new(text, command));
        }
        panel.part(&figures(&lines)).part(&table(&lines, now))
    }

    fn work_panel(&self, work: &Work) -> Panel {
        let dead: u64 = work.dead_of.values().sum();
        let state = match (dead, work.open.is_empty()) {
            (0, true) => State::Idle,
            (0, false) => State::Good,
            (_, _) => State::Bad,
        };
        let mut stages: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for ((_, stage), (waiting, processing)) in &work.open {
            let sum = stages.entry(stage).or_default();
            sum.0 += waiting;
            sum.1 += processing;
        }
        let columns = ["Stage", "Waiting", "Running", "Next", "Because"];
        let mut open = Table::new("What waits and runs", columns).empty("Nothing waits.");
        for (stage, (waiting, processing)) in stages {
            let history = address(&["history"], &[("stage", stage)]);
            let (due, why) = match work.next.get(stage) {
                Some((due, wait)) => (moment_of(Some(*due)), wait.to_string()),
                None if waiting > 0 => ("now".to_owned(), String::new()),
                None => Default::default(),
            };
            open = open.row(vec![
                Cell::code(stage).to(history),
                Cell::number(waiting),
                Cell::number(processing),
                Cell::time(due),
                Cell::prose(why),
            ]);
        }
        let mut given_up =
            Table::new("What was given up", ["When", "Work", "Why"]).empty("Nothing was given up.");
        for (key, at, why) in work.dead.iter().take(DEAD_MAX) {
            given_up = given_up.row(vec![
                Cell::time(moment_of(Some(*at))),
                Cell::code(key),
                Cell::prose(why),
            ]);
        }
        let how = format!(
            "cannery journal dead ls {PIPELINE_JOURNAL}{}",
            self.same_place
        );
        let mut panel = Panel::new("work", "Work", state)
            .part(&open)
            .part(&given_up.of(dead, &how));
        if work.is_cut {
            panel = panel.aside("the first of very many");
        }
        panel
    }
}

fn figures(lines: &[(BucketDate, Line<'_>)]) -> Figures {
    let sum = |of: fn(&Line<'_>) -> u64| lines.iter().map(|(_, line)| of(line)).sum::<u64>();
    let bad = sum(|line| line.bad_blobs + line.bad_rows);
    let state = |bad| if bad > 0 { State::Warn } else { State::Idle };
    Figures::new()
        .figure(
            "measurements",
            count(sum(|line| line.measurements)),
            State::Good,
        )
        .figure("files", count(sum(|line| line.files)), State::Good)
        .figure(
            "in archives",
            bytes(sum(|line| line.file_bytes)),
            State::Good,
        )
        .figure("of text", bytes(sum(|line| line.text_bytes)), State::Good)
        .figure("bad", count(bad), state(bad))
}

fn table(lines: &[(BucketDate, Line<'_>)], now: Timestamp) -> Table {
    let title = format!("The newest {BUCKETS_MAX} buckets");
    let heads = [
        "Bucket",
        "State",
        "Reports",
        "Cans",
        "Archives",
        "Loaded",
        "Measurements",
        "Bad",
        "Last runs",
        "Work",
    ];
    let mut table = Table::new(title, heads);
    for (bucket, line) in lines {
        let date = bucket.to_string();
        let look = |of: fn(Look) -> u64| {
            line.look
                .map_or_else(|| Cell::text("?"), |look| Cell::number(of(look)))
        };
        table = table.row(vec![
            Cell::time(&date).to(address(&[&date], &[])),
            Cell::state(line.state(), line.seal()),
            look(|look| look.reports),
            look(|look| look.cans),
            look(|look| look.archives),
            Cell::number(line.files),
            Cell::number(line.measurements),
            Cell::number(line.bad_blobs + line.bad_rows),
            Cell::prose(line.runs(now)),
            Cell::time(line.work()),
        ]);
    }
    table
}
