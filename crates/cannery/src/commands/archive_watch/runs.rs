//! What the stages did: every execution, by stage, bucket and result, with how long it took and how much it moved.

use cannery_pipeline::stage::Stage;
use cannery_serve::{Answer, Asked, Cell, Content, Links, Panel, Plot, State, Table, Visited};
use cannery_state::{Cursor, Execution, Filter, Outcome, StageSummary};
use jiff::SignedDuration;

use super::buckets::{bytes, count, judged, places, said};
use super::{ArchiveWatch, address, moment, nothing, trouble};

const LEAD: &str = "Every time that a stage ran, the newest first, on this and on other machines that share the history.";
const TROUBLE: &str = "trouble";
/// So many are drawn; the table has the first of them.
const DRAWN: u32 = 400;
const SUMMARY_BACK: SignedDuration = SignedDuration::from_hours(24 * 7);
/// Shorter ones say nothing about throughput.
const MEASURED_SECONDS_MIN: f64 = 0.001;
const MEGABYTE: f64 = 1_000_000.0;

/// What was chosen.
struct Choice<'a> {
    stage: Option<&'a str>,
    bucket: Option<&'a str>,
    result: Option<&'a str>,
}

impl<'a> Choice<'a> {
    /// Nothing for what nobody could have chosen.
    fn of(asked: &'a Asked) -> Option<Self> {
        let choice = Self {
            stage: asked.get("stage"),
            bucket: asked.get("bucket"),
            result: asked.get("result"),
        };
        let is_stage = |name: &str| Stage::ALL.iter().any(|stage| stage.name() == name);
        let is_result = |name: &str| name == TROUBLE || name.parse::<Outcome>().is_ok();
        let is_bucket = |date: &str| date.parse::<cannery_formats::BucketDate>().is_ok();
        let fits = choice.stage.is_none_or(is_stage)
            && choice.result.is_none_or(is_result)
            && choice.bucket.is_none_or(is_bucket);
        fits.then_some(choice)
    }

    fn filter(&self) -> Filter {
        Filter {
            stage: self.stage.map(ToOwned::to_owned),
            bucket: self.bucket.map(ToOwned::to_owned),
            results: match self.result {
                None => Vec::new(),
                Some(TROUBLE) => Outcome::TROUBLE.to_vec(),
                Some(name) => name.parse().into_iter().collect(),
            },
            ..Filter::default()
        }
    }

    /// The address of this choice, with another place in it.
    fn address(&self, after: Option<&str>) -> Option<cannery_serve::Address> {
        let pairs = [
            ("stage", self.stage),
            ("bucket", self.bucket),
            ("result", self.result),
            ("after", after),
        ];
        let pairs = pairs
            .iter()
            .filter_map(|(key, value)| Some((*key, (*value)?)));
        let pairs: Vec<(&str, &str)> = pairs.collect();
        address(&["history"], &pairs)
    }

    fn stages(&self) -> Links {
        let with = |stage| Choice { stage, ..*self }.address(None);
        let links = Links::new("Stage").link("all", with(None), self.stage.is_none());
        Stage::ALL.iter().fold(links, |links, stage| {
            let name = stage.name();
            links.link(name, with(Some(name)), self.stage == Some(name))
        })
    }

    fn results(&self) -> Links {
        let with = |result| Choice { result, ..*self }.address(None);
        let links = Links::new("Result")
            .link("all", with(None), self.result.is_none())
            .link(
                "not well",
                with(Some(TROUBLE)),
                self.result == Some(TROUBLE),
            );
        Outcome::ALL.iter().fold(links, |links, outcome| {
            let name = outcome.name();
            links.link(said(*outcome), with(Some(name)), self.result == Some(name))
        })
    }

    fn buckets(&self, known: &[String]) -> Links {
        let with = |bucket| Choice { bucket, ..*self }.address(None);
        let links = Links::new("Bucket").link("all", with(None), self.bucket.is_none());
        let mut dates: Vec<&str> = known.iter().take(8).map(String::as_str).collect();
        if let Some(bucket) = self.bucket.filter(|bucket| !dates.contains(bucket)) {
            dates.push(bucket);
        }
        dates.into_iter().fold(links, |links, date| {
            links.link(date, with(Some(date)), self.bucket == Some(date))
        })
    }
}

impl ArchiveWatch {
    pub(super) async fn runs_page(&self, asked: &Asked) -> Answer {
        let (Some(choice), Ok(after)) = (
            Choice::of(asked),
            asked.get("after").map(str::parse::<Cursor>).transpose(),
        ) else {
            return nothing();
        };
        let buckets: Vec<String> = self
            .look()
            .buckets()
            .iter()
            .map(ToString::to_string)
            .collect();
        let chosen = Panel::new("choice", "History", State::Idle)
            .part(&places("history"))
            .part(&choice.stages())
            .part(&choice.results())
            .part(&choice.buckets(&buckets));
        let content = Content::new("History of the stages", LEAD).panel(chosen);
        let content = match self.read_runs(&choice, after).await {
            Err(why) => content.panel(trouble("runs", "Executions", &why)),
            Ok((runs, summary)) => content
                .panel(drawn(&runs))
                .panel(listed(&runs, &choice))
                .panel(summed(&summary)),
        };
        Answer::Page(Visited::new("History", content.finish()))
    }

    async fn read_runs(
        &self,
        choice: &Choice<'_>,
        after: Option<Cursor>,
    ) -> Result<(Vec<Execution>, Vec<StageSummary>), String> {
        let (state, filter) = (self.state()?, choice.filter());
        let week = Filter {
            since: self.clock.now().checked_sub(SUMMARY_BACK).ok(),
            ..filter.clone()
        };
        let reading = async {
            let runs = state.executions(&filter, after, DRAWN).await?;
            let summary = state.summary(&week).await?;
            Ok::<_, cannery_state::Error>((runs.items, summary))
        };
        self.ask("the history", reading).await
    }
}

fn seconds(run: &Execution) -> Option<f64> {
    let took = run.ended?.duration_since(run.started);
    Some(took.as_secs_f64().max(0.0))
}

/// A size as a number that is drawn.
#[allow(clippy::cast_precision_loss, reason = "a picture is not that precise")]
fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / MEGABYTE
}

fn drawn(runs: &[Execution]) -> Panel {
    let done = || runs.iter().filter(|run| run.result == Outcome::Done);
    let timed = || done().filter_map(|run| Some((run, seconds(run)?)));
    let took = timed().map(|(run, seconds)| (run.started, seconds));
    let mut durations = Plot::new("Duration", "s")
        .values_are("an execution that ended well")
        .dots()
        .points(took);
    for run in runs.iter().filter(|run| judged(run.result) >= State::Warn) {
        let reason = run.reason.as_deref().unwrap_or_else(|| said(run.result));
        durations = durations.failed(run.started, reason);
    }
    let moved = timed().filter(|(run, took)| run.bytes_in > 0 && *took >= MEASURED_SECONDS_MIN);
    let moved = moved.map(|(run, took)| (run.started, megabytes(run.bytes_in) / took));
    let throughput = Plot::new("Throughput, of what was read", "MB/s")
        .values_are("an execution")
        .dots()
        .points(moved);
    let read = done().filter(|run| run.bytes_in > 0);
    let sizes = Plot::new("Size of what was read", "MB")
        .values_are("an execution")
        .dots()
        .points(read.map(|run| (run.started, megabytes(run.bytes_in))));
    Panel::new("plots", "Durations and sizes", State::Idle)
        .aside(format!("{} executions", runs.len()))
        .part(&durations)
        .beside(&throughput, &sizes)
}

fn duration(run: &Execution) -> String {
    match seconds(run) {
        None => "not known".to_owned(),
        Some(seconds) if seconds < 10.0 => format!("{seconds:.2} s"),
        Some(seconds) if seconds < 120.0 => format!("{seconds:.0} s"),
        Some(seconds) => format!("{:.1} min", seconds / 60.0),
    }
}

fn listed(runs: &[Execution], choice: &Choice<'_>) -> Panel {
    let heads = [
        "Began (UTC)",
        "Stage",
        "Work",
        "Result",
        "Took",
        "Read",
        "Written",
        "Node",
    ];
    let mut table = Table::new("Executions", heads).empty("There is none of this choice.");
    for run in runs.iter().take(Table::ROWS_MAX) {
        let bucket = run.bucket.as_deref();
        let page = bucket.and_then(|bucket| address(&[bucket], &[]));
        let work = run
            .key
            .split_once('/')
            .map_or(run.key.as_str(), |(_, rest)| rest);
        let result = match run.attempt {
            0 | 1 => said(run.result).to_owned(),
            attempt => format!("{}, attempt {attempt}", said(run.result)),
        };
        table = table.row(vec![
            Cell::time(moment(run.started)),
            Cell::word(&run.stage),
            Cell::code(work).to(page),
            Cell::state(judged(run.result), result),
            Cell::time(duration(run)),
            Cell::time(bytes(run.bytes_in)),
            Cell::time(bytes(run.bytes_out)),
            Cell::time(&run.worker),
        ]);
    }
    let last = runs
        .get(Table::ROWS_MAX - 1)
        .map(|run| run.cursor.to_string());
    let more = (runs.len() > Table::ROWS_MAX).then_some(last).flatten();
    let mut pages = Links::new("Further");
    if let Some(after) = more {
        pages = pages.link("newest", choice.address(None), false).link(
            "older ones",
            choice.address(Some(&after)),
            false,
        );
    }
    let worst = runs
        .iter()
        .take(Table::ROWS_MAX)
        .map(|run| judged(run.result))
        .max();
    Panel::new("runs", "Executions", worst.unwrap_or(State::Idle))
        .part(&table)
        .part(&pages)
        .part(&reasons(runs))
}

fn reasons(runs: &[Execution]) -> Table {
    let heads = ["Began (UTC)", "Work", "Result", "Why"];
    let mut table = Table::new("What did not end well", heads).empty("Everything ended well.");
    let shown = runs.iter().take(Table::ROWS_MAX);
    for run in shown.filter(|run| judged(run.result) >= State::Warn) {
        table = table.row(vec![
            Cell::time(moment(run.started)),
            Cell::code(&run.key),
            Cell::state(judged(run.result), said(run.result)),
            Cell::prose(run.reason.as_deref().unwrap_or("nobody knows")),
        ]);
    }
    table
}

fn summed(summary: &[StageSummary]) -> Panel {
    let heads = [
        "Stage",
        "Executions",
        "Done",
        "Not well",
        "Half within",
        "95 of 100 within",
        "Read",
        "Written",
    ];
    let mut table =
        Table::new("By stage, of the last seven days", heads).empty("Nothing ran in seven days.");
    for stage in summary {
        let trouble = stage.put_off + stage.retried + stage.failed + stage.lost + stage.cut_off;
        let took = |ms: Option<u64>| {
            ms.map_or_else(|| "no value".to_owned(), |ms| format!("{} ms", count(ms)))
        };
        table = table.row(vec![
            Cell::word(&stage.stage),
            Cell::number(stage.executions),
            Cell::number(stage.done),
            Cell::number(trouble),
            Cell::time(took(stage.p50_ms)),
            Cell::time(took(stage.p95_ms)),
            Cell::time(bytes(stage.bytes_in)),
            Cell::time(bytes(stage.bytes_out)),
        ]);
    }
    Panel::new("summary", "Summary", State::Idle).part(&table)
}
