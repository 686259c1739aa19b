//! What the name of a report says of it.

use cannery_formats::can::TextName;
use cannery_formats::feed::{DownloadName, FeedId};
use cannery_formats::report_name::ReportFormat;
use cannery_formats::spool::BundleName;
use cannery_formats::{BucketDate, Kind, ReportName};
use cannery_sanitise::Format;
use jiff::Timestamp;

/// What is known of a report before it is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ReportFacts {
    pub(crate) kind: Kind,
    pub(crate) report_id: Option<String>,
    /// In milliseconds since 1970.
    pub(crate) time_ms: Option<i64>,
    pub(crate) format: Format,
}

impl ReportFacts {
    /// What a name says. Every name says something: what nobody knows is JSON lines of the kind `unknown`.
    pub(crate) fn of(name: &TextName) -> Self {
        bundle(name)
            .or_else(|| download(name))
            .unwrap_or_else(|| report_file(name))
    }
}

fn bundle(name: &TextName) -> Option<ReportFacts> {
    let (bundle, _) = BundleName::parse(&name.bundle_key()?)?;
    Some(ReportFacts {
        kind: Kind::Spool(bundle.datatype),
        report_id: None,
        time_ms: Some(bundle.opened.timestamp().as_millisecond()),
        format: Format::Rows,
    })
}

fn download(name: &TextName) -> Option<ReportFacts> {
    let mut parts = name.as_str().splitn(4, '/');
    let [Some(feed), Some(date), Some(hour), Some(file)] = [(); 4].map(|()| parts.next()) else {
        return None;
    };
    let feed = FeedId::new(feed).ok()?;
    let begin: Timestamp = format!("{date}T{hour}:00:00Z").parse().ok()?;
    let time = DownloadName::parse(&feed, file).map_or(begin, |download| download.time);
    Some(ReportFacts {
        kind: Kind::Feed(feed),
        report_id: None,
        time_ms: Some(time.as_millisecond()),
        format: Format::Whole,
    })
}

fn report_file(name: &TextName) -> ReportFacts {
    let file = name.file_name();
    let folder = name.as_str().split_once('/').map(|(folder, _)| folder);
    let is_report = folder.is_some_and(|folder| folder.parse::<BucketDate>().is_ok());
    match ReportName::parse(file).filter(|_| is_report) {
        Some(report) => ReportFacts {
            kind: Kind::Test(report.test),
            report_id: Some(report.report_id),
            time_ms: Some(report.time.as_millisecond()),
            format: match report.format {
                ReportFormat::Json => Format::Json,
                ReportFormat::Yaml => Format::Yaml,
            },
        },
        None => ReportFacts {
            kind: Kind::Unknown,
            report_id: None,
            time_ms: None,
            format: match file.rsplit_once('.') {
                Some((_, "yaml" | "yml")) => Format::Yaml,
                _ => Format::Json,
            },
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_says_kind_time_and_format() {
        for (name, kind, id, time_ms, format) in [
            (
                "2017-01-01/20161231T000030Z-US-AS7922-web_connectivity-r_1-0.2.0-probe.json",
                "web_connectivity",
                Some("r_1"),
                Some(1_483_142_430_000),
                Format::Json,
            ),
            (
                "2017-01-01/20161231T000030Z-US-AS7922-dns_consistency-r_1-0.1.0-probe.yaml",
                "dns_consistency",
                Some("r_1"),
                Some(1_483_142_430_000),
                Format::Yaml,
            ),
            ("2017-01-01/x", "unknown", None, None, Format::Json),
            ("2017-01-01/x.yaml", "unknown", None, None, Format::Yaml),
            ("x", "unknown", None, None, Format::Json),
            (
                "tor/1970-01-01/01/whatever",
                "feed-tor",
                None,
                Some(3_600_000),
                Format::Whole,
            ),
        ] {
            let facts = ReportFacts::of(&TextName::new(name).unwrap());
            let expected = ReportFacts {
                kind: kind.parse().unwrap(),
                report_id: id.map(str::to_owned),
                time_ms,
                format,
            };
            assert_eq!(facts, expected, "{name}");
        }
    }
}
