//! Measurements of `web_connectivity`: the most of all data, and the largest.

use serde_json::Value;

use super::draw::Draw;
use super::html;
use super::names::Head;

const HOSTS: u32 = 400;

/// Lines of `web_connectivity` measurements, each with its newline, until they are `bytes` together. They compress about as
/// well as real ones: to a fifth with `lz4 -5`.
#[must_use]
pub fn web_connectivity_json(bytes: u64) -> WebConnectivity {
    let mut draw = Draw::seeded(5);
    WebConnectivity {
        head: Head::new(&mut draw, "web_connectivity", "0.2.0"),
        draw,
        left: bytes,
        number: 0,
    }
}

/// See [`web_connectivity_json`].
#[derive(Clone, Debug)]
pub struct WebConnectivity {
    draw: Draw,
    head: Head,
    left: u64,
    number: u32,
}

impl Iterator for WebConnectivity {
    type Item = Vec<u8>;

    fn next(&mut self) -> Option<Vec<u8>> {
        if self.left == 0 {
            return None;
        }
        // A report of some hundred lines comes from one probe: those of C++ write no spaces, those of Python do.
        if self.number.is_multiple_of(300) {
            self.head = Head::new(&mut self.draw, "web_connectivity", "0.2.0");
        }
        let spaced = self.number / 300 % 2 == 1;
        self.number += 1;
        let mut line = String::with_capacity(24 * 1024);
        measurement(&mut self.draw, &self.head, "0.2.0", spaced, &mut line);
        line.push('\n');
        self.left = self.left.saturating_sub(line.len() as u64);
        Some(line.into_bytes())
    }
}

/// Appends one measurement, with or without spaces after commas and colons.
pub(super) fn measurement(
    draw: &mut Draw,
    head: &Head,
    version: &str,
    spaced: bool,
    out: &mut String,
) {
    let (comma, colon) = if spaced { (", ", ": ") } else { (",", ":") };
    let host = host(draw);
    let keys = test_keys(draw, &host, comma, colon);
    let started = head.started();
    let text = |text: &str| format!("\"{text}\"");
    let members = [
        ("annotations", format!("{{\"platform\"{colon}\"linux\"}}")),
        ("data_format_version", text(version)),
        ("id", text(&draw.hex(32))),
        ("input", text(&format!("http://{host}/"))),
        ("input_hashes", "[]".to_owned()),
        ("measurement_start_time", text(&started)),
        ("options", "[]".to_owned()),
        ("probe_asn", text(&format!("AS{}", head.network))),
        ("probe_cc", text(head.country)),
        ("probe_city", "null".to_owned()),
        ("probe_ip", text(&draw.address())),
        ("report_id", text(&head.report_id)),
        ("software_name", text("ooniprobe")),
        ("software_version", text("2.1.0")),
        (
            "test_helpers",
            format!("{{\"backend\"{colon}\"httpo://y3zq5fwelrzkkv3s.onion\"}}"),
        ),
        ("test_keys", keys),
        ("test_name", text("web_connectivity")),
        (
            "test_runtime",
            format!("{}.{:06}", draw.below(30), draw.below(1_000_000)),
        ),
        ("test_start_time", text(&started)),
        ("test_version", text("0.1.0")),
    ];
    object(&members, comma, colon, out);
}

fn host(draw: &mut Draw) -> String {
    let number = draw.below(HOSTS);
    let index = usize::try_from(number).expect("a small number") % html::WORDS.len();
    format!("www.{}{number}.example", html::WORDS[index])
}

fn object(members: &[(&str, String)], comma: &str, colon: &str, out: &mut String) {
    out.push('{');
    for (number, (key, value)) in members.iter().enumerate() {
        *out += if number > 0 { comma } else { "" };
        out.push('"');
        *out += key;
        out.push('"');
        *out += colon;
        *out += value;
    }
    out.push('}');
}

fn test_keys(draw: &mut Draw, host: &str, comma: &str, colon: &str) -> String {
    let (ip, ttl) = (draw.address(), draw.below(3_600));
    let (c, d) = (comma, colon);
    let (resolver, proportion) = (draw.address(), draw.below(1_000));
    let request = requests(draw, host, c, d);
    let members = [
        ("accessible", "true".to_owned()),
        ("agent", "\"redirect\"".to_owned()),
        ("blocking", "false".to_owned()),
        ("body_length_match", "true".to_owned()),
        ("body_proportion", format!("0.{proportion:03}")),
        ("client_resolver", format!("\"{resolver}\"")),
        ("control", control(draw, &ip, c, d)),
        ("dns_consistency", "\"consistent\"".to_owned()),
        (
            "queries",
            format!(
                "[{{\"answers\"{d}[{{\"answer_type\"{d}\"A\"{c}\"ipv4\"{d}\"{ip}\"{c}\"ttl\"{d}{ttl}}}]{c}\"failure\"{d}null{c}\"hostname\"{d}\"{host}\"{c}\"query_type\"{d}\"A\"{c}\"resolver_hostname\"{d}null{c}\"resolver_port\"{d}null}}]"
            ),
        ),
        ("requests", request),
        ("retries", "null".to_owned()),
        ("socksproxy", "null".to_owned()),
        (
            "tcp_connect",
            format!(
                "[{{\"ip\"{d}\"{ip}\"{c}\"port\"{d}80{c}\"status\"{d}{{\"blocked\"{d}false{c}\"failure\"{d}null{c}\"success\"{d}true}}}}]"
            ),
        ),
    ];
    let mut out = String::new();
    object(&members, comma, colon, &mut out);
    out
}

fn control(draw: &mut Draw, ip: &str, c: &str, d: &str) -> String {
    let headers = headers(draw, c, d);
    let length = 10_000 + draw.below(9_000);
    format!(
        "{{\"dns\"{d}{{\"addrs\"{d}[\"{ip}\"]{c}\"failure\"{d}null}}{c}\"http_request\"{d}{{\"body_length\"{d}{length}{c}\"failure\"{d}null{c}\"headers\"{d}{headers}{c}\"status_code\"{d}200}}{c}\"tcp_connect\"{d}{{\"{ip}:80\"{d}{{\"failure\"{d}null{c}\"status\"{d}true}}}}}}"
    )
}

fn headers(draw: &mut Draw, c: &str, d: &str) -> String {
    let (etag, cookie, age) = (draw.hex(16), draw.hex(32), draw.below(9_000));
    let second = draw.below(60);
    format!(
        "{{\"Age\"{d}\"{age}\"{c}\"Cache-Control\"{d}\"max-age=600, public\"{c}\"Content-Type\"{d}\"text/html; charset=utf-8\"{c}\"Date\"{d}\"Sun, 01 Jan 2017 10:20:{second:02} GMT\"{c}\"Etag\"{d}\"\\\"{etag}\\\"\"{c}\"Server\"{d}\"nginx/1.10.2\"{c}\"Set-Cookie\"{d}\"session={cookie}; path=/; HttpOnly\"{c}\"Vary\"{d}\"Accept-Encoding\"{c}\"X-Powered-By\"{d}\"PHP/5.6.30\"}}"
    )
}

fn requests(draw: &mut Draw, host: &str, c: &str, d: &str) -> String {
    let mut page = String::new();
    let size = match draw.below(10) {
        0..=5 => 8_000 + draw.below(8_000),
        6 | 7 => 300 + draw.below(3_000),
        _ => 16_000 + draw.below(12_000),
    };
    html::page(
        draw,
        host,
        usize::try_from(size).expect("a small number"),
        &mut page,
    );
    let body = Value::from(page).to_string();
    let headers = headers(draw, c, d);
    format!(
        "[{{\"failure\"{d}null{c}\"request\"{d}{{\"body\"{d}\"\"{c}\"headers\"{d}{{\"Accept\"{d}\"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\"{c}\"Accept-Language\"{d}\"en-US;q=0.8,en;q=0.5\"{c}\"User-Agent\"{d}\"Mozilla/5.0 (Windows NT 6.1; WOW64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/47.0.2526.106 Safari/537.36\"}}{c}\"method\"{d}\"GET\"{c}\"tor\"{d}{{\"exit_ip\"{d}null{c}\"exit_name\"{d}null{c}\"is_tor\"{d}false}}{c}\"url\"{d}\"http://{host}/\"}}{c}\"response\"{d}{{\"body\"{d}{body}{c}\"code\"{d}200{c}\"headers\"{d}{headers}}}}}]"
    )
}
