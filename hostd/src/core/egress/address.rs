//! Which addresses are not the public network, in whatever form they are written.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What an address is for, other than being reached by everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reserved {
    Loopback,
    /// Of one's own network: RFC 1918, and unique local IPv6.
    Private,
    /// Of this very wire; clouds keep the credentials of a machine at one of them.
    LinkLocal,
    /// Between a provider and its customers.
    Shared,
    Unspecified,
    Multicast,
    Broadcast,
    /// For measurements within one network.
    Benchmark,
    /// Set aside for protocols, or for later.
    Special,
}

impl Reserved {
    pub fn word(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Private => "private",
            Self::LinkLocal => "link-local",
            Self::Shared => "shared",
            Self::Unspecified => "unspecified",
            Self::Multicast => "multicast",
            Self::Broadcast => "broadcast",
            Self::Benchmark => "benchmark",
            Self::Special => "special",
        }
    }

    /// Whether a name is trusted to be there, where the administrator excepts it.
    pub fn may_be_named(self) -> bool {
        match self {
            Self::Private | Self::Shared | Self::Benchmark => true,
            Self::Loopback
            | Self::LinkLocal
            | Self::Unspecified
            | Self::Multicast
            | Self::Broadcast
            | Self::Special => false,
        }
    }
}

/// The first reason why one of its faces is not public.
pub fn reserved(address: IpAddr) -> Option<Reserved> {
    faces(address).into_iter().find_map(|face| match face {
        IpAddr::V4(four) => reserved_four(four),
        IpAddr::V6(six) => reserved_six(six),
    })
}

/// The address, and those of IPv4 within it that some machine on the way would send it to.
pub fn faces(address: IpAddr) -> Vec<IpAddr> {
    let mut all = vec![address];
    if let IpAddr::V6(six) = address {
        all.extend(within(six).into_iter().map(IpAddr::V4));
    }
    all
}

/// Where Azure talks to its machines, from every network: certificates, extensions, and what a machine is to run.
/// Of a public range, and only ever of the wire.
const AZURE_WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);

fn reserved_four(address: Ipv4Addr) -> Option<Reserved> {
    let [a, b, c, _] = address.octets();
    match (a, b, c) {
        _ if address.is_broadcast() => Some(Reserved::Broadcast),
        _ if address.is_unspecified() => Some(Reserved::Unspecified),
        _ if address == AZURE_WIRE_SERVER => Some(Reserved::LinkLocal),
        (0, ..) => Some(Reserved::Unspecified),
        (127, ..) => Some(Reserved::Loopback),
        (10, ..) | (192, 168, _) | (172, 16..=31, _) => Some(Reserved::Private),
        (169, 254, _) => Some(Reserved::LinkLocal),
        (100, 64..=127, _) => Some(Reserved::Shared),
        (192, 0, 0) | (192, 88, 99) => Some(Reserved::Special),
        (198, 18..=19, _) => Some(Reserved::Benchmark),
        (224..=239, ..) => Some(Reserved::Multicast),
        (240..=255, ..) => Some(Reserved::Special),
        _ => None,
    }
}

fn reserved_six(address: Ipv6Addr) -> Option<Reserved> {
    let s = address.segments();
    match s {
        _ if address.is_loopback() => Some(Reserved::Loopback),
        _ if address.is_unspecified() => Some(Reserved::Unspecified),
        // Mapped: judged by the address within.
        [0, 0, 0, 0, 0, 0xffff, ..] => None,
        // The forms of IPv4 that nobody uses any more, and translation within one network.
        [0, ..] => Some(Reserved::Special),
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => None,
        [0x64, 0xff9b, ..] => Some(Reserved::Private),
        [0x100, 0, 0, 0, ..] => Some(Reserved::Special),
        [0xfc00..=0xfdff, ..] => Some(Reserved::Private),
        [0xfe80..=0xfebf, ..] => Some(Reserved::LinkLocal),
        [0xfec0..=0xfeff, ..] => Some(Reserved::Private),
        [0xff00..=0xffff, ..] => Some(Reserved::Multicast),
        _ => None,
    }
}

/// Mapped and compatible forms, NAT64, 6to4, Teredo (server and client) and ISATAP.
fn within(address: Ipv6Addr) -> Vec<Ipv4Addr> {
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

    #[test]
    fn every_range_is_known_to_its_edges() {
        use Reserved::{
            Benchmark, Broadcast, LinkLocal, Loopback, Multicast, Private, Shared, Special, Unspecified,
        };
        let table = [
            ("0.0.0.0", Unspecified),
            ("0.255.255.255", Unspecified),
            ("10.0.0.0", Private),
            ("10.255.255.255", Private),
            ("100.64.0.0", Shared),
            ("100.127.255.255", Shared),
            ("127.0.0.1", Loopback),
            ("127.255.255.255", Loopback),
            ("168.63.129.16", LinkLocal),
            ("::ffff:168.63.129.16", LinkLocal),
            ("169.254.0.0", LinkLocal),
            ("169.254.169.254", LinkLocal),
            ("172.16.0.0", Private),
            ("172.31.255.255", Private),
            ("192.0.0.0", Special),
            ("192.0.0.255", Special),
            ("192.168.0.0", Private),
            ("192.168.255.255", Private),
            ("198.18.0.0", Benchmark),
            ("198.19.255.255", Benchmark),
            ("224.0.0.0", Multicast),
            ("239.255.255.255", Multicast),
            ("240.0.0.0", Special),
            ("255.255.255.254", Special),
            ("255.255.255.255", Broadcast),
            ("::", Unspecified),
            ("::1", Loopback),
            ("fc00::", Private),
            ("fd00:ec2::254", Private),
            ("fdff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", Private),
            ("fe80::1", LinkLocal),
            ("febf:ffff::", LinkLocal),
            ("fec0::1", Private),
            ("ff02::1", Multicast),
            ("100::1", Special),
            ("64:ff9b:1::1", Private),
        ];
        for (text, expected) in table {
            assert_eq!(kind(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_lies_beside_the_ranges_is_public() {
        for text in [
            "1.1.1.1",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "168.63.129.17",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.0.2.1",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "198.51.100.7",
            "203.0.113.9",
            "223.255.255.255",
            "2001:db8::1",
            "2606:4700::1",
        ] {
            assert_eq!(kind(text), None, "{text}");
        }
    }

    /// However the address of IPv4 is wrapped.
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
            Ipv6Addr::new(0x2001, 0, 0xcb00, 0x7101, 0, 0, !high, !low),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0x5efe, high, low),
            Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0x200, 0x5efe, high, low),
        ]
    }

    proptest! {
        #[test]
        fn no_wrapping_makes_an_address_public(bits in any::<u32>()) {
            let four = Ipv4Addr::from_bits(bits);
            for six in wrapped(four) {
                prop_assert!(faces(six.into()).contains(&four.into()), "{four} in {six}");
                prop_assert!(reserved(four.into()).is_none() || reserved(six.into()).is_some(), "{four} in {six}");
            }
        }
    }

    #[test]
    fn a_wrapped_public_address_is_public_where_the_form_is_in_use() {
        for text in ["::ffff:203.0.113.1", "64:ff9b::203.0.113.1", "2002:cb00:7101::1"] {
            assert_eq!(kind(text), None, "{text}");
        }
    }
}
