//! Which addresses a server may have. Pure.

use super::url::{Origin, Url};
use crate::RegistryAllowlist;
use hostd_core::egress::reserved;
use std::net::IpAddr;

/// Addresses that may be connected to for one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    /// Public addresses.
    Public,
    /// Any address: the operator lists the server.
    Any,
}

impl Reach {
    /// Judges a server by its name; the error says why it is not reached.
    pub fn of(url: &Url, allowlist: &RegistryAllowlist) -> Result<Self, String> {
        if is_listed(url, allowlist) {
            return Ok(Self::Any);
        }
        allowlist.check(&url.authority).map(|()| Self::Public)
    }

    pub fn allows(self, address: IpAddr) -> bool {
        match self {
            Self::Public => reserved(address).is_none(),
            Self::Any => true,
        }
    }
}

/// The port that a scheme implies may be written or not, in the address and in the list.
fn is_listed(url: &Url, allowlist: &RegistryAllowlist) -> bool {
    let Origin { host, port, .. } = &url.origin;
    let implied = url.origin.host_header() == host.to_string();
    allowlist.lists(&url.authority)
        || allowlist.lists(&format!("{host}:{port}"))
        || (implied && allowlist.lists(&host.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_public_or_listed() {
        let listed = ["127.0.0.1:5000", "mirror.corp", "cdn.corp:443", "127.2:1"].map(str::to_owned).to_vec();
        let allowlist = RegistryAllowlist::new(listed);
        for (url, expected) in [
            ("https://ghcr.io/", Some(Reach::Public)),
            ("https://8.8.8.8/", Some(Reach::Public)),
            ("https://127.0.0.1:5000/", Some(Reach::Any)),
            ("https://127.1:5000/", Some(Reach::Any)),
            ("https://127.2:1/", Some(Reach::Any)),
            ("https://mirror.corp/", Some(Reach::Any)),
            ("https://mirror.corp:443/", Some(Reach::Any)),
            ("https://cdn.corp/", Some(Reach::Any)),
            ("https://mirror.corp:8443/", Some(Reach::Public)),
            ("https://127.0.0.1:5001/", None),
            ("https://127.0.0.1/", None),
            ("https://localhost/", None),
            ("https://169.254.169.254/", None),
            ("https://[::ffff:10.0.0.1]/", None),
        ] {
            let url = Url::parse(url).expect(url);
            assert_eq!(Reach::of(&url, &allowlist).ok(), expected, "{url}");
        }
    }

    #[test]
    fn a_name_may_not_mean_a_private_address_unless_it_is_listed() {
        for (address, public) in [("8.8.8.8", true), ("10.0.0.1", false), ("::1", false), ("fe80::1", false)]
        {
            let address = address.parse().expect("an address");
            assert_eq!(
                (Reach::Public.allows(address), Reach::Any.allows(address)),
                (public, true),
                "{address}"
            );
        }
    }
}
