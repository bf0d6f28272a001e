//! A rule: a pattern of hosts, and ports.

use super::host::{Destination, Host};
use std::{fmt, net::IpAddr, ops::RangeInclusive};

pub const RULE_MAX_BYTES: usize = 320;
const PORTS_MAX: usize = 16;
/// Number of rules in one list.
pub const RULES_MAX: usize = 256;

/// A rule `host-pattern[:ports]`. The text is kept as it was written, for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    text: String,
    pattern: Pattern,
    /// Empty means any port.
    ports: Vec<RangeInclusive<u16>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Pattern {
    Any,
    Name(String),
    /// All names below this one, at any depth, but not itself.
    Subdomains(String),
    /// A network: an address and the length of its prefix.
    Network(IpAddr, u32),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRule {
    #[error("{0:?} is longer than {RULE_MAX_BYTES} bytes")]
    Long(String),
    #[error("{0:?} names no host: write example.com, *.example.com, *, 192.0.2.1 or 192.0.2.0/24")]
    Host(String),
    #[error("{0:?} has no good port: write 443, or 80,443, or 8000-8999")]
    Port(String),
}

impl Rule {
    pub fn parse(text: &str) -> Result<Self, InvalidRule> {
        let text = text.trim();
        if text.len() > RULE_MAX_BYTES {
            return Err(InvalidRule::Long(text.chars().take(40).collect()));
        }
        let (host, ports) = split(text);
        let pattern = Pattern::parse(host).ok_or_else(|| InvalidRule::Host(text.to_owned()))?;
        let ports =
            ports.map_or(Some(vec![]), parse_ports).ok_or_else(|| InvalidRule::Port(text.to_owned()))?;
        Ok(Self { text: text.to_owned(), pattern, ports })
    }

    /// Whether the rule matches by name alone.
    pub fn is_by_name(&self) -> bool {
        !matches!(self.pattern, Pattern::Network(..))
    }

    pub fn matches_any_host(&self) -> bool {
        self.pattern == Pattern::Any
    }

    pub fn has_port(&self, port: u16) -> bool {
        self.ports.is_empty() || self.ports.iter().any(|range| range.contains(&port))
    }

    /// Matches by name, before an address is known.
    pub fn matches_name(&self, destination: &Destination) -> bool {
        let named = match (&self.pattern, &destination.host) {
            (Pattern::Any, _) => true,
            (Pattern::Name(name), Host::Name(host)) => name == host,
            (Pattern::Subdomains(above), Host::Name(host)) => {
                host.strip_suffix(above.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
            }
            (Pattern::Name(_) | Pattern::Subdomains(_), Host::Address(_)) | (Pattern::Network(..), _) => {
                false
            }
        };
        named && self.has_port(destination.port)
    }

    /// Matches by name, or by an address of the host.
    pub fn matches(&self, destination: &Destination, form: IpAddr) -> bool {
        let there = match self.pattern {
            Pattern::Network(network, bits) => in_network(form, network, bits),
            Pattern::Any | Pattern::Name(_) | Pattern::Subdomains(_) => false,
        };
        self.matches_name(destination) || (there && self.has_port(destination.port))
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Pattern {
    fn parse(text: &str) -> Option<Self> {
        let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
        if let Some((address, bits)) = bare.split_once('/') {
            let address: IpAddr = address.parse().ok()?;
            let most = if address.is_ipv4() { 32 } else { 128 };
            let bits = bits.bytes().all(|b| b.is_ascii_digit()).then(|| bits.parse().ok())??;
            return (bits <= most).then_some(Self::Network(address, bits));
        }
        if let Ok(address) = bare.parse::<IpAddr>() {
            return Some(Self::Network(address, if address.is_ipv4() { 32 } else { 128 }));
        }
        if text == "*" {
            return Some(Self::Any);
        }
        let (below, name) = match text.strip_prefix("*.") {
            Some(name) => (true, name),
            None => (false, text),
        };
        match Host::parse(name).ok()? {
            Host::Name(name) if below => Some(Self::Subdomains(name)),
            Host::Name(name) => Some(Self::Name(name)),
            Host::Address(_) => None,
        }
    }
}

/// Splits off the ports. The colons of a bare IPv6 address do not separate ports.
fn split(text: &str) -> (&str, Option<&str>) {
    let bare_six = text.split('/').next().is_some_and(|host| host.parse::<std::net::Ipv6Addr>().is_ok());
    match text.rsplit_once(':') {
        Some((host, ports)) if !bare_six && !ports.ends_with(']') => (host, Some(ports)),
        _ => (text, None),
    }
}

fn parse_ports(text: &str) -> Option<Vec<RangeInclusive<u16>>> {
    let port = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit());
        text.parse::<u16>().ok().filter(|port| plain && *port != 0)
    };
    let range = |text: &str| match text.split_once('-') {
        Some((first, last)) => {
            let (first, last) = (port(first)?, port(last)?);
            (first <= last).then_some(first..=last)
        }
        None => port(text).map(|port| port..=port),
    };
    let ports: Vec<_> = text.split(',').map(|part| range(part.trim())).collect::<Option<_>>()?;
    (ports.len() <= PORTS_MAX).then_some(ports)
}

fn in_network(address: IpAddr, network: IpAddr, bits: u32) -> bool {
    let same = |a: u128, b: u128, all: u32| bits == 0 || a >> (all - bits) == b >> (all - bits);
    match (address, network) {
        (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
        (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
        (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn destination(text: &str) -> Destination {
        Destination::parse(text, Some(443)).expect(text)
    }

    #[test]
    fn a_rule_matches_its_hosts_and_ports_and_no_others() {
        let table = [
            ("example.com", "example.com", true),
            ("Example.Com.", "EXAMPLE.com.", true),
            ("example.com", "www.example.com", false),
            ("example.com", "notexample.com", false),
            ("*.example.com", "www.example.com", true),
            ("*.example.com", "a.b.example.com", true),
            ("*.example.com", "example.com", false),
            ("*.example.com", "evilexample.com", false),
            ("*", "anything.test", true),
            ("*", "192.0.2.1", true),
            ("example.com:443", "example.com:443", true),
            ("example.com:443", "example.com:80", false),
            ("*:80,443", "example.com:80", true),
            ("*:80,443", "example.com:81", false),
            ("*:8000-8999", "example.com:8000", true),
            ("*:8000-8999", "example.com:8999", true),
            ("*:8000-8999", "example.com:9000", false),
            ("*:22,8000-8999", "example.com:8500", true),
            ("xn--bcher-kva.example", "XN--bcher-kva.example", true),
            ("example.com", "192.0.2.1", false),
        ];
        for (rule, host, fits) in table {
            assert_eq!(
                Rule::parse(rule).expect(rule).matches_name(&destination(host)),
                fits,
                "{rule} {host}"
            );
        }
    }

    #[test]
    fn a_network_matches_every_address_in_it() {
        let table = [
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.2", false),
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("[2001:db8::/32]:443", "2001:db8:1::1", true),
            ("[2001:db8::1]:80", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db9::1", false),
            ("::/0", "192.0.2.1", false),
        ];
        for (rule, address, fits) in table {
            let rule = Rule::parse(rule).expect(rule);
            assert!(!rule.matches_name(&destination("example.com")));
            assert_eq!(
                rule.matches(&destination("example.com"), address.parse().expect("one")),
                fits,
                "{rule} {address}"
            );
        }
    }

    #[test]
    fn what_is_no_rule_is_refused() {
        for bad in [
            "",
            ":80",
            "a b",
            "*.",
            "*.*.com",
            "a.*.com",
            "ex*mple.com",
            "example.com:",
            "example.com:0",
            "example.com:65536",
            "example.com:90-80",
            "example.com:80,,81",
            "192.0.2.0/33",
            "192.0.2.0/x",
            "*.192.0.2.1",
            "http://example.com",
            "example.com/path",
            "2130706433",
            "example.com:+80",
        ] {
            assert!(Rule::parse(bad).is_err(), "{bad}");
        }
        assert!(Rule::parse(&"a".repeat(400)).is_err());
        assert!(Rule::parse(&format!("*:{}", vec!["1"; 17].join(","))).is_err());
    }
}
