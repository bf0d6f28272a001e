//! A host as a request spells it. Every spelling that some resolver reads as an address is an address here:
//! the decision must be about what is connected.

use std::{
    fmt,
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

const NAME_MAX_BYTES: usize = 253;
const LABEL_MAX_BYTES: usize = 63;

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Host {
    /// In lower case, without a trailing dot.
    Name(String),
    Address(IpAddr),
}

/// The host and port of a request.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Destination {
    pub host: Host,
    pub port: u16,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no host name and no address")]
pub struct InvalidHost;

impl Host {
    /// A name, or an address in any spelling: `127.1`, `0x7f000001`, `2130706433`, `[::1]`.
    pub fn parse(text: &str) -> Result<Self, InvalidHost> {
        if let Some(inner) = text.strip_prefix('[') {
            let inner = inner.strip_suffix(']').ok_or(InvalidHost)?;
            return inner.parse::<Ipv6Addr>().map(|six| Self::Address(six.into())).map_err(|_| InvalidHost);
        }
        let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
        let last = name.rsplit('.').next().unwrap_or_default();
        if is_numeric(last) {
            return parse_ipv4(&name).map(|four| Self::Address(four.into())).ok_or(InvalidHost);
        }
        let label = |label: &str| {
            let safe = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_');
            !label.is_empty() && label.len() <= LABEL_MAX_BYTES && label.bytes().all(safe)
        };
        let good = name.len() <= NAME_MAX_BYTES && name.split('.').all(label);
        if good { Ok(Self::Name(name)) } else { Err(InvalidHost) }
    }

    /// Whether the name always means the requesting machine itself.
    pub fn is_localhost(&self) -> bool {
        match self {
            Self::Name(name) => name == "localhost" || name.ends_with(".localhost"),
            Self::Address(_) => false,
        }
    }
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(name) => f.write_str(name),
            Self::Address(IpAddr::V4(four)) => four.fmt(f),
            Self::Address(IpAddr::V6(six)) => write!(f, "[{six}]"),
        }
    }
}

impl Destination {
    /// Parses `host:port`, or `host` where there is a default port.
    pub fn parse(authority: &str, default_port: Option<u16>) -> Result<Self, InvalidHost> {
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        let plain = |port: &str| port.bytes().all(|b| b.is_ascii_digit()).then(|| port.parse().ok())?;
        let port = match port {
            Some(port) => plain(port),
            None => default_port,
        };
        let port = port.filter(|port| *port != 0).ok_or(InvalidHost)?;
        Ok(Self { host: Host::parse(host)?, port })
    }
}

impl fmt::Display for Destination {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Whether C libraries and browsers read a name that ends in this as an address.
fn is_numeric(label: &str) -> bool {
    let digits = !label.is_empty() && label.bytes().all(|b| b.is_ascii_digit());
    digits || label.strip_prefix("0x").is_some_and(|hex| hex.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// Parses an address as `inet_aton` does: one to four numbers, the last of which fills the remaining bits.
fn parse_ipv4(text: &str) -> Option<Ipv4Addr> {
    let parts: Vec<u64> = text.split('.').map(parse_number).collect::<Option<_>>()?;
    let (last, before) = parts.split_last()?;
    let room_bits = 32_u32.checked_sub(8 * u32::try_from(before.len()).ok()?).filter(|bits| *bits > 0)?;
    if before.iter().any(|part| *part > 255) || *last >= 1 << room_bits {
        return None;
    }
    let high = before.iter().fold(0, |all, part| all << 8 | part) << room_bits;
    u32::try_from(high | last).ok().map(Ipv4Addr::from_bits)
}

fn parse_number(text: &str) -> Option<u64> {
    let (digits, radix) = match (text.strip_prefix("0x"), text.strip_prefix('0')) {
        (Some(hex), _) => (if hex.is_empty() { "0" } else { hex }, 16),
        (None, Some(octal)) if !octal.is_empty() => (octal, 8),
        (None, _) => (text, 10),
    };
    let plain = digits.bytes().all(|b| b.is_ascii_alphanumeric());
    u64::from_str_radix(digits, radix).ok().filter(|_| plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_spelling_of_an_address_is_that_address() {
        let table = [
            ("169.254.169.254", "169.254.169.254"),
            ("2852039166", "169.254.169.254"),
            ("0xA9FEA9FE", "169.254.169.254"),
            ("0xa9.0xfe.0xa9.0xfe", "169.254.169.254"),
            ("0251.0376.0251.0376", "169.254.169.254"),
            ("169.254.43518", "169.254.169.254"),
            ("127.1", "127.0.0.1"),
            ("127.0.0.1.", "127.0.0.1"),
            ("0", "0.0.0.0"),
            ("0x", "0.0.0.0"),
            ("[::1]", "::1"),
            ("[::ffff:169.254.169.254]", "::ffff:169.254.169.254"),
        ];
        for (spelled, meant) in table {
            let address: IpAddr = meant.parse().expect("an address");
            assert_eq!(Host::parse(spelled), Ok(Host::Address(address)), "{spelled}");
        }
    }

    #[test]
    fn names_are_normalized_and_what_is_neither_is_refused() {
        for (spelled, name) in [
            ("Example.COM.", "example.com"),
            ("xn--bcher-kva.example", "xn--bcher-kva.example"),
            ("a_b", "a_b"),
        ] {
            assert_eq!(Host::parse(spelled), Ok(Host::Name(name.to_owned())));
        }
        let long = format!("{}.com", "a".repeat(64));
        for bad in [
            "",
            ".",
            "a..b",
            "a b",
            "a/b",
            "user@host",
            "bücher.example",
            "%31",
            "[::1",
            "[fe80::1%25eth0]",
            "1.2.3.4.5",
            "256.1.1.1",
            "1.2.3.256",
            "4294967296",
            "09",
            "1.x.3",
            "evil.0x7f000001zz.1",
            &long,
        ] {
            assert!(Host::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_port_is_given_or_the_default() {
        let destination = |text: &str, default_port| {
            Destination::parse(text, default_port).map(|destination| destination.to_string()).ok()
        };
        assert_eq!(destination("example.com:443", None).as_deref(), Some("example.com:443"));
        assert_eq!(destination("example.com", Some(80)).as_deref(), Some("example.com:80"));
        assert_eq!(destination("[::1]", Some(80)).as_deref(), Some("[::1]:80"));
        assert_eq!(destination("[::1]:81", Some(80)).as_deref(), Some("[::1]:81"));
        for bad in
            ["example.com", "example.com:", "example.com:0", "example.com:65536", "a:b:80", "a:+80", ":80"]
        {
            assert_eq!(destination(bad, None), None, "{bad}");
        }
    }
}
