//! What was bad, by reason: how often, and where for instance. Never what it is: it was not sanitised.

use cannery_catalog::{BadCount, BadExample};
use cannery_serve::{Answer, Cell, Content, Panel, State, Table, Visited};

use super::buckets::{ago, count, places};
use super::snapshot::BUCKETS_MAX;
use super::{ArchiveWatch, address, file_address, trouble};

const LEAD: &str = "Pieces of reports that are no measurement, and rows that did not fit into the table of a feature. Pieces are kept as \
                    they came, in quarantine; only their places are shown here.";

impl ArchiveWatch {
    pub(super) async fn bad_page(&self) -> Answer {
        let snapshot = self.first_look().await;
        let part = &snapshot.bad;
        let now = self.clock.now();
        let read = part.read.map_or_else(
            || "being read".to_owned(),
            |read| format!("read {}", ago(now, read)),
        );
        let mut content = Content::new("Bad data", LEAD);
        if let Some(why) = &part.trouble {
            content = content.panel(trouble("trouble", "Not as it is now", why));
        }
        let (rows, blobs): (Vec<&BadCount>, Vec<&BadCount>) =
            part.value.iter().partition(|count| count.feature.is_some());
        let content = content
            .panel(panel("pieces", "Pieces of reports", &blobs, &read).part(&blob_table(&blobs)))
            .panel(panel("rows", "Rows of features", &rows, &read).part(&row_table(&rows)));
        Answer::Page(Visited::new("Bad data", content.finish()))
    }
}

fn panel(id: &str, title: &str, counts: &[&BadCount], read: &str) -> Panel {
    let all: u64 = counts.iter().map(|count| count.count).sum();
    let state = if all > 0 { State::Warn } else { State::Idle };
    let words = format!("{} in the newest {BUCKETS_MAX} buckets, {read}", count(all));
    let panel = Panel::new(id, title, state).aside(words);
    match id {
        "pieces" => panel.part(&places("bad")),
        _ => panel,
    }
}

/// The file of an example leads to its page.
fn file_cell(example: Option<&BadExample>) -> Cell {
    match example {
        Some(example) => Cell::code(&example.file).to(file_address(&example.file)),
        None => Cell::text("none"),
    }
}

fn blob_table(counts: &[&BadCount]) -> Table {
    let heads = [
        "What is wrong",
        "Kind",
        "Pieces",
        "For instance in",
        "From byte",
        "Bytes",
    ];
    let mut table = Table::new("By reason and kind", heads).empty("Nothing was bad.");
    for bad in counts {
        let example = bad.examples.first();
        table = table.row(vec![
            Cell::prose(&bad.reason),
            Cell::word(&bad.kind),
            Cell::number(bad.count),
            file_cell(example),
            Cell::number(example.map_or(0, |example| example.at)),
            Cell::number(example.and_then(|example| example.size).unwrap_or(0)),
        ]);
    }
    table
}

fn row_table(counts: &[&BadCount]) -> Table {
    let heads = [
        "What is wrong",
        "Feature",
        "Kind",
        "Rows",
        "For instance in",
        "Measurement",
    ];
    let mut table = Table::new("By reason, feature and kind", heads).empty("Every row fitted.");
    for bad in counts {
        let example = bad.examples.first();
        let uid = example.map_or("", |example| example.of.as_str());
        table = table.row(vec![
            Cell::prose(&bad.reason),
            Cell::word(bad.feature.as_deref().unwrap_or_default()),
            Cell::word(&bad.kind),
            Cell::number(bad.count),
            file_cell(example),
            Cell::word(uid).to(address(&["measurement", uid], &[])),
        ]);
    }
    table
}
