//! The URL of a hostd: `http://host[:port]` or `https://host[:port]`, parsed once.

use crate::limits;
use hyper::http::uri::Authority;
use serde::{Deserialize, Serialize};
use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    str::FromStr,
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

impl Scheme {
    fn default_port(self) -> u16 {
        match self {
            Self::Http => 80,
            Self::Https => 443,
        }
    }

    fn as_str(self) -> &'static str {
        match self {
            Self::Http => "http",
            Self::Https => "https",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct ServerUrl {
    pub scheme: Scheme,
    /// In lower case; an IPv6 address is in brackets.
    host: String,
    port: u16,
}

impl ServerUrl {
    /// Returns `host:port`, to connect to.
    pub fn address(&self) -> String {
        format!("{}:{}", self.host, self.port)
    }

    /// Returns the value of the `Host` header, without a default port.
    pub fn authority(&self) -> String {
        if self.port == self.scheme.default_port() { self.host.clone() } else { self.address() }
    }

    /// Returns the name or address that the server's certificate must have.
    pub fn name(&self) -> &str {
        self.host.trim_start_matches('[').trim_end_matches(']')
    }

    /// Returns the URL with another scheme, at the same port.
    pub fn with_scheme(&self, scheme: Scheme) -> Self {
        Self { scheme, ..self.clone() }
    }

    /// Returns whether only this machine is reached. `localhost` is, also as the end of a name (RFC 6761).
    pub fn is_loopback(&self) -> bool {
        let name = self.name();
        match name.parse::<IpAddr>() {
            Ok(IpAddr::V6(address)) => is_loopback_v6(address),
            Ok(IpAddr::V4(address)) => address.is_loopback(),
            Err(_) => name == "localhost" || name.ends_with(".localhost"),
        }
    }
}

fn is_loopback_v6(address: Ipv6Addr) -> bool {
    address.is_loopback() || address.to_ipv4_mapped().is_some_and(|mapped| mapped.is_loopback())
}

impl FromStr for ServerUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "must be https://host:port or http://host:port, without a path";
        if text.len() > limits::URL_MAX_BYTES {
            return Err(format!("has more than {} bytes", limits::URL_MAX_BYTES));
        }
        let lower = text.to_ascii_lowercase();
        let (scheme, rest) = match lower.split_once("://") {
            Some(("http", rest)) => (Scheme::Http, rest),
            Some(("https", rest)) => (Scheme::Https, rest),
            Some(_) | None => return Err(WRONG.to_owned()),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let authority: Authority = rest.parse().map_err(|_| WRONG.to_owned())?;
        if rest.contains('@') {
            return Err("must not have a user or password: the token is given apart".to_owned());
        }
        let (host, port) = (authority.host().to_owned(), authority.port());
        if host.is_empty() || (port.is_none() && rest != host) {
            return Err(WRONG.to_owned());
        }
        let port = port.map_or(scheme.default_port(), |port| port.as_u16());
        if port == 0 {
            Err("must have a port from 1 to 65535".to_owned())
        } else {
            Ok(Self { scheme, host, port })
        }
    }
}

impl fmt::Display for ServerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme.as_str(), self.authority())
    }
}

impl TryFrom<String> for ServerUrl {
    type Error = String;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<ServerUrl> for String {
    fn from(url: ServerUrl) -> Self {
        url.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_a_scheme_a_host_and_a_port() {
        let table = [
            ("http://box:9090/", "http://box:9090", "box:9090", "box"),
            ("HTTPS://Box.Example:9090", "https://box.example:9090", "box.example:9090", "box.example"),
            ("https://box", "https://box", "box:443", "box"),
            ("https://box:443", "https://box", "box:443", "box"),
            ("http://box:443", "http://box:443", "box:443", "box"),
            ("https://[::1]:9090", "https://[::1]:9090", "[::1]:9090", "::1"),
        ];
        for (text, shown, address, name) in table {
            let url: ServerUrl = text.parse().expect(text);
            assert_eq!(
                (url.to_string().as_str(), url.address().as_str(), url.name()),
                (shown, address, name)
            );
        }
        for bad in [
            "",
            "box:9090",
            "http://",
            "https:///",
            "https://box/api",
            "https://box?x",
            "https://box#x",
            "ftp://box",
            "https://ann:secret@box",
            "https://box:",
            "https://box:0",
            "https://box:99999",
            "https://b ox",
            &format!("https://{}", "x".repeat(5_000)),
        ] {
            assert!(bad.parse::<ServerUrl>().is_err(), "{bad}");
        }
    }

    #[test]
    fn loopback_is_this_machine_only() {
        for (host, expected) in [
            ("localhost", true),
            ("hostd.localhost", true),
            ("127.0.0.1", true),
            ("127.9.9.9", true),
            ("[::1]", true),
            ("[::ffff:127.0.0.1]", true),
            ("10.0.0.1", false),
            ("localhost.example", false),
            ("127.0.0.1.example", false),
            ("[2001:db8::1]", false),
        ] {
            let url: ServerUrl = format!("http://{host}:1").parse().expect(host);
            assert_eq!(url.is_loopback(), expected, "{host}");
        }
    }
}
