//! Which addresses are not public, in whatever form they are embedded.

use super::special_purpose::{Reachability, reachability};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The purpose of an address that is not public.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reserved {
    Loopback,
    /// RFC 1918, and unique local IPv6.
    Private,
    /// Link-local; clouds serve the credentials of a machine at one of them.
    LinkLocal,
    /// Carrier-grade NAT.
    Shared,
    Unspecified,
    Multicast,
    Broadcast,
    /// For benchmarks within one network.
    Benchmark,
    /// For examples in text.
    Documentation,
    /// Reserved for protocols, or for future use.
    Special,
}

impl Reserved {
    pub fn label(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Shared => "shared",
            Self::Unspecified => "unspecified",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Benchmark => "benchmark",
            Self::Documentation => "documentation",
            Self::Special => "special",
        }
    }

    /// Whether an exception for a host name covers such an address.
    pub fn allows_name_exception(self) -> bool {
        match self {
            Self::Private | Self::Shared | Self::Benchmark | Self::Documentation => true,
            Self::Loopback
            | Self::LinkLocal
            | Self::Unspecified
            | Self::Multicast
            | Self::Broadcast
            | Self::Special => false,
        }
    }
}

/// The first reason why the address, or one embedded in it, is not public.
pub fn reserved(address: IpAddr) -> Option<Reserved> {
    with_embedded(address).into_iter().find_map(|form| match reachability(form) {
        Reachability::NotGlobal(kind) => Some(kind),
        // The embedded address comes next.
        Reachability::Global | Reachability::AsEmbedded => None,
    })
}

/// The address, and the IPv4 addresses embedded in it that a router on the way would deliver to.
pub fn with_embedded(address: IpAddr) -> Vec<IpAddr> {
    let mut all = vec![address];
    if let IpAddr::V6(six) = address {
        all.extend(embedded_ipv4(six).into_iter().map(IpAddr::V4));
    }
    all
}

/// Embedded addresses of mapped and compatible forms, NAT64, 6to4, Teredo (server and client) and ISATAP.
fn embedded_ipv4(address: Ipv6Addr) -> Vec<Ipv4Addr> {
    let s = address.segments();
    let four = |high: u16, low: u16| Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low));
    match s {
        [0, 0, 0, 0, 0, 0 | 0xffff, high, low] => vec![four(high, low)],
        [0, 0, 0, 0, 0xffff, 0, high, low] | [0x64, 0xff9b, 0, 0, 0, 0, high, low] => vec![four(high, low)],
        [0x2002, high, low, ..] => vec![four(high, low)],
        [0x2001, 0, high, low, _, _, x, y] => vec![four(high, low), four(!x, !y)],
        [.., 0 | 0x200, 0x5efe, high, low] => vec![four(high, low)],
        _ => vec![],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn kind(text: &str) -> Option<Reserved> {
        reserved(text.parse().expect(text))
    }

    /// The table of ranges has tests of its own.
    #[test]
    fn an_address_that_is_not_public_is_known_in_every_form() {
        let table = [
            ("1.1.1.1", None),
            ("2606:4700::1", None),
            ("203.0.113.9", Some(Reserved::Documentation)),
            ("2001:db8::1", Some(Reserved::Documentation)),
            ("169.254.169.254", Some(Reserved::LinkLocal)),
            ("::ffff:168.63.129.16", Some(Reserved::LinkLocal)),
            ("64:ff9b::10.0.0.1", Some(Reserved::Private)),
            ("2002:7f00:1::1", Some(Reserved::Loopback)),
            ("2001:0:101:101::f5ff:fffe", Some(Reserved::Private)),
            ("2606:4700::5efe:192.168.0.1", Some(Reserved::Private)),
            ("::1.1.1.1", Some(Reserved::Special)),
        ];
        for (text, expected) in table {
            assert_eq!(kind(text), expected, "{text}");
        }
    }

    /// Every form that embeds the IPv4 address.
    fn wrapped(four: Ipv4Addr) -> Vec<Ipv6Addr> {
        let [a, b, c, d] = four.octets();
        let (high, low) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
        vec![
            four.to_ipv6_mapped(),
            Ipv6Addr::new(0, 0, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0, 0, 0, 0, 0xffff, 0, high, low),
            Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, high, low),
            Ipv6Addr::new(0x2002, high, low, 0, 0, 0, 0, 1),
            Ipv6Addr::new(0x2001, 0, high, low, 0, 0, 0x1234, 0x5678),
            Ipv6Addr::new(0x2001, 0, 0x101, 0x101, 0, 0, !high, !low),
            Ipv6Addr::new(0x2606, 0x4700, 0, 0, 0, 0x5efe, high, low),
            Ipv6Addr::new(0x2606, 0x4700, 0, 0, 0x200, 0x5efe, high, low),
        ]
    }

    proptest! {
        #[test]
        fn no_wrapping_makes_an_address_public(bits in any::<u32>()) {
            let four = Ipv4Addr::from_bits(bits);
            for six in wrapped(four) {
                prop_assert!(with_embedded(six.into()).contains(&four.into()), "{four} in {six}");
                prop_assert!(reserved(four.into()).is_none() || reserved(six.into()).is_some(), "{four} in {six}");
            }
        }
    }

    #[test]
    fn a_wrapped_public_address_is_public_where_the_form_is_in_use() {
        for text in ["::ffff:1.1.1.1", "64:ff9b::1.1.1.1", "2002:101:101::1", "2001:0:101:101::fefe:fefe"] {
            assert_eq!(kind(text), None, "{text}");
        }
    }
}
