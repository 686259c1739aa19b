//! Addresses that keep their first bits.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// The address in `text` with all but its first bits zero. It may have a port, brackets or a zone; the zone goes.
pub(super) fn truncate(text: &str, v4: u8, v6: u8) -> Option<String> {
    let text = text.trim();
    let short = |address: IpAddr| mask(address, v4, v6);
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return Some(SocketAddr::new(short(socket.ip()), socket.port()).to_string());
    }
    if let Some(inside) = text
        .strip_prefix('[')
        .and_then(|rest| rest.strip_suffix(']'))
    {
        let address = parse(inside)?;
        return Some(format!("[{}]", short(address)));
    }
    parse(text).map(|address| short(address).to_string())
}

fn parse(text: &str) -> Option<IpAddr> {
    let (address, _zone) = text.split_once('%').unwrap_or((text, ""));
    address.parse().ok()
}

fn mask(address: IpAddr, v4: u8, v6: u8) -> IpAddr {
    match address {
        IpAddr::V4(address) => IpAddr::V4(mask_v4(address, v4)),
        IpAddr::V6(address) => match address.to_ipv4_mapped() {
            // Its first bits say nothing, its last ones everything.
            Some(inside) => IpAddr::V6(mask_v4(inside, v4).to_ipv6_mapped()),
            None => IpAddr::V6(mask_v6(address, v6)),
        },
    }
}

fn mask_v4(address: Ipv4Addr, bits: u8) -> Ipv4Addr {
    let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
    Ipv4Addr::from_bits(address.to_bits() & mask)
}

fn mask_v6(address: Ipv6Addr, bits: u8) -> Ipv6Addr {
    let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
    Ipv6Addr::from_bits(address.to_bits() & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_keep_their_first_bits() {
        for (text, short) in [
            ("203.0.113.77", Some("203.0.113.0")),
            ("203.0.113.77:443", Some("203.0.113.0:443")),
            ("2001:db8:1:2:3:4:5:6", Some("2001:db8:1::")),
            ("[2001:db8:1:2::6]:443", Some("[2001:db8:1::]:443")),
            ("[2001:db8:1:2::6]", Some("[2001:db8:1::]")),
            ("fe80::1%eth0", Some("fe80::")),
            ("::ffff:203.0.113.77", Some("::ffff:203.0.113.0")),
            (" 203.0.113.77\n", Some("203.0.113.0")),
            ("203.0.113", None),
            ("host.example", None),
            ("203.0.113.77 and more", None),
        ] {
            assert_eq!(truncate(text, 24, 48).as_deref(), short, "{text}");
        }
        assert_eq!(
            truncate("203.0.113.77", 32, 0).as_deref(),
            Some("203.0.113.77")
        );
        assert_eq!(truncate("203.0.113.77", 0, 0).as_deref(), Some("0.0.0.0"));
        assert_eq!(truncate("2001:db8::1", 0, 0).as_deref(), Some("::"));
        assert_eq!(
            truncate("2001:db8::1", 0, 128).as_deref(),
            Some("2001:db8::1")
        );
    }
}
