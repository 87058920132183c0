//! Which addresses are public: those that the IANA registries of special addresses say nothing else about.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether a packet to this address leaves for the public Internet and for one host there.
///
/// What only carries another address (mapped, translated, tunnelled) is not, whatever that one is.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

/// <https://www.iana.org/assignments/iana-ipv4-special-registry>, and multicast.
fn is_public_v4(address: Ipv4Addr) -> bool {
    !matches!(
        address.octets(),
        [0 | 10 | 127, ..]
            | [100, 64..=127, ..]
            | [169, 254, ..]
            | [172, 16..=31, ..]
            | [192, 0, 0 | 2, _]
            | [192, 88, 99, _]
            | [192, 168, ..]
            | [198, 18 | 19, ..]
            | [198, 51, 100, _]
            | [203, 0, 113, _]
            | [224..=255, ..]
    )
}

/// Global unicast is 2000::/3; <https://www.iana.org/assignments/iana-ipv6-special-registry> takes from it
/// 2001::/23 (Teredo, ORCHID and others), 2001:db8::/32, 2002::/16 (6to4) and 3fff::/20.
fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let is_global_unicast = segments[0] & 0xe000 == 0x2000;
    let is_special =
        matches!(segments, [0x2001, 0..=0x01ff | 0x0db8, ..] | [0x2002, ..] | [0x3fff, 0..=0x0fff, ..]);
    is_global_unicast && !is_special
}

#[cfg(test)]
mod tests {
    use super::*;

    const INSIDE: [&str; 52] = [
        "0.0.0.0",
        "0.1.2.3",
        "10.0.0.1",
        "10.255.255.255",
        "100.64.0.1",
        "100.127.255.255",
        "127.0.0.1",
        "127.255.255.254",
        "169.254.0.1",
        "169.254.169.254",
        "172.16.0.1",
        "172.31.255.255",
        "192.0.0.1",
        "192.0.0.8",
        "192.0.0.170",
        "192.0.2.1",
        "192.88.99.1",
        "192.168.0.1",
        "192.168.255.255",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.7",
        "203.0.113.9",
        "224.0.0.1",
        "239.255.255.255",
        "240.0.0.1",
        "255.255.255.255",
        "::",
        "::1",
        "::127.0.0.1",
        "::ffff:127.0.0.1",
        "::ffff:8.8.8.8",
        "::ffff:10.0.0.1",
        "64:ff9b::7f00:1",
        "64:ff9b:1::a00:1",
        "100::1",
        "2001::1",
        "2001:0:7f00:1::",
        "2001:2::1",
        "2001:20::1",
        "2001:1ff:ffff::1",
        "2001:db8::1",
        "2002:7f00:1::1",
        "2002:a00:1::",
        "3fff::1",
        "3fff:fff::1",
        "5f00::1",
        "fc00::1",
        "fd12:3456::1",
        "fe80::1",
        "fec0::1",
        "ff02::1",
    ];
    const OUTSIDE: [&str; 16] = [
        "1.1.1.1",
        "8.8.8.8",
        "9.255.255.255",
        "11.0.0.1",
        "100.63.255.255",
        "100.128.0.1",
        "128.0.0.1",
        "169.253.1.1",
        "172.15.0.1",
        "172.32.0.1",
        "192.0.1.1",
        "198.20.0.1",
        "223.255.255.255",
        "2001:200::1",
        "2606:4700::1111",
        "2a00:1450::8",
    ];

    #[test]
    fn special_addresses_are_inside_and_their_neighbours_are_public() {
        let public = |text: &&str| is_public(text.parse().unwrap());
        assert_eq!(INSIDE.iter().filter(|text| public(text)).collect::<Vec<_>>(), Vec::<&&str>::new());
        assert_eq!(OUTSIDE.iter().filter(|text| !public(text)).collect::<Vec<_>>(), Vec::<&&str>::new());
    }
}
