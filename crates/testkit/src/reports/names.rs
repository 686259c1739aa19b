//! Who measured what, and how its report is called.

use jiff::Timestamp;

use super::draw::Draw;

/// Tests whose reports are JSON lines.
pub(super) const JSON_TESTS: [&str; 9] = [
    "web_connectivity",
    "http_header_field_manipulation",
    "ndt",
    "dash",
    "tor",
    "http_invalid_request_line",
    "vanilla_tor",
    "tcp_connect",
    "bridge_reachability",
];

/// A test of the time of YAML: what its file says and what it calls itself.
#[derive(Clone, Copy)]
pub(super) struct OldTest {
    pub(super) file: &'static str,
    pub(super) name: &'static str,
}

pub(super) const YAML_TESTS: [OldTest; 3] = [
    OldTest {
        file: "http_requests",
        name: "http_requests_test",
    },
    OldTest {
        file: "dns_consistency",
        name: "DNS tamper",
    },
    OldTest {
        file: "bridge_reachability",
        name: "bridgereachability",
    },
];

const COUNTRIES: [&str; 8] = ["IT", "BR", "KE", "IN", "US", "ZZ", "IR", "DE"];

/// What all measurements of a report share.
#[derive(Clone, Debug)]
pub(super) struct Head {
    pub(super) started: Timestamp,
    pub(super) country: &'static str,
    pub(super) network: u32,
    pub(super) test: &'static str,
    pub(super) report_id: String,
    version: &'static str,
}

impl Head {
    pub(super) fn new(draw: &mut Draw, test: &'static str, version: &'static str) -> Self {
        let second = 1_483_228_800 + i64::from(draw.below(86_400));
        Self {
            started: Timestamp::from_second(second).expect("a second of 2017"),
            country: draw.pick(&COUNTRIES),
            network: 1 + draw.below(64_000),
            test,
            report_id: draw.id(),
            version,
        }
    }

    pub(super) fn file_name(&self, extension: &str) -> String {
        let Self {
            country,
            network,
            test,
            report_id,
            version,
            ..
        } = self;
        let started = self.started.strftime("%Y%m%dT%H%M%SZ");
        format!("{started}-{country}-AS{network}-{test}-{report_id}-{version}-probe.{extension}")
    }

    pub(super) fn started(&self) -> String {
        self.started.strftime("%Y-%m-%d %H:%M:%S").to_string()
    }
}
