//! `PORT[:LOCAL]`: a port of the sandbox, and the local port for it. Pure.

use protocol::HOSTD_PORT_IN_SANDBOX;
use std::{num::NonZeroU16, str::FromStr};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortSpec {
    pub port: NonZeroU16,
    /// 0: the kernel picks one.
    pub local: u16,
}

impl FromStr for PortSpec {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const WRONG: &str = "must be PORT or PORT:LOCAL, as in 3000 or 3000:8080; LOCAL 0 picks a free port";
        let (port, local) = match text.split_once(':') {
            Some((port, local)) => (port, Some(local)),
            None => (text, None),
        };
        let port: NonZeroU16 = port.parse().map_err(|_| WRONG)?;
        if port.get() == HOSTD_PORT_IN_SANDBOX {
            return Err(format!("port {HOSTD_PORT_IN_SANDBOX} inside a sandbox is hostd's own"));
        }
        let local = local.map_or(Ok(port.get()), |local| local.parse().map_err(|_| WRONG))?;
        Ok(Self { port, local })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_may_have_another_number_here() {
        let table = [
            ("3000", Some((3000, 3000))),
            ("3000:8080", Some((3000, 8080))),
            ("3000:0", Some((3000, 0))),
            ("65535:1", Some((65535, 1))),
            ("0", None),
            ("0:3000", None),
            ("900", None),
            ("900:3000", None),
            ("3000:", None),
            (":3000", None),
            ("3000:80:80", None),
            ("65536", None),
            ("-1", None),
            ("http", None),
            ("", None),
        ];
        for (text, expected) in table {
            let spec = text.parse::<PortSpec>().ok().map(|spec| (spec.port.get(), spec.local));
            assert_eq!(spec, expected, "{text:?}");
        }
    }
}
