//! What counts as one client where the connections of each are limited: one must not keep others out.

use std::net::IpAddr;

/// A client, as the limit counts it: an IPv4 address, or the /64 network that one host has of IPv6.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct IpPrefix(u128);

impl IpPrefix {
    /// None for loopback: a proxy on this host speaks for many clients.
    pub fn of(address: IpAddr) -> Option<Self> {
        match address.to_canonical() {
            address if address.is_loopback() => None,
            IpAddr::V4(address) => Some(Self(address.to_ipv6_mapped().to_bits())),
            IpAddr::V6(address) => Some(Self(address.to_bits() >> 64 << 64)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix(address: &str) -> Option<IpPrefix> {
        IpPrefix::of(address.parse().unwrap())
    }

    #[test]
    fn addresses_that_count_as_one_client() {
        for (one, other) in [("2001:db8::1", "2001:db8::2:3:4:5"), ("192.0.2.1", "::ffff:192.0.2.1")] {
            assert_eq!(prefix(one), prefix(other));
        }
        for (one, other) in [("2001:db8::1", "2001:db8:0:1::1"), ("192.0.2.1", "192.0.2.2")] {
            assert_ne!(prefix(one), prefix(other));
        }
        for here in ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"] {
            assert_eq!(prefix(here), None, "{here}");
        }
    }
}
