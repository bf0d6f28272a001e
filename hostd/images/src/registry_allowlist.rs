//! Registries that images may be pulled from. A pull happens in the host's network: without this check, naming an image
//! would let a tenant reach hosts there.

use hostd_core::egress::{Destination, Host, reserved};

/// Only the host is checked, whatever the port.
const USUAL_PORT: u16 = 443;

/// Registries that the operator allows, as `host` or `host:port`.
#[derive(Debug, Clone, Default)]
pub struct RegistryAllowlist(Vec<String>);

impl RegistryAllowlist {
    pub fn new(listed: Vec<String>) -> Self {
        Self(listed.into_iter().map(|one| one.to_ascii_lowercase()).collect())
    }

    /// Whether the operator lists a registry. Such a registry may have any address.
    pub fn lists(&self, registry: &str) -> bool {
        self.0.iter().any(|listed| listed.eq_ignore_ascii_case(registry))
    }

    /// Checks that a registry is public or allowed; the error says why it is not.
    pub fn check(&self, registry: &str) -> Result<(), String> {
        if self.lists(registry) {
            return Ok(());
        }
        let registry = registry.to_ascii_lowercase();
        let what = match Destination::parse(&registry, Some(USUAL_PORT)).map(|asked| asked.host) {
            Ok(host) if host.is_localhost() => "this machine",
            Ok(Host::Address(address)) => match reserved(address) {
                Some(reserved) => reserved.label(),
                None => return Ok(()),
            },
            Ok(Host::Name(_)) => return Ok(()),
            Err(_) => "no host",
        };
        Err(format!(
            "images are not pulled from {registry} ({what}) unless the operator lists it in SLIPWAY_IMAGE_REGISTRIES"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_not_pulled_from_private_addresses() {
        let none = RegistryAllowlist::default();
        for good in ["docker.io", "ghcr.io", "registry.example:5000", "8.8.8.8:5000"] {
            assert_eq!(none.check(good), Ok(()), "{good}");
        }
        for bad in [
            "localhost",
            "LOCALHOST:5000",
            "a.localhost",
            "127.0.0.1:5000",
            "127.1",
            "0x7f.1",
            "2130706433:5000",
            "169.254.169.254",
            "10.0.0.5:443",
            "192.168.1.1",
            "0.0.0.0:5000",
            "300.1.1.1",
            "x:0",
        ] {
            assert!(none.check(bad).is_err(), "{bad}");
        }
        let some = RegistryAllowlist::new(vec!["127.0.0.1:5000".into(), "Localhost".into()]);
        assert_eq!(some.check("127.0.0.1:5000"), Ok(()));
        assert_eq!(some.check("localhost"), Ok(()));
        for other in ["127.0.0.1:5001", "127.0.0.1", "localhost:5000"] {
            assert!(some.check(other).is_err(), "{other}");
        }
    }
}
