//! The special-purpose address registries of IANA (IPv4 and IPv6, as of 2025), with multicast and a few
//! blocks that are special without being registered. The longest prefix decides.

use super::address::Reserved;
use std::{net::IpAddr, sync::LazyLock};

/// Whether a block is reachable through the public network.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reachability {
    Global,
    /// As the embedded IPv4 address.
    AsEmbedded,
    NotGlobal(Reserved),
}

use Reachability::{AsEmbedded, Global, NotGlobal};
use Reserved::{
    Benchmark, Broadcast, Documentation, LinkLocal, Loopback, Multicast, Private, Shared, Special,
    Unspecified,
};

/// Address block, name, defining RFC, reachability.
type Row = (&'static str, &'static str, &'static str, Reachability);

#[rustfmt::skip]
pub const BLOCKS: [Row; 56] = [
    ("0.0.0.0/8",          "This network",                        "RFC 791",   NotGlobal(Unspecified)),
    ("0.0.0.0/32",         "This host on this network",           "RFC 1122",  NotGlobal(Unspecified)),
    ("10.0.0.0/8",         "Private-Use",                         "RFC 1918",  NotGlobal(Private)),
    ("100.64.0.0/10",      "Shared Address Space",                "RFC 6598",  NotGlobal(Shared)),
    ("127.0.0.0/8",        "Loopback",                            "RFC 1122",  NotGlobal(Loopback)),
    // Azure serves certificates and configuration to its machines here, from every network.
    ("168.63.129.16/32",   "Azure wire server",                   "no RFC",    NotGlobal(LinkLocal)),
    ("169.254.0.0/16",     "Link Local",                          "RFC 3927",  NotGlobal(LinkLocal)),
    ("172.16.0.0/12",      "Private-Use",                         "RFC 1918",  NotGlobal(Private)),
    ("192.0.0.0/24",       "IETF Protocol Assignments",           "RFC 6890",  NotGlobal(Special)),
    ("192.0.0.0/29",       "IPv4 Service Continuity Prefix",      "RFC 7335",  NotGlobal(Special)),
    ("192.0.0.8/32",       "IPv4 dummy address",                  "RFC 7600",  NotGlobal(Special)),
    ("192.0.0.9/32",       "Port Control Protocol Anycast",       "RFC 7723",  Global),
    ("192.0.0.10/32",      "TURN Anycast",                        "RFC 8155",  Global),
    ("192.0.0.170/32",     "NAT64/DNS64 Discovery",               "RFC 7050",  NotGlobal(Special)),
    ("192.0.0.171/32",     "NAT64/DNS64 Discovery",               "RFC 7050",  NotGlobal(Special)),
    ("192.0.2.0/24",       "Documentation (TEST-NET-1)",          "RFC 5737",  NotGlobal(Documentation)),
    ("192.31.196.0/24",    "AS112-v4",                            "RFC 7535",  Global),
    ("192.52.193.0/24",    "AMT",                                 "RFC 7450",  Global),
    ("192.88.99.0/24",     "Deprecated (6to4 Relay Anycast)",     "RFC 7526",  NotGlobal(Special)),
    ("192.88.99.2/32",     "6a44-relay anycast address",          "RFC 6751",  NotGlobal(Special)),
    ("192.168.0.0/16",     "Private-Use",                         "RFC 1918",  NotGlobal(Private)),
    ("192.175.48.0/24",    "Direct Delegation AS112 Service",     "RFC 7534",  Global),
    ("198.18.0.0/15",      "Benchmarking",                        "RFC 2544",  NotGlobal(Benchmark)),
    ("198.51.100.0/24",    "Documentation (TEST-NET-2)",          "RFC 5737",  NotGlobal(Documentation)),
    ("203.0.113.0/24",     "Documentation (TEST-NET-3)",          "RFC 5737",  NotGlobal(Documentation)),
    ("224.0.0.0/4",        "Multicast",                           "RFC 5771",  NotGlobal(Multicast)),
    ("240.0.0.0/4",        "Reserved",                            "RFC 1112",  NotGlobal(Special)),
    ("255.255.255.255/32", "Limited Broadcast",                   "RFC 919",   NotGlobal(Broadcast)),

    // Obsolete embeddings of IPv4, and the rest of this part of the address space.
    ("::/8",               "Reserved by IETF",                    "RFC 4291",  NotGlobal(Special)),
    ("::/128",             "Unspecified Address",                 "RFC 4291",  NotGlobal(Unspecified)),
    ("::1/128",            "Loopback Address",                    "RFC 4291",  NotGlobal(Loopback)),
    // A socket connects to the embedded address.
    ("::ffff:0:0/96",      "IPv4-mapped Address",                 "RFC 4291",  AsEmbedded),
    ("64:ff9b::/96",       "IPv4-IPv6 Translation",               "RFC 6052",  AsEmbedded),
    ("64:ff9b:1::/48",     "IPv4-IPv6 Translation",               "RFC 8215",  NotGlobal(Private)),
    ("100::/64",           "Discard-Only Address Block",          "RFC 6666",  NotGlobal(Special)),
    ("100:0:0:1::/64",     "Dummy IPv6 Prefix",                   "RFC 9780",  NotGlobal(Special)),
    ("2001::/23",          "IETF Protocol Assignments",           "RFC 2928",  NotGlobal(Special)),
    ("2001::/32",          "TEREDO",                              "RFC 4380",  AsEmbedded),
    ("2001:1::1/128",      "Port Control Protocol Anycast",       "RFC 7723",  Global),
    ("2001:1::2/128",      "TURN Anycast",                        "RFC 8155",  Global),
    ("2001:1::3/128",      "DNS-SD Service Registration Anycast", "RFC 9665",  Global),
    ("2001:2::/48",        "Benchmarking",                        "RFC 5180",  NotGlobal(Benchmark)),
    ("2001:3::/32",        "AMT",                                 "RFC 7450",  Global),
    ("2001:4:112::/48",    "AS112-v6",                            "RFC 7535",  Global),
    ("2001:10::/28",       "Deprecated (previously ORCHID)",      "RFC 4843",  NotGlobal(Special)),
    ("2001:20::/28",       "ORCHIDv2",                            "RFC 7343",  Global),
    ("2001:30::/28",       "Drone Remote ID Entity Tags",         "RFC 9374",  Global),
    ("2001:db8::/32",      "Documentation",                       "RFC 3849",  NotGlobal(Documentation)),
    ("2002::/16",          "6to4",                                "RFC 3056",  AsEmbedded),
    ("2620:4f:8000::/48",  "Direct Delegation AS112 Service",     "RFC 7534",  Global),
    ("3fff::/20",          "Documentation",                       "RFC 9637",  NotGlobal(Documentation)),
    ("5f00::/16",          "Segment Routing (SRv6) SIDs",         "RFC 9602",  NotGlobal(Special)),
    ("fc00::/7",           "Unique-Local",                        "RFC 4193",  NotGlobal(Private)),
    ("fe80::/10",          "Link-Local Unicast",                  "RFC 4291",  NotGlobal(LinkLocal)),
    ("fec0::/10",          "Deprecated (Site-Local Unicast)",     "RFC 3879",  NotGlobal(Private)),
    ("ff00::/8",           "Multicast",                           "RFC 4291",  NotGlobal(Multicast)),
];

#[derive(Debug, Clone, Copy)]
struct Block {
    network: IpAddr,
    length: u32,
    reachability: Reachability,
}

static PARSED: LazyLock<Vec<Block>> = LazyLock::new(|| {
    let parse = |(text, _, _, reachability): &Row| {
        let (network, length) = text.split_once('/')?;
        Some(Block {
            network: network.parse().ok()?,
            length: length.parse().ok()?,
            reachability: *reachability,
        })
    };
    BLOCKS.iter().map(|row| parse(row).expect("a row is a block, see the tests")).collect()
});

/// The reachability of the smallest block that contains the address; an address in no block is global.
pub fn reachability(address: IpAddr) -> Reachability {
    let blocks = PARSED.iter().filter(|block| block.contains(address));
    blocks.max_by_key(|block| block.length).map_or(Global, |block| block.reachability)
}

impl Block {
    fn contains(&self, address: IpAddr) -> bool {
        let host_bits = |width: u32| width - self.length;
        match (self.network, address) {
            (IpAddr::V4(network), IpAddr::V4(address)) => {
                (network.to_bits() ^ address.to_bits()).checked_shr(host_bits(32)).unwrap_or(0) == 0
            }
            (IpAddr::V6(network), IpAddr::V6(address)) => {
                (network.to_bits() ^ address.to_bits()).checked_shr(host_bits(128)).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, Ipv6Addr};

    /// The first and last address of a block, and the two addresses next to it.
    fn edges(block: Block) -> (IpAddr, IpAddr, Vec<IpAddr>) {
        match block.network {
            IpAddr::V4(network) => {
                let first = network.to_bits();
                let last = first | u32::MAX.checked_shr(block.length).unwrap_or(0);
                let beside = [first.checked_sub(1), last.checked_add(1)].into_iter().flatten();
                let four = |bits: u32| IpAddr::V4(Ipv4Addr::from_bits(bits));
                (four(first), four(last), beside.map(four).collect())
            }
            IpAddr::V6(network) => {
                let first = network.to_bits();
                let last = first | u128::MAX.checked_shr(block.length).unwrap_or(0);
                let beside = [first.checked_sub(1), last.checked_add(1)].into_iter().flatten();
                let six = |bits: u128| IpAddr::V6(Ipv6Addr::from_bits(bits));
                (six(first), six(last), beside.map(six).collect())
            }
        }
    }

    #[test]
    fn every_block_holds_from_its_first_to_its_last_address() {
        for (block, (text, name, rfc, _)) in PARSED.iter().zip(BLOCKS) {
            let (first, last, beside) = edges(*block);
            assert_eq!(first, block.network, "{text}: bits behind the prefix");
            assert!(!name.is_empty() && (rfc.starts_with("RFC ") || rfc == "no RFC"), "{text}");
            // A smaller block within this one may begin or end at the same address.
            let smallest = |address| {
                let within =
                    PARSED.iter().filter(|other| other.contains(address) && block.contains(other.network));
                within.max_by_key(|other| other.length).expect("the block itself").reachability
            };
            for address in [first, last] {
                assert!(block.contains(address), "{text} has {address}");
                assert_eq!(reachability(address), smallest(address), "{text} at {address}");
            }
            for address in beside {
                assert!(!block.contains(address), "{text} has not {address}");
            }
        }
    }

    /// Written by hand once more, for the rows where a mistake would cost most.
    const BY_HAND: [(&str, Reachability); 70] = [
        ("0.0.0.0", NotGlobal(Unspecified)),
        ("9.255.255.255", Global),
        ("10.0.0.0", NotGlobal(Private)),
        ("10.255.255.255", NotGlobal(Private)),
        ("11.0.0.0", Global),
        ("100.63.255.255", Global),
        ("100.64.0.0", NotGlobal(Shared)),
        ("100.127.255.255", NotGlobal(Shared)),
        ("100.128.0.0", Global),
        ("168.63.129.15", Global),
        ("168.63.129.16", NotGlobal(LinkLocal)),
        ("172.15.255.255", Global),
        ("172.31.255.255", NotGlobal(Private)),
        ("172.32.0.0", Global),
        ("192.0.0.8", NotGlobal(Special)),
        ("192.0.0.9", Global),
        ("192.0.0.10", Global),
        ("192.0.0.11", NotGlobal(Special)),
        ("192.0.1.0", Global),
        ("192.0.2.255", NotGlobal(Documentation)),
        ("192.31.196.1", Global),
        ("192.52.193.1", Global),
        ("192.175.48.1", Global),
        ("198.51.100.7", NotGlobal(Documentation)),
        ("198.51.101.0", Global),
        ("203.0.113.9", NotGlobal(Documentation)),
        ("223.255.255.255", Global),
        ("224.0.0.0", NotGlobal(Multicast)),
        ("240.0.0.0", NotGlobal(Special)),
        ("255.255.255.254", NotGlobal(Special)),
        ("255.255.255.255", NotGlobal(Broadcast)),
        ("::", NotGlobal(Unspecified)),
        ("::1", NotGlobal(Loopback)),
        ("::2", NotGlobal(Special)),
        ("::ffff:1.1.1.1", AsEmbedded),
        ("::1:0:0:0", NotGlobal(Special)),
        ("64:ff9b::1.1.1.1", AsEmbedded),
        ("64:ff9b:0:1::", NotGlobal(Special)),
        ("64:ff9b:1:ffff::", NotGlobal(Private)),
        ("100::1", NotGlobal(Special)),
        ("100:0:0:1::1", NotGlobal(Special)),
        ("100:0:0:2::", Global),
        ("2001::1", AsEmbedded),
        ("2001:1::", NotGlobal(Special)),
        ("2001:1::3", Global),
        ("2001:1::4", NotGlobal(Special)),
        ("2001:2:0:ffff::", NotGlobal(Benchmark)),
        ("2001:2:1::", NotGlobal(Special)),
        ("2001:3::1", Global),
        ("2001:4:112::1", Global),
        ("2001:4:113::", NotGlobal(Special)),
        ("2001:1f:ffff::", NotGlobal(Special)),
        ("2001:2f:ffff::", Global),
        ("2001:3f:ffff::", Global),
        ("2001:40::", NotGlobal(Special)),
        ("2001:200::", Global),
        ("2001:db8::1", NotGlobal(Documentation)),
        ("2001:db9::", Global),
        ("2606:4700::1", Global),
        ("2620:4f:8000::1", Global),
        ("3ffe:ffff::", Global),
        ("3fff::", NotGlobal(Documentation)),
        ("3fff:fff:ffff::", NotGlobal(Documentation)),
        ("3fff:1000::", Global),
        ("5f00::1", NotGlobal(Special)),
        ("5f01::", Global),
        ("fdff:ffff::", NotGlobal(Private)),
        ("fe80::1", NotGlobal(LinkLocal)),
        ("fec0::1", NotGlobal(Private)),
        ("ff02::1", NotGlobal(Multicast)),
    ];

    #[test]
    fn the_smallest_block_decides() {
        for (text, expected) in BY_HAND {
            assert_eq!(reachability(text.parse().expect(text)), expected, "{text}");
        }
    }
}
