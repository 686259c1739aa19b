//! `cannery trace`: every hop of a measurement.

use cannery_formats::Uid;
use cannery_pipeline::inputs::Reports;
use cannery_pipeline::trace::{Archive, Can, Source, SourceKind, Trace, Tracer};
use indicatif::HumanBytes;

use super::Context;
use super::archive::Works;
use super::redact::absent;
use crate::failure::{ExitCode, Failure};
use crate::output::{counted, on_one_line};
use crate::plant;

pub(crate) async fn run(uid: &Uid, context: &Context) -> Result<ExitCode, Failure> {
    let works = Works::existing(context).await?;
    let catalog = plant::catalog(&works.config, context).await?;
    let inputs = plant::inputs(&works.config, &works.plant);
    let tracer = Tracer {
        plant: works.plant.clone(),
        catalog: catalog.clone(),
        reports: inputs.reports.unwrap_or(Reports::Lake),
    };
    let traced = tracer.run(uid).await;
    catalog.close().await;
    let Some(trace) = traced? else {
        return Err(absent(&works.plant.raw, uid, &works.config).await?);
    };
    let output = context.output.in_lines();
    output.event("trace", said(&trace), &trace);
    Ok(match trace.archive.trouble {
        None => ExitCode::Ok,
        Some(_) => ExitCode::Findings,
    })
}

fn said(trace: &Trace) -> String {
    let mut lines = vec![source(&trace.source)];
    lines.push(match &trace.can {
        Some(can) => canned(can),
        None => "can      no index names it any more".to_owned(),
    });
    lines.push(archive(&trace.archive, trace));
    lines.push(row(trace));
    for (feature, count) in &trace.catalog.rows {
        lines.push(format!("feature  {feature}: {}", counted(*count, "row")));
    }
    for bad in &trace.catalog.bad_rows {
        lines.push(format!(
            "bad row  {}, row {}: {}",
            bad.feature, bad.row, bad.reason
        ));
    }
    for place in &trace.catalog.duplicates {
        lines.push(format!(
            "again    {} of {}, frame at {}, {} bytes from {}",
            place.file,
            place.generation,
            place.place.frame_off,
            place.place.intra_size,
            place.place.intra_off
        ));
    }
    let more = trace.catalog.duplicates_all - trace.catalog.duplicates.len() as u64;
    if more > 0 {
        lines.push(format!("again    {more} more places"));
    }
    let lines: Vec<String> = lines.iter().map(|line| on_one_line(line)).collect();
    lines.join("\n")
}

fn source(source: &Source) -> String {
    let kind = match source.kind {
        SourceKind::Report => "report file",
        SourceKind::Bundle => "bundle",
        SourceKind::Hour => "hour",
    };
    let mut text = format!("source   {kind} {}", source.places.join(", "));
    if source.kind == SourceKind::Hour {
        text += &format!(", download {}", source.report);
    }
    if let (Some(from), Some(size)) = (source.src_off, source.src_size) {
        text += &format!(", {size} bytes from {from}");
    }
    if !source.is_there {
        text += "; it is not there any more";
    }
    text
}

fn canned(can: &Can) -> String {
    let mut text = format!(
        "can      {}, {} bytes of its text from {}, named by {}",
        can.file, can.text_size, can.text_off, can.index
    );
    text += match (can.is_there, can.is_expired) {
        (true, false) => "",
        (true, true) => "; it goes soon, as `pipeline.keep` says",
        (false, true) => "; it was kept as long as `pipeline.keep` says",
        (false, false) => "; it is not there any more",
    };
    text
}

fn archive(archive: &Archive, trace: &Trace) -> String {
    let place = trace.catalog.found.place;
    let mut text = format!(
        "archive  {}, frame of {} bytes at {}, {} bytes of its text from {}",
        archive.file, place.frame_size, place.frame_off, place.intra_size, place.intra_off
    );
    if let Some(bytes) = archive.file_size {
        text += &format!(", in {}", HumanBytes(bytes));
    }
    if let Some(version) = archive
        .rules_version
        .as_deref()
        .filter(|text| !text.is_empty())
    {
        text += &format!(", rules {version}");
    }
    if let Some(trouble) = &archive.trouble {
        text += &format!("; it cannot be read there: {trouble}");
    }
    text
}

fn row(trace: &Trace) -> String {
    let found = &trace.catalog.found;
    format!(
        "catalog  {} in {}, kind {}, report {}",
        found.uid, found.file, found.kind, found.report
    )
}
