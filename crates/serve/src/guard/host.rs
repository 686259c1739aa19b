//! Is a request addressed to this machine by a name that only this machine can have?

use std::net::{Ipv4Addr, Ipv6Addr};

use axum::extract::Request;
use http::header::HOST;

/// Whether the one `Host` header, and the authority of an absolute target if there is one, are loopback names.
pub(crate) fn is_local(request: &Request) -> bool {
    let mut hosts = request.headers().get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return false;
    };
    let target_is_local = request
        .uri()
        .authority()
        .is_none_or(|authority| names_loopback(authority.as_str()));
    target_is_local && host.to_str().is_ok_and(names_loopback)
}

fn names_loopback(host: &str) -> bool {
    if let Some(rest) = host.strip_prefix('[') {
        let Some((address, port)) = rest.split_once(']') else {
            return false;
        };
        return is_port(port)
            && address
                .parse()
                .is_ok_and(|address: Ipv6Addr| address.is_loopback());
    }
    let (name, port) = host.split_at(host.find(':').unwrap_or(host.len()));
    let is_loopback = name
        .parse()
        .is_ok_and(|address: Ipv4Addr| address.is_loopback());
    is_port(port) && (is_loopback || name.eq_ignore_ascii_case("localhost"))
}

fn is_port(text: &str) -> bool {
    text.is_empty()
        || text
            .strip_prefix(':')
            .is_some_and(|port| port.parse::<u16>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_loopback_names_pass() {
        for good in [
            "localhost",
            "LocalHost:8420",
            "127.0.0.1",
            "127.9.8.7:1",
            "[::1]",
            "[::1]:8420",
        ] {
            assert!(names_loopback(good), "{good}");
        }
        let bad = [
            "",
            ":80",
            "evil.example",
            "localhost.evil.example",
            "evil.example:8420",
            "127.0.0.1.evil.example",
            "evil@localhost",
            "localhost@evil.example",
            "localhost:80:evil",
            "localhost:evil",
            "128.0.0.1",
            "0.0.0.0",
            "2130706433",
            "0177.0.0.1",
            "127.1",
            "[::1",
            "[::1]evil",
            "[::2]",
            "::1",
            "[::ffff:10.0.0.1]",
        ];
        for bad in bad {
            assert!(!names_loopback(bad), "{bad}");
        }
    }
}
