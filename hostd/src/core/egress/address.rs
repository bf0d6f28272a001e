//! Which addresses are not the public network, in whatever form they are written.

use super::special_purpose::{Reachability, reachability};
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
    /// For examples in text.
    Documentation,
    /// Set aside for protocols, or for later.
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

    /// Whether a name is trusted to be there, where the administrator excepts it.
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

/// The first reason why one of its faces is not public.
pub fn reserved(address: IpAddr) -> Option<Reserved> {
    with_embedded(address).into_iter().find_map(|form| match reachability(form) {
        Reachability::NotGlobal(kind) => Some(kind),
        // The address within is the next face.
        Reachability::Global | Reachability::AsEmbedded => None,
    })
}

/// The address, and those of IPv4 within it that some machine on the way would send it to.
pub fn with_embedded(address: IpAddr) -> Vec<IpAddr> {
    let mut all = vec![address];
    if let IpAddr::V6(six) = address {
        all.extend(embedded_ipv4(six).into_iter().map(IpAddr::V4));
    }
    all
}

/// Mapped and compatible forms, NAT64, 6to4, Teredo (server and client) and ISATAP.
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

    /// The ranges themselves are tested with their table.
    #[test]
    fn what_is_not_public_is_known_in_every_form() {
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
