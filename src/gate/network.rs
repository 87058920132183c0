//! Where a client comes from: the one address that limits are counted by, which a client must not
//! be able to choose.

use std::net::{IpAddr, SocketAddr};

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

/// The client's address. Each proxy appends the address it was called from to `X-Forwarded-For`, so
/// the list is walked from the right for as long as the address in hand belongs to a trusted proxy:
/// what stands further left was written by the client. An entry that is no address stops the walk.
///
/// `forwarded_for` holds all values of the header in the order received, each a comma-separated
/// list; entries may carry a port. IPv4 addresses written as IPv6 (`::ffff:…`) are taken as IPv4.
pub fn client_ip<'a>(
    peer: IpAddr,
    forwarded_for: impl Iterator<Item = &'a str>,
    trusted: &[IpNet],
) -> IpAddr {
    let mut client = peer.to_canonical();
    if !is_trusted(client, trusted) {
        return client;
    }
    let values: Vec<&str> = forwarded_for.collect();
    for entry in values.iter().rev().flat_map(|value| value.rsplit(',')) {
        let Some(hop) = address_in(entry) else { return client };
        client = hop;
        if !is_trusted(client, trusted) {
            return client;
        }
    }
    client
}

/// The network that counts as one client: a single IPv4 address, or the IPv6 /64, which is what one
/// household or one host commonly holds.
#[must_use]
pub fn network_of(ip: IpAddr) -> IpNet {
    match ip.to_canonical() {
        IpAddr::V4(ip) => Ipv4Net::from(ip).into(),
        IpAddr::V6(ip) => Ipv6Net::new_assert(ip, 64).trunc().into(),
    }
}

fn is_trusted(ip: IpAddr, trusted: &[IpNet]) -> bool {
    let as_ipv6 = match ip {
        IpAddr::V4(ip) => IpAddr::V6(ip.to_ipv6_mapped()),
        IpAddr::V6(_) => ip,
    };
    trusted.iter().any(|net| net.contains(&ip) || net.contains(&as_ipv6))
}

fn address_in(entry: &str) -> Option<IpAddr> {
    let entry = entry.trim();
    let bare = entry.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(entry);
    let ip = bare.parse().or_else(|_| entry.parse::<SocketAddr>().map(|with_port| with_port.ip())).ok()?;
    Some(IpAddr::to_canonical(&ip))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(peer: &str, forwarded_for: &[&str], trusted: &[&str]) -> String {
        let trusted: Vec<IpNet> = trusted.iter().map(|net| net.parse().unwrap()).collect();
        client_ip(peer.parse().unwrap(), forwarded_for.iter().copied(), &trusted).to_string()
    }

    #[test]
    fn without_a_trusted_proxy_the_header_changes_nothing() {
        assert_eq!(seen("203.0.113.9", &["1.1.1.1"], &[]), "203.0.113.9");
        assert_eq!(seen("203.0.113.9", &["1.1.1.1"], &["10.0.0.0/8"]), "203.0.113.9");
        assert_eq!(seen("::ffff:203.0.113.9", &[], &[]), "203.0.113.9");
    }

    #[test]
    fn the_walk_goes_from_the_right_and_ends_at_the_first_stranger() {
        let trusted = &["10.0.0.0/8", "fd00::/8"];
        for (forwarded_for, client) in [
            (&["198.51.100.7"][..], "198.51.100.7"),
            (&["6.6.6.6, 198.51.100.7"], "198.51.100.7"),
            (&["6.6.6.6, 198.51.100.7 ,10.2.2.2"], "198.51.100.7"),
            (&["6.6.6.6", "198.51.100.7", "10.2.2.2"], "198.51.100.7"),
            (&["6.6.6.6, 198.51.100.7", "fd00::5, 10.2.2.2"], "198.51.100.7"),
            (&["198.51.100.7:4711"], "198.51.100.7"),
            (&["[2001:db8::7]:4711"], "2001:db8::7"),
            (&["[2001:db8::7]"], "2001:db8::7"),
            (&["::ffff:198.51.100.7"], "198.51.100.7"),
            (&["6.6.6.6, ::ffff:10.3.3.3"], "6.6.6.6"),
            (&["10.3.3.3"], "10.3.3.3"),
            (&[], "10.1.1.1"),
        ] {
            assert_eq!(seen("10.1.1.1", forwarded_for, trusted), client, "{forwarded_for:?}");
        }
    }

    #[test]
    fn garbage_stops_the_walk_at_the_last_known_hop() {
        for (forwarded_for, client) in [
            (&["6.6.6.6, unknown"][..], "10.1.1.1"),
            (&["6.6.6.6, , 10.2.2.2"], "10.2.2.2"),
            (&[""], "10.1.1.1"),
            (&["6.6.6.6, 1.2.3, 10.2.2.2"], "10.2.2.2"),
            (&["fe80::1%eth0"], "10.1.1.1"),
        ] {
            assert_eq!(seen("10.1.1.1", forwarded_for, &["10.0.0.0/8"]), client, "{forwarded_for:?}");
        }
    }

    #[test]
    fn mapped_spellings_of_a_trusted_proxy_are_the_same_proxy() {
        assert_eq!(seen("::ffff:10.1.1.1", &["6.6.6.6"], &["10.0.0.0/8"]), "6.6.6.6");
        assert_eq!(seen("10.1.1.1", &["6.6.6.6"], &["::ffff:10.0.0.0/104"]), "6.6.6.6");
    }

    #[test]
    fn a_client_is_one_ipv4_address_or_an_ipv6_64() {
        let network = |ip: &str| network_of(ip.parse().unwrap()).to_string();
        assert_eq!(network("203.0.113.9"), "203.0.113.9/32");
        assert_eq!(network("::ffff:203.0.113.9"), "203.0.113.9/32");
        assert_eq!(network("2001:db8:1:2:3:4:5:6"), "2001:db8:1:2::/64");
    }
}
