//! `cannery ls` of archives: files, reports and measurements, as the catalog has them. Page by page, so that it takes the same
//! memory whatever there is.

use cannery_catalog::{Catalog, FileInfo, Filter, Found, ReportInfo};
use indicatif::HumanBytes;
use jiff::Timestamp;

use super::Context;
use crate::cli::archive::ArchiveListArgs;
use crate::failure::{ExitCode, Failure};
use crate::output::counted;
use crate::plant;

/// So many are asked for at once.
const PAGE: u32 = 1_000;

pub(crate) async fn run(args: &ArchiveListArgs, context: &Context) -> Result<ExitCode, Failure> {
    let config = context.config().await?;
    let catalog = plant::catalog(&config, context).await?;
    let filter = Filter {
        bucket: args.bucket.map(|bucket| bucket.to_string()),
        kind: args.kind.as_ref().map(ToString::to_string),
        from_ms: args.from.map(|time| time.0.as_millisecond()),
        to_ms: args.to.map(|time| time.0.as_millisecond()),
        report: args.report.clone(),
    };
    let mut given = 0;
    let listed = match (args.files, args.reports) {
        (true, _) => files(&catalog, &filter, context, &mut given).await,
        (false, true) => reports(&catalog, &filter, context, &mut given).await,
        (false, false) => measurements(&catalog, &filter, context, &mut given).await,
    };
    catalog.close().await;
    match listed {
        Ok(()) => Ok(ExitCode::Ok),
        Err(error) => Err(Failure::from(error).after_partial_output(given)),
    }
}

/// Asks for pages and shows what is on them, until there are no more.
macro_rules! pages {
    ($catalog:ident . $question:ident ($filter:ident), $given:ident, $show:expr) => {{
        let mut after = None;
        loop {
            let page = $catalog.$question($filter, after, PAGE).await?;
            for item in &page.items {
                $show(item);
                *$given += 1;
            }
            after = page.next;
            if after.is_none() {
                return Ok(());
            }
        }
    }};
}

async fn files(
    catalog: &Catalog,
    filter: &Filter,
    context: &Context,
    given: &mut usize,
) -> Result<(), cannery_catalog::Error> {
    let show = |file: &FileInfo| {
        let facts = &file.facts;
        let text = format!(
            "{}  {}  {:>9}  {}, {}, {} bad",
            facts.name,
            facts.kind,
            HumanBytes(facts.file_size).to_string(),
            counted(file.reports, "report"),
            counted(file.measurements, "measurement"),
            file.bad_blobs,
        );
        context.output.event("file", text, file);
    };
    pages!(catalog.files(filter), given, show)
}

async fn reports(
    catalog: &Catalog,
    filter: &Filter,
    context: &Context,
    given: &mut usize,
) -> Result<(), cannery_catalog::Error> {
    let show = |report: &ReportInfo| {
        let text = format!(
            "{}  {}  {:>9}  {}",
            report.textname,
            report.kind,
            HumanBytes(report.src_size).to_string(),
            report.file
        );
        context.output.event("report", text, report);
    };
    pages!(catalog.reports(filter), given, show)
}

async fn measurements(
    catalog: &Catalog,
    filter: &Filter,
    context: &Context,
    given: &mut usize,
) -> Result<(), cannery_catalog::Error> {
    let show = |found: &Found| {
        let time = found
            .time_ms
            .and_then(|ms| Timestamp::from_millisecond(ms).ok());
        let time = time.map_or_else(|| "-".to_owned(), |time| format!("{time:.0}"));
        let text = format!("{}  {time}  {}  {}", found.uid, found.kind, found.report);
        context.output.event("measurement", text, found);
    };
    pages!(catalog.measurements(filter), given, show)
}
