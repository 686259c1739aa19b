//! A section like that of feeds, with a page for each and realistic numbers: what the parts look like together.

use std::time::Duration;

use cannery_serve::{
    Card, Cell, Content, Facts, Figures, HeatMap, Panel, Plot, Section, State, Table, Tally,
};
use futures::future::BoxFuture;
use jiff::{SignedDuration, Timestamp};
use maud::Markup;

/// The feeds: one with the longest name there is, and one whose name cannot be in an address.
const FEEDS: [&str; 4] = [
    "vbb-gtfs-rt",
    "nyct.subway_l",
    LONGEST,
    "\"><script>alert(1)</script>",
];
pub(crate) const LONGEST: &str = "feedwithalongname0feedwithalongname1feedwithalongname2feedwithalongname3feedwithalongname4feedwithal";
const DAY_SECONDS: i64 = 86_400;
const PERIOD_SECONDS: i64 = 30;

pub(crate) struct Feeds;

impl Section for Feeds {
    fn slug(&self) -> &str {
        "feeds"
    }

    fn title(&self) -> &str {
        "Feeds"
    }

    fn cards(&self) -> BoxFuture<'_, Vec<Card>> {
        let card = |name: &&str| {
            Card::new(*name, State::Good)
                .value("99.2 %", "of polls this hour")
                .detail("latency", "142 ms")
                .page(*name)
        };
        let cards = FEEDS.iter().map(card).collect();
        Box::pin(async { cards })
    }

    fn page(&self) -> Option<BoxFuture<'_, Markup>> {
        let table = Table::new("Feeds", ["Feed", "Polls", "How it is"]);
        let table = FEEDS.iter().fold(table, |table, name| {
            let state = Cell::state(State::Good, "99.2 % this hour");
            table.row(vec![Cell::page("feeds", name), Cell::number(2_880), state])
        });
        let panel = Panel::new("all", "All feeds", State::Good).part(&table);
        let page = Content::new("Feeds", "What is downloaded again and again.").panel(panel);
        Some(Box::pin(async move { page.finish() }))
    }

    fn subpage<'a>(&'a self, name: &'a str) -> Option<BoxFuture<'a, Markup>> {
        FEEDS
            .contains(&name)
            .then(|| -> BoxFuture<'a, Markup> { Box::pin(async move { page(name) }) })
    }
}

fn page(name: &str) -> Markup {
    let panel = Panel::new("downloads", "Downloads", State::Warn)
        .aside("https://feeds.example/vbb/gtfs-rt?token=***")
        .note("36 of the last 2,880 polls failed; the newest says `503 Service Unavailable`")
        .part(&figures())
        .part(&latency())
        .part(&week())
        .part(&hours());
    let tasks = Panel::new("tasks", "Archives and uploads", State::Good)
        .part(&log())
        .beside(
            &Plot::new("Bytes per archive", "kB")
                .points((0..24).map(|hour| (at(hour * 3_600), 400.0 + wave(hour) * 90.0)))
                .values_are("archive")
                .dots(),
            &Facts::new("Totals")
                .fact("archives", "1,204")
                .fact("uploads", "1,203"),
        )
        .part(&Plot::new("Consolidation", "s").empty("No cycle ran yet."));
    Content::new(name, "Polled every 30 s, packed by the hour.")
        .panel(panel)
        .panel(tasks)
        .finish()
}

fn figures() -> Figures {
    Figures::new()
        .figure("success, last hour", "98.3 %", State::Warn)
        .figure("success, all time", "99.71 %", State::Good)
        .figure("since last archive", "24 min", State::Good)
        .figure("since last upload", "23 min", State::Good)
        .figure("since last merge", "13 min", State::Good)
}

fn at(second: i64) -> Timestamp {
    let midnight: Timestamp = "2026-11-15T06:10:00Z".parse().unwrap();
    midnight + SignedDuration::from_secs(second)
}

/// Something that goes up and down without a pattern, from 0 to 1, and is the same each time.
fn wave(at: i64) -> f64 {
    let mixed = (at ^ (at >> 7)).wrapping_mul(0x2545_f491_4f6c_dd1d);
    let scrambled = (mixed ^ (mixed >> 29))
        .wrapping_mul(0x1b87_3593)
        .rem_euclid(1_000_003)
        % 1_000;
    f64::from(u32::try_from(scrambled).unwrap()) / 1_000.0
}

fn latency() -> Plot {
    let (from, to) = (at(0), at(DAY_SECONDS));
    let is_down = |second: i64| (30_000..34_500).contains(&second);
    let is_faulty = |second: i64| (60_000..61_000).contains(&second) || second % 7_770 == 0;
    let seconds = (0..DAY_SECONDS).step_by(usize::try_from(PERIOD_SECONDS).unwrap());
    let value = |second: i64| {
        let busy = if (40_000..56_000).contains(&second) {
            150.0
        } else {
            0.0
        };
        let spike = if wave(second) > 0.995 { 380.0 } else { 0.0 };
        (at(second), 110.0 + busy + wave(second) * 70.0 + spike)
    };
    let good = seconds
        .clone()
        .filter(|second| !is_down(*second) && !is_faulty(*second));
    let plot = Plot::new("Latency of successful downloads, last 24 hours", "ms")
        .values_are("response")
        .over(from, to)
        .every(Duration::from_secs(30))
        .points(good.map(value))
        .target(500.0, "target");
    seconds
        .filter(|second| is_faulty(*second))
        .fold(plot, |plot, second| {
            plot.failed(at(second), "503 Service Unavailable")
        })
}

fn tally(slots: u64, row: i64, column: i64) -> Tally {
    let failed = match wave(row * 61 + column) {
        wild if wild > 0.97 => slots / 3,
        wild if wild > 0.94 => 1,
        _ => 0,
    };
    let unchanged = (slots - failed) / 3;
    Tally {
        stored: slots - failed - unchanged,
        unchanged,
        failed,
        not_collected: 0,
    }
}

fn week() -> HeatMap {
    let map = HeatMap::of_days("Coverage by hour, all replicas");
    (0..7).fold(map, |map, day| {
        let mut cells: Vec<Tally> = (0..24).map(|hour| tally(120, day, hour)).collect();
        if day == 2 {
            for cell in &mut cells[9..13] {
                *cell = Tally {
                    not_collected: 120,
                    ..Tally::default()
                };
            }
            cells[13] = Tally {
                stored: 80,
                not_collected: 40,
                ..Tally::default()
            };
        }
        if day == 6 {
            cells.truncate(6);
        }
        let label = at((day - 5) * DAY_SECONDS)
            .strftime("%a %-d %b")
            .to_string();
        map.row(label, cells)
    })
}

fn hours() -> HeatMap {
    let map = HeatMap::of_hours("Coverage by minute, last six hours", 1);
    (0..6).fold(map, |map, hour| {
        let cells = (0..60).map(|minute| tally(6, hour + 9, minute)).collect();
        map.row(format!("{hour:02}:00"), cells)
    })
}

fn log() -> Table {
    let long = format!(
        "cannot put `vbb-gtfs-rt/2026/11/15/14/vbb-gtfs-rt_20261115T14Z_{}.tar.gz`: the store answered \
         503 Slow Down five times in a row; it is tried again in 40 s, and `cannery audit` lists what is missing",
        "k3jx7q".repeat(20)
    );
    let row = |table: Table, when: &str, state: Cell, took: u64, why: &str| {
        let task = Cell::text("upload to mirror");
        table.row(vec![
            Cell::time(when),
            task,
            state,
            Cell::number(took),
            Cell::prose(why),
        ])
    };
    let failed = || Cell::state(State::Bad, "failed");
    let table = Table::new("Last tasks", ["When", "Task", "End", "ms", "What happened"]);
    let table = row(
        table,
        "06:10:04",
        Cell::state(State::Good, "done"),
        312,
        "118 entries, 402 kB",
    );
    let table = row(table, "06:09:04", failed(), 30_012, &long);
    row(
        table,
        "05:10:03",
        failed(),
        7,
        &"<script>alert(1)</script>".repeat(9),
    )
}
