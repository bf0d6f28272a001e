//! The port of an app in a sandbox. hostd listens inside every sandbox too, for the model gateway, the egress proxy
//! and the status page: that port takes every client for the sandbox, so nothing from outside may reach it.
//!
//! **Invariant:** no connection into a sandbox is made without an `AppPort`: drivers take nothing else. Previews,
//! tunnels and whatever dials next share this one rule.

use protocol::HOSTD_PORT_IN_SANDBOX;
use std::fmt;

/// A port from 1 to 65535 that is not hostd's own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AppPort(u16);

impl AppPort {
    pub fn new(port: u16) -> Option<Self> {
        (port != 0 && port != HOSTD_PORT_IN_SANDBOX).then_some(Self(port))
    }

    /// Parses decimal digits without sign or leading zeros.
    pub fn parse(text: &str) -> Option<Self> {
        let plain = text.bytes().all(|b| b.is_ascii_digit()) && !text.starts_with('0');
        text.parse().ok().filter(|_| plain).and_then(Self::new)
    }

    pub fn get(self) -> u16 {
        self.0
    }
}

impl fmt::Display for AppPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_of_an_app_is_any_but_hostds_own() {
        let own = HOSTD_PORT_IN_SANDBOX.to_string();
        let table = [
            ("1", Some(1)),
            ("3000", Some(3000)),
            ("65535", Some(65535)),
            (own.as_str(), None),
            ("0", None),
            ("03000", None),
            ("+3000", None),
            ("-1", None),
            ("65536", None),
            (" 3000", None),
            ("3000x", None),
            ("", None),
        ];
        for (text, expected) in table {
            assert_eq!(AppPort::parse(text).map(AppPort::get), expected, "{text:?}");
        }
        for port in [0, HOSTD_PORT_IN_SANDBOX] {
            assert_eq!(AppPort::new(port), None);
        }
    }
}
