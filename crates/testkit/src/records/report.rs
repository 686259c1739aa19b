//! Report files like those of OONI's probes.

use cannery_runtime::Rng;
use jiff::Timestamp;
use serde_json::json;

use super::{Records, field, host, pick, time_of};

const COUNTRIES: [&str; 6] = ["IT", "BR", "KE", "IN", "US", "ZZ"];
const TESTS: [&str; 5] = [
    "web_connectivity",
    "ndt",
    "http_invalid_request_line",
    "dash",
    "tor",
];

/// One raw report: JSON lines, one measurement each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReportFile {
    /// `<YYYYmmddTHHMMSSZ>-<CC>-AS<n>-<test_name>-<report_id>-<ver>-probe.json`
    pub name: String,
    /// The lines, each with its newline.
    pub content: Vec<u8>,
}

struct Head {
    started: Timestamp,
    country: &'static str,
    network: u64,
    test: &'static str,
    report_id: String,
}

/// A report of `measurements` lines that depends on nothing but the arguments.
#[must_use]
pub fn report_file(seed: u64, measurements: usize) -> ReportFile {
    let rng = Rng::seeded(seed);
    let head = Head {
        started: time_of(&rng),
        country: pick(&rng, &COUNTRIES),
        network: 1 + rng.below(64_000),
        test: pick(&rng, &TESTS),
        report_id: rng.id(),
    };
    let mut content = Vec::new();
    for test_keys in Records::seeded(rng.below(u64::MAX)).take(measurements) {
        content.extend_from_slice(head.measurement(&rng, &test_keys).as_bytes());
        content.push(b'\n');
    }
    ReportFile {
        name: head.file_name(),
        content,
    }
}

impl Head {
    fn file_name(&self) -> String {
        let started = self.started.strftime("%Y%m%dT%H%M%SZ");
        format!(
            "{started}-{}-AS{}-{}-{}-0.2.0-probe.json",
            self.country, self.network, self.test, self.report_id
        )
    }

    fn measurement(&self, rng: &Rng, test_keys: &str) -> String {
        let started = self.started.strftime("%Y-%m-%d %H:%M:%S").to_string();
        let fields = [
            field("data_format_version", &json!("0.2.0")),
            field("report_id", &json!(self.report_id)),
            field("test_name", &json!(self.test)),
            field("test_start_time", &json!(started)),
            field("measurement_start_time", &json!(started)),
            field("probe_cc", &json!(self.country)),
            field("probe_asn", &json!(format!("AS{}", self.network))),
            field("probe_ip", &json!(format!("192.0.2.{}", rng.below(256)))),
            field("input", &json!(format!("http://{}/", host(rng)))),
            format!("\"test_keys\":{test_keys}"),
        ];
        format!("{{{}}}", fields.join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_file() {
        assert_eq!(report_file(7, 40), report_file(7, 40));
        assert_ne!(report_file(7, 40).content, report_file(8, 40).content);
        assert_ne!(report_file(7, 40).name, report_file(8, 40).name);
    }

    #[test]
    fn names_have_the_shape_of_the_original() {
        for seed in 0..50 {
            let name = report_file(seed, 0).name;
            let parts: Vec<&str> = name.split('-').collect();
            let [started, country, network, test, report_id, version, end] = parts[..] else {
                panic!("{name}");
            };
            assert!(started.len() == 16 && started.starts_with("2025") && started.ends_with('Z'));
            assert_eq!(country.len(), 2);
            assert!(network.strip_prefix("AS").unwrap().parse::<u32>().is_ok());
            assert!(TESTS.contains(&test));
            assert_eq!(report_id.len(), 26);
            assert_eq!((version, end), ("0.2.0", "probe.json"));
        }
    }

    #[test]
    fn a_report_has_one_line_for_each_measurement() {
        let file = report_file(9, 25);
        let text = String::from_utf8(file.content).unwrap();
        assert_eq!(text.lines().count(), 25);
        assert!(text.ends_with('\n'));
        for line in text.lines() {
            let holdable = line.replace("1e999", "1e9");
            let value: serde_json::Value = serde_json::from_str(&holdable).unwrap();
            assert!(file.name.contains(value["report_id"].as_str().unwrap()));
            assert!(value["test_keys"].is_object());
        }
    }
}
