//! One measurement: one ranged read of one frame, its JSON as a tree, where it lies, and what features made of it.

use std::fmt::Display;

use cannery_catalog::{FeatureRows, Found, Trace};
use cannery_formats::Uid;
use cannery_pipeline::measurement::{self, Measurement};
use cannery_serve::{Answer, Cell, Content, Facts, Links, Panel, State, Table, Tree, Visited};

use super::buckets::{bytes, count};
use super::{ArchiveWatch, address, file_address, moment_of, trouble};

/// Larger ones are not brought into memory for a page.
const BYTES_MAX: u64 = 16 << 20;
const ROWS_MAX: u32 = 20;
const COLUMNS_MAX: usize = 6;
const LEAD: &str =
    "As it is in its archive, sanitised: one frame was read. The hops before are shown by";

/// What is read of a measurement.
enum Read {
    Absent,
    TooLarge(Found),
    Whole(Measurement),
}

impl ArchiveWatch {
    /// Exactly one ranged read, of a frame that fits into memory.
    async fn read_one(&self, uid: &Uid) -> Result<Read, String> {
        let catalog = self.catalog()?;
        let _turn = match self
            .clock
            .timeout(super::LIMIT, self.reading.acquire())
            .await
        {
            Ok(Ok(turn)) => turn,
            _ => return Err("others read measurements; the page tries again".to_owned()),
        };
        let text = uid.to_string();
        let lake = self.stage_lakes().public;
        let reading = async {
            let Some(found) = catalog.lookup(&text).await.map_err(|error| said(&error))? else {
                return Ok(Read::Absent);
            };
            if found.place.intra_size.max(found.place.frame_size) > BYTES_MAX {
                return Ok(Read::TooLarge(found));
            }
            let read = measurement::read(&lake, &catalog, uid).await;
            let read = read.map_err(|error| said(&error))?;
            Ok::<_, String>(read.map_or(Read::Absent, Read::Whole))
        };
        self.ask("the archive", reading).await
    }

    pub(super) async fn measurement_text(&self, uid: &Uid) -> Answer {
        match self.read_one(uid).await {
            Ok(Read::Whole(measurement)) => Answer::File {
                name: format!("{uid}.json"),
                bytes: measurement.text,
            },
            Ok(Read::Absent) => absent(uid),
            Ok(Read::TooLarge(found)) => Answer::Absent(self.too_large(uid, &found)),
            Err(why) => {
                let content = Content::new("Measurement", "It could not be read.");
                let content = content.panel(trouble("measurement", "Measurement", &why));
                Answer::Page(Visited::new(uid.to_string(), content.finish()))
            }
        }
    }

    fn too_large(&self, uid: &Uid, found: &Found) -> String {
        format!(
            "it has {}, more than a page reads; see it with `cannery get {uid}{}`",
            bytes(found.place.intra_size),
            self.same_place
        )
    }

    pub(super) async fn measurement_page(&self, uid: &Uid) -> Answer {
        let lead = format!("{LEAD} `cannery trace {uid}{}`.", self.same_place);
        let content = Content::new(uid.to_string(), lead);
        let (document, found, is_read) = match self.read_one(uid).await {
            Ok(Read::Absent) => return absent(uid),
            Ok(Read::TooLarge(found)) => {
                let note = self.too_large(uid, &found);
                let panel = Panel::new("document", "Document", State::Warn).note(note);
                (panel, Some(found), true)
            }
            Ok(Read::Whole(measurement)) => {
                let Measurement { found, text } = measurement;
                (document(uid, text).await, Some(found), true)
            }
            Err(why) => (trouble("document", "Document", &why), None, false),
        };
        let traced = self.trace(uid).await;
        let is_whole = is_read && traced.is_ok();
        let file = found.as_ref().map(|found| found.file.clone());
        let mut content = content.panel(document);
        content = match (traced, found) {
            (Ok(Some((trace, rows))), _) => {
                content.panel(places(&trace)).panel(features(&trace, &rows))
            }
            (Err(why), Some(found)) => content
                .panel(Panel::new("place", "Place", State::Idle).part(&place_facts(&found)))
                .panel(trouble("features", "Features", &why)),
            (Err(why), None) => content.panel(trouble("place", "Place", &why)),
            (Ok(None), _) => content,
        };
        let mut visited = Visited::new(uid.to_string(), content.finish());
        if let Some((bucket, name)) = file.as_deref().and_then(|file| file.split_once('/')) {
            let of_file = file_address(&format!("{bucket}/{name}"));
            visited = visited
                .below(bucket, address(&[bucket], &[]))
                .below(name, of_file);
        }
        // What could not be read is tried again; what was does not change under its reader.
        Answer::Page(if is_whole { visited.still() } else { visited })
    }

    async fn trace(&self, uid: &Uid) -> Result<Option<(Trace, Vec<FeatureRows>)>, String> {
        let (catalog, uid) = (self.catalog()?, uid.to_string());
        let reading = async {
            let Some(trace) = catalog.trace(&uid).await? else {
                return Ok(None);
            };
            let rows = catalog.feature_rows(&uid, ROWS_MAX).await?;
            Ok::<_, cannery_catalog::Error>(Some((trace, rows)))
        };
        self.ask("the catalog", reading).await
    }
}

fn said(error: &impl Display) -> String {
    error.to_string()
}

fn absent(uid: &Uid) -> Answer {
    Answer::Absent(format!("The catalog has no measurement {uid}."))
}

async fn document(uid: &Uid, text: Vec<u8>) -> Panel {
    let size = bytes(u64::try_from(text.len()).unwrap_or(u64::MAX));
    // Passing over megabytes takes a moment, and others are answered meanwhile.
    let tree = tokio::task::spawn_blocking(move || Tree::of(&text)).await;
    let uid = uid.to_string();
    let text = address(&["measurement", &uid, "text"], &[]);
    let links = Links::new("Text").link("Download it as it is", text, false);
    let Ok(tree) = tree else {
        return trouble(
            "document",
            "Document",
            "it could not be shown; the log says why",
        );
    };
    let kind = if tree.is_json() { "JSON" } else { "no JSON" };
    Panel::new("document", "Document", State::Good)
        .aside(format!("{kind}, {size}"))
        .part(&links)
        .part(&tree)
}

fn place_facts(found: &Found) -> Facts {
    let place = found.place;
    Facts::new("Where it lies")
        .fact("file", &found.file)
        .fact("generation", &found.generation)
        .fact("kind", &found.kind)
        .fact("report", &found.report)
        .fact("time", moment_of(found.time_ms))
        .fact(
            "frame",
            format!(
                "{} from byte {}",
                bytes(place.frame_size),
                count(place.frame_off)
            ),
        )
        .fact(
            "in the frame",
            format!(
                "{} from byte {}",
                bytes(place.intra_size),
                count(place.intra_off)
            ),
        )
}

fn places(trace: &Trace) -> Panel {
    let heads = [
        "File",
        "Generation",
        "Report",
        "Frame at",
        "In the frame at",
        "Bytes",
    ];
    let mut table =
        Table::new("The same measurement again", heads).empty("It stands nowhere else.");
    for one in &trace.duplicates {
        table = table.row(vec![
            Cell::code(&one.file).to(file_address(&one.file)),
            Cell::word(&one.generation),
            Cell::code(&one.report),
            Cell::number(one.place.frame_off),
            Cell::number(one.place.intra_off),
            Cell::number(one.place.intra_size),
        ]);
    }
    let how = format!("cannery trace {}", trace.found.uid);
    Panel::new("place", "Place", State::Idle)
        .part(&place_facts(&trace.found))
        .part(&table.of(trace.duplicates_all, &how))
}

fn features(trace: &Trace, rows: &[FeatureRows]) -> Panel {
    let state = match trace.bad_rows.is_empty() {
        true => State::Idle,
        false => State::Warn,
    };
    let mut counts = Facts::new("Rows of features");
    for (feature, rows) in &trace.rows {
        counts = counts.fact(feature, count(*rows));
    }
    let mut panel = Panel::new("features", "Features", state).part(&counts);
    for feature in rows {
        panel = panel.part(&rows_table(feature));
    }
    if !trace.bad_rows.is_empty() {
        let heads = ["Feature", "Row", "What is wrong"];
        let mut table = Table::new("Rows that did not fit", heads);
        for bad in &trace.bad_rows {
            table = table.row(vec![
                Cell::code(&bad.feature),
                Cell::number(bad.row),
                Cell::prose(&bad.reason),
            ]);
        }
        panel = panel.part(&table);
    }
    panel
}

/// One line for each cell: features have any number of columns.
fn rows_table(rows: &FeatureRows) -> Table {
    let title = format!("{}, the first rows", rows.feature);
    let mut table = Table::new(title, ["Row", "Values"]);
    for (number, row) in rows.rows.iter().enumerate() {
        let cells = rows.columns.iter().zip(row);
        let said = cells.take(COLUMNS_MAX).map(|(column, cell)| match cell {
            Some(cell) => format!("{column}: {}", cannery_serve::clean(cell)),
            None => format!("{column}: null"),
        });
        let said: Vec<String> = said.collect();
        table = table.row(vec![
            Cell::time(number.to_string()),
            Cell::prose(said.join(", ")),
        ]);
    }
    table
}
