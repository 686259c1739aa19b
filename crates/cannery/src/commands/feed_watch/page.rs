//! The page of all feeds, that of each, and their cards.

use std::collections::BTreeMap;
use std::time::Duration;

use cannery_collect::feed::monitor::{
    Done, FeedView, Minute, MinuteNumber, Task, TaskKind, Totals,
};
use cannery_formats::feed::FeedId;
use cannery_serve::{
    Card, Cell, Content, Facts, Figures, HeatMap, Hint, Markup, Panel, Plot, State, Table, Tally,
    span,
};
use indicatif::{HumanBytes, HumanCount};
use jiff::{SignedDuration, Timestamp};

use super::FeedWatch;
use crate::config::feed::FeedConfig;

pub(super) const SLUG: &str = "feeds";
const LEAD: &str = "URLs that are downloaded again and again. Each hour is packed, shipped to every mirror of the lake, and united there \
                    with what other replicas saw.";
const HOUR: SignedDuration = SignedDuration::from_hours(1);
const PLOT_BACK: SignedDuration = SignedDuration::from_hours(24);
/// More would push everything else off the home page.
const CARDS_MAX: usize = 12;
const LOG_ROWS: usize = 10;
const CONSOLIDATION_ROWS: usize = 15;

/// What happened in a time.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    stored: u64,
    unchanged: u64,
    failed: u64,
    missed: u64,
    latency_ms: u64,
    longest_ms: u64,
}

impl Sum {
    fn of<'a>(minutes: impl IntoIterator<Item = &'a Minute>) -> Self {
        let mut sum = Self::default();
        for minute in minutes {
            sum.stored += u64::from(minute.stored);
            sum.unchanged += u64::from(minute.unchanged);
            sum.failed += u64::from(minute.failed);
            sum.missed += u64::from(minute.missed);
            if let Some((mean, longest)) = minute.latency() {
                sum.latency_ms += millis(mean) * u64::from(minute.succeeded());
                sum.longest_ms = sum.longest_ms.max(millis(longest));
            }
        }
        sum
    }

    fn succeeded(self) -> u64 {
        self.stored + self.unchanged
    }

    fn all(self) -> u64 {
        self.succeeded() + self.failed + self.missed
    }

    fn share(self) -> String {
        match (self.succeeded() * 1_000).checked_div(self.all()) {
            None => "no poll".to_owned(),
            Some(mille) => format!("{}.{} %", mille / 10, mille % 10),
        }
    }

    fn latency(self) -> String {
        match self.latency_ms.checked_div(self.succeeded()) {
            None => "none".to_owned(),
            Some(ms) => format!("{} ms", HumanCount(ms)),
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

impl FeedWatch {
    pub(super) fn all_cards(&self) -> Vec<Card> {
        let mut feeds = self.configs();
        let now = self.tools.clock.now();
        feeds.sort_by_key(|feed| std::cmp::Reverse(self.judge(feed, now).0));
        let hidden = feeds.len().saturating_sub(CARDS_MAX);
        let mut cards: Vec<Card> = feeds
            .iter()
            .take(CARDS_MAX)
            .map(|feed| self.card(feed, now))
            .collect();
        if hidden > 0 {
            let card = Card::new("more feeds", State::Idle).value(
                HumanCount(hidden as u64).to_string(),
                "others, on the page of feeds",
            );
            cards.push(card);
        }
        if feeds.is_empty() {
            let (state, note) = match &*super::lock(&self.phase) {
                super::Phase::Failed(reason) => (State::Bad, reason.clone()),
                _ => (State::Idle, "no feed is configured".to_owned()),
            };
            cards.push(Card::new("feeds", state).note(note));
        }
        cards
    }

    fn card(&self, feed: &FeedConfig, now: Timestamp) -> Card {
        let view = self.monitor.view(&feed.id);
        let (state, note) = self.judge(feed, now);
        let sum = last_hour(view.as_ref(), now);
        let totals = view.map(|view| view.totals).unwrap_or_default();
        let mut card = Card::new(format!("feed {}", feed.id), state)
            .page(feed.id.as_str())
            .value(sum.share(), "of polls succeeded in the last hour")
            .detail("latency, last hour", sum.latency())
            .detail("latency, all time", all_time_latency(&totals))
            .detail("last success", ago(totals.last_success, now));
        for (name, done) in [
            ("archived", &totals.archives),
            ("uploaded", &totals.uploads),
            ("consolidated", &totals.consolidations),
        ] {
            card = card.detail(name, format!("{}, last {}", done.ok, ago(done.last, now)));
        }
        match note {
            Some(note) => card.note(note),
            None => card,
        }
    }

    /// How a feed is doing, and why.
    fn judge(&self, feed: &FeedConfig, now: Timestamp) -> (State, Option<String>) {
        let Some(view) = self.monitor.view(&feed.id) else {
            return (State::Idle, None);
        };
        let late = view.totals.last_success.is_none_or(|last| {
            let patience = feed.periodicity.0 * 3 + feed.timeout.0;
            now.duration_since(last).unsigned_abs() > patience
        });
        let failure = view.totals.last_failure.as_ref();
        // What failed before the last success is not why nothing comes now.
        let is_failing = failure.is_some_and(|failure| Some(failure.at) > view.totals.last_success);
        let reason = failure.map(|failure| {
            let ago = ago(Some(failure.at), now);
            format!("the last failure was {ago}: {}", failure.reason)
        });
        let failing = self.failing_task(&feed.id);
        let sum = last_hour(Some(&view), now);
        match (late, reason, failing) {
            (true, Some(reason), _) if is_failing => (State::Bad, Some(reason)),
            (_, _, Some(task)) => (State::Warn, Some(task)),
            (_, reason, None) if sum.failed + sum.missed > sum.succeeded() / 10 => {
                (State::Warn, reason)
            }
            (true, _, None) => (
                State::Warn,
                Some("nothing was downloaded for a while".into()),
            ),
            (false, _, None) => (State::Good, None),
        }
    }

    /// Why the last task of a kind failed, if it did.
    fn failing_task(&self, feed: &FeedId) -> Option<String> {
        let kinds = [TaskKind::Archive, TaskKind::Upload, TaskKind::Consolidate];
        let last = |kind| self.monitor.tasks(feed, kind).into_iter().next();
        let failed = kinds.into_iter().filter_map(last).find(|task| !task.ok)?;
        failed.did.last().cloned()
    }

    pub(super) fn whole_page(&self) -> Markup {
        let now = self.tools.clock.now();
        let feeds = self.configs();
        let mut table = Table::new(
            "Feeds",
            [
                "feed",
                "state",
                "every",
                "success, 1 h",
                "latency, 1 h",
                "all time",
                "archived",
                "uploaded",
                "consolidated",
            ],
        )
        .empty("No feed is configured.");
        for feed in &feeds {
            table = table.row(self.row(feed, now));
        }
        let table = table.of(
            feeds.len() as u64,
            "`cannery feed status` lists all of them",
        );
        let worst = feeds.iter().map(|feed| self.judge(feed, now).0).max();
        let mut panel = Panel::new("all", "All feeds", worst.unwrap_or(State::Idle)).part(&table);
        if feeds.is_empty() {
            let text = "Add one to the configuration, and send SIGHUP or wait for the reload:";
            let example = "feeds:\n  - id: subway\n    url: https://www.example.com/path/to/feed\n    periodicity: 5s";
            panel = panel.part(&Hint::new(text, example));
        }
        Content::new("Feeds", LEAD).panel(panel).finish()
    }

    fn row(&self, feed: &FeedConfig, now: Timestamp) -> Vec<Cell> {
        let view = self.monitor.view(&feed.id);
        let sum = last_hour(view.as_ref(), now);
        let totals = view.map(|view| view.totals).unwrap_or_default();
        let (state, note) = self.judge(feed, now);
        let done = |done: &Done| Cell::text(format!("{}, {}", done.ok, ago(done.last, now)));
        let words = match state {
            State::Idle => "waiting",
            State::Good => "good",
            State::Warn => "look at this",
            State::Bad => "failing",
        };
        vec![
            Cell::page(SLUG, feed.id.as_str()),
            Cell::state(state, note.unwrap_or_else(|| words.to_owned())),
            Cell::time(feed.periodicity.to_string()),
            Cell::time(sum.share()),
            Cell::time(sum.latency()),
            Cell::time(all_time_latency(&totals)),
            done(&totals.archives),
            done(&totals.uploads),
            done(&totals.consolidations),
        ]
    }

    /// The page of one feed; nothing when it is not known.
    pub(super) fn feed_page(&self, name: &str) -> Option<Markup> {
        let id = FeedId::new(name).ok()?;
        let config = self.configs().into_iter().find(|feed| feed.id == id);
        let view = self.monitor.view(&id);
        if config.is_none() && view.is_none() {
            return None;
        }
        let now = self.tools.clock.now();
        self.coverage.want(&id);
        let lead = match &config {
            Some(feed) => format!(
                "Downloaded every `{}`, at most `{}` long, within `{}`.",
                feed.periodicity, feed.max_bytes, feed.timeout
            ),
            None => "Not in the configuration any more; this is what is remembered.".to_owned(),
        };
        let content = Content::new(format!("Feed {id}"), lead)
            .panel(self.downloads(&id, config.as_ref(), view.as_ref(), now))
            .panel(self.covered(&id, view.as_ref(), now))
            .panel(self.log("archives", "Archives", &id, TaskKind::Archive, now))
            .panel(self.log("uploads", "Uploads", &id, TaskKind::Upload, now))
            .panel(self.log(
                "consolidation",
                "Consolidation",
                &id,
                TaskKind::Consolidate,
                now,
            ));
        Some(content.finish())
    }

    fn downloads(
        &self,
        id: &FeedId,
        config: Option<&FeedConfig>,
        view: Option<&FeedView>,
        now: Timestamp,
    ) -> Panel {
        let (state, note) = config.map_or((State::Idle, None), |feed| self.judge(feed, now));
        let sum = last_hour(view, now);
        let totals = view.map(|view| view.totals.clone()).unwrap_or_default();
        let figures = Figures::new()
            .figure("success, last hour", sum.share(), state)
            .figure("latency, last hour", sum.latency(), State::Idle)
            .figure(
                "longest, last hour",
                format!("{} ms", sum.longest_ms),
                State::Idle,
            )
            .figure("last success", ago(totals.last_success, now), State::Idle);
        let facts = Facts::new("All time")
            .fact("stored", HumanCount(totals.stored).to_string())
            .fact("unchanged", HumanCount(totals.unchanged).to_string())
            .fact("failed", HumanCount(totals.failed).to_string())
            .fact("left out", HumanCount(totals.missed).to_string())
            .fact("bytes stored", HumanBytes(totals.bytes).to_string())
            .fact("latency", all_time_latency(&totals));
        let mut panel = Panel::new("downloads", "Downloads", state).aside(id.to_string());
        if let Some(note) = note {
            panel = panel.note(note);
        }
        panel
            .part(&figures)
            .part(&latency_plot(config, view, now))
            .part(&facts)
    }

    /// Days by hours: from the archives in the lake, and for what is not there yet from this process.
    fn covered(&self, id: &FeedId, view: Option<&FeedView>, now: Timestamp) -> Panel {
        let covered = self.coverage.of(id);
        let mut tallies: BTreeMap<Timestamp, Tally> = BTreeMap::new();
        let minutes = view.map(|view| view.minutes.as_slice()).unwrap_or_default();
        for (number, minute) in minutes {
            let hour = cannery_formats::feed::Hour::of(number.begin()).begin();
            add(tallies.entry(hour).or_default(), minute);
        }
        for (hour, tally) in &covered.hours {
            tallies.insert(hour.begin(), *tally);
        }
        self.mark_absent(id, &mut tallies, now);
        let mut map = HeatMap::of_days("Polls of each hour, all replicas together")
            .empty("Nothing was collected yet.");
        for (day, hours) in by_day(&tallies).into_iter().rev() {
            map = map.row(day, hours);
        }
        let aside = match covered.read {
            Some(read) => format!("archives read {}", ago(Some(read), now)),
            None => "this process alone; the archives are being read".to_owned(),
        };
        let mut panel = Panel::new("coverage", "Coverage", State::Idle)
            .aside(aside)
            .part(&map);
        if let Some(error) = covered.error {
            panel = panel.note(format!("the archives cannot be read now: {error}"));
        }
        panel
    }

    /// Hours that nobody says anything of were not collected.
    fn mark_absent(&self, id: &FeedId, tallies: &mut BTreeMap<Timestamp, Tally>, now: Timestamp) {
        let Some(mut hour) = tallies.keys().next().copied() else {
            return;
        };
        let feeds = self.configs();
        let feed = feeds.iter().find(|feed| feed.id == *id);
        let period = feed.map_or(60_000, |feed| feed.periodicity.0.as_millis().max(1));
        let polls = u64::try_from(HOUR.as_millis().unsigned_abs() / period).unwrap_or(u64::MAX);
        let current = cannery_formats::feed::Hour::of(now).begin();
        while hour < current {
            let absent = Tally {
                not_collected: polls.max(1),
                ..Tally::default()
            };
            tallies.entry(hour).or_insert(absent);
            match hour.checked_add(HOUR) {
                Ok(next) => hour = next,
                Err(_) => return,
            }
        }
    }

    fn log(&self, id: &str, title: &str, feed: &FeedId, kind: TaskKind, now: Timestamp) -> Panel {
        let tasks = self.monitor.tasks(feed, kind);
        let state = match tasks.first() {
            None => State::Idle,
            Some(task) if task.ok => State::Good,
            Some(_) => State::Warn,
        };
        let most = match kind {
            TaskKind::Archive | TaskKind::Upload => LOG_ROWS,
            TaskKind::Consolidate => CONSOLIDATION_ROWS,
        };
        let mut table = Table::new(
            "The last",
            ["when", "hour", "where", "ended", "what was done"],
        )
        .empty("Nothing yet; the first comes after the hour.");
        for task in tasks.iter().take(most) {
            table = table.row(task_row(task, now));
        }
        Panel::new(id, title, state).part(&table)
    }
}

fn task_row(task: &Task, now: Timestamp) -> Vec<Cell> {
    let ended = match task.ok {
        true => Cell::state(State::Good, "well"),
        false => Cell::state(State::Bad, "failed"),
    };
    vec![
        Cell::time(format!(
            "{}, {}",
            task.at.strftime("%m-%d %H:%M:%S"),
            ago(Some(task.at), now)
        )),
        Cell::time(task.hour.to_string()),
        Cell::text(task.store.as_deref().unwrap_or("here")),
        ended,
        Cell::prose(task.did.join("; ")),
    ]
}

fn latency_plot(config: Option<&FeedConfig>, view: Option<&FeedView>, now: Timestamp) -> Plot {
    let begin = now.checked_sub(PLOT_BACK).unwrap_or(now);
    let minutes = view.map(|view| view.minutes.as_slice()).unwrap_or_default();
    let recent = minutes
        .iter()
        .filter(|(number, _)| number.begin() >= begin)
        .collect::<Vec<_>>();
    // A graph of a day with ten minutes in it shows nothing.
    let first = recent.first().map_or(begin, |(number, _)| number.begin());
    let from = first.max(begin).min(now.checked_sub(HOUR).unwrap_or(now));
    let points = recent.iter().filter_map(|(number, minute)| {
        let (mean, _) = minute.latency()?;
        Some((number.begin(), mean.as_secs_f64() * 1_000.0))
    });
    let minute = Duration::from_secs(60);
    let distance = config.map_or(minute, |feed| feed.periodicity.0.max(minute));
    let mut plot = Plot::new("Latency of successful downloads", "ms")
        .over(from, now)
        .every(distance)
        .values_are("mean of a minute")
        .points(points)
        .empty("No download succeeded yet.");
    for (number, minute) in &recent {
        if minute.failed > 0 {
            plot = plot.failed(number.begin(), format!("{} failed", minute.failed));
        }
    }
    match config {
        Some(feed) => {
            let target = feed.periodicity.0.as_secs_f64() * 1_000.0;
            plot.target(target, format!("target {}", feed.periodicity))
        }
        None => plot,
    }
}

fn last_hour(view: Option<&FeedView>, now: Timestamp) -> Sum {
    let begin = MinuteNumber::of(now.checked_sub(HOUR).unwrap_or(now));
    let minutes = view.map(|view| view.minutes.as_slice()).unwrap_or_default();
    let recent = minutes.iter().filter(|(number, _)| *number > begin);
    Sum::of(recent.map(|(_, minute)| minute))
}

fn all_time_latency(totals: &Totals) -> String {
    match totals
        .latency_ms
        .checked_div(totals.stored + totals.unchanged)
    {
        None => "none".to_owned(),
        Some(ms) => format!("{} ms", HumanCount(ms)),
    }
}

fn ago(time: Option<Timestamp>, now: Timestamp) -> String {
    match time {
        None => "never".to_owned(),
        Some(time) => {
            let seconds = now.duration_since(time).as_secs();
            format!("{} ago", span(u64::try_from(seconds).unwrap_or_default()))
        }
    }
}

fn add(tally: &mut Tally, minute: &Minute) {
    tally.stored += u64::from(minute.stored);
    tally.unchanged += u64::from(minute.unchanged);
    tally.failed += u64::from(minute.failed) + u64::from(minute.missed);
}

/// The hours of each day, those without anything empty.
fn by_day(tallies: &BTreeMap<Timestamp, Tally>) -> BTreeMap<String, Vec<Tally>> {
    let mut days: BTreeMap<String, Vec<Tally>> = BTreeMap::new();
    for (hour, tally) in tallies {
        let day = hour.strftime("%Y-%m-%d").to_string();
        let place =
            usize::try_from(hour.as_second().rem_euclid(86_400) / 3_600).unwrap_or_default();
        let hours = days
            .entry(day)
            .or_insert_with(|| vec![Tally::default(); 24]);
        hours[place] = *tally;
    }
    days
}
