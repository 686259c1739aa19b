//! Reports of the time when they were YAML: a header, then a document for each measurement.

use serde_json::Value;

use super::draw::Draw;
use super::html;
use super::names::Head;

/// A report of so many entries, of which the first `odd` have strings that are not UTF-8.
pub(super) fn report(
    draw: &mut Draw,
    head: &Head,
    test: &str,
    entries: usize,
    odd: usize,
) -> Vec<u8> {
    let mut out = header(draw, head, test).into_bytes();
    for number in 0..entries {
        out.extend_from_slice(b"---\n");
        out.extend_from_slice(entry(draw, head).as_bytes());
        if number < odd {
            out.extend_from_slice(match number % 2 {
                0 => b"server_banner: \"caf\xe9 \xff\"\n",
                _ => b"server_banner: !!binary |\n  /wD+YWI=\n",
            });
        }
        out.extend_from_slice(b"...\n");
    }
    out
}

fn header(draw: &mut Draw, head: &Head, test: &str) -> String {
    let rule = "#".repeat(43);
    format!(
        "{rule}\n# OONI Probe Report for {test} (0.1.0)\n{rule}\n---\noptions: [-u, 'http://www.example.com/']\nprobe_asn: AS{}\nprobe_cc: {}\n\
probe_city: null\nprobe_ip: {}\nreport_id: {}\nsoftware_name: ooniprobe\nsoftware_version: 0.0.12\nstart_time: {}.0\n\
test_name: {test}\ntest_version: '0.1'\n...\n",
        head.network,
        head.country,
        draw.address(),
        head.report_id,
        head.started.as_second()
    )
}

fn entry(draw: &mut Draw, head: &Head) -> String {
    let mut entry = match head.test {
        "http_requests" => requests(draw),
        "dns_consistency" => dns(draw),
        _ => bridge(draw),
    };
    let begun = head.started.as_second() + i64::from(draw.below(600));
    entry += &format!("test_start_time: {begun}.{}\n", 1 + draw.below(99_999));
    entry
}

fn requests(draw: &mut Draw) -> String {
    let mut page = String::new();
    let size = 500 + draw.index(3_000);
    html::page(draw, "www.example.com", size, &mut page);
    // A JSON string is a double-quoted scalar of YAML.
    let body = Value::from(page);
    let hash = draw.hex(16);
    format!(
        "agent: agent\nbody_length_match: true\ninput: http://www.example.com/{hash}\nrequests:\n- request:\n    body: null\n    headers: &h\n    - - User-Agent\n      - [Mozilla/5.0]\n    method: GET\n    \
tor: false\n    url: http://www.example.com/{hash}\n  response:\n    body: {body}\n    code: 200\n    headers: *h\nsocksproxy: null\n"
    )
}

fn dns(draw: &mut Draw) -> String {
    let (ip, resolver) = (draw.address(), draw.address());
    format!(
        "control_resolver: !!python/tuple [8.8.8.8, 53]\ninput: www.example.com\nqueries:\n- addrs: [{ip}]\n  answers:\n  - ['<RR name=www.example.com type=A class=IN ttl=300s auth=False>', '<A address={ip} ttl=300>']\n  \
query: '[Query(''www.example.com'', 1, 1)]'\n  resolver: [{resolver}, 53]\ntampering: {{{resolver}: false}}\n"
    )
}

fn bridge(draw: &mut Draw) -> String {
    let (ip, port) = (draw.address(), 1_024 + draw.below(60_000));
    format!(
        "bridge_address: {ip}:{port}\ninput: obfs3 {ip}:{port}\nsuccess: true\ntor_progress: 100\ntransport_name: obfs3\n"
    )
}
