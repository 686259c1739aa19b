//! One measurement as a line of JSON.

use super::draw::Draw;
use super::html::words;
use super::names::Head;
use super::web;

/// A measurement of the report's test, without its newline.
pub(super) fn measurement(draw: &mut Draw, head: &Head, version: &str) -> String {
    match head.test {
        "web_connectivity" => {
            let mut line = String::new();
            let spaced = draw.once_in(2);
            web::measurement(draw, head, version, spaced, &mut line);
            line
        }
        test => {
            let keys = test_keys(draw, test);
            let (input, ip) = (input(draw, test), draw.address());
            let (started, seconds) = (head.started(), draw.below(60_000));
            format!(
                "{{\"annotations\":{{\"platform\":\"linux\"}},\"data_format_version\":\"{version}\",\"id\":\"{id}\",\"input\":{input},\
\"measurement_start_time\":\"{started}\",\"probe_asn\":\"AS{network}\",\"probe_cc\":\"{country}\",\"probe_ip\":\"{ip}\",\
\"report_id\":\"{report}\",\"software_name\":\"measurement_kit\",\"software_version\":\"0.4.3\",\"test_keys\":{keys},\
\"test_name\":\"{test}\",\"test_runtime\":{seconds}.{fraction},\"test_start_time\":\"{started}\",\"test_version\":\"0.0.1\"}}",
                id = draw.hex(32),
                network = head.network,
                country = head.country,
                report = head.report_id,
                fraction = 1 + draw.below(900_000),
            )
        }
    }
}

fn bridge(draw: &mut Draw) -> String {
    format!("obfs4 {}:{}", draw.address(), 1_024 + draw.below(60_000))
}

fn input(draw: &mut Draw, test: &str) -> String {
    match test {
        "bridge_reachability" => format!("\"{}\"", bridge(draw)),
        "tcp_connect" => format!("\"{}:443\"", draw.address()),
        _ => "null".to_owned(),
    }
}

fn test_keys(draw: &mut Draw, test: &str) -> String {
    match test {
        "http_header_field_manipulation" => header_fields(draw),
        "ndt" => ndt(draw),
        "dash" => dash(draw),
        "tor" => tor(draw),
        "vanilla_tor" => tor_log(draw),
        "bridge_reachability" => {
            let address = bridge(draw);
            format!(
                "{{\"bridge_address\":\"{address}\",\"success\":true,\"tor_progress\":100,\"transport_name\":\"obfs4\"}}"
            )
        }
        "tcp_connect" => "{\"connection\":\"success\"}".to_owned(),
        _ => "{\"received\":[\"\"],\"sent\":[\"GET / HTTP/1.1\\n\\r\"],\"tampering\":false}"
            .to_owned(),
    }
}

fn header_fields(draw: &mut Draw) -> String {
    let mut body = String::new();
    words(draw, 20, &mut body);
    let address = draw.address();
    format!(
        "{{\"requests\":[{{\"failure\":null,\"request\":{{\"headers\":{{\"acCePT-lAngUage\":\"en-US,en;q=0.8\",\"hOsT\":\"{}.com\"}},\"method\":\"GeT\",\
\"url\":\"http://{address}\"}},\"response\":{{\"body\":\"{{\\\"headers_dict\\\": {{}}, \\\"text\\\": \\\"{body}\\\"}}\",\"code\":200,\"headers\":{{\"Server\":\"cyclone\"}}}}}}],\
\"tampering\":{{\"header_field_name\":false,\"header_field_number\":false,\"total\":false}}}}",
        draw.hex(15)
    )
}

fn ndt(draw: &mut Draw) -> String {
    let samples = |draw: &mut Draw| {
        let all: Vec<String> = (0..60)
            .map(|n| {
                format!(
                    "[{}.{:06},{}.5]",
                    n / 2,
                    draw.below(1_000_000),
                    20_000 + draw.below(900)
                )
            })
            .collect();
        all.join(",")
    };
    let (down, up) = (samples(draw), samples(draw));
    format!(
        "{{\"client_resolver\":\"{}\",\"failure\":null,\"server_address\":\"{}\",\"simple\":{{\"download\":{}.25,\"ping\":{},\"upload\":{}.5}},\
\"test_c2s\":[{{\"receiver_data\":[{up}]}}],\"test_s2c\":[{{\"receiver_data\":[{down}]}}]}}",
        draw.address(),
        draw.address(),
        draw.below(90_000),
        draw.below(400),
        draw.below(20_000)
    )
}

fn dash(draw: &mut Draw) -> String {
    let rows: Vec<String> = (0..15)
        .map(|iteration| {
            format!(
                "{{\"connect_time\":0.0{},\"elapsed\":2.{},\"iteration\":{iteration},\"rate\":{},\"received\":{},\"remote_address\":\"{}\"}}",
                draw.below(900),
                draw.below(900_000),
                100 + draw.below(20_000),
                draw.below(9_000_000),
                draw.address()
            )
        })
        .collect();
    format!(
        "{{\"failure\":null,\"receiver_data\":[{}],\"simple\":{{\"median_bitrate\":{}}}}}",
        rows.join(","),
        draw.below(30_000)
    )
}

fn tor(draw: &mut Draw) -> String {
    let targets: Vec<String> = (0..8)
        .map(|_| {
            format!(
                "\"{}\":{{\"failure\":null,\"summary\":{{\"connect\":{{\"failure\":null}}}},\"target_address\":\"{}:443\",\"target_protocol\":\"or_port\"}}",
                draw.hex(64),
                draw.address()
            )
        })
        .collect();
    format!(
        "{{\"or_port_accessible\":8,\"or_port_total\":8,\"targets\":{{{}}}}}",
        targets.join(",")
    )
}

fn tor_log(draw: &mut Draw) -> String {
    let lines: Vec<String> = (0..20)
        .map(|n| format!("Jan 01 00:00:{n:02}.000 [notice] Bootstrapped {}%: Loading relay descriptors from {}", n * 5, draw.address()))
        .collect();
    format!(
        "{{\"error\":null,\"success\":true,\"timeout\":300,\"tor_log\":\"{}\",\"tor_progress\":100}}",
        lines.join("\\n")
    )
}
