//! The name of a report file, as its collector gave it.
//!
//! `<YYYYmmddTHHMMSSZ>-<CC>-AS<n>-<test_name>-<report_id>-<version>-probe.{json,yaml}`

use std::fmt;

use jiff::Timestamp;
use jiff::civil::DateTime;
use jiff::tz::TimeZone;

use crate::kind::{Kind, TestName};

const END: &str = "-probe.";

/// How the measurements of a report are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReportFormat {
    /// A measurement a line.
    Json,
    /// Documents, of which the first is the header of all others.
    Yaml,
}

/// What the name of a report file says.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ReportName {
    /// When the report was begun.
    pub time: Timestamp,
    /// The country of the probe, two upper-case letters; `ZZ` if it is not known.
    pub country: String,
    /// The network of the probe; 0 if it is not known.
    pub asn: u32,
    /// What was tested.
    pub test: TestName,
    /// What the probe calls the report. It is not unique.
    pub report_id: String,
    /// The version of the data format.
    pub version: String,
    /// How it is written.
    pub format: ReportFormat,
}

impl ReportName {
    /// What `name` says, if it is exactly such a name: what is parsed here prints the same.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let (stem, format) = name.rsplit_once(END)?;
        let format = match format {
            "json" => ReportFormat::Json,
            "yaml" => ReportFormat::Yaml,
            _ => return None,
        };
        let (front, version) = stem.rsplit_once('-')?;
        let mut parts = front.splitn(5, '-');
        let mut next = || parts.next();
        let parsed = Self {
            time: time_of(next()?)?,
            country: checked(next()?, |c| c.is_ascii_uppercase())
                .filter(|country| country.len() == 2)?,
            asn: next()?.strip_prefix("AS")?.parse().ok()?,
            test: TestName::new(next()?).ok()?,
            report_id: checked(next()?, |c| c.is_ascii_alphanumeric() || "_-.".contains(c))?,
            version: checked(version, |c| c.is_ascii_alphanumeric() || "_.".contains(c))?,
            format,
        };
        (parsed.to_string() == name).then_some(parsed)
    }

    /// The kind of the report file `name`: [`Kind::Unknown`] for every name that says nothing.
    #[must_use]
    pub fn kind_of(name: &str) -> Kind {
        Self::parse(name).map_or(Kind::Unknown, |name| Kind::Test(name.test))
    }
}

fn checked(text: &str, is_allowed: impl Fn(char) -> bool) -> Option<String> {
    (!text.is_empty() && text.chars().all(is_allowed)).then(|| text.to_owned())
}

fn time_of(text: &str) -> Option<Timestamp> {
    let date_time = DateTime::strptime("%Y%m%dT%H%M%SZ", text).ok()?;
    let zoned = date_time.to_zoned(TimeZone::UTC).ok()?;
    Some(zoned.timestamp())
}

impl fmt::Display for ReportFormat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Json => "json",
            Self::Yaml => "yaml",
        })
    }
}

impl fmt::Display for ReportName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            time,
            country,
            asn,
            test,
            report_id,
            version,
            format,
        } = self;
        let time = time.strftime("%Y%m%dT%H%M%SZ");
        write!(
            f,
            "{time}-{country}-AS{asn}-{test}-{report_id}-{version}{END}{format}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NAME: &str = "20161231T000030Z-US-AS7922-web_connectivity-20161231T000031Z_AS7922_mU8MFV0Knd3ru-0.2.0-probe.json";

    #[test]
    fn a_name_says_what_it_is() {
        let name = ReportName::parse(NAME).unwrap();
        assert_eq!(name.time.to_string(), "2016-12-31T00:00:30Z");
        assert_eq!((name.country.as_str(), name.asn), ("US", 7922));
        assert_eq!(name.test.as_str(), "web_connectivity");
        assert_eq!(name.report_id, "20161231T000031Z_AS7922_mU8MFV0Knd3ru");
        assert_eq!(name.version, "0.2.0");
        assert_eq!(name.format, ReportFormat::Json);
        assert_eq!(ReportName::kind_of(NAME).to_string(), "web_connectivity");
        let yaml = "20120101T000000Z-ZZ-AS0-http_requests-no-report_id-0.1.0-probe.yaml";
        assert_eq!(ReportName::parse(yaml).unwrap().report_id, "no-report_id");
    }

    #[test]
    fn every_other_name_is_unknown_and_no_error() {
        for (from, to) in [
            ("20161231T000030Z", "20161331T000030Z"),
            ("20161231T000030Z", "2016-12-31"),
            ("20161231T000030Z", "20161231T000060Z"),
            ("-US-", "-us-"),
            ("-US-", "-USA-"),
            ("AS7922-web", "AS07922-web"),
            ("AS7922-web", "AS4294967296-web"),
            ("AS7922-web", "AS-web"),
            ("AS7922-web", "AS+1-web"),
            ("web_connectivity", "unknown"),
            ("web_connectivity", "web.connectivity"),
            ("web_connectivity", ""),
            ("_mU8MFV0Knd3ru", "/../x"),
            ("0.2.0", ""),
            ("probe", "backend"),
            (".json", ".json.gz"),
            (".json", ".txt"),
            (".json", ".json\n"),
        ] {
            let name = NAME.replacen(from, to, 1);
            assert_ne!(name, NAME);
            assert_eq!(ReportName::kind_of(&name), Kind::Unknown, "{name}");
        }
        assert_eq!(ReportName::kind_of(""), Kind::Unknown);
        assert_eq!(ReportName::kind_of("-----probe.json"), Kind::Unknown);
    }

    proptest! {
        #[test]
        fn any_text_is_a_kind(name in "\\PC{0,80}") {
            let _kind = ReportName::kind_of(&name);
        }

        #[test]
        fn what_is_parsed_prints_the_same(
            second in -2_000_000_000_i64..4_000_000_000,
            asn: u32,
            id in "[A-Za-z0-9_.-]{1,30}",
            version in "[A-Za-z0-9_.]{1,8}",
        ) {
            let name = ReportName {
                time: Timestamp::from_second(second).unwrap(),
                country: "BR".into(),
                asn,
                test: TestName::new("ndt").unwrap(),
                report_id: id,
                version,
                format: ReportFormat::Yaml,
            };
            prop_assert_eq!(ReportName::parse(&name.to_string()), Some(name));
        }
    }
}
