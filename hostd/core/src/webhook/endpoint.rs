//! The address of an endpoint, and which of its addresses may be connected to.

use crate::egress::{Destination, Exceptions, Host, reserved};
use http::Uri;
use protocol::api::WEBHOOK_URL_MAX_BYTES;
use std::net::IpAddr;

/// A parsed URL of a webhook.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub secure: bool,
    pub destination: Destination,
    /// Path and query.
    pub target: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidEndpoint {
    #[error("must be at most {WEBHOOK_URL_MAX_BYTES} bytes")]
    Long,
    #[error("must be a URL as in https://hooks.example.com/path, without a fragment")]
    Malformed,
    #[error("must begin with https:// or http://")]
    Scheme,
    #[error("must not have a user and password: deliveries are signed")]
    User,
}

/// Why an address is not connected to. It does not name the address behind a name: a tenant could map the networks of the
/// host.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EndpointRefusal {
    #[error(
        "{destination} has a {label} address: only endpoints that the operator lists in SLIPWAY_WEBHOOK_ALLOW may have one"
    )]
    Address { destination: Destination, label: &'static str },
    #[error("http:// has no encryption, and {0} is not listed in SLIPWAY_WEBHOOK_ALLOW: use https://")]
    Plain(Destination),
}

impl Endpoint {
    pub fn parse(url: &str) -> Result<Self, InvalidEndpoint> {
        if url.len() > WEBHOOK_URL_MAX_BYTES {
            return Err(InvalidEndpoint::Long);
        }
        let visible = url.bytes().all(|byte| byte.is_ascii_graphic());
        if !visible || url.contains('#') {
            return Err(InvalidEndpoint::Malformed);
        }
        let uri: Uri = url.parse().map_err(|_| InvalidEndpoint::Malformed)?;
        let secure = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) => return Err(InvalidEndpoint::Scheme),
            None => return Err(InvalidEndpoint::Malformed),
        };
        let authority = uri.authority().ok_or(InvalidEndpoint::Malformed)?.as_str();
        if authority.contains('@') {
            return Err(InvalidEndpoint::User);
        }
        let port = if secure { 443 } else { 80 };
        let destination =
            Destination::parse(authority, Some(port)).map_err(|_| InvalidEndpoint::Malformed)?;
        let target = uri.path_and_query().map_or("/", |target| target.as_str()).to_owned();
        Ok(Self { secure, destination, target })
    }

    /// Returns the name or address for the resolver and for TLS.
    pub fn host(&self) -> String {
        match &self.destination.host {
            Host::Name(name) => name.clone(),
            Host::Address(address) => address.to_string(),
        }
    }

    /// Returns the header `Host`.
    pub fn host_header(&self) -> String {
        let usual = if self.secure { 443 } else { 80 };
        match self.destination.port {
            port if port == usual => self.destination.host.to_string(),
            _ => self.destination.to_string(),
        }
    }

    /// Decides about one address of the endpoint. `is_host_address`: it belongs to this machine.
    pub fn may_reach(
        &self,
        address: IpAddr,
        is_host_address: bool,
        allowed: &Exceptions,
    ) -> Result<(), EndpointRefusal> {
        let destination = || self.destination.clone();
        if allowed.lists(&self.destination, address) {
            return Ok(());
        }
        match reserved(address) {
            Some(kind) => Err(EndpointRefusal::Address { destination: destination(), label: kind.label() }),
            None if is_host_address => {
                Err(EndpointRefusal::Address { destination: destination(), label: "local" })
            }
            None if !self.secure => Err(EndpointRefusal::Plain(destination())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_is_parsed_or_refused() {
        let endpoint = Endpoint::parse("https://Hooks.example.com/a/b?c=d").expect("a URL");
        assert_eq!(
            (endpoint.host_header().as_str(), endpoint.target.as_str()),
            ("hooks.example.com", "/a/b?c=d")
        );
        let plain = Endpoint::parse("http://10.0.0.5:9000").expect("a URL");
        assert_eq!((plain.host_header().as_str(), plain.target.as_str()), ("10.0.0.5:9000", "/"));
        assert_eq!(Endpoint::parse("https://[2001:db8::1]:8443/").expect("a URL").host(), "2001:db8::1");
        for (bad, error) in [
            ("", InvalidEndpoint::Malformed),
            ("hooks.example.com", InvalidEndpoint::Malformed),
            ("/path", InvalidEndpoint::Malformed),
            ("ftp://a.example/", InvalidEndpoint::Scheme),
            ("https://user:pw@a.example/", InvalidEndpoint::User),
            ("https://a.example/#x", InvalidEndpoint::Malformed),
            ("https://a.example/ x", InvalidEndpoint::Malformed),
            ("https://a.example:0/", InvalidEndpoint::Malformed),
            ("https://a..example/", InvalidEndpoint::Malformed),
        ] {
            assert_eq!(Endpoint::parse(bad), Err(error), "{bad:?}");
        }
        assert_eq!(Endpoint::parse(&format!("https://a/{}", "x".repeat(2048))), Err(InvalidEndpoint::Long));
    }

    #[test]
    fn only_public_addresses_are_reached_and_only_encrypted_unless_listed() {
        let none = Exceptions::default();
        let listed = ["10.0.0.0/8:443", "127.0.0.1:9000", "*.corp"].map(str::to_owned);
        let listed = Exceptions::parse(&listed).expect("good rules");
        for (url, address, is_host, unlisted, when_listed) in [
            ("https://a.example/", "1.1.1.1", false, true, true),
            ("http://a.example/", "1.1.1.1", false, false, false),
            ("https://a.example/", "10.0.0.5", false, false, true),
            ("https://a.example:444/", "10.0.0.5", false, false, false),
            ("https://a.example/", "169.254.169.254", false, false, false),
            ("https://a.example/", "::ffff:127.0.0.1", false, false, false),
            ("https://a.example/", "1.1.1.1", true, false, false),
            ("http://127.0.0.1:9000/", "127.0.0.1", true, false, true),
            ("http://127.1:9000/", "127.0.0.1", true, false, true),
            ("http://127.0.0.1:9001/", "127.0.0.1", true, false, false),
            ("http://hooks.corp/", "192.168.0.1", false, false, true),
            ("http://hooks.corp/", "1.1.1.1", false, false, true),
            // Whoever owns a listed name cannot point it at this machine.
            ("http://hooks.corp/", "127.0.0.1", true, false, false),
        ] {
            let endpoint = Endpoint::parse(url).expect(url);
            let address = address.parse().expect("an address");
            let may = |allowed: &Exceptions| endpoint.may_reach(address, is_host, allowed).is_ok();
            assert_eq!((may(&none), may(&listed)), (unlisted, when_listed), "{url} {address}");
        }
    }
}
