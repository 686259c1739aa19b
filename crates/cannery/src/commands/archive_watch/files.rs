//! The files of a bucket, and the measurements of a file, page by page.

use cannery_catalog::{BadBlob, Cursor, FileInfo, Filter, Found, Page};
use cannery_formats::BucketDate;
use cannery_serve::{
    Answer, Asked, Cell, Content, Facts, Figures, Links, Panel, State, Table, Visited,
};

use super::buckets::{Line, bytes, count};
use super::{ArchiveWatch, address, file_address, moment_of, nothing, trouble};

const PAGE: u32 = 50;
const BLOBS: u32 = 20;

/// Where a page begins; nothing for a text that is no place.
fn place(asked: &Asked) -> Option<Option<Cursor>> {
    asked.get("after").map(str::parse).transpose().ok()
}

/// The way to the next page, and back to the first.
fn further(names: &[&str], asked: &Asked, next: Option<Cursor>) -> Links {
    let mut links = Links::new("Further");
    if asked.get("after").is_some() {
        links = links.link("first", address(names, &[]), false);
    }
    if let Some(next) = next {
        let next = next.to_string();
        links = links.link("next", address(names, &[("after", &next)]), false);
    }
    links
}

impl ArchiveWatch {
    pub(super) async fn bucket_page(&self, bucket: BucketDate, asked: &Asked) -> Answer {
        let Some(after) = place(asked) else {
            return nothing();
        };
        let date = bucket.to_string();
        let snapshot = self.first_look().await;
        let line = Line::of(&snapshot, bucket);
        let filter = Filter {
            bucket: Some(date.clone()),
            ..Filter::default()
        };
        let files = match self.catalog() {
            Ok(catalog) => {
                let files = catalog.files(&filter, after, PAGE);
                self.ask("the catalog", files).await
            }
            Err(why) => Err(why),
        };
        let is_known = line.look.is_some_and(|look| look.cans > 0) || line.state() != State::Idle;
        if matches!(&files, Ok(files) if files.items.is_empty() && after.is_none()) && !is_known {
            return Answer::Absent(format!("Nothing is known of a bucket {date}."));
        }
        let lead =
            "The archives of the reports that arrived on this date, as the catalog has them.";
        let content = Content::new(format!("Bucket {date}"), lead)
            .panel(self.bucket_panel(&date, &line))
            .panel(match files {
                Err(why) => trouble("files", "Files", &why),
                Ok(files) => Panel::new("files", "Files", State::Idle)
                    .part(&files_table(&files.items))
                    .part(&further(&[&date], asked, files.next)),
            });
        Answer::Page(Visited::new(date, content.finish()))
    }

    fn bucket_panel(&self, date: &str, line: &Line<'_>) -> Panel {
        let now = self.clock.now();
        let lake = |of: fn(&cannery_pipeline::look::Look) -> u64| {
            let look = line.look.as_ref();
            look.map_or_else(|| "?".to_owned(), |look| count(of(look)))
        };
        let can_bytes = line
            .look
            .map_or_else(|| "?".to_owned(), |look| bytes(look.can_bytes));
        let bad = line.bad_blobs + line.bad_rows;
        let figures = Figures::new()
            .figure("reports", lake(|look| look.reports), State::Good)
            .figure("cans", lake(|look| look.cans), State::Good)
            .figure("archives", lake(|look| look.archives), State::Good)
            .figure("loaded", count(line.files), State::Good)
            .figure("measurements", count(line.measurements), State::Good)
            .figure(
                "bad",
                count(bad),
                if bad > 0 { State::Warn } else { State::Idle },
            );
        let facts = Facts::new("Sizes and counts")
            .fact("bucket", line.seal())
            .fact("cans", can_bytes)
            .fact("archives", bytes(line.file_bytes))
            .fact("text in them", bytes(line.text_bytes))
            .fact("duplicates", count(line.duplicates))
            .fact("bad pieces", count(line.bad_blobs))
            .fact("bad rows", count(line.bad_rows))
            .fact("files with outdated rows", count(line.outdated));
        let mut kinds = Table::new(
            "By kind",
            ["Kind", "Files", "Reports", "Measurements", "Bad"],
        )
        .empty("Nothing is loaded.");
        for kind in &line.kinds {
            kinds = kinds.row(vec![
                Cell::word(&kind.kind),
                Cell::number(kind.files),
                Cell::number(kind.reports),
                Cell::number(kind.measurements),
                Cell::number(kind.bad_blobs + kind.bad_rows),
            ]);
        }
        let stages = Facts::new("Stages")
            .fact("last runs", line.runs(now).replace('`', ""))
            .fact("work", line.work());
        let history = address(&["history"], &[("bucket", date)]);
        Panel::new(
            "bucket",
            format!("The bucket is {}", line.seal()),
            line.state(),
        )
        .part(&Links::new("Pages").link("History of this bucket", history, false))
        .part(&figures)
        .beside(&facts, &stages)
        .part(&kinds)
    }

    pub(super) async fn file_page(&self, bucket: BucketDate, name: &str, asked: &Asked) -> Answer {
        let Some(after) = place(asked) else {
            return nothing();
        };
        let date = bucket.to_string();
        let file = format!("{date}/{name}");
        let content = Content::new(
            name,
            "The measurements that this archive holds, in its order.",
        );
        let content = match self.read_file(&file, after).await {
            Err(why) => content.panel(trouble("file", "File", &why)),
            Ok((None, ..)) => {
                let why = format!("The catalog has no file {name} in the bucket {date}.");
                return Answer::Absent(why);
            }
            Ok((Some(info), found, blobs)) => {
                let further = further(&[&date, name], asked, found.next);
                content
                    .panel(file_panel(&info))
                    .panel(
                        Panel::new("measurements", "Measurements", State::Idle)
                            .part(&found_table(&found.items))
                            .part(&further),
                    )
                    .panel(blobs_panel(&blobs.items, info.bad_blobs, &self.same_place))
            }
        };
        let visited = Visited::new(name, content.finish());
        Answer::Page(visited.below(&date, address(&[&date], &[])))
    }

    async fn read_file(
        &self,
        file: &str,
        after: Option<Cursor>,
    ) -> Result<(Option<FileInfo>, Page<Found>, Page<BadBlob>), String> {
        let catalog = self.catalog()?;
        let reading = async {
            let info = catalog.file(file).await?;
            let found = catalog.measurements_of(file, after, PAGE).await?;
            let blobs = catalog.bad_blobs_of(file, None, BLOBS).await?;
            Ok::<_, cannery_catalog::Error>((info, found, blobs))
        };
        self.ask("the catalog", reading).await
    }
}

fn files_table(files: &[FileInfo]) -> Table {
    let heads = [
        "File",
        "Kind",
        "Generation",
        "Archive",
        "Text",
        "Reports",
        "Measurements",
        "Bad pieces",
        "Loaded (UTC)",
    ];
    let mut table = Table::new("Files", heads).empty("The catalog has no file of it yet.");
    for file in files {
        let facts = &file.facts;
        let name = facts
            .name
            .split_once('/')
            .map_or(facts.name.as_str(), |(_, name)| name);
        table = table.row(vec![
            Cell::code(name).to(file_address(&facts.name)),
            Cell::word(&facts.kind),
            Cell::word(&facts.generation),
            Cell::time(bytes(facts.file_size)),
            Cell::time(bytes(facts.text_size)),
            Cell::number(file.reports),
            Cell::number(file.measurements),
            Cell::number(file.bad_blobs),
            Cell::time(moment_of(Some(file.ingested_ms))),
        ]);
    }
    table
}

fn file_panel(file: &FileInfo) -> Panel {
    let facts = &file.facts;
    let counts = Facts::new("What is in it")
        .fact("kind", &facts.kind)
        .fact("reports", count(file.reports))
        .fact("measurements", count(file.measurements))
        .fact("bad pieces", count(file.bad_blobs))
        .fact("loaded", moment_of(Some(file.ingested_ms)));
    let object = Facts::new("The object")
        .fact("generation", &facts.generation)
        .fact("archive", bytes(facts.file_size))
        .fact("text", bytes(facts.text_size))
        .fact("SHA-1", &facts.file_sha1)
        .fact("SHA-1 of the text", &facts.text_sha1);
    Panel::new("file", "The file", State::Idle).beside(&counts, &object)
}

fn found_table(found: &[Found]) -> Table {
    let heads = ["Measurement", "Time (UTC)", "Report", "Bytes", "Frame at"];
    let mut table = Table::new("Measurements", heads).empty(
        "It holds none: those that are in it twice, or in another file too, are held there.",
    );
    for one in found {
        table = table.row(vec![
            Cell::word(&one.uid).to(address(&["measurement", &one.uid], &[])),
            Cell::time(moment_of(one.time_ms)),
            Cell::code(&one.report),
            Cell::number(one.place.intra_size),
            Cell::number(one.place.frame_off),
        ]);
    }
    table
}

fn blobs_panel(blobs: &[BadBlob], all: u64, same_place: &str) -> Panel {
    let state = if all > 0 { State::Warn } else { State::Idle };
    let heads = ["Report", "From byte", "Bytes", "What is wrong"];
    let mut table = Table::new("Pieces that are no measurement", heads).empty("There is none.");
    for blob in blobs {
        table = table.row(vec![
            Cell::code(&blob.report),
            Cell::number(blob.src_off),
            Cell::number(blob.src_size),
            Cell::prose(&blob.reason),
        ]);
    }
    let how = format!("cannery ls --files{same_place}");
    Panel::new("bad", "Bad pieces", state).part(&table.of(all, &how))
}
